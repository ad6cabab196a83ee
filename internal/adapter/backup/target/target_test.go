package target

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/secret"
	"github.com/holdfast/holdfast/internal/testkit/sshdtest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// contents returns so many random bytes, with their size and digest.
func contents(n int) ([]byte, backup.File) {
	out := make([]byte, n)
	_, _ = rand.Read(out) // never fails
	sum := sha256.Sum256(out)
	return out, backup.File{Size: int64(n), SHA256: hex.EncodeToString(sum[:])}
}

func directoryTarget(t testing.TB) backup.Target {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, backup.DefaultMarker), nil, 0o600))
	return backup.Target{Name: "nas", Directory: &backup.Directory{Path: dir}}
}

// s3Target is a bucket of a server, with something before it.
func s3Target(t testing.TB, before func(http.Handler) http.Handler) backup.Target {
	store := s3mem.New()
	must(t, store.CreateBucket("backups"))
	h := gofakes3.New(store).Server()
	if before != nil {
		h = before(h)
	}
	// Without TLS the library frames parts in a way that this server does not read.
	s := httptest.NewUnstartedServer(h)
	s.Listener = narrow{s.Listener}
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	return backup.Target{Name: "far", S3: &backup.S3{Endpoint: s.URL, Bucket: "backups", Prefix: "shops", Region: "us-east-1", AccessKey: "A", SecretKey: "S3cr3t-x", CA: ca}}
}

// narrow is a listener whose connections hold little that was not read, as a far server's do.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if tcp, is := c.(*net.TCPConn); is {
		err = errors.Join(err, tcp.SetReadBuffer(64<<10))
	}
	return c, err
}

// sftpTarget is an SSH server of one account, with a folder.
func sftpTarget(t testing.TB) (backup.Target, string) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	must(t, err)
	_, own, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	ownSigner, err := ssh.NewSignerFromKey(own)
	must(t, err)
	block, err := ssh.MarshalPrivateKey(own, "")
	must(t, err)
	config := &ssh.ServerConfig{KeyboardInteractiveCallback: askPassword, PublicKeyCallback: func(c ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
		if c.User() != "shop" || !bytes.Equal(k.Marshal(), ownSigner.PublicKey().Marshal()) {
			return nil, errors.New("nobody")
		}
		return &ssh.Permissions{}, nil
	}}
	config.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveSFTP(c, config)
		}
	}()
	dir := t.TempDir()
	return backup.Target{Name: "attic", SFTP: &backup.SFTP{
		Server: l.Addr().String(), User: "shop", HostKeys: []string{string(ssh.MarshalAuthorizedKey(signer.PublicKey()))},
		PrivateKey: secret.Text(pem.EncodeToMemory(block)), Path: dir,
	}}, dir
}

// askPassword lets the account in that answers with its password.
func askPassword(c ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
	got, err := ask("", "", []string{"Password: "}, []bool{false})
	if err != nil || c.User() != "shop" || len(got) != 1 || got[0] != "S3cr3t" {
		return nil, errors.New("nobody")
	}
	_, err = ask("", "welcome", nil, nil)
	return &ssh.Permissions{}, err
}

func TestAPasswordIsGivenToAServerThatAsksForItAndNothingElseIsAnswered(t *testing.T) {
	where, _ := sftpTarget(t)
	where.SFTP.PrivateKey, where.SFTP.Password = "", "S3cr3t"
	to, err := Open(t.Context(), where)
	must(t, err)
	must(t, to.Close())
	where.SFTP.Password = "S3cr3t-other"
	if _, err := Open(t.Context(), where); !errors.Is(err, ErrAccount) || strings.Contains(err.Error(), "S3cr3t") {
		t.Errorf("%v", err)
	}
	for _, shown := range [][]bool{{true}, {false, false}} {
		if got, err := answer("S3cr3t")("", "", make([]string, len(shown)), shown); err == nil {
			t.Errorf("%v: %q", shown, got)
		}
	}
}

