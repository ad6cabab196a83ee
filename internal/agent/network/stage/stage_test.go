package stage

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestTheStageFollowsTheMarksOfTheInstallation(t *testing.T) {
	dir := t.TempDir()
	s := &Source{Ready: filepath.Join(dir, "ready"), Complete: filepath.Join(dir, "complete")}
	synctest.Test(t, func(t *testing.T) {
		var view state.NetworkView
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.Run(ctx, func(change func(*state.NetworkView)) { change(&view) })
		}()
		for _, step := range []struct {
			mark string
			want state.NetworkStage
		}{{"", state.StageInstalling}, {s.Ready, state.StageReady}, {s.Complete, state.StageInstalled}} {
			if step.mark != "" {
				if err := os.WriteFile(step.mark, nil, 0o600); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(2 * every)
			synctest.Wait()
			if view.Stage != step.want {
				t.Errorf("after %q: %s, want %s", step.mark, view.Stage, step.want)
			}
		}
		stop()
		<-done
	})
}

func TestAMarkThatCannotBeLookedForIsNoAnswer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Source{Ready: "/nowhere", Complete: filepath.Join(file, "complete")}
	if got, err := s.Now(); err == nil {
		t.Errorf("%q", got)
	}
}
