package target

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/testkit/sshdtest"
)

// These tests are of OpenSSH's own server.

const archiveName, entryName = "shop/cp-1/20261125T031700Z-cp-1.tar.age", "shop/cp-1/20261125T031700Z-cp-1.json"

var patient = Limits{Idle: time.Minute}

func sending(t testing.TB, s backup.SFTP) Target {
	t.Helper()
	to, err := Open(t.Context(), backup.Target{Name: "attic", SFTP: &s})
	must(t, err)
	t.Cleanup(func() { _ = to.Close() })
	return to
}

// lying returns the names and sizes of what lies in the folder of a server.
func lying(t testing.TB, dir string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	must(t, filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		name, _ := filepath.Rel(dir, file) // it is below
		out[name] = info.Size()
		return err
	}))
	return out
}

func TestAServerIsReachedByIPv6(t *testing.T) {
	s := sshdtest.Start(t, "::1", "")
	data, want := contents(1000)
	must(t, SendFrom(t.Context(), sending(t, s.SFTP), archiveName, bytes.NewReader(data), want, patient))
	if got := lying(t, s.Dir); len(got) != 1 || got[archiveName] != 1000 {
		t.Errorf("%v", got)
	}
}

func TestAServerOrAnAccountThatIsNotTheConfiguredOneIsToldWithWhatToDoAndWithoutSecrets(t *testing.T) {
	s, other := sshdtest.Start(t, "127.0.0.1", ""), sshdtest.Start(t, "127.0.0.1", "")
	gone := sshdtest.Start(t, "127.0.0.1", "")
	gone.Stop()
	curve, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	public, err := ssh.NewPublicKey(curve.Public())
	must(t, err)
	otherKind := string(ssh.MarshalAuthorizedKey(public))
	for name, c := range map[string]struct {
		change func(*backup.SFTP)
		is     error
		says   []string
	}{
		"another key": {func(f *backup.SFTP) { f.HostKeys = other.SFTP.HostKeys }, ErrOtherServer, []string{"it has ssh-ed25519 SHA256:"}},
		"another fingerprint": {
			func(f *backup.SFTP) { f.HostKeys = []string{ssh.FingerprintSHA256(other.HostKeys[1])} }, ErrOtherServer,
			[]string{"it has ssh-ed25519 " + ssh.FingerprintSHA256(s.HostKeys[0]) + " and ecdsa-sha2-nistp256 " + ssh.FingerprintSHA256(s.HostKeys[1])},
		},
		"another kind": {func(f *backup.SFTP) { f.HostKeys = []string{otherKind} }, ErrOtherServer, []string{"kinds ", "ssh-ed25519", "ssh-keyscan"}},
		"another account's key": {
			func(f *backup.SFTP) { f.PrivateKey = other.SFTP.PrivateKey }, ErrAccount,
			[]string{"authorized_keys of " + s.SFTP.User, fingerprint(other.SFTP.PrivateKey)},
		},
		"nobody":             {func(f *backup.SFTP) { f.User = "nobody" }, ErrAccount, nil},
		"a password":         {func(f *backup.SFTP) { f.PrivateKey, f.Password = "", "S3cr3t" }, ErrAccount, []string{"compare user and password"}},
		"no server":          {func(f *backup.SFTP) { f.Server = gone.Address }, unix.ECONNREFUSED, nil},
		"a folder of others": {func(f *backup.SFTP) { f.Path = "/proc" }, nil, []string{"make the folder /proc/shop"}},
	} {
		where := s.SFTP
		c.change(&where)
		to, err := Open(t.Context(), backup.Target{Name: "attic", SFTP: &where})
		if err == nil {
			data, want := contents(10)
			err = SendFrom(t.Context(), to, archiveName, bytes.NewReader(data), want, patient)
			must(t, to.Close())
		}
		if err == nil || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v: want %q", name, err, want)
			}
		}
		if strings.Contains(err.Error(), "S3cr3t") || strings.Contains(err.Error(), "PRIVATE KEY") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := lying(t, s.Dir); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

