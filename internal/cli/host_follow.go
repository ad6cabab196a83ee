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
	"github.com/holdfast/holdfast/internal/decide/drain"
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

// looked is what a command found that follows something.
type looked struct {
	lines []command.ViewLine
	// over is true if it has come to its end, soon if the next look finds something else.
	over, soon bool
}

// trouble is what is shown of a look that failed. Once the time is up, that is the reason, and
// nothing is shown.
func trouble(ctx context.Context, who, what string, err error) looked {
	if ctx.Err() != nil {
		return looked{}
	}
	return looked{lines: []command.ViewLine{{Host: who, Doing: what + ": " + firstLine(err.Error())}}}
}

// watch shows what it looks at until that is over. ended explains an end before that, of which
// the cause is errNotYet or an interrupt.
func watch(ctx context.Context, out io.Writer, timeout time.Duration, look func(context.Context) (looked, error), ended func(cause error) error) error {
	limited, stop := context.WithTimeoutCause(ctx, timeout, errNotYet)
	defer stop()
	view, began := command.NewView(out), time.Now()
	defer view.End()
	for {
		found, err := look(limited)
		if len(found.lines) > 0 {
			view.Show(found.lines, time.Since(began))
		}
		if err != nil || found.over {
			return err
		}
		pause := followEvery
		if found.soon {
			pause = 0
		}
		if limited.Err() != nil || host.Sleep(limited, pause) != nil {
			return ended(context.Cause(limited))
		}
	}
}

// node shows what doing says of a node until that is over.
func (f follow) node(ctx context.Context, name string, doing func(*corev1.Node) (text string, over bool, err error), ended func(cause error) error) error {
	return watch(ctx, f.out, f.timeout, func(ctx context.Context) (looked, error) {
		n, err := f.look(ctx, name)
		if _, missing := errors.AsType[*UsageError](err); missing {
			return looked{}, fmt.Errorf("node %s was deleted meanwhile", name)
		}
		if err != nil {
			return trouble(ctx, name, "the API does not answer", err), nil
		}
		text, over, err := doing(n)
		found := looked{over: over}
		if text != "" {
			found.lines = []command.ViewLine{{Host: name, Doing: text}}
		}
		return found, err
	}, ended)
}

// until shows what a host does until a look at its node says that it is done, and
// returns that node.
func (f follow) until(ctx context.Context, name string, done func(*corev1.Node) (bool, error)) (*corev1.Node, error) {
	var last rollout.Activity
	var is *corev1.Node
	err := f.node(ctx, name, func(n *corev1.Node) (text string, over bool, err error) {
		is, last = n, rollout.Doing(n)
		if last.Does != "" {
			text = said(last)
		}
		over, err = done(n)
		return text, over, err
	}, func(cause error) error {
		return f.ended(cause, name, last, is != nil && is.Annotations[drain.Waits] != "")
	})
	return is, err
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
// everything else passes. byPods is true if pods are in the way of a drain.
func (f follow) ended(cause error, name string, last rollout.Activity, byPods bool) error {
	if !errors.Is(cause, errNotYet) {
		return fmt.Errorf("interrupted: the wish stands and is carried out; to take it back: %s", f.back)
	}
	code := command.ExitRecovers
	if last.Waits != "" {
		code = command.ExitAttention
	}
	text := fmt.Sprintf("%s is not done after %s, and goes on: it %s. To wait on, run the command again. To take the wish back: %s", name, f.timeout, said(last), f.back)
	if byPods {
		text += ". To delete a pod that is in the way, whatever its budget says: kubectl delete pod --namespace NAMESPACE POD"
	}
	return coded(code, "%s", text)
}
