package target

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/secret"
)

// connectLimit bounds the time until a server has accepted the login.
const connectLimit = 30 * time.Second

var errNoAnswer = fmt.Errorf("the server did not accept the login within %s", connectLimit)

// server is a folder of an SSH server.
type server struct {
	backup.SFTP
	conn   net.Conn
	client *sftp.Client
	ssh    *ssh.Client
	// sync is (*sftp.File).Sync; tests set another one.
	sync func(*sftp.File) error
}

// Errors of a server with SFTP.
var (
	// ErrAccount is returned if a server does not let the account in.
	ErrAccount = errors.New("the server does not let the account in")
	// ErrNoRoom is returned if a file does not fit on the disk of a server.
	ErrNoRoom = errors.New("the disk of the server is full")
)

func openSFTP(ctx context.Context, s backup.SFTP) (Target, error) {
	address, err := s.Address()
	if err != nil {
		return nil, err
	}
	auth, err := proof(s)
	if err != nil {
		return nil, err
	}
	pinned, err := pinsOf(s.HostKeys)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, connectLimit, errNoAnswer)
	defer cancel()
	for {
		out, seen := &server{SFTP: s, sync: (*sftp.File).Sync}, len(pinned.seen)
		err := out.connect(ctx, address, &ssh.ClientConfig{User: s.User, Timeout: connectLimit, Auth: auth, HostKeyCallback: pinned.check, HostKeyAlgorithms: pinned.algorithms()})
		switch {
		case err == nil:
			return out, nil
		case len(pinned.seen) > seen && len(pinned.kinds()) > 0: // it may have a key of another kind, too
		case len(pinned.seen) > 0 && errors.Is(err, ErrOtherServer):
			return nil, pinned.refusal()
		default:
			return nil, err
		}
	}
}

// connect connects and logs in.
func (s *server) connect(ctx context.Context, address string, config *ssh.ClientConfig) (err error) {
	if s.conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address); err != nil {
		return causeOf(ctx, err)
	}
	defer s.until(ctx)()
	if err := s.login(address, config); err != nil {
		_ = s.Close() // there is nothing to lose on it, and the first error says what is wrong
		return causeOf(ctx, err)
	}
	return nil
}

func (s *server) login(address string, config *ssh.ClientConfig) error {
	c, channels, requests, err := ssh.NewClientConn(s.conn, address, config)
	if err != nil {
		return s.refusal(err, config.HostKeyAlgorithms)
	}
	s.ssh = ssh.NewClient(c, channels, requests)
	if s.client, err = sftp.NewClient(s.ssh); err != nil {
		return fmt.Errorf("the server lets the account %s in, but gives it no SFTP: look for \"Subsystem sftp\" in its sshd_config: %w", s.User, err)
	}
	return nil
}

// answer gives a password to servers that want it as an answer. It answers one question, and none
// whose answer would be shown.
func answer(password secret.Text) ssh.KeyboardInteractiveChallenge {
	return func(_, _ string, questions []string, shown []bool) ([]string, error) {
		switch {
		case len(questions) == 0: // servers may end with such a one
			return nil, nil
		case len(questions) == 1 && !shown[0]:
			return []string{password.Reveal()}, nil
		}
		return nil, errors.New("the server asks more than a password")
	}
}

// proof returns how the account proves itself.
func proof(s backup.SFTP) ([]ssh.AuthMethod, error) {
	if s.PrivateKey == "" {
		return []ssh.AuthMethod{ssh.Password(s.Password.Reveal()), ssh.KeyboardInteractive(answer(s.Password))}, nil
	}
	key, err := ssh.ParsePrivateKey([]byte(s.PrivateKey.Reveal()))
	if err != nil {
		return nil, errors.New("its private key is not readable")
	}
	return []ssh.AuthMethod{ssh.PublicKeys(key)}, nil
}

// refusal adds to the error of a login what a person has to do.
func (s *server) refusal(err error, asked []string) error {
	none, is := errors.AsType[*ssh.AlgorithmNegotiationError](err)
	switch {
	case is && slices.Equal(none.SupportedAlgorithms, asked): // and not those of a cipher, say
		return fmt.Errorf("%w: it has keys of the kinds %s; %s", ErrOtherServer, strings.Join(none.RequestedAlgorithms, ", "), compareKeys)
	case !strings.Contains(err.Error(), "unable to authenticate"): // the library has no error of its own for it
		return err
	case s.PrivateKey == "":
		return fmt.Errorf("%w: compare user and password: %w", ErrAccount, err)
	}
	return fmt.Errorf("%w: the file authorized_keys of %s there must have the public half of privateKey, %s: %w", ErrAccount, s.User, fingerprint(s.PrivateKey), err)
}

// fingerprint returns the fingerprint of the public half of a key, which is no secret.
func fingerprint(private secret.Text) string {
	key, err := ssh.ParsePrivateKey([]byte(private.Reveal()))
	if err != nil {
		return "which is not readable"
	}
	return ssh.FingerprintSHA256(key.PublicKey())
}

func (s *server) at(name string) string { return path.Join(s.Path, name) }

// until breaks the connection when the context ends, because the protocol has no other way to
// abandon an operation.
func (s *server) until(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = s.conn.Close() })
}