func TestAServerIsKnownByAnyKeyOrFingerprintOfIts(t *testing.T) {
	s, other := sshdtest.Start(t, "127.0.0.1", ""), sshdtest.Start(t, "127.0.0.1", "")
	host, port, err := net.SplitHostPort(s.Address)
	must(t, err)
	for name, keys := range map[string][]string{
		"its second key":             {string(ssh.MarshalAuthorizedKey(s.HostKeys[1]))},
		"a line of known_hosts":      {"[" + host + "]:" + port + " " + string(ssh.MarshalAuthorizedKey(s.HostKeys[0]))},
		"a fingerprint":              {ssh.FingerprintSHA256(s.HostKeys[0])},
		"that of its second key":     {ssh.FingerprintSHA256(s.HostKeys[1])},
		"one of several":             {string(ssh.MarshalAuthorizedKey(other.HostKeys[0])), ssh.FingerprintSHA256(other.HostKeys[1]), ssh.FingerprintSHA256(s.HostKeys[1])},
		"a former key and a new one": {string(ssh.MarshalAuthorizedKey(other.HostKeys[0])), string(ssh.MarshalAuthorizedKey(s.HostKeys[1]))},
	} {
		where := s.SFTP
		where.HostKeys = keys
		to, err := Open(t.Context(), backup.Target{Name: "attic", SFTP: &where})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		must(t, to.Close())
	}
}

// A connection that breaks leaves the earlier file of the name as it was, and nothing that counts.
func TestACopyThatIsCutOffDoesNotCountAndIsSentAgain(t *testing.T) {
	s := sshdtest.Start(t, "127.0.0.1", "")
	line := sshdtest.NewLine(t, s.Address, 0)
	where := s.SFTP
	where.Server = line.Address
	before, wantBefore := contents(50_000)
	must(t, SendFrom(t.Context(), sending(t, where), archiveName, bytes.NewReader(before), wantBefore, patient))
	data, want := contents(3 << 20)
	to := sending(t, where)
	line.CutAfter(1 << 20)
	err := SendFrom(t.Context(), to, archiveName, bytes.NewReader(data), want, patient)
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Fatalf("%v", err)
	}
	must(t, to.Close())
	got := lying(t, s.Dir)
	if half, is := got[archiveName+backup.HalfSuffix]; len(got) != 2 || got[archiveName] != 50_000 || !is || half == want.Size {
		t.Errorf("%v", got)
	}
	if sent := backup.SentOf(got); len(sent) != 1 || sent[0].Entry != "" {
		t.Errorf("%+v", sent)
	}
	line.Mend()
	must(t, SendFrom(t.Context(), sending(t, where), archiveName, bytes.NewReader(data), want, patient))
	if got := lying(t, s.Dir); len(got) != 1 || got[archiveName] != want.Size {
		t.Errorf("%v", got)
	}
}

func TestACopyIsFetchedOverALineThatBreaks(t *testing.T) {
	s := sshdtest.Start(t, "127.0.0.1", "")
	data, want := contents(3 << 20)
	must(t, SendFrom(t.Context(), sending(t, s.SFTP), archiveName, bytes.NewReader(data), want, patient))
	line := sshdtest.NewLine(t, s.Address, 0)
	where := s.SFTP
	where.Server = line.Address
	f := fetching(nil, archiveName, filepath.Join(t.TempDir(), "x"), want)
	f.Open = func(ctx context.Context) (Target, error) {
		return Open(ctx, backup.Target{Name: "attic", SFTP: &where})
	}
	line.CutAfterBack(2 << 20)
	f.Broke = func(int, error) { line.Mend() }
	must(t, f.Run(t.Context()))
	got, err := os.ReadFile(f.File)
	must(t, err)
	if !bytes.Equal(got, data) || line.Connections() != 2 {
		t.Errorf("%d bytes over %d connections", len(got), line.Connections())
	}
}

// A server that falls silent takes neither the operation nor the end of the connection with it.
func TestAServerThatFallsSilentInTheMiddleIsLeft(t *testing.T) {
	s := sshdtest.Start(t, "127.0.0.1", "")
	line := sshdtest.NewLine(t, s.Address, 0)
	where := s.SFTP
	where.Server = line.Address
	data, want := contents(100_000)
	to, rest := sending(t, where), sending(t, where)
	began := time.Now()
	line.Silence()
	if err := SendFrom(t.Context(), to, archiveName, bytes.NewReader(data), want, Limits{Idle: 200 * time.Millisecond}); !errors.Is(err, ErrIdle) {
		t.Errorf("%v", err)
	}
	must(t, to.Close())
	must(t, rest.Close()) // nothing had been asked of this one
	if took := time.Since(began); took > 4*farewell {
		t.Errorf("it took %s", took)
	}
}

