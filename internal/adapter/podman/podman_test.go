package podman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/state"
)

// fake is a podman that keeps its container in files, with a process named etcd
// for it.
const fake = `#!/bin/sh
cd "$(dirname "$0")" || exit 99
echo "$*" >> calls
shift
[ -e "broken-$1" ] && { cat "broken-$1" >&2; rm "broken-$1"; exit 125; }
launch() { setsid ./etcd 60 >/dev/null 2>&1 </dev/null & echo $! > etcd.pid; while ! grep -q '(etcd)' /proc/$!/stat; do :; done; }
case "$1" in
container) [ -e label ] && cat label || exit 125 ;;
start) [ -e dead ] || launch ;;
run) for a; do case "$a" in holdfast.spec=*) echo "${a#*=}" > label ;; esac; done; rm -f dead; [ -e ends ] || launch ;;
image) [ "$2" = rm ] && { : > loaded; exit; }; [ "$3" = here ] || grep -qs "$3" loaded || exit "$(cat code 2>/dev/null || echo 1)" ;;
load) cat "${4:-/dev/stdin}" > loaded ;;
esac
`

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// install puts the fake in place.
func install(t *testing.T) (machine, string) {
	t.Helper()
	dir, old, oldStorage := t.TempDir(), program, storage
	storage = dir
	sleep, err := exec.LookPath("sleep")
	must(t, err)
	must(t, os.Symlink(sleep, filepath.Join(dir, "etcd")))
	program = filepath.Join(dir, "podman")
	must(t, os.WriteFile(program, []byte(fake), 0o700))
	m := machine{pidFile: filepath.Join(dir, "etcd.pid"), noteFile: filepath.Join(dir, "etcd.started"), proc: "/proc", comm: "etcd"}
	t.Cleanup(func() {
		must(t, m.kill(context.Background()))
		program, storage = old, oldStorage
	})
	return m, dir
}

func calls(t *testing.T, dir string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "calls"))
	must(t, err)
	must(t, os.Remove(filepath.Join(dir, "calls")))
	var verbs []string
	for line := range strings.Lines(string(data)) {
		verbs = append(verbs, strings.Fields(line)[1])
	}
	return verbs
}

func etcd() Spec {
	return Spec{Container: state.Container{
		Name: "etcd", Image: "here", Command: []string{"etcd", "--name=cp-1"}, Env: []string{"A=b"},
		Mounts: []state.Mount{{Source: "/pki", Target: "/certs", ReadOnly: true}, {Source: "/data", Target: "/data"}},
	}}
}

func (m machine) now(t *testing.T) Process {
	t.Helper()
	p, err := m.state()
	must(t, err)
	return p
}

func TestAContainerIsMadeOnceAndStartedFromThenOn(t *testing.T) {
	m, dir := install(t)
	s := etcd()
	must(t, m.run(t.Context(), s))
	if got := calls(t, dir); !slices.Equal(got, []string{"container", "run"}) {
		t.Errorf("at first podman was asked for %v", got)
	}
	first := m.now(t)
	if !first.Running || first.Spec != s.Hash() || first.Frozen() {
		t.Errorf("got %+v", first)
	}
	must(t, m.run(t.Context(), s))
	if p := m.now(t); p.PID != first.PID {
		t.Errorf("what ran as it should was replaced: %+v", p)
	}
	must(t, m.kill(t.Context()))
	must(t, m.run(t.Context(), s))
	if got := calls(t, dir); !slices.Equal(got, []string{"container", "start"}) {
		t.Errorf("after a death podman was asked for %v", got)
	}
	changed := etcd()
	changed.Revision = "new"
	must(t, m.run(t.Context(), changed))
	if got := calls(t, dir); !slices.Equal(got, []string{"container", "run"}) || m.now(t).Spec != changed.Hash() {
		t.Errorf("for another spec podman was asked for %v", got)
	}
}

