package host

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"
)

func TestTheEndOfAProcessIsNoticedAtOnce(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- AwaitEnd(t.Context(), cmd.Process.Pid) }()
	select {
	case err := <-ended:
		t.Fatalf("it runs, and was said to have ended: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := AwaitEnd(t.Context(), cmd.Process.Pid); err != nil {
		t.Errorf("a process that is gone: %v", err)
	}
}

func TestWaitingForAProcessEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if err := AwaitEnd(ctx, 1); !errors.Is(err, why) {
		t.Error(err)
	}
}
