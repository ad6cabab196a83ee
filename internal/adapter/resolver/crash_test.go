package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/render/resolvconf"
)

// childRoot and childVerb make this test's program a writer of resolv.conf that
// the test kills.
const (
	childRoot = "HOLDFAST_TEST_RESOLVER_ROOT"
	childVerb = "HOLDFAST_TEST_RESOLVER_VERB"
)

func TestMain(m *testing.M) {
	if root := os.Getenv(childRoot); root != "" {
		os.Exit(child(root, os.Getenv(childVerb)))
	}
	os.Exit(m.Run())
}

// init keeps a child on the process's first thread, which strace follows: the
// main goroutine is on it while packages are initialised, and may leave it later.
func init() { //nolint:gochecknoinits // later the main goroutine may be on another thread
	if os.Getenv(childRoot) != "" {
		runtime.LockOSThread()
	}
}

// child does one thing, on the thread that strace follows.
func child(root, verb string) int {
	if unix.Gettid() != os.Getpid() {
		return 3
	}
	h := newCrashHost(root)
	var err error
	switch verb {
	case "prepend":
		_, err = h.Prepend(context.Background(), own)
	case "remove":
		_, err = h.Remove(context.Background())
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func newCrashHost(root string) *Host {
	return New(Options{
		Root: root, Run: func(context.Context, host.Cmd) ([]byte, error) { return nil, nil },
		Hostname: func() (string, error) { return "cp-1", nil },
	})
}

// straced runs the child under strace and returns its exit code, which is
// negative if it was killed, and its output.
func straced(t *testing.T, root, verb string, args ...string) (int, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args = append(append([]string{"-e", "trace=%file,%desc"}, args...), self)
	cmd := exec.CommandContext(t.Context(), "strace", args...)
	cmd.Env = append(os.Environ(), childRoot+"="+root, childVerb+"="+verb)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok || err == nil {
		_ = exit
		return cmd.ProcessState.ExitCode(), string(out)
	}
	t.Fatal(err)
	return 0, ""
}

// syscall is a system call of the child: the nth call of this name.
type syscall struct {
	name string
	nth  int
}

// trace lists the system calls from the first to the last that concerns the
// host.
func trace(t *testing.T, root, verb string) []syscall {
	t.Helper()
	log := filepath.Join(t.TempDir(), "trace")
	if code, out := straced(t, root, verb, "-o", log); code != 0 {
		t.Skipf("strace cannot follow a program here (%d): %s", code, out)
	}
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var out []syscall
	first, last, counts := -1, 0, map[string]int{}
	for line := range strings.Lines(string(data)) {
		name, _, isCall := strings.Cut(line, "(")
		if !isCall || strings.ContainsAny(name, " -+") {
			continue
		}
		counts[name]++
		if strings.Contains(line, root) {
			last = len(out)
			if first < 0 {
				first = len(out)
			}
		}
		out = append(out, syscall{name, counts[name]})
	}
	return out[first:min(last+3, len(out))]
}

// crashes are the actions during which a writer is killed, each with the host's
// files.
var crashes = map[string]struct {
	verb  string
	files map[string]string
}{
	"prepending to a file":             {"prepend", map[string]string{"/etc/resolv.conf": site}},
	"prepending in place of a link":    {"prepend", map[string]string{"/etc/resolv.conf": "->../run/netconfig/resolv.conf", "/run/netconfig/resolv.conf": site}},
	"prepending beside NetworkManager": {"prepend", hosts["NetworkManager"].files},
	"restoring a file":                 {"remove", map[string]string{"/etc/resolv.conf": string(resolvconf.Prepend([]byte(site), own, resolvconf.Was{Mode: 0o600}))}},
	"restoring a link":                 {"remove", map[string]string{"/etc/resolv.conf": string(resolvconf.Prepend([]byte(site), own, resolvconf.Was{Link: "../run/netconfig/resolv.conf"})), "/run/netconfig/resolv.conf": site}},
}

// resolvConf returns the file as programs read it.
func (f *fake) resolvConf() string {
	data, err := os.ReadFile(f.path(resolvconf.Path))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// finish does what the child should have done.
func (f *fake) finish(verb string) {
	f.t.Helper()
	h := newCrashHost(f.Root)
	var err error
	if verb == "prepend" {
		_, err = h.Prepend(f.t.Context(), own)
	} else {
		_, err = h.Remove(f.t.Context())
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func needStrace(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("needs strace")
	}
	if testing.Short() {
		t.Skip("starts hundreds of programs")
	}
}

func TestHardCase32_KilledAtEverySystemCallTheFileIsWhole(t *testing.T) {
	needStrace(t)
	for name, c := range crashes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := newFake(t, c.files)
			before := whole.resolvConf()
			calls := trace(t, whole.Root, c.verb)
			after, tree := whole.resolvConf(), fmt.Sprint(whole.tree())
			killed := 0
			for _, call := range calls {
				f := newFake(t, c.files)
				code, out := straced(t, f.Root, c.verb, "-o", "/dev/null", "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call.name, call.nth))
				if code > 0 {
					t.Fatalf("at %v: %s", call, out)
				}
				if code < 0 {
					killed++
				}
				if got := f.resolvConf(); got != before && got != after {
					t.Fatalf("killed at %v it is %q", call, got)
				}
				f.finish(c.verb)
				if got := fmt.Sprint(f.tree()); got != tree {
					t.Fatalf("killed at %v, and done again it is %s", call, got)
				}
			}
			t.Logf("killed at %d system calls", killed)
			if killed < len(calls)-3 {
				t.Errorf("only %d of %d times killed", killed, len(calls))
			}
		})
	}
}

func TestHardCase32_WhateverSystemCallFailsTheFileIsWhole(t *testing.T) {
	needStrace(t)
	for name, c := range crashes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := newFake(t, c.files)
			before := whole.resolvConf()
			calls := trace(t, whole.Root, c.verb)
			after, tree := whole.resolvConf(), fmt.Sprint(whole.tree())
			for _, call := range calls {
				if slices.Contains([]string{"write", "fsync", "fchmod", "renameat", "renameat2", "symlinkat", "mkdirat", "unlinkat"}, call.name) {
					f := newFake(t, c.files)
					code, out := straced(t, f.Root, c.verb, "-o", "/dev/null", "-e", fmt.Sprintf("inject=%s:error=ENOSPC:when=%d", call.name, call.nth))
					if code < 0 {
						t.Fatalf("%v: %s", call, out)
					}
					if got := f.resolvConf(); got != before && got != after {
						t.Fatalf("without its %v (%s) it is %q", call, out, got)
					}
					if left, err := os.Stat(temporary(f.path(resolvconf.Path))); err == nil && call.name != "unlinkat" {
						t.Fatalf("without its %v it left %s", call, left.Name())
					}
					f.finish(c.verb)
					if got := fmt.Sprint(f.tree()); got != tree {
						t.Fatalf("without its %v, and done again it is %s", call, got)
					}
				}
			}
		})
	}
}

func TestB54_NoReaderEverFindsLessThanAWholeFile(t *testing.T) {
	f := newFake(t, map[string]string{"/etc/resolv.conf": site})
	other := own
	other.Server = netip.MustParseAddr("fd98::11")
	var good []string
	good = append(good, site)
	for _, o := range []resolvconf.Own{own, other} {
		good = append(good, string(resolvconf.Prepend([]byte(site), resolvconf.Own{Server: o.Server, Search: o.Search, Implied: "office.test"}, resolvconf.Was{})))
	}
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	reads := make([]int, 2)
	for i := range reads {
		readers.Go(func() {
			for ; ctx.Err() == nil; reads[i]++ {
				if got := f.resolvConf(); got != good[0] && got != good[1] && got != good[2] {
					t.Errorf("it read %q", got)
					return
				}
			}
		})
	}
	for range 10 {
		for _, o := range []resolvconf.Own{own, other} {
			if _, err := f.Prepend(t.Context(), o); err != nil {
				t.Error(err)
			}
		}
		if _, err := f.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	stop()
	readers.Wait()
	t.Logf("read %d times while it was written 30 times", reads[0]+reads[1])
}
