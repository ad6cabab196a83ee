package operator

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/cli/command"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

const jobInput = `{"cluster":"shop-abcde","nodes":[],"self":"cp-1","token":"t0k3n-t0k3n-t0k3n","fencing":[{"target":"cp-2","password":"hush-2"}]}`

// newStep returns a Job whose step is a shell script on this machine.
func newStep(t *testing.T, script string) (job, *bytes.Buffer) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may change the root, as a Job does")
	}
	dir := t.TempDir()
	input := filepath.Join(dir, "input.json")
	if err := os.WriteFile(input, []byte(jobInput), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	return job{
		step: "setup", input: input, digest: render.InputDigest([]byte(jobInput)), root: "/proc/self/root",
		command: []string{"/bin/sh", "-c", script, "holdfast-agent"}, last: filepath.Join(dir, "last"),
		streams: command.Streams{Err: &log},
	}, &log
}

func TestAStepGetsItsInputAndItsNameOnTheHost(t *testing.T) {
	j, log := newStep(t, `test "$(cat | wc -c)" -gt 50 && echo "does $1 in $(pwd)"`)
	if err := j.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if log.String() != "does setup in /\n" {
		t.Errorf("it said %q", log)
	}
	if _, err := os.Stat(j.last); err == nil {
		t.Error("a success has last words")
	}
}

func TestAFailedStepLeavesItsLastWordsWithoutSecrets(t *testing.T) {
	j, log := newStep(t, `echo begins; printf 'pcs: token t0k3n-t0k3n-t0k3n refused, pass' >&2; printf 'word hush-2' >&2; exit 4`)
	err := j.run(t.Context())
	if err == nil || err.Error() != "step setup failed on this host (exit code 4)" {
		t.Errorf("got %v", err)
	}
	const want = "pcs: token <redacted> refused, password <redacted>"
	last, err := os.ReadFile(j.last)
	if err != nil || string(last) != want {
		t.Errorf("last words %q, %v", last, err)
	}
	if !strings.Contains(log.String(), "begins\n") || !strings.Contains(log.String(), want+"\n") {
		t.Errorf("log %q", log)
	}
}

func TestOnlyARefusalHasItsOwnExitCode(t *testing.T) {
	for step, want := range map[int]int{1: command.ExitFailed, 4: command.ExitFailed, command.ExitRefused: command.ExitRefused} {
		j, _ := newStep(t, fmt.Sprintf("exit %d", step))
		if got := command.ExitCode(j.run(t.Context())); got != want {
			t.Errorf("a step that ends with %d: the Job ends with %d, want %d", step, got, want)
		}
	}
}

func TestTheEndOfManyWordsIsKept(t *testing.T) {
	j, _ := newStep(t, `seq 2000 >&2; echo the reason >&2; exit 1`)
	if err := j.run(t.Context()); err == nil {
		t.Fatal("no error")
	}
	last, err := os.ReadFile(j.last)
	if err != nil || len(last) > 4096 || !strings.HasPrefix(string(last), "... ") || !strings.HasSuffix(string(last), "2000\nthe reason") {
		t.Errorf("%d bytes: %.20q, %v", len(last), last, err)
	}
}

func TestAHostWithoutTheProgramIsAFailureWithWords(t *testing.T) {
	j, _ := newStep(t, "")
	j.root = t.TempDir()
	if err := j.run(t.Context()); err == nil {
		t.Fatal("no error")
	}
	last, _ := os.ReadFile(j.last)
	if !strings.Contains(string(last), "no such file or directory") {
		t.Errorf("last words %q", last)
	}
}

func TestAnOlderInputIsWaitedOut(t *testing.T) {
	j, _ := newStep(t, "true")
	newer := []byte(`{"self":"cp-2"}`)
	j.digest = render.InputDigest(newer)
	began := make(chan struct{})
	go func() {
		<-began
		_ = os.WriteFile(j.input, newer, 0o600) // as kubelet does; the test fails if it cannot
	}()
	close(began)
	got, err := j.read(t.Context())
	if err != nil || !bytes.Equal(got, newer) {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestAnUnknownStepIsAMistakeOfTheCommandLine(t *testing.T) {
	for _, args := range [][]string{{"job", "reboot", "--input", "x"}, {"job"}, {"job", "setup"}, {"run", "now"}, {"nothing"}} {
		var said bytes.Buffer
		if code := Run(t.Context(), command.Streams{Err: &said, Out: &said}, args); code != command.ExitUsage {
			t.Errorf("%v: exit code %d: %s", args, code, &said)
		}
	}
}

func TestLinesArePassedOnWholeAndClean(t *testing.T) {
	var to bytes.Buffer
	c := &cleaner{to: &to, hide: strings.NewReplacer("secret", "*")}
	for _, part := range []string{"a sec", "ret\nand sec", "ret", " more\n", "last sec", "ret"} {
		if n, err := c.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
		if strings.Contains(to.String(), "sec") {
			t.Fatalf("shown: %q", &to)
		}
	}
	c.flush()
	if to.String() != "a *\nand * more\nlast *\n" {
		t.Errorf("got %q", &to)
	}
}
