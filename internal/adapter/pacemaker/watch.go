package pacemaker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// retry is how soon Corosync is asked again after it was found down. The try
// costs one process that ends at once.
const retry = 500 * time.Millisecond

// inert is how long a host that waits for its peer goes unasked.
// corosync-quorumtool tells of each new membership, but not of quorum that was
// granted within one (measured with corosync 3.1.7).
const inert = time.Second

// corosync-quorumtool puts a report together from several answers, and one that
// is made in the middle of a change was seen to mix both memberships, with no
// report after it. So another child is asked soon after each change, some times,
// and once in a while where nothing changes.
const (
	settle = 300 * time.Millisecond
	doubts = 4
	resync = 10 * time.Second
)

// Watch tells of the membership now and of each change, at once, until the
// context ends; while Corosync is down the membership is unknown. Calls of
// changed come one after the other. Quorum that was granted to a host that
// waits for its peer is told within a second.
//
// A child of this process stays connected to Corosync: measured, a change is
// told 5 ms after Corosync's own log line. A Corosync that hangs, rather than
// ends, is not noticed here.
func Watch(ctx context.Context, changed func(state.Fact[state.Membership])) error {
	return watch(ctx, quorumtool, changed)
}

// quorumtool prints a report now and at every change. Into a pipe it would
// print by the block: stdbuf makes it print by the line.
var quorumtool = host.Command("stdbuf", "-oL", "corosync-quorumtool", "-m")

// errAskAgain ends a child that would not say what is asked for.
var errAskAgain = errors.New("ask again")

func watch(ctx context.Context, tool host.Cmd, changed func(state.Fact[state.Membership])) error {
	w := &watcher{changed: changed}
	for {
		err := w.listen(ctx, tool)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, errAskAgain) {
			continue
		}
		w.tell(state.Fact[state.Membership]{}) // why it ended matters to nobody
		if err := host.Sleep(ctx, retry); err != nil {
			return err
		}
	}
}

// watcher tells each membership once.
type watcher struct {
	changed func(state.Fact[state.Membership])
	told    bool
	last    state.Fact[state.Membership]
	doubts  int // how often to ask again soon
}

// listen takes what one child says until it ends, or it is time to ask another
// one.
func (w *watcher) listen(ctx context.Context, tool host.Cmd) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	again := time.AfterFunc(w.period(), func() { end(errAskAgain) })
	defer again.Stop()
	tool.Stdout = &reader{changed: func(f state.Fact[state.Membership]) {
		if w.tell(f) {
			again.Reset(w.period())
		}
	}}
	_, err := host.Run(ctx, tool)
	return err
}

// period is how long to listen to one child.
func (w *watcher) period() time.Duration {
	switch {
	case w.doubts > 0:
		w.doubts--
		return settle
	case w.waits():
		return inert
	}
	return resync
}

// waits reports whether this host is known to wait for its peer.
func (w *watcher) waits() bool { return w.last.Known && !w.last.Value.Quorate }

// tell passes a membership on if it is another one than the last, and reports
// whether it was.
func (w *watcher) tell(f state.Fact[state.Membership]) bool {
	same := f.Known == w.last.Known && f.Value.Ring == w.last.Value.Ring && f.Value.Quorate == w.last.Value.Quorate &&
		slices.Equal(f.Value.Members, w.last.Value.Members)
	if w.told && same {
		return false
	}
	w.told, w.last, w.doubts = true, f, doubts
	w.changed(f)
	return true
}