func TestWhatNobodyNotedIsNotRestarted(t *testing.T) {
	m, dir := install(t)
	must(t, m.run(t.Context(), etcd()))
	before := m.now(t)
	must(t, os.Remove(m.noteFile))
	if p := m.now(t); !p.Running || p.Spec != "" {
		t.Errorf("without a note: %+v", p)
	}
	calls(t, dir)
	must(t, m.run(t.Context(), etcd()))
	if p, got := m.now(t), calls(t, dir); p.PID != before.PID || p.Spec != etcd().Hash() || !slices.Equal(got, []string{"container"}) {
		t.Errorf("%+v, podman was asked for %v", p, got)
	}
}

// TestAProcessWithoutANoteGetsOneFromPodman: its note may be gone with its folder, or never
// have been written. What podman does not say of this very process is unknown.
func TestAProcessWithoutANoteGetsOneFromPodman(t *testing.T) {
	m, dir := install(t)
	must(t, m.run(t.Context(), etcd()))
	p := m.now(t)
	m.noteFile = filepath.Join(dir, "cleaned", "etcd.started")
	p.Spec = ""
	earlier := p
	earlier.Started--
	unknown := func(what string, of Process, want string) {
		t.Helper()
		if spec, err := m.adopt(t.Context(), "etcd", of); spec != "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v", what, spec, err)
		}
		if got := m.now(t); got.Spec != "" {
			t.Errorf("%s: it was noted: %+v", what, got)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "broken-container"), []byte("database is locked"), 0o600))
	unknown("podman fails", p, "database is locked")
	unknown("an earlier process", earlier, "started anew")
	label := filepath.Join(dir, "label")
	for _, text := range []string{"", "<no value>", "0123", "0123456789abcdef00"} {
		must(t, os.WriteFile(label, []byte(text), 0o600))
		unknown("the label "+text, p, "no hash")
	}
	must(t, os.WriteFile(label, []byte("0123456789abcdef\n"), 0o600))
	calls(t, dir)
	spec, err := m.adopt(t.Context(), "etcd", p)
	if now, got := m.now(t), calls(t, dir); spec != "0123456789abcdef" || err != nil || now.Spec != spec || now.PID != p.PID || !slices.Equal(got, []string{"container"}) {
		t.Errorf("%q, %v, noted %+v, podman was asked for %v", spec, err, now, got)
	}
	if _, err := os.Stat(filepath.Join(dir, "cleaned", filepath.Base(state.RunReservePath))); err != nil {
		t.Errorf("no room is kept for the next note: %v", err)
	}
}

func TestWhatPodmanOnlyBelievesToRunIsMadeAnew(t *testing.T) {
	m, dir := install(t)
	must(t, m.run(t.Context(), etcd()))
	must(t, m.kill(t.Context()))
	calls(t, dir)
	must(t, os.WriteFile(filepath.Join(dir, "dead"), nil, 0o600)) // start reports success and does nothing
	must(t, m.run(t.Context(), etcd()))
	if got := calls(t, dir); !slices.Equal(got, []string{"container", "start", "run"}) || !m.now(t).Running {
		t.Errorf("podman was asked for %v", got)
	}
}