// smallDisk is a file system of a megabyte.
func smallDisk(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: a server whose disk is full, since only root mounts one; run as root")
	}
	dir := t.TempDir()
	must(t, unix.Mount("holdfast-test", dir, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

func TestAFullDiskOfAServerIsToldAndLeavesTheEarlierFile(t *testing.T) {
	s := sshdtest.Start(t, "127.0.0.1", smallDisk(t))
	to := sending(t, s.SFTP)
	before, wantBefore := contents(300_000)
	must(t, SendFrom(t.Context(), to, archiveName, bytes.NewReader(before), wantBefore, patient))
	data, want := contents(2 << 20)
	err := SendFrom(t.Context(), to, archiveName, bytes.NewReader(data), want, patient)
	if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "0 MiB free, and the file has 2 MiB") {
		t.Errorf("%v", err)
	}
	// Somebody else fills the disk after the look.
	said := want
	said.Size = 1000
	err = SendFrom(t.Context(), to, archiveName, bytes.NewReader(data), said, patient)
	if !errors.Is(err, ErrNoRoom) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
	if got := lying(t, s.Dir); len(got) != 1 || got[archiveName] != 300_000 {
		t.Errorf("%v", got)
	}
	must(t, SendFrom(t.Context(), to, entryName, bytes.NewReader(before), wantBefore, patient)) // what fits goes on
}

// Packets of 32 KiB, one after the other, would cost a round trip each.
func TestAFarServerIsWrittenAndReadWithManyPacketsOnTheirWay(t *testing.T) {
	s := sshdtest.Start(t, "127.0.0.1", "")
	line := sshdtest.NewLine(t, s.Address, 200*time.Millisecond)
	where := s.SFTP
	where.Server = line.Address
	data, want := contents(2 << 20)
	must(t, SendFrom(t.Context(), sending(t, where), archiveName, bytes.NewReader(data), want, patient))
	if up, down := line.Most(); up < 4<<15 || down < 4<<15 {
		t.Errorf("%d bytes were on their way at once, and %d back", up, down)
	}
}

func TestAFileOfAServerIsReadFromAnyPlace(t *testing.T) {
	s := sshdtest.Start(t, "127.0.0.1", "")
	data, want := contents(3 << 20)
	to := sending(t, s.SFTP)
	must(t, SendFrom(t.Context(), to, archiveName, bytes.NewReader(data), want, patient))
	r, err := to.Get(t.Context(), archiveName)
	must(t, err)
	defer func() { must(t, r.Close()) }()
	for _, c := range []struct {
		offset int64
		whence int
		at     int64
	}{{100, io.SeekStart, 100}, {50, io.SeekCurrent, 160}, {-20, io.SeekEnd, want.Size - 20}, {-30, io.SeekCurrent, want.Size - 40}, {2 << 20, io.SeekStart, 2 << 20}} {
		at, err := r.Seek(c.offset, c.whence)
		must(t, err)
		got := make([]byte, 10)
		_, err = io.ReadFull(r, got)
		must(t, err)
		if at != c.at || !bytes.Equal(got, data[at:at+10]) {
			t.Errorf("%d from %d: at %d, want %d", c.offset, c.whence, at, c.at)
		}
	}
	rest, err := io.ReadAll(r)
	must(t, err)
	if !bytes.Equal(rest, data[2<<20+10:]) {
		t.Errorf("%d bytes", len(rest))
	}
}

// A slow disk behind the server synchronises a whole archive for longer than Limits.Idle.
func TestAServerSynchronisesAFileInParts(t *testing.T) {
	s := sshdtest.Start(t, "127.0.0.1", "")
	to, is := sending(t, s.SFTP).(*server)
	if !is {
		t.Fatal("it is no server")
	}
	synced, syncs := int64(0), 0
	to.sync = func(f *sftp.File) error {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if grown := info.Size() - synced; grown > part {
			t.Errorf("%d bytes are synchronised at once", grown)
		}
		synced, syncs = info.Size(), syncs+1
		return f.Sync()
	}
	data, want := contents(2*part + 1000)
	must(t, SendFrom(t.Context(), to, archiveName, bytes.NewReader(data), want, patient))
	if synced != want.Size || syncs != 3 {
		t.Errorf("%d of %d bytes were synchronised in %d parts", synced, want.Size, syncs)
	}
}
