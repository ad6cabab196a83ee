package agent

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
)

// Nobody types JSON with accounts, and what is typed would be shown.
func TestTheInputOfAStepIsNotTyped(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("NOT TESTED: no terminals on this machine: %v", err)
	}
	defer func() { _ = terminal.Close() }()
	if _, err := terminal.WriteString("yes\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := readTwoNode(terminal, "-", decide.Setup); err == nil || !strings.Contains(err.Error(), "--input") {
		t.Error(err)
	}
}

func TestAStepThatNoRetryMendsEndsAsARefusal(t *testing.T) {
	final := exitOf(fmt.Errorf("auth: %w", fmt.Errorf("other hosts; %w", decide.ErrFinal)))
	if got := command.ExitCode(final); got != command.ExitRefused || final.Error() != "auth: other hosts; "+decide.ErrFinal.Error() {
		t.Errorf("exit code %d: %v", got, final)
	}
	for _, err := range []error{nil, errors.New("auth: " + decide.ErrFinal.Error())} {
		if got := command.ExitCode(exitOf(err)); got == command.ExitRefused {
			t.Errorf("%v ends as a refusal", err)
		}
	}
}