func serveSFTP(c net.Conn, config *ssh.ServerConfig) {
	_, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for n := range channels {
		channel, in, err := n.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range in {
				_ = r.Reply(r.Type == "subsystem" && string(r.Payload[4:]) == "sftp", nil)
			}
		}()
		s, err := sftp.NewServer(channel)
		if err != nil {
			return
		}
		go func() { _ = s.Serve(); _ = s.Close() }()
	}
}

func everyTarget(t *testing.T) map[string]backup.Target {
	far, _ := sftpTarget(t)
	out := map[string]backup.Target{"directory": directoryTarget(t), "S3": s3Target(t, nil), "SFTP": far}
	if sshdtest.Here(t) {
		out["OpenSSH"] = backup.Target{Name: "real", SFTP: &sshdtest.Start(t, "127.0.0.1", "").SFTP}
	}
	return out
}

func TestWhatIsSentIsReadBackAndCanBeReplacedAndRemoved(t *testing.T) {
	for kind, where := range everyTarget(t) {
		t.Run(kind, func(t *testing.T) {
			to, err := Open(t.Context(), where)
			must(t, err)
			defer func() { must(t, to.Close()) }()
			name := backup.SentName("shop.example.com", "cp-1", backup.NewID("cp-1", time.Unix(0, 0)))
			for _, size := range []int{1, 70_000, 17 << 20} {
				data, want := contents(size)
				file := filepath.Join(t.TempDir(), "x")
				must(t, os.WriteFile(file, data, 0o600))
				if err := Send(t.Context(), to, name, file, want, Limits{Idle: time.Minute}); err != nil {
					t.Fatalf("%d bytes: %v", size, err)
				}
			}
			must(t, Remove(t.Context(), to, name))
			must(t, Remove(t.Context(), to, name)) // twice is no error
			if _, err := ReadBack(t.Context(), to, name, Limits{}); err == nil {
				t.Error("it is still there")
			}
		})
	}
}

// L41: what was made has another digest than what lies on this host's disk by now, and so
// what is read back from the target is not the backup. It does not stay there.
func TestWhatIsNotReadBackAsItWasMadeDoesNotStay(t *testing.T) {
	for kind, where := range everyTarget(t) {
		to, err := Open(t.Context(), where)
		must(t, err)
		data, want := contents(5000)
		data[77] ^= 1
		err = SendFrom(t.Context(), to, "a/b", bytes.NewReader(data), want, Limits{Idle: time.Minute})
		if !errors.Is(err, ErrOther) {
			t.Errorf("%s: %v", kind, err)
		}
		if _, err := ReadBack(t.Context(), to, "a/b", Limits{}); err == nil {
			t.Errorf("%s: it is still there", kind)
		}
		must(t, to.Close())
	}
}

func TestNothingIsWrittenIntoAFolderWithoutItsMarker(t *testing.T) {
	where := directoryTarget(t)
	must(t, os.Remove(filepath.Join(where.Directory.Path, backup.DefaultMarker)))
	to, err := Open(t.Context(), where)
	must(t, err)
	data, want := contents(10)
	err = SendFrom(t.Context(), to, "a/b", bytes.NewReader(data), want, Limits{})
	left, _ := os.ReadDir(where.Directory.Path)
	if !errors.Is(err, ErrNoMarker) || len(left) > 0 {
		t.Errorf("%v, there are %v", err, left)
	}
}

// unmount removes the marker while the file is written.
type unmount struct {
	io.ReadSeeker
	path string
}

func (u unmount) Read(p []byte) (int, error) {
	_ = os.Remove(u.path)
	return u.ReadSeeker.Read(p)
}

func TestAMountThatGoesWhileAFileIsWrittenLeavesNoFile(t *testing.T) {
	where := directoryTarget(t)
	to, err := Open(t.Context(), where)
	must(t, err)
	data, want := contents(10)
	err = SendFrom(t.Context(), to, "a/b", unmount{bytes.NewReader(data), filepath.Join(where.Directory.Path, backup.DefaultMarker)}, want, Limits{})
	left, _ := os.ReadDir(filepath.Join(where.Directory.Path, "a"))
	if !errors.Is(err, ErrNoMarker) || len(left) > 0 {
		t.Errorf("%v, there are %v", err, left)
	}
}