// TestAProcessThatEndedAtOnceIsToldFromAPodmanThatFails: only the former has read etcd's
// data.
func TestAProcessThatEndedAtOnceIsToldFromAPodmanThatFails(t *testing.T) {
	m, dir := install(t)
	must(t, os.WriteFile(filepath.Join(dir, "ends"), nil, 0o600))
	if err := m.run(t.Context(), etcd()); !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "podman logs etcd") {
		t.Errorf("got %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "podman"), []byte("#!/bin/sh\necho image not known >&2; exit 125\n"), 0o700))
	if err := m.run(t.Context(), etcd()); err == nil || errors.Is(err, ErrEnded) {
		t.Errorf("got %v", err)
	}
}

// TestARestOfRuncIsRemoved: runc writes the pid into a file of this name first, which must
// not exist. One that was left by a runc that was killed fails each later start.
func TestARestOfRuncIsRemoved(t *testing.T) {
	m, dir := install(t)
	rest := filepath.Join(dir, ".etcd.pid")
	must(t, os.WriteFile(rest, nil, 0o600))
	must(t, m.run(t.Context(), etcd()))
	if _, err := os.Stat(rest); !errors.Is(err, fs.ErrNotExist) || !m.now(t).Running {
		t.Errorf("it is left: %v", err)
	}
}

func TestWhatCannotBeReplacedIsRemovedByForce(t *testing.T) {
	m, dir := install(t)
	must(t, os.WriteFile(filepath.Join(dir, "broken-run"), []byte("container state improper"), 0o600))
	must(t, m.run(t.Context(), etcd()))
	if got := calls(t, dir); !slices.Equal(got, []string{"container", "run", "rm", "rm", "run"}) || !m.now(t).Running {
		t.Errorf("podman was asked for %v", got)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for words, want := range map[string]string{
		"mkdir /var/lib/x: no space left on device": "make room",
		"Error: etcd:1: image not known":            "load it from the release",
	} {
		if err := explained(errors.New(words)); !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), words) {
			t.Errorf("got %v", err)
		}
	}
	if err := explained(fmt.Errorf("podman: %w", context.DeadlineExceeded)); !strings.Contains(err.Error(), "hung podman") {
		t.Errorf("got %v", err)
	}
	if err := explained(errors.New("etcd:1: image not known")); !errors.Is(err, ErrNoImage) {
		t.Errorf("got %v", err)
	}
	if err := Run(t.Context(), Spec{}); err == nil {
		t.Error("a spec without a command was run")
	}
}

func TestTheArgumentsOfPodmanRun(t *testing.T) {
	s := etcd()
	s.OOMScore, s.CPUShares = new(-997), 10240
	got := strings.Join(onHost.runArgs(s), " ")
	want := "run --detach --replace --name etcd --pull never --restart no --network host --cgroups no-conmon " +
		"--pidfile /run/holdfast/etcd/etcd.pid --ulimit host --security-opt label=disable --sdnotify ignore " +
		"--label holdfast.spec=" + s.Hash() + " --oom-score-adj -997 --cgroup-parent / --cpu-shares 10240 --env A=b --volume /pki:/certs:ro --volume /data:/data " +
		"--entrypoint etcd here --name=cp-1"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	other := etcd()
	other.Mounts[0].ReadOnly = false
	if hashes := []string{s.Hash(), etcd().Hash(), other.Hash()}; hashes[0] == hashes[1] || hashes[1] == hashes[2] || etcd().Hash() != hashes[1] {
		t.Errorf("hashes %v", hashes)
	}
}

