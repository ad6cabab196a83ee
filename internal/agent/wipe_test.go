package agent

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast/holdfast/internal/cli/command"
)

func TestAWipeBeginsOnlyOnceItsHostIsNamed(t *testing.T) {
	for answer, code := range map[string]int{"cp-1\n": command.ExitOK, "cp-2\n": command.ExitNotConfirmed, "": command.ExitNotConfirmed} {
		err := confirmWipe(t.Context(), command.Streams{In: strings.NewReader(answer), Err: io.Discard}, "cp-1", wipeReport{Host: "cp-1"})
		if command.ExitCode(err) != code {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

func TestAnInterruptEndsTheQuestionOfAWipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		interrupt()
		silent, end := io.Pipe()
		err := confirmWipe(ctx, command.Streams{In: silent, Err: io.Discard}, "cp-1", wipeReport{Host: "cp-1"})
		if command.ExitCode(err) != command.ExitNotConfirmed || !strings.Contains(err.Error(), "interrupted: nothing was changed") {
			t.Error(err)
		}
		_ = end.Close()
	})
}
