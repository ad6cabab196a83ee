package keeper

import (
	"context"
	"slices"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

type copyOf struct{ *world }

func (copyOf) There() (bool, error)            { return true, nil }
func (c copyOf) Backup(context.Context) error  { return c.do("backup") }
func (c copyOf) SetAside(bool) (string, error) { return "", c.do("set aside") }
func (c copyOf) Empty(context.Context) error   { return c.do("empty") }

// The host was fenced before its hand-over: kubelet starts its removed etcd
// again and again, and on the first host an empty folder would become a new
// cluster.
func TestACopyIsNotEmptiedWhileKubeletStartsEtcdOnIt(t *testing.T) {
	w := &world{record: pairRecord(), peer: peerPair(), foreign: true}
	w.peer.Record.State, w.peer.Leads = state.EtcdSole, true
	w.peer.Members = state.Known([]state.EtcdMember{{ID: 0xb, Name: "beta"}})
	k := newKeeper(t, w, state.EtcdStarted)
	k.Doer.Copy = copyOf{w}
	meet(k)
	for range 6 {
		k.turn(t.Context())
	}
	if w.record.State != state.EtcdLearner || w.record.Member != 0 || slices.Contains(w.did, "empty") {
		t.Fatalf("record %+v, did %q", w.record, w.did)
	}
	w.foreign = false // the hand-over took the manifest away
	k.turn(t.Context())
	if !slices.Contains(w.did, "empty") {
		t.Errorf("did %q, and never joins", w.did)
	}
}
