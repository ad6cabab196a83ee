package script

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// TestProgressIsToldAndNoLineIsChanged checks that the progress is shown and
// the lines stay the same, because CI counts the lines of go test.
func TestProgressIsToldAndNoLineIsChanged(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "../../hack/progress", "unit tests", "3", "1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := "ok  \ta/b\t0.1s\n?   \ta/c\t[no test files]\n--- FAIL: TestX (0.00s)\n    x_test.go:1: ok  \tnot a package\n"
	if _, err := io.WriteString(in, lines+"FAIL\ta"); err != nil { // half a line, and then a pause
		t.Fatal(err)
	}
	var passed strings.Builder
	told := ""
	for s := bufio.NewScanner(out); s.Scan(); {
		if !strings.HasPrefix(s.Text(), "-- ") {
			passed.WriteString(s.Text() + "\n")
			continue
		}
		told = s.Text()
		if strings.Contains(told, "unit tests: 2 of 3 packages done, after ") {
			_, _ = io.WriteString(in, "/d\t1.5s\nFAIL\n") // the rest of it
			_ = in.Close()
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if want := lines + "FAIL\ta/d\t1.5s\nFAIL\n"; passed.String() != want {
		t.Errorf("passed on:\n%s\nwant:\n%s", passed.String(), want)
	}
	if !strings.HasPrefix(told, "-- unit tests: 3 of 3 packages done, 1 failed, after ") || strings.Contains(told, "\x1b") {
		t.Errorf("at last: %q", told)
	}
}
