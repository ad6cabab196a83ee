package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAFailedCommandTellsItsLineItsCodeAndItsLastWords(t *testing.T) {
	out, err := Run(t.Context(), Command("sh", "-c", "echo kept; echo why it failed >&2; exit 3"))
	if string(out) != "kept\n" || ExitCode(err) != 3 {
		t.Errorf("output %q, exit code %d", out, ExitCode(err))
	}
	want := "run sh -c 'echo kept; echo why it failed >&2; exit 3': exit status 3: why it failed"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestAnErrorCarriesTheEndOfALongOutput(t *testing.T) {
	_, err := Run(t.Context(), Command("sh", "-c", "head -c 20000 /dev/zero | tr '\\0' x >&2; echo last >&2; exit 1"))
	re, ok := errors.AsType[*RunError](err)
	if !ok || len(re.Output) != maxErrorOutput || !strings.HasSuffix(re.Output, "xlast\n") {
		t.Errorf("%d bytes of output, error %T", len(re.Output), err)
	}
}

func TestTheEndOfTheContextEndsTheCommandAndIsTheCause(t *testing.T) {
	why := errors.New("no patience")
	ctx, cancel := context.WithCancelCause(t.Context())
	said, out := pipe(t)
	in, _ := pipe(t)
	go func() { // once the command tells that it runs
		_, _ = said.Read(make([]byte, 1))
		cancel(why)
	}()
	// It ignores SIGTERM, and waits for input that never comes.
	_, err := Run(ctx, Cmd{Name: "sh", Args: []string{"-c", "trap '' TERM; echo; read x"}, Stdin: in, Stdout: out, Grace: 50 * time.Millisecond})
	if !errors.Is(err, why) || ExitCode(err) != -1 {
		t.Errorf("got %v, exit code %d", err, ExitCode(err))
	}
}

func pipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(read.Close(), write.Close()) })
	return read, write
}

