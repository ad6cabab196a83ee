package pacemakerstatus

import (
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TakeOver describes the last time that this host went on without its peer, to show
// how long that takes here.
type TakeOver struct {
	// ID and Counter come from the host's record.
	ID      string `json:"id"`
	Counter uint64 `json:"counter"`
	// Lost is when this host saw that Corosync had lost the peer. It is zero where
	// nobody saw it: the peer left in order, or the agent did not run.
	Lost time.Time `json:"lost,omitzero"`
	// Alone is when the record said that this host is the only voter, Pair when it
	// said that there are two again.
	Alone time.Time `json:"alone,omitzero"`
	Pair  time.Time `json:"pair,omitzero"`
}

// Follow returns what is known of the last take-over after another reading, and
// since when the peer is lost, zero where it is there. The times of the record are
// exact, however late the reading is.
func (r Report) Follow(in Input, now time.Time) (t TakeOver, lost time.Time) {
	t, lost = r.TakeOver, r.Lost
	if m := in.Membership; m.Known {
		there := slices.ContainsFunc(m.Value.Members, func(name string) bool { return name != in.Host })
		switch {
		case there:
			lost = time.Time{}
		case lost.IsZero():
			lost = now
		}
	}
	record := in.Etcd.Value.Snapshot.Record
	if !in.Etcd.Known || !record.Known || record.Value.TakeOver.ID == "" {
		return t, lost
	}
	e := record.Value
	if e.TakeOver.ID != t.ID {
		t = TakeOver{ID: e.TakeOver.ID, Counter: e.TakeOver.Counter}
	}
	switch {
	case e.State == state.EtcdSole && t.Alone.IsZero():
		t.Alone = e.Written
		if since := r.since(lost); since.Before(t.Alone) {
			t.Lost = since
		}
	case e.State == state.EtcdPair && !t.Alone.IsZero() && t.Pair.IsZero():
		t.Pair = e.Written
	}
	return t, lost
}

// since returns when the peer was lost whose loss made this host go on alone. The
// peer may be back in the membership by the time the record is read.
func (r Report) since(lost time.Time) time.Time {
	if lost.IsZero() {
		return r.Lost
	}
	return lost
}

// Took returns how long the take-over took from the loss of the peer, and how long
// the host was alone then. A time is zero where it is not known or not over.
func (t TakeOver) Took() (takeOver, alone time.Duration) {
	if !t.Lost.IsZero() && t.Alone.After(t.Lost) {
		takeOver = t.Alone.Sub(t.Lost)
	}
	if t.Pair.After(t.Alone) {
		alone = t.Pair.Sub(t.Alone)
	}
	return takeOver, alone
}
