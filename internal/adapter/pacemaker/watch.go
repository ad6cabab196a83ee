package pacemaker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// retry is the pause before Corosync is asked again after it was found down. An
// attempt costs one process that ends at once.
const retry = 500 * time.Millisecond

// waitingInterval is how long a host that waits for its peer listens to one child.
// corosync-quorumtool reports each new membership, but not quorum that was
// granted within one (measured with corosync 3.1.7).
const waitingInterval = time.Second

// corosync-quorumtool assembles a report from several answers. A report that
// was made in the middle of a change was seen to mix both memberships, with no
// report after it. So another child is asked soon after each change, several
// times, and now and then while nothing changes.
const (
	recheckInterval = 300 * time.Millisecond
	rechecks        = 4
	resync          = 10 * time.Second
)

// Watch reports the present membership and each change at once, until the
// context ends; while Corosync is down, the membership is unknown. Calls of
// changed never overlap. Quorum that was granted to a host that waits for its
// peer is reported within a second.
//
// A child of this process stays connected to Corosync: measured, it reports a
// change 5 ms after Corosync's own log line. Watch does not notice a Corosync
// that hangs, rather than ends.
func Watch(ctx context.Context, changed func(state.Fact[state.Membership])) error {
	return watch(ctx, quorumtool, changed)
}

// quorumtool prints a report now and at every change. stdbuf makes it print
// line by line; without it, it would print to a pipe in blocks.
var quorumtool = host.Command("stdbuf", "-oL", "corosync-quorumtool", "-m")

// errAskAgain ends a child that would not report what is wanted.
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
		w.tell(state.Fact[state.Membership]{}) // the reason why it ended does not matter
		if err := host.Sleep(ctx, retry); err != nil {
			return err
		}
	}
}

// watcher reports each membership once.
type watcher struct {
	changed func(state.Fact[state.Membership])
	told    bool
	last    state.Fact[state.Membership]
	doubts  int // how often to ask again soon
}

// listen reads what one child reports, until it ends or it is time to ask
// another one.
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

// period returns how long to listen to one child.
func (w *watcher) period() time.Duration {
	switch {
	case w.doubts > 0:
		w.doubts--
		return recheckInterval
	case w.waits():
		return waitingInterval
	}
	return resync
}

// waits reports whether this host is known to wait for its peer.
func (w *watcher) waits() bool { return w.last.Known && !w.last.Value.Quorate }

// tell passes a membership on if it differs from the last one, and reports
// whether it did.
func (w *watcher) tell(f state.Fact[state.Membership]) bool {
	same := f.Known == w.last.Known && f.Value.Ring == w.last.Value.Ring && f.Value.Quorate == w.last.Value.Quorate &&
		slices.Equal(f.Value.Members, w.last.Value.Members)
	if w.told && same {
		return false
	}
	w.told, w.last, w.doubts = true, f, rechecks
	w.changed(f)
	return true
}
