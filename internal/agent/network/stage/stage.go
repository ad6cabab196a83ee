// Package stage is the source of the stage of this host's installation, as far as
// its part in the network depends on it.
package stage

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// every is the pause between two looks for the installation's marks, which are
// files. The looks end once the host is installed.
const every = 250 * time.Millisecond

// Source is the source of NetworkView.Stage.
type Source struct {
	// Ready and Complete are the marks: files that exist once the node is ready,
	// and once the host is installed.
	Ready, Complete string
}

// Name implements network.Source.
func (s *Source) Name() string { return "stage" }

// Run implements network.Source.
func (s *Source) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	for {
		now, err := s.Now()
		if err != nil {
			return err
		}
		update(func(v *state.NetworkView) { v.Stage = now })
		if now == state.StageInstalled {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		if err := host.Sleep(ctx, every); err != nil {
			return err
		}
	}
}

// Now returns the stage that the marks show.
func (s *Source) Now() (state.NetworkStage, error) {
	for _, m := range []struct {
		path  string
		stage state.NetworkStage
	}{{s.Complete, state.StageInstalled}, {s.Ready, state.StageReady}} {
		switch _, err := os.Stat(m.path); {
		case err == nil:
			return m.stage, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	return state.StageInstalling, nil
}
