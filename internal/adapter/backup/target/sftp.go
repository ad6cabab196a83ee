package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/holdfast/holdfast/internal/model/backup"
)

// connectLimit bounds the time until a server has accepted the login.
const connectLimit = 30 * time.Second

// server is a folder of an SSH server.
type server struct {
	backup.SFTP
	conn   net.Conn
	client *sftp.Client
	ssh    *ssh.Client
}

// ErrOtherServer is returned if a server has none of the pinned keys.
var ErrOtherServer = errors.New("the server has another key than the configuration names: either its keys were changed, or it is another machine")

func openSFTP(ctx context.Context, s backup.SFTP) (Target, error) {
	address, err := s.Address()
	if err != nil {
		return nil, err
	}
	config, err := access(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	out := &server{SFTP: s, conn: conn}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := out.login(address, config); err != nil {
		return nil, errors.Join(causeOf(ctx, err), out.Close())
	}
	return out, nil
}

func (s *server) login(address string, config *ssh.ClientConfig) error {
	c, channels, requests, err := ssh.NewClientConn(s.conn, address, config)
	if err != nil {
		return err
	}
	s.ssh = ssh.NewClient(c, channels, requests)
	s.client, err = sftp.NewClient(s.ssh)
	return err
}

// access returns the way to log in, which accepts only the pinned keys.
func access(s backup.SFTP) (*ssh.ClientConfig, error) {
	config := &ssh.ClientConfig{User: s.User, Timeout: connectLimit}
	if s.Password != "" {
		config.Auth = append(config.Auth, ssh.Password(s.Password.Reveal()))
	}
	if s.PrivateKey != "" {
		key, err := ssh.ParsePrivateKey([]byte(s.PrivateKey.Reveal()))
		if err != nil {
			return nil, errors.New("its private key is not readable")
		}
		config.Auth = append(config.Auth, ssh.PublicKeys(key))
	}
	var pinned []string
	for _, text := range s.HostKeys {
		key, err := backup.HostKey(text)
		if err != nil {
			return nil, errors.New("its host key is not readable")
		}
		pinned = append(pinned, string(key.Marshal()))
		config.HostKeyAlgorithms = append(config.HostKeyAlgorithms, algorithms(key.Type())...)
	}
	config.HostKeyCallback = func(_ string, _ net.Addr, key ssh.PublicKey) error {
		if !slices.Contains(pinned, string(key.Marshal())) {
			return fmt.Errorf("%w: it has %s %s", ErrOtherServer, key.Type(), ssh.FingerprintSHA256(key))
		}
		return nil
	}
	return config, nil
}

// algorithms returns the algorithms with which a server may prove a key of a kind: SHA-1 is
// not used with RSA keys.
func algorithms(kind string) []string {
	if kind == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{kind}
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
	if err := s.writeHalf(file+half, from, size); err != nil {
		return errors.Join(err, s.gone(file+half))
	}
	return s.rename(file+half, file)
}

func (s *server) writeHalf(file string, from io.Reader, size int64) (err error) {
	f, err := s.client.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY)
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	n, err := io.Copy(f, from)
	if err != nil {
		return err
	}
	if n != size {
		return fmt.Errorf("the file had %d bytes, want %d", n, size)
	}
	if _, can := s.client.HasExtension("fsync@openssh.com"); can {
		return f.Sync()
	}
	return nil
}

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
	return closing{f, stop}, nil
}

// closing is a file that ends the watch over a context when it is closed.
type closing struct {
	*sftp.File
	stop func() bool
}

// Close closes the file.
func (c closing) Close() error {
	c.stop()
	return c.File.Close()
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

// Close implements Target.
func (s *server) Close() error {
	var errs []error
	if s.client != nil {
		errs = append(errs, s.client.Close())
	}
	if s.ssh != nil {
		errs = append(errs, s.ssh.Close())
	}
	if err := s.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		errs = append(errs, err)
	}
	for i, err := range errs {
		if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}