// Put implements Target.
func (s *server) Put(ctx context.Context, name string, from io.ReadSeeker, size int64) error {
	defer s.until(ctx)()
	file := s.at(name)
	if err := s.client.MkdirAll(path.Dir(file)); err != nil {
		return fmt.Errorf("make the folder %s: %w", path.Dir(file), err)
	}
	if free, known := s.free(path.Dir(file)); known && free < size {
		return fmt.Errorf("%w: %s has %d MiB free, and the file has %d MiB: make room there, or have fewer backups kept", ErrNoRoom, path.Dir(file), free>>20, size>>20)
	}
	if err := s.writeHalf(file+backup.HalfSuffix, from, size); err != nil {
		if gone := s.gone(file + backup.HalfSuffix); !errors.Is(gone, sftp.ErrSSHFxConnectionLost) { // else the next run removes it
			err = errors.Join(err, gone)
		}
		return err
	}
	return s.rename(file+backup.HalfSuffix, file)
}

// free returns how many bytes the account can still write in a folder, if the server says so.
func (s *server) free(folder string) (n int64, known bool) {
	if _, can := s.client.HasExtension("statvfs@openssh.com"); !can {
		return 0, false
	}
	v, err := s.client.StatVFS(folder)
	if err != nil || v.Blocks == 0 { // some file systems have no size
		return 0, false
	}
	return int64(min(v.Bavail*v.Frsize, math.MaxInt64)), true
}

// requests is how many packets of 32 KiB are on their way at once. One alone would cost a round trip
// each; many would take a slow line longer than Limits.Idle after the last one was read.
const requests = 16

// writeHalf writes a file. Packets may arrive in any order, so what is cut off may have holes; it
// does not have its name yet.
func (s *server) writeHalf(file string, from io.Reader, size int64) (err error) {
	f, err := s.client.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY)
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	sync := func() error { return nil }
	if _, can := s.client.HasExtension("fsync@openssh.com"); can {
		sync = func() error { return s.sync(f) }
	}
	n, err := inParts(from, func(part io.Reader) (int64, error) { return f.ReadFromWithConcurrency(part, requests) }, sync)
	if err != nil {
		return s.failure(path.Dir(file), err)
	}
	if n != size {
		return fmt.Errorf("the file had %d bytes, want %d", n, size)
	}
	return nil
}

// failure adds to an error without a reason, which is the only one that the protocol has for a full
// disk, how much room there is.
func (s *server) failure(folder string, err error) error {
	if status, is := errors.AsType[*sftp.StatusError](err); !is || status.FxCode() != sftp.ErrSSHFxFailure {
		return err
	}
	free, known := s.free(folder)
	switch {
	case !known:
		return fmt.Errorf("the server does not say why; its disk or the quota of %s may be full: %w", s.User, err)
	case free < full:
		return fmt.Errorf("%w: %s has %d MiB free: make room there, or have fewer backups kept: %w", ErrNoRoom, folder, free>>20, err)
	}
	return fmt.Errorf("the server does not say why; %s has %d MiB free, so look at the quota of %s: %w", folder, free>>20, s.User, err)
}

// full is the room below which a disk counts as full: packets are refused one by one, and the half
// file is still there.
const full = 1 << 20

// rename replaces a file, in one step if the server can.
func (s *server) rename(from, to string) error {
	if _, can := s.client.HasExtension("posix-rename@openssh.com"); can {
		return s.client.PosixRename(from, to)
	}
	if err := s.gone(to); err != nil {
		return err
	}
	return s.client.Rename(from, to)
}

func (s *server) gone(file string) error {
	if err := s.client.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Get implements Target.
func (s *server) Get(ctx context.Context, name string) (io.ReadSeekCloser, error) {
	stop := s.until(ctx)
	f, err := s.client.Open(s.at(name))
	if err != nil {
		stop()
		return nil, err
	}
	return &reading{File: f, ahead: bufio.NewReaderSize(f, readAhead), stop: stop}, nil
}

// readAhead is how much is asked for at once, in bytes; the library divides it into packets.
const readAhead = requests << 15

// reading is a file that is read ahead. It ends the watch over a context when it is closed.
type reading struct {
	*sftp.File
	ahead *bufio.Reader
	stop  func() bool
}

// Read reads.
func (r *reading) Read(p []byte) (int, error) { return r.ahead.Read(p) }

// WriteTo reads to the end. That of the library would not see what was read ahead.
func (r *reading) WriteTo(w io.Writer) (int64, error) { return r.ahead.WriteTo(w) }

// Seek goes to a place.
func (r *reading) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekCurrent {
		offset -= int64(r.ahead.Buffered())
	}
	at, err := r.File.Seek(offset, whence)
	r.ahead.Reset(r.File)
	return at, err
}

// Close closes the file.
func (r *reading) Close() error {
	r.stop()
	return r.File.Close()
}

// List implements Target.
func (s *server) List(ctx context.Context, under string, see func(name string, size int64)) error {
	defer s.until(ctx)()
	for walk := s.client.Walk(s.at(under)); walk.Step(); {
		err := errors.Join(context.Cause(ctx), walk.Err())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if walk.Stat().Mode().IsRegular() {
			see(strings.TrimPrefix(strings.TrimPrefix(walk.Path(), s.Path), "/"), walk.Stat().Size())
		}
	}
	return nil
}

// Remove implements Target.
func (s *server) Remove(ctx context.Context, name string) error {
	defer s.until(ctx)()
	return s.gone(s.at(name))
}

// farewell bounds the time for a proper end of a connection.
const farewell = 5 * time.Second

// Close implements Target. The library waits for the answer of the server, and a server that has
// fallen silent gives none.
func (s *server) Close() error {
	errs := []error{s.conn.SetDeadline(time.Now().Add(farewell))}
	if s.client != nil {
		errs = append(errs, s.client.Close())
	}
	if s.ssh != nil {
		errs = append(errs, s.ssh.Close())
	}
	errs = append(errs, s.conn.Close())
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool {
		return errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded)
	})...)
}
