package agent

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
)

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
