package fence

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestARotationIsNotTakenBackByAJobThatBeganBefore uses a BMC that accepts both
// accounts, and a Job that tests the old one while an administrator rotates.
func TestARotationIsNotTakenBackByAJobThatBeganBefore(t *testing.T) {
	s := store(t, "hush", "new")
	if _, err := s.Write(t.Context(), []state.FencingDevice{exampleDevice()}); err != nil {
		t.Fatal(err)
	}
	testing, goOn := make(chan struct{}), make(chan struct{})
	job := s
	job.Test = func(ctx context.Context, dev state.FencingDevice) Report {
		close(testing)
		<-goOn
		return s.Test(ctx, dev)
	}
	jobs := make(chan error, 1)
	go func() {
		_, err := job.Write(context.Background(), []state.FencingDevice{exampleDevice()})
		jobs <- err
	}()
	<-testing
	rotated := make(chan error, 1)
	go func() {
		_, _, err := s.Change(context.Background(), "cp-1", func(dev state.FencingDevice) (state.FencingDevice, error) {
			dev.Password = "new"
			return dev, nil
		}, &cloud{secrets: map[string]map[string][]byte{}})
		rotated <- err
	}()
	select {
	case err := <-rotated:
		t.Errorf("the rotation did not wait: %v", err)
		rotated <- err
	case <-time.After(3 * lockInterval):
	}
	close(goOn)
	if err := <-jobs; err != nil {
		t.Error(err)
	}
	if err := <-rotated; err != nil {
		t.Error(err)
	}
	if got := mustRead(t, s).Password; got != "new" {
		t.Errorf("the account is %q again", got)
	}
}

func TestAChangeThatWaitsEndsWithWhoeverAskedForIt(t *testing.T) {
	s := store(t, "hush")
	release, err := s.lock(t.Context(), "cp-1")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Write(ctx, []state.FencingDevice{exampleDevice()}); err == nil {
		t.Error("it did not wait")
	}
	if targets, err := s.Files.Targets(); err != nil || len(targets) != 0 {
		t.Errorf("the lock is taken for a device: %v, %v", targets, err)
	}
}
