package machineconfig

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Leaver has other hosts take the pods of a host that shuts down. It is a process of
// its own, because the shutdown waits for it, and for nothing of the agent.
type Leaver struct {
	API interface {
		Nodes(ctx context.Context) ([]state.Node, error)
		SetAnnotations(ctx context.Context, node string, values map[string]*string) error
	}
	// Node is the host's own, and Boot the boot that ends.
	Node, Boot string
	// Down reports whether the host shuts down.
	Down func(ctx context.Context) (bool, error)
	// Pause is the time between two looks.
	Pause time.Duration
}

// Leave asks that other hosts take the pods. It returns how it ended, once they have
// them, there is nothing to wait for, or the context ends: the shutdown goes on in each
// case. waits is false if nothing else is to hold it up either.
func (l Leaver) Leave(ctx context.Context) (said string, waits bool) {
	for {
		if down, err := l.Down(ctx); err == nil && !down {
			return "the host does not shut down: nothing to do", false
		}
		over, together, err := l.step(ctx)
		if over != "" {
			return over, !together
		}
		last := "pods of it are still here"
		if err != nil {
			last = err.Error()
		}
		if host.Sleep(ctx, l.Pause) != nil {
			return "the shutdown waits no longer: " + last, true
		}
	}
}

func (l Leaver) step(ctx context.Context) (over string, together bool, err error) {
	nodes, err := l.API.Nodes(ctx)
	if err != nil {
		return "", false, fmt.Errorf("the API does not answer: %w", err)
	}
	facts := drain.Leaving{Nodes: nodes, Name: l.Node}
	for _, n := range nodes {
		if n.Name == l.Node {
			facts.Configured = n.Annotations[rollout.CurrentConfig] != ""
		}
	}
	ask, over := facts.Next()
	if ask {
		wish := drain.Leave(l.Boot)
		err = l.API.SetAnnotations(ctx, l.Node, map[string]*string{drain.Desired: &wish})
	}
	return over, facts.Together(), err
}
