package pacemaker

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/state"
)

// retry is how soon Corosync is asked again after it was found down. The try
// costs one process that ends at once.
const retry = 500 * time.Millisecond

// Watch tells of the membership now and of each change, at once, until the
// context ends; while Corosync is down the membership is unknown. Calls of
// changed come one after the other, and the same membership may come twice.
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

func watch(ctx context.Context, tool host.Cmd, changed func(state.Fact[state.Membership])) error {
	for {
		c := tool
		c.Stdout = &reader{changed: changed}
		_, _ = host.Run(ctx, c) // why it ended matters to nobody: what is known is that nothing is known
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		changed(state.Fact[state.Membership]{})
		if err := host.Sleep(ctx, retry); err != nil {
			return err
		}
	}
}