func TestAProgramIsFoundWhereTheAdministratorsAre(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "holdfast-test-program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$PATH\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	old := sbin
	sbin = []string{dir}
	t.Cleanup(func() { sbin = old })
	out, err := Run(t.Context(), Command("holdfast-test-program"))
	if err != nil {
		t.Fatal(err)
	}
	if want := os.Getenv("PATH") + ":" + dir + "\n"; string(out) != want {
		t.Errorf("it searches %q, want %q", out, want)
	}
	if _, err := Run(t.Context(), Command("holdfast-no-program")); !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "holdfast-no-program") {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestASearchPathIsCompletedOnce(t *testing.T) {
	for path, want := range map[string]string{
		"/usr/bin:/bin": "/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
		"/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin": "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
		"": "/usr/local/sbin:/usr/sbin:/sbin",
	} {
		if got := searchPath(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

func TestAReplacedFileHasTheNewModeAndNothingElseIsLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on the way")
	path := filepath.Join(dir, "secret")
	for _, f := range []struct {
		data string
		mode os.FileMode
	}{{"for all", 0o644}, {"for one", 0o600}, {"read only", 0o400}} {
		if err := WriteFileAtomic(path, []byte(f.data), f.mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != f.mode {
			t.Errorf("mode %v, want %v (%v)", info.Mode(), f.mode, err)
		}
		if got, err := os.ReadFile(path); string(got) != f.data && os.Geteuid() == 0 {
			t.Errorf("content %q, want %q (%v)", got, f.data, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v (%v)", entries, err)
	}
}

func TestAFailedWriteKeepsTheOldFileAndLeavesNoOther(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFileAtomic(path, []byte("x"), 0o600); err == nil {
		t.Error("a folder was replaced by a file")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || !entries[0].IsDir() {
		t.Errorf("left are %v (%v)", entries, err)
	}

	dir = t.TempDir()
	path = filepath.Join(dir, "file")
	if err := WriteFileAtomic(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := errors.New("the disk is full")
	err = WriteAtomic(path, 0o600, func(w io.Writer) error {
		_, err := io.WriteString(w, "ne")
		return errors.Join(err, full)
	})
	if !errors.Is(err, full) {
		t.Errorf("a write that fails says %v", err)
	}
	text, err := os.ReadFile(path)
	entries, errDir := os.ReadDir(dir)
	if string(text) != "old" || len(entries) != 1 || err != nil || errDir != nil {
		t.Errorf("left are %v, with %q (%v, %v)", entries, text, err, errDir)
	}
}

func TestOnlyWhatDiffersIsWritten(t *testing.T) {
	root := t.TempDir()
	files := []state.File{
		{Path: "a/same", Data: []byte("same"), Mode: 0o644},
		{Path: "a/mode", Data: []byte("mode"), Mode: 0o644},
		{Path: "a/data", Data: []byte("data"), Mode: 0o600},
	}
	if wrote, err := WriteFiles(root, files); err != nil || len(wrote) != 3 {
		t.Fatalf("wrote %v: %v", wrote, err)
	}
	files[1].Mode, files[2].Data = 0o600, []byte("other")
	wrote, err := WriteFiles(root, files)
	want := []string{filepath.Join(root, "a/mode"), filepath.Join(root, "a/data")}
	if err != nil || strings.Join(wrote, " ") != strings.Join(want, " ") {
		t.Errorf("wrote %v, want %v (%v)", wrote, want, err)
	}
}

func TestALinkIsReplacedAndNotWrittenThrough(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(target, []byte("text"), 0o600), os.Symlink(target, link)); err != nil {
		t.Fatal(err)
	}
	wrote, err := WriteFiles(dir, []state.File{{Path: "link", Data: []byte("text"), Mode: 0o600}})
	info, statErr := os.Lstat(link)
	if err != nil || statErr != nil || len(wrote) != 1 || !info.Mode().IsRegular() {
		t.Errorf("wrote %v, the link is %v (%v)", wrote, info.Mode(), errors.Join(err, statErr))
	}
}

func TestASignalGoesToTheProcessOfThePIDFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	if err := SignalPIDFile(file, syscall.SIGTERM); err != nil {
		t.Errorf("no file: %v", err)
	}
	for _, bad := range []string{"", "x", "0", "1", "-1"} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := SignalPIDFile(file, 0); err == nil {
			t.Errorf("%q passes for the id of a process", bad)
		}
	}
	pid, err := StartDetached(Command("sleep", "600"), filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, fmt.Appendf(nil, " %d\n", pid), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := SignalPIDFile(file, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended by %v (%v)", status.Signal(), err)
	}
	if err := SignalPIDFile(file, syscall.SIGTERM); err != nil {
		t.Errorf("a process that has ended: %v", err)
	}
}

func TestAProcessBelowAnotherRootSeesOnlyThat(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may change the root")
	}
	out, err := Run(t.Context(), Cmd{Name: "/bin/pwd", Chroot: "/proc/self/root"})
	if err != nil || string(out) != "/\n" {
		t.Errorf("in the same root: %q, %v", out, err)
	}
	if _, err := Run(t.Context(), Cmd{Name: "/bin/pwd", Chroot: t.TempDir()}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program of the root was found below an empty one: %v", err)
	}
}

func TestAFileThatIsNotThereIsNoError(t *testing.T) {
	type report struct{ Request string }
	path := filepath.Join(t.TempDir(), "state.json")
	for text, want := range map[string]string{`{"Request":"r1"}`: "r1", `{"Request":"r1"`: ""} {
		if got, err := ReadState[report](path); err != nil || got.Request != "" {
			t.Errorf("before anything was said: %+v, %v", got, err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadState[report](path); got.Request != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		for range 2 {
			if err := RemoveFile(path); err != nil || Exists(path) {
				t.Error(err)
			}
		}
	}
	if err := RemoveFile(filepath.Dir(filepath.Dir(path))); err == nil {
		t.Error("a folder with something in it was removed")
	}
}

func TestAFileSystemSettlesAndOneThatIsNotThereIsNone(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "none")} {
		if err := SettleFilesystem(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
