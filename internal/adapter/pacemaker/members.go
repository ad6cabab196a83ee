package pacemaker

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// membersTime bounds the question to Corosync, which answers in some milliseconds.
const membersTime = 3 * time.Second

// Members returns the present membership of Corosync, unknown if it tells none in time.
func Members(ctx context.Context) state.Fact[state.Membership] { return members(ctx, membersTime) }

func members(ctx context.Context, limit time.Duration) (out state.Fact[state.Membership]) {
	ctx, done := context.WithTimeout(ctx, limit)
	defer done()
	_ = Watch(ctx, func(f state.Fact[state.Membership]) { // it ends with the context alone
		if f.Known {
			out = f
			done()
		}
	})
	return out
}
