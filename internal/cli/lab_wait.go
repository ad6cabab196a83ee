package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/holdfast/holdfast/internal/lab"
)

// waitForLab waits for the hosts with a live view, and on failure collects
// their logs.
func waitForLab(ctx context.Context, streams Streams, b *lab.Lab, c *lab.Client, timeout time.Duration) error {
	view := newView(streams.Err)
	err := b.Wait(ctx, c, timeout, view.show)
	view.end()
	if err != nil {
		return errors.Join(err, bundle(ctx, streams, b, c))
	}
	if _, err := b.WriteKubeconfig(ctx, c); err != nil {
		return err
	}
	_, err = fmt.Fprintf(streams.Out, "lab %s is up; try:\n  holdfast lab kubectl --name %[1]s -- get nodes\n  holdfast lab status --name %[1]s\n", b.Layout.Spec.Name)
	return err
}

// bundle collects logs after a failure. A person who interrupted the wait
// wants none.
func bundle(ctx context.Context, streams Streams, b *lab.Lab, c *lab.Client) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it is the reason of the wait's end already
	}
	dir, reason, err := b.Collect(ctx, c)
	if err != nil {
		return fmt.Errorf("collect the hosts' logs: %w", err)
	}
	_, err = fmt.Fprintf(streams.Err, "likely reason: %s\nlogs of all hosts: %s\n", reason, dir)
	return err
}

// view shows what the hosts are doing: on a terminal a line per host that is
// redrawn, elsewhere a line for each change.
type view struct {
	out   io.Writer
	live  bool
	lines int
	last  map[string]string
}

func newView(out io.Writer) *view {
	f, ok := out.(*os.File)
	return &view{out: out, live: ok && term.IsTerminal(int(f.Fd())), last: map[string]string{}}
}

func (v *view) show(hosts []lab.HostProgress, since time.Duration) {
	if v.live {
		v.redraw(hosts, since)
		return
	}
	for _, h := range hosts {
		if doing := h.Doing(); v.last[h.Name] != doing {
			v.last[h.Name] = doing
			_, _ = fmt.Fprintf(v.out, "%6.1fs %-10s %s\n", since.Seconds(), h.Name, doing)
		}
	}
}

// maxLine keeps a line of the live view from wrapping, which would break the
// redrawing.
const maxLine = 76

func (v *view) redraw(hosts []lab.HostProgress, since time.Duration) {
	var text strings.Builder
	if v.lines > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", v.lines)
	}
	for _, h := range hosts {
		line := []rune(fmt.Sprintf("%6.1fs %-10s %s", since.Seconds(), h.Name, h.Doing()))
		fmt.Fprintf(&text, "\r\x1b[K%s\n", string(line[:min(len(line), maxLine)]))
	}
	v.lines = len(hosts)
	_, _ = io.WriteString(v.out, text.String())
}

func (v *view) end() { v.lines = 0 }