func TestAFrozenProcessIsEndedWithoutGrace(t *testing.T) {
	m, _ := install(t)
	must(t, m.run(t.Context(), etcd()))
	p := m.now(t)
	must(t, syscall.Kill(p.PID, syscall.SIGSTOP))
	for !m.now(t).Frozen() {
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	must(t, m.stop(t.Context(), time.Minute))
	if took := time.Since(began); took > 10*time.Second || m.now(t).Running {
		t.Errorf("it took %s", took)
	}
	must(t, m.stop(t.Context(), time.Minute)) // a second stop has nothing to do
}

func TestStoppingEndsWithTheContext(t *testing.T) {
	m, _ := install(t)
	must(t, m.run(t.Context(), etcd()))
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	m.comm = "etcd"
	if err := m.stop(stopped, time.Minute); err == nil || !strings.Contains(err.Error(), "still exists") {
		t.Errorf("got %v", err)
	}
}

// proc creates a process table with one process, and the files about it.
func proc(t *testing.T, stat, pid, noted string) machine {
	t.Helper()
	dir := t.TempDir()
	m := machine{pidFile: filepath.Join(dir, "pid"), noteFile: filepath.Join(dir, "note"), proc: dir, comm: "etcd"}
	must(t, os.MkdirAll(filepath.Join(dir, "77"), 0o700))
	for path, text := range map[string]string{m.pidFile: pid, m.noteFile: noted, filepath.Join(dir, "77/stat"): stat} {
		if text != "" {
			must(t, os.WriteFile(path, []byte(text), 0o600))
		}
	}
	return m
}

func stat(comm, letter string, started int) string {
	return "77 (" + comm + ") " + letter + strings.Repeat(" 0", 18) + " " + strconv.Itoa(started) + " 0 0\n"
}

func TestTheProcessTableIsRead(t *testing.T) {
	noted := `{"pid":77,"started":500,"spec":"s"}`
	for name, c := range map[string]struct {
		stat, pid, noted string
		want             Process
	}{
		"nothing was started since boot":   {"", "", "", Process{}},
		"it runs":                          {stat("etcd", "S", 500), "77\n", noted, Process{true, 77, "S", 500, "s"}},
		"it is frozen":                     {stat("etcd", "T", 500), "77", noted, Process{true, 77, "T", 500, "s"}},
		"nobody noted it":                  {stat("etcd", "D", 500), "77", "", Process{true, 77, "D", 500, ""}},
		"the note is torn":                 {stat("etcd", "S", 500), "77", `{"pid":77,"sta`, Process{true, 77, "S", 500, ""}},
		"the note is of an earlier one":    {stat("etcd", "S", 500), "77", `{"pid":70,"started":2,"spec":"s"}`, Process{true, 77, "S", 500, ""}},
		"it is just being made":            {stat("runc:[2:INIT]", "S", 500), "77", "", Process{true, 77, "S", 500, ""}},
		"it has ended":                     {"", "77", noted, Process{}},
		"it has ended, nobody waited":      {stat("etcd", "Z", 500), "77", noted, Process{}},
		"another process has its number":   {stat("bash", "S", 900), "77", "", Process{}},
		"another etcd has its number":      {stat("etcd", "S", 900), "77", noted, Process{}},
		"a name with blanks and brackets":  {stat("a) S (b", "S", 900), "77", "", Process{}},
		"its name is changed, but noted":   {stat("etcd) x", "S", 500), "77", noted, Process{true, 77, "S", 500, "s"}},
		"dying, as the kernel may show it": {stat("etcd", "X", 500), "77", noted, Process{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := proc(t, c.stat, c.pid, c.noted).state()
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// TestAProcessWhosePidFileIsGoneIsFound has only the process table: somebody
// cleaned /run. If etcd runs as kubelet's pod, it has another parent.
func TestAProcessWhosePidFileIsGoneIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		stat    string
		monitor []string
		want    Process
	}{
		"its monitor started it":     {stat("etcd", "S", 500), []string{"conmon", "-p", "PIDFILE", "-n", "etcd"}, Process{true, 77, "S", 500, ""}},
		"kubelet's pod":              {stat("etcd", "S", 500), []string{"containerd-shim", "-id", "etcd"}, Process{}},
		"another container's":        {stat("etcd", "S", 500), []string{"conmon", "-p", "/run/mine.pid"}, Process{}},
		"its parent has ended":       {stat("etcd", "S", 500), nil, Process{}},
		"another process":            {stat("bash", "S", 500), []string{"conmon", "-p", "PIDFILE"}, Process{}},
		"it ended, and nobody waits": {stat("etcd", "Z", 500), []string{"conmon", "-p", "PIDFILE"}, Process{}},
	} {
		t.Run(name, func(t *testing.T) {
			m := proc(t, strings.Replace(c.stat, " 0", " 76", 1), "", "")
			must(t, os.MkdirAll(filepath.Join(m.proc, "76"), 0o700))
			if c.monitor != nil {
				line := strings.ReplaceAll(strings.Join(c.monitor, "\x00")+"\x00", "PIDFILE", m.pidFile)
				must(t, os.WriteFile(filepath.Join(m.proc, "76/cmdline"), []byte(line), 0o600))
			}
			if got, err := m.state(); err != nil || got != c.want {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestWhatIsNotUnderstoodIsNoAnswer(t *testing.T) {
	for name, m := range map[string]machine{
		"an empty pid file": proc(t, "", "\n", ""),
		"another number":    proc(t, "", "-1", ""),
		"half a stat":       proc(t, "77 (etcd) S 1 2", "77", ""),
		"no stat":           proc(t, "etcd", "77", ""),
	} {
		if got, err := m.state(); err == nil {
			t.Errorf("%s is %+v", name, got)
		}
	}
}

func TestAnImageIsLoadedOnce(t *testing.T) {
	_, dir := install(t)
	archive := func(text string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	}
	must(t, Ensure(t.Context(), "wanted", archive("the image wanted")))
	calls(t, dir)
	must(t, Ensure(t.Context(), "wanted", func(io.Writer) error { return errors.New("asked for again") }))
	if got := calls(t, dir); !slices.Equal(got, []string{"image"}) {
		t.Errorf("podman was asked for %v", got)
	}
	if err := Ensure(t.Context(), "other", archive("an image")); err == nil || !strings.Contains(err.Error(), "another one") {
		t.Errorf("got %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "broken-load"), []byte("no space left on device"), 0o600))
	if err := Ensure(t.Context(), "other", archive(strings.Repeat("x", 1<<20))); err == nil || !strings.Contains(err.Error(), "make room") {
		t.Errorf("got %v", err)
	}
}

func TestAnImageIsRemovedOnce(t *testing.T) {
	_, dir := install(t)
	must(t, load(t.Context(), strings.NewReader("former")))
	calls(t, dir)
	must(t, RemoveImage(t.Context(), "former"))
	must(t, RemoveImage(t.Context(), "former")) // it is gone
	if got := calls(t, dir); !slices.Equal(got, []string{"image", "image", "image"}) {
		t.Errorf("podman was asked for %v", got)
	}
	must(t, load(t.Context(), strings.NewReader("former")))
	must(t, os.WriteFile(filepath.Join(dir, "code"), []byte("125"), 0o600))
	if err := RemoveImage(t.Context(), "gone"); err == nil {
		t.Error("a podman that fails has removed an image")
	}
}

func TestImages(t *testing.T) {
	_, dir := install(t)
	for ref, want := range map[string]bool{"here": true, "gone": false} {
		if got, err := HasImage(t.Context(), ref); got != want || err != nil {
			t.Errorf("%s: %v, %v", ref, got, err)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "code"), []byte("125"), 0o600))
	if _, err := HasImage(t.Context(), "gone"); err == nil {
		t.Error("a podman that fails has no image")
	}
	must(t, load(t.Context(), strings.NewReader("another")))
	if data, err := os.ReadFile(filepath.Join(dir, "loaded")); string(data) != "another" {
		t.Errorf("loaded was %q (%v)", data, err)
	}
}

func TestAThreadThatWaitsForTheDiskBlocksItsProcess(t *testing.T) {
	m := machine{proc: t.TempDir()}
	for thread, letter := range map[string]string{"70": "S", "71": "S", "72": "D"} {
		dir := filepath.Join(m.proc, "70", "task", thread)
		must(t, os.MkdirAll(dir, 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "stat"), []byte(thread+" (etcd) "+letter+" 0 1 1 0 -1 4194560 3 4 5 6 7 8 9 10 20 0 1 0 4711 18 19"), 0o600))
	}
	if blocked, err := m.blocked(Process{PID: 70, Letter: "S"}); !blocked || err != nil {
		t.Errorf("the first thread sleeps, another waits for the disk: %t, %v", blocked, err)
	}
	must(t, os.RemoveAll(filepath.Join(m.proc, "70/task/72")))
	if blocked, err := m.blocked(Process{PID: 70, Letter: "S"}); blocked || err != nil {
		t.Errorf("all threads sleep: %t, %v", blocked, err)
	}
}