// hanging is a target of which every operation hangs as one of NFS does: not even the end
// of its context ends it.
type hanging struct{ free chan struct{} }

func (h hanging) Put(context.Context, string, io.ReadSeeker, int64) error { <-h.free; return nil }
func (h hanging) Get(context.Context, string) (io.ReadSeekCloser, error) {
	<-h.free
	return nil, errors.New("late")
}
func (h hanging) List(context.Context, string, func(string, int64)) error { <-h.free; return nil }
func (h hanging) Remove(context.Context, string) error                    { <-h.free; return nil }
func (hanging) Close() error                                              { return nil }

// L61.
func TestATargetThatHangsForEverIsLeftBehind(t *testing.T) {
	to := hanging{make(chan struct{})}
	defer close(to.free)
	data, want := contents(10)
	if err := SendFrom(t.Context(), to, "x", bytes.NewReader(data), want, Limits{Idle: 20 * time.Millisecond}); !errors.Is(err, ErrIdle) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the peer was lost")
	cancel(gone)
	if err := SendFrom(ctx, to, "x", bytes.NewReader(data), want, Limits{}); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

// L60: servers differ in the checksums that they take.
func TestTheFirstChecksumThatABucketTakesIsFoundAndKept(t *testing.T) {
	for name, refuses := range map[string]func(*http.Request) bool{
		"all":    func(*http.Request) bool { return false },
		"no MD5": func(r *http.Request) bool { return r.Header.Get("Content-Md5") != "" },
		"no checksum of any kind": func(r *http.Request) bool {
			return r.Header.Get("Content-Md5") != "" || r.Header.Get("X-Amz-Trailer") != ""
		},
		"nothing without any checksum": func(r *http.Request) bool {
			return r.Header.Get("Content-Md5") == "" && r.Header.Get("X-Amz-Trailer") == ""
		},
	} {
		var refused atomic.Int32
		where := s3Target(t, func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut && refuses(r) {
					refused.Add(1)
					w.WriteHeader(http.StatusNotImplemented)
					_, _ = fmt.Fprint(w, "<Error><Code>NotImplemented</Code><Message>A header you provided implies functionality that is not implemented</Message></Error>")
					return
				}
				h.ServeHTTP(w, r)
			})
		})
		to, err := Open(t.Context(), where)
		must(t, err)
		for i := range 2 {
			data, want := contents(1000)
			if err := SendFrom(t.Context(), to, fmt.Sprint("a/", i), bytes.NewReader(data), want, Limits{Idle: time.Minute}); err != nil {
				t.Errorf("takes %s: %v", name, err)
			}
			if now := refused.Swap(0); i == 1 && now > 0 {
				t.Errorf("takes %s: it is asked again, %d times", name, now)
			}
		}
		must(t, to.Close())
	}
}

// slowBody is the body of a request that comes over a slow line.
type slowBody struct {
	io.ReadCloser
	pause time.Duration
}

func (s slowBody) Read(p []byte) (int, error) {
	time.Sleep(s.pause)
	return s.ReadCloser.Read(p[:min(len(p), 16<<10)])
}

// The library reads a whole part of 16 MiB before its first byte leaves. Over a slow line it then takes
// longer than Limits.Idle until it reads the next one, and bytes leave all the time.
func TestASlowLineToABucketIsNotTakenForASilentOne(t *testing.T) {
	// A part takes longer than the idle time. What the kernel keeps of it between client and server,
	// some MiB that count as moved at once, takes less.
	const part, idle = 16 << 20, 5 * time.Second
	where := s3Target(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				r.Body = slowBody{r.Body, 3 * idle / 2 / (part / (16 << 10))}
			}
			h.ServeHTTP(w, r)
		})
	})
	data, want := contents(part + 1000)
	to, err := Open(t.Context(), where)
	must(t, err)
	defer func() { must(t, to.Close()) }()
	if err := SendFrom(t.Context(), to, "a/file", bytes.NewReader(data), want, Limits{Idle: idle}); err != nil {
		t.Error(err)
	}
}

