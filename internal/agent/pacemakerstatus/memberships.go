package pacemakerstatus

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The etcd keeper answers at least once a second. If it is silent for longer, it
// hangs or is absent, and Corosync is asked from here until it is back. After an
// answer equal to the last one there is a pause, because a keeper of another
// version may not know the mark of what is known.
const (
	keeperPatience = 1500 * time.Millisecond
	keeperBack     = time.Second
	keeperApart    = 100 * time.Millisecond
)

// memberships is the source of this host's membership: one child of Corosync on a
// host is enough, and it is the keeper's.
type memberships struct {
	keeper   func(ctx context.Context, known string) (state.Fact[state.Membership], error)
	corosync func(ctx context.Context, changed func(state.Fact[state.Membership])) error
	log      *slog.Logger
}

func thisHostsMembers(log *slog.Logger) memberships {
	return memberships{
		keeper: func(ctx context.Context, known string) (state.Fact[state.Membership], error) {
			return keeperclient.Membership(ctx, state.EtcdSocketPath, known)
		},
		corosync: pacemaker.Watch, log: log,
	}
}

// watch reports the membership, and each change of it, until the context ends. It
// calls changed for one change after the other.
func (w memberships) watch(ctx context.Context, changed func(state.Fact[state.Membership])) {
	last := ""
	tell := func(m state.Fact[state.Membership]) bool {
		mark := keeperclient.MembershipMark(m)
		if mark == last {
			return false
		}
		last = mark
		changed(m)
		return true
	}
	for ctx.Err() == nil {
		for {
			m, err := w.ask(ctx, last)
			if err != nil {
				break
			}
			if !tell(m) && host.Sleep(ctx, keeperApart) != nil {
				return
			}
		}
		w.alone(ctx, tell)
	}
}

func (w memberships) ask(ctx context.Context, known string) (state.Fact[state.Membership], error) {
	ctx, cancel := context.WithTimeout(ctx, keeperPatience)
	defer cancel()
	return w.keeper(ctx, known)
}

// alone reports what Corosync says to this process, until the keeper answers.
func (w memberships) alone(ctx context.Context, tell func(state.Fact[state.Membership]) bool) {
	watching, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := w.corosync(watching, func(m state.Fact[state.Membership]) { tell(m) })
		if watching.Err() == nil {
			w.log.Warn("watch of Corosync's membership", "err", err)
		}
	}()
	defer func() { end(); <-ended }()
	for host.Sleep(ctx, keeperBack) == nil {
		if _, err := w.ask(ctx, ""); err == nil {
			return
		}
	}
}
