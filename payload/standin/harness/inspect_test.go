package harness

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast/holdfast/payload/standin/inspect"
	"github.com/holdfast/holdfast/payload/standin/takeover"
)

// examined runs inspect and expects an answer, and unchanged files.
func examined(t *testing.T, dir string) inspect.Data {
	t.Helper()
	before := fingerprint(t, dir)
	began := time.Now()
	out, err := exec.Command(bin.standin, "inspect", "-data-dir", dir).CombinedOutput()
	took := time.Since(began)
	var d inspect.Data
	if err == nil {
		err = json.Unmarshal(out, &d)
	}
	if err != nil {
		t.Fatalf("inspect: %v: %s", err, out)
	}
	if fingerprint(t, dir) != before {
		t.Errorf("inspect has changed %s", dir)
	}
	t.Logf("%s in %d ms, %d members %s", d.Copy, took.Milliseconds(), len(d.Members), d.Reason)
	return d
}

// fingerprint returns a hash of all names and contents of a folder.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && d.IsDir() {
			_, _ = io.WriteString(h, path)
			return nil
		}
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		_, _ = fmt.Fprintf(h, "%s %d %x", path, len(data), sha256.Sum256(data))
		return err
	}))
	return fmt.Sprintf("%x", h.Sum(nil))
}

// TestInspectAgreesWithEtcd breaks copies of one member's data in every way
// that a disk or a person might, and starts etcd from each.
func TestInspectAgreesWithEtcd(t *testing.T) {
	if *withLoss {
		t.Skip("-loss only counts what a forced new cluster loses")
	}
	s := newSite(t)
	h := s.hosts[0]
	out, err := exec.Command(bin.standin, "inspect", "-data-dir", h.dir).CombinedOutput()
	if code := exitCode(err); code != takeover.ExitRefused || !bytes.Contains(out, []byte("stop it first")) {
		t.Errorf("of a running etcd it says %q, exit code %d", out, code)
	}
	l := startLoad(t, h, 16, "inspect")
	time.Sleep(500 * time.Millisecond)
	id, cluster := takeover.ID(h.id(t)), takeover.ID(h.status(t).Header.ClusterId)
	h.kill()
	l.stop()
	s.hosts[1].kill()
	whole := examined(t, h.dir)
	if whole.Copy != inspect.Whole || whole.Member != id || whole.Cluster != cluster || len(whole.Members) != 2 {
		t.Fatalf("got %+v, want %s of %s", whole, id, cluster)
	}
	data := h.dir
	for _, c := range damages {
		t.Run(c.name, func(t *testing.T) {
			h.dir = filepath.Join(t.TempDir(), "data")
			must(t, os.CopyFS(h.dir, os.DirFS(data)))
			c.do(t, filepath.Join(h.dir, "member"))
			if got := examined(t, h.dir); got.Copy != c.want {
				t.Errorf("got %+v, want %s", got, c.want)
			}
			if lives := h.lives(t); c.etcd != "" && lives != (c.etcd == "starts") {
				t.Errorf("etcd starts from it: %v", lives)
			}
		})
	}
	h.dir = data
}

func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return 0
}

// lives starts etcd and reports whether it still runs after a second.
func (h *host) lives(t *testing.T) bool {
	t.Helper()
	h.start(t, "--initial-cluster-state", "existing",
		"--initial-cluster", "host-1=https://"+addrs[0]+":2380,host-2=https://"+addrs[1]+":2380")
	defer h.kill()
	select {
	case <-h.ended:
		return false
	case <-time.After(time.Second):
		return true
	}
}

