package keeper

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/state"
)

// memberBeat bounds how long a request for another membership waits. It is
// short: the client takes silence for a daemon that hangs, and then watches
// Corosync itself.
const memberBeat = time.Second

// members holds the last membership that Corosync reported, for all clients. It
// does not wait for a round of the keeper.
type members struct {
	mu      sync.Mutex
	last    state.Fact[state.Membership]
	changed chan struct{} // closed at the next change; nil before the first report
}

func (m *members) set(f state.Fact[state.Membership]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed != nil {
		close(m.changed)
	}
	m.last, m.changed = f, make(chan struct{})
}

func (m *members) get() (state.Fact[state.Membership], <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, m.changed
}

// membership answers with the first membership that differs from the one that
// the client knows, or with the present one after memberBeat.
func (d *daemon) membership(w http.ResponseWriter, q *http.Request) {
	ctx, cancel := context.WithTimeout(q.Context(), memberBeat)
	defer cancel()
	known := q.URL.Query().Get(keeperclient.MarkParameter)
	for {
		f, changed := d.members.get()
		if changed == nil {
			http.Error(w, "the etcd keeper does not watch Corosync yet", http.StatusServiceUnavailable)
			return
		}
		if keeperclient.MembershipMark(f) == known {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
			}
		}
		reply(w, f)
		return
	}
}
