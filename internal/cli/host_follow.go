package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// followEvery is the pause between two looks at a node, and lookLimit bounds one: the
// API may be served by the host that boots.
const (
	followEvery = 2 * time.Second
	lookLimit   = 10 * time.Second
)

// errNotYet is the cause of the end of a command whose time is up.
var errNotYet = errors.New("the time is up")

// follow follows what a host does. What the command began goes on without it.
type follow struct {
	cluster client.Client
	out     io.Writer
	timeout time.Duration
	// back is what a person types to take the wish back.
	back string
}

func timeoutFlag(cmd *cobra.Command, timeout *time.Duration) {
	cmd.Flags().DurationVar(timeout, "timeout", *timeout, "how long to wait; what was begun goes on afterwards")
}

// positive is a mistake of the flag --timeout.
func positive(timeout time.Duration) error {
	if timeout <= 0 {
		return fmt.Errorf("--timeout %s: must be positive", timeout)
	}
	return nil
}

// until shows what a host does until a look at its node says that it is done, and
// returns that node.
func (f follow) until(ctx context.Context, name string, done func(*corev1.Node) (bool, error)) (*corev1.Node, error) {
	limited, stop := context.WithTimeoutCause(ctx, f.timeout, errNotYet)
	defer stop()
	view, began := command.NewView(f.out), time.Now()
	defer view.End()
	var last rollout.Activity
	for {
		n, err := f.look(limited, name)
		var missing *UsageError
		switch {
		case errors.As(err, &missing):
			return nil, fmt.Errorf("node %s was deleted meanwhile", name)
		case err != nil && limited.Err() == nil:
			view.Show([]command.ViewLine{{Host: name, Doing: "the API does not answer: " + err.Error()}}, time.Since(began))
		case err == nil:
			if last = rollout.Doing(n); last.Does != "" {
				view.Show([]command.ViewLine{{Host: name, Doing: said(last)}}, time.Since(began))
			}
			if over, err := done(n); over || err != nil {
				return n, err
			}
		}
		if host.Sleep(limited, followEvery) != nil {
			return nil, f.ended(context.Cause(limited), name, last)
		}
	}
}

func (f follow) look(ctx context.Context, name string) (*corev1.Node, error) {
	limited, stop := context.WithTimeout(ctx, lookLimit)
	defer stop()
	return hostNode(limited, f.cluster, name)
}

func said(a rollout.Activity) string {
	if a.Waits == "" {
		return a.Does
	}
	return a.Does + "; waits for: " + a.Waits
}

// ended explains an end before the host was done. Somebody in the way is for a person;
// everything else passes.
func (f follow) ended(cause error, name string, last rollout.Activity) error {
	if !errors.Is(cause, errNotYet) {
		return fmt.Errorf("interrupted: the wish stands and is carried out; to take it back: %s", f.back)
	}
	code := command.ExitRecovers
	if last.Waits != "" {
		code = command.ExitAttention
	}
	return coded(code, "%s is not done after %s, and goes on: it %s. To take the wish back: %s", name, f.timeout, said(last), f.back)
}