var damages = []struct {
	name string
	do   func(t *testing.T, member string)
	want inspect.Copy
	// etcd is its behaviour: starts, ends, or one that does not matter. As long
	// as its log is whole from the first entry on, it makes a new database.
	etcd string
}{
	{"nothing", func(*testing.T, string) {}, inspect.Whole, "starts"},
	{"a torn last record", func(t *testing.T, m string) { cutLog(t, m, 9) }, inspect.Whole, "starts"},
	{"a log without its end", func(t *testing.T, m string) { cutLog(t, m, 100<<10) }, inspect.Damaged, ""},
	{"a flipped bit in the log", func(t *testing.T, m string) { flip(t, logFile(t, m), 5000) }, inspect.Damaged, "ends"},
	{"no log folder", func(t *testing.T, m string) { must(t, os.RemoveAll(m+"/wal")) }, inspect.Damaged, "ends"},
	{"no log file", func(t *testing.T, m string) { must(t, os.Remove(logFile(t, m))) }, inspect.Damaged, "ends"},
	{"an empty log file", func(t *testing.T, m string) { must(t, os.Truncate(logFile(t, m), 0)) }, inspect.Damaged, "ends"},
	{"no database", func(t *testing.T, m string) { must(t, os.Remove(m+"/snap/db")) }, inspect.Damaged, ""},
	{"an empty database", func(t *testing.T, m string) { must(t, os.Truncate(m+"/snap/db", 0)) }, inspect.Damaged, ""},
	{"a database that was cut", func(t *testing.T, m string) { must(t, os.Truncate(m+"/snap/db", 40<<10)) }, inspect.Damaged, "ends"},
	{"a database without its head", func(t *testing.T, m string) { zero(t, m+"/snap/db", 0, 8<<10) }, inspect.Damaged, "ends"},
	{"a database full of zeros", func(t *testing.T, m string) { zero(t, m+"/snap/db", 8<<10, 1<<20) }, inspect.Damaged, "ends"},
	{"neither log nor database", func(t *testing.T, m string) { must(t, errors.Join(os.RemoveAll(m+"/wal"), os.Remove(m+"/snap/db"))) }, inspect.None, ""},
	{"an empty folder", func(t *testing.T, m string) { must(t, errors.Join(os.RemoveAll(m), os.Mkdir(m, 0o700))) }, inspect.None, ""},
	{"no folder", func(t *testing.T, m string) { must(t, os.RemoveAll(m)) }, inspect.None, ""},
}

func logFile(t *testing.T, member string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(member, "wal/*.wal"))
	must(t, err)
	return files[len(files)-1]
}

// cutLog removes the last bytes that were written to the log.
func cutLog(t *testing.T, member string, n int) {
	t.Helper()
	path := logFile(t, member)
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.Truncate(path, int64(len(bytes.TrimRight(data, "\x00"))-n)))
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	change(t, path, at, 1, func(b []byte) { b[0] ^= 4 })
}

func zero(t *testing.T, path string, at int64, n int) {
	t.Helper()
	change(t, path, at, n, func(b []byte) { clear(b) })
}

func change(t *testing.T, path string, at int64, n int, do func([]byte)) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer func() { _ = f.Close() }()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	do(b)
	_, err = f.WriteAt(b, at)
	must(t, err)
}

// TestInspectKnowsTheMembersThatEtcdWouldKnow kills both members after each
// change of the membership. It then starts etcd from the same data, and asks it
// for the members before it can have a leader.
func TestInspectKnowsTheMembersThatEtcdWouldKnow(t *testing.T) {
	if *withLoss {
		t.Skip("-loss only counts what a forced new cluster loses")
	}
	s := newSite(t)
	stays, goes := s.hosts[0], s.hosts[1]
	s.lead(stays)
	gone := goes.id(t)
	compare(t, s, "two voters")
	s.lead(stays)
	remove := func(ctx context.Context) error { _, err := stays.client.MemberRemove(ctx, gone); return err }
	eventually(t, "remove", remove)
	compare(t, s, "one removed")
	goes.kill()
	settled(t, stays)
	stays.kill()
	must(t, os.RemoveAll(goes.dir))
	stays.start(t)
	stays.ready(t)
	var added *clientv3.MemberAddResponse
	eventually(t, "add a learner", func(ctx context.Context) (err error) {
		added, err = stays.client.MemberAddAsLearner(ctx, []string{goes.peerURL()})
		return err
	})
	goes.start(t, "--initial-cluster-state", "existing",
		"--initial-cluster", stays.name()+"="+stays.peerURL()+","+goes.name()+"="+goes.peerURL())
	eventually(t, "the learner starts", func(ctx context.Context) error {
		members, err := peerMembers(ctx, stays)
		if !slices.ContainsFunc(members, func(m inspect.Member) bool { return uint64(m.ID) == added.Member.ID && m.Name != "" }) {
			err = errors.Join(errors.New("it has no name yet"), err)
		}
		return err
	})
	compare(t, s, "a learner that has started")
	stays.ready(t)
	eventually(t, "promote", func(ctx context.Context) error {
		_, err := stays.client.MemberPromote(ctx, added.Member.ID)
		return err
	})
	compare(t, s, "a learner that was promoted")
}