// A sync of a whole archive on a NAS or a USB disk takes longer than the idle time, and nothing is read
// meanwhile.
func TestASlowDiskThatSynchronisesIsNotTakenForASilentOne(t *testing.T) {
	where := directoryTarget(t)
	data, want := contents(3*part + 1000)
	synctest.Test(t, func(t *testing.T) {
		const idle = time.Minute
		synced := int64(0)
		to := directory{backup.Directory{Path: where.Directory.Path, Marker: backup.DefaultMarker}, func(f *os.File) error {
			info, err := f.Stat()
			if err != nil {
				return err
			}
			time.Sleep(idle / 2 * time.Duration(info.Size()-synced) / part)
			synced = info.Size()
			return f.Sync()
		}}
		if err := SendFrom(t.Context(), to, "a/file", bytes.NewReader(data), want, Limits{Idle: idle}); err != nil {
			t.Error(err)
			time.Sleep(time.Hour) // the write that was left behind ends
		}
		if synced != want.Size {
			t.Errorf("%d of %d bytes were synchronised", synced, want.Size)
		}
	})
}

func TestTheRefusalsOfABucketSayWhatToDo(t *testing.T) {
	where := s3Target(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, "<Error><Code>RequestTimeTooSkewed</Code><Message>The difference is too large</Message></Error>")
		})
	})
	to, err := Open(t.Context(), where)
	must(t, err)
	data, want := contents(10)
	err = SendFrom(t.Context(), to, "x", bytes.NewReader(data), want, Limits{Idle: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "the clock of this host or of the server is off") || strings.Contains(err.Error(), "S3cr3t") {
		t.Errorf("%v", err)
	}
}

func TestAServerWithAnotherKeyIsRefused(t *testing.T) {
	where, _ := sftpTarget(t)
	other, _ := sftpTarget(t)
	where.SFTP.HostKeys = other.SFTP.HostKeys
	if _, err := Open(t.Context(), where); !errors.Is(err, ErrOtherServer) {
		t.Errorf("%v", err)
	}
}

func TestAnSFTPServerThatFallsSilentIsLeft(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = l.Close() }()
	where, _ := sftpTarget(t)
	where.SFTP.Server = l.Addr().String() // it accepts, and says nothing
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the peer was lost")
	time.AfterFunc(50*time.Millisecond, func() { cancel(gone) })
	if _, err := Open(ctx, where); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

func TestAFileThatWasCutOffIsUnderATemporaryNameAlone(t *testing.T) {
	far, dir := sftpTarget(t)
	near := directoryTarget(t)
	for where, folder := range map[*backup.Target]string{&far: dir, &near: near.Directory.Path} {
		to, err := Open(t.Context(), *where)
		must(t, err)
		data, want := contents(10)
		want.Size = 20 // more than the file has
		if err := SendFrom(t.Context(), to, "a/b", bytes.NewReader(data), want, Limits{Idle: time.Minute}); err == nil {
			t.Error("too few bytes pass")
		}
		left, err := os.ReadDir(filepath.Join(folder, "a"))
		must(t, err)
		if slices.ContainsFunc(left, func(d os.DirEntry) bool { return d.Name() == "b" }) {
			t.Errorf("%v", left)
		}
		must(t, to.Close())
	}
}

func TestARateBoundsWrites(t *testing.T) {
	for kind, where := range everyTarget(t) {
		to, err := Open(t.Context(), where)
		must(t, err)
		data, want := contents(20_000)
		began := time.Now()
		must(t, SendFrom(t.Context(), to, "x", bytes.NewReader(data), want, Limits{BytesPerSecond: 200_000}))
		if took := time.Since(began); took < 90*time.Millisecond {
			t.Errorf("%s: 20 kB at 200 kB/s took %s", kind, took)
		}
		must(t, to.Close())
	}
}