// compare kills both hosts, examines both data directories, and starts both
// again.
func compare(t *testing.T, s *site, what string) {
	t.Helper()
	for _, h := range s.hosts {
		h.signal(syscall.SIGKILL)
	}
	for _, h := range s.hosts {
		h.kill()
	}
	for _, h := range s.hosts {
		want := examined(t, h.dir)
		if want.Copy != inspect.Whole {
			t.Fatalf("%s, %s: %+v", what, h.name(), want)
		}
		h.start(t)
		// etcd needs a moment to apply the entries that its log has as
		// committed.
		eventually(t, what, func(ctx context.Context) error {
			got, err := peerMembers(ctx, h)
			if err == nil && !slices.Equal(got, want.Members) {
				err = fmt.Errorf("%s knows %v, inspect says %v", h.name(), got, want.Members)
			}
			return err
		})
		h.kill()
	}
	for _, h := range s.hosts {
		h.start(t)
	}
}

// TestAJoiningMemberMayBeKilledAtAnyPoint kills a learner while it starts for
// the first time, takes a snapshot from the leader and catches up. inspect must
// not call its data directory damaged unless etcd cannot start from it either.
func TestAJoiningMemberMayBeKilledAtAnyPoint(t *testing.T) {
	if *withLoss {
		t.Skip("-loss only counts what a forced new cluster loses")
	}
	s := newSite(t)
	stays, goes := s.hosts[0], s.hosts[1]
	gone := goes.id(t)
	goes.kill()
	stays.kill()
	goes.start(t, "--snapshot-count", "50")
	stays.start(t, "--snapshot-count", "50", "--experimental-snapshot-catchup-entries", "10")
	stays.ready(t)
	for i := range 5 * *repetitions {
		l := startLoad(t, stays, 4, fmt.Sprint("join", i))
		time.Sleep(100 * time.Millisecond)
		eventually(t, "remove", func(ctx context.Context) error {
			_, err := stays.client.MemberRemove(ctx, gone)
			if err == nil || strings.Contains(err.Error(), "not found") {
				return nil
			}
			return err
		})
		goes.kill()
		must(t, os.RemoveAll(goes.dir))
		gone = joinAndDie(t, s)
		l.stop()
		got, runs := examined(t, goes.dir), goes.lives(t)
		if (got.Copy != inspect.Damaged) != runs {
			t.Errorf("got %+v; etcd starts from it: %v", got, runs)
		}
	}
}

// joinAndDie lets the second host join and kills it after up to 0.4 s.
func joinAndDie(t *testing.T, s *site) uint64 {
	t.Helper()
	stays, goes := s.hosts[0], s.hosts[1]
	var added *clientv3.MemberAddResponse
	eventually(t, "add a learner", func(ctx context.Context) (err error) {
		added, err = stays.client.MemberAddAsLearner(ctx, []string{goes.peerURL()})
		return err
	})
	goes.start(t, "--snapshot-count", "50", "--initial-cluster-state", "existing",
		"--initial-cluster", stays.name()+"="+stays.peerURL()+","+goes.name()+"="+goes.peerURL())
	time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
	goes.kill()
	return added.Member.ID
}

// peerMembers asks etcd as its peers do, because etcd answers them without a
// leader.
func peerMembers(ctx context.Context, h *host) ([]inspect.Member, error) {
	cfg, err := transport.TLSInfo{CertFile: h.tls.Cert, KeyFile: h.tls.Key, TrustedCAFile: h.tls.CA}.ClientConfig()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.peerURL()+"/members", nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var list []struct {
		ID      uint64 `json:"id"`
		Name    string `json:"name"`
		Learner bool   `json:"isLearner"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, err
	}
	out := make([]inspect.Member, 0, len(list))
	for _, m := range list {
		out = append(out, inspect.Member{ID: takeover.ID(m.ID), Name: m.Name, Learner: m.Learner})
	}
	slices.SortFunc(out, func(a, b inspect.Member) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}
