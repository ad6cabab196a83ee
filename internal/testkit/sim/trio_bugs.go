package sim

import (
	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/model/state"
)

// thirdsOut lists the rules by which a third control plane comes or goes, each taken out.
var thirdsOut = []Bug{
	{
		Name: "onestep", Seed: 181, thirds: true, What: "a host that gave its right up starts alone before it has read that the peer did, too", Origin: "two states, docs/adr/0097, decision 2",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) {
			if state.Is(s.Local.Running, false) {
				claim(s, state.EtcdWidening, state.EtcdMajority)
			}
		},
	},
	{
		Name: "oneword", Seed: 12, thirds: true, What: "the leader promotes the third member before it has read that its peer gave its right up", Origin: "majority of both, docs/adr/0097, decision 1",
		verdict: promotesUnread,
	},
	{
		Name: "keepsright", Seed: 374, thirds: true, What: "a host takes over in majority, since its peer is fenced", Origin: "majority never takes over, docs/adr/0097, decision 1",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) {
			if state.Is(s.Pacemaker.Contact, false) && s.Proofs.Fenced.Known {
				claim(s, state.EtcdMajority, state.EtcdPair)
			}
		},
	},
	{
		Name: "reopens", Seed: 637, thirds: true, What: "a third machine that lost its disk after its vote gets its file of etcd again", Origin: "the simulator: etcd started from nothing as a voter that had forgotten its promises", reopens: true,
	},
	{
		Name: "keepsplan", Seed: 3, thirds: true, What: "a host that went on alone leaves the plan to the one that is lost", Origin: "docs/adr/0097, decision 12",
		wideNext: func(_ *world, _ int, _ widen.Facts, d *widen.Decision) {
			if d.Rule == "back.apart" || d.Rule == "planned.apart" {
				*d = widen.Decision{Rule: d.Rule, Act: widen.Wait}
			}
		},
	},
	{
		Name: "untaken", Seed: 1, thirds: true, What: "Pacemaker is not in maintenance when etcd goes to kubelet", Origin: "docs/adr/0097, decision 7",
		wide: func(_ *world, _ int, f *widen.Facts) { f.Maintained = state.Known(true) },
	},
	{
		Name: "noboot", Seed: 1, thirds: true, What: "kubelet does not start at boot when it gets etcd", Origin: "hand.boot, docs/adr/0097, decision 7",
		wide: func(_ *world, _ int, f *widen.Facts) { f.Boots = state.Known(true) },
	},
	{
		Name: "bothatonce", Seed: 12, thirds: true, What: "both hosts give etcd to kubelet at once, and nobody asks whether the other two serve", Origin: "hand.turn and hand.stop, docs/adr/0097, decision 7", blind: true,
		wide: func(_ *world, _ int, f *widen.Facts) {
			f.PeerServes, f.ThirdServes, f.Told.Value.Kubelets = state.Known(true), state.Known(true), true
		},
	},
	{
		Name: "nofirstword", Seed: 2, thirds: true, What: "the two that stay of three write their first record without the plan's word", Origin: "narrow.first, docs/adr/0102, decision 3",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) {
			if s.Record.Value.State == state.EtcdNone {
				s.Third = state.EtcdThird{Word: state.Known(state.EtcdThirdWord{})}
			}
		},
	},
	{
		Name: "managed", Seed: 2, thirds: true, What: "Pacemaker begins without maintenance while kubelet has etcd", Origin: "docs/adr/0102, decision 6",
		narrowNext: func(w *world, i int, _ narrow.Facts, d *narrow.Decision) {
			if d.Act == narrow.TakeEtcd {
				*d = narrow.Decision{Rule: d.Rule, Act: narrow.Manage}
			}
		},
	},
	{
		Name: "leavesfirst", Seed: 2, thirds: true, What: "the third member leaves before the two are set up as two", Origin: "docs/adr/0102, decision 1",
		narrowNext: leavesFirst,
	},
	{
		Name: "takesboth", Seed: 13, thirds: true, What: "both etcd keepers take etcd from kubelet at once, and nobody asks whether the other two serve", Origin: "hand.turn and hand.take, docs/adr/0102",
		narrow: func(_ *world, _ int, f *narrow.Facts) {
			if state.Is(f.Kubelets, true) {
				f.PeerHere, f.ThirdHere, f.Told.Value.Kept = state.Known(true), state.Known(true), true
			}
		},
	},
	{
		Name: "ordersearly", Seed: 2, thirds: true, What: "kubelet is left to Pacemaker at boot while Pacemaker is in maintenance", Origin: "hand.manage before hand.order, docs/adr/0102, decision 6",
		narrowNext: func(_ *world, _ int, _ narrow.Facts, d *narrow.Decision) {
			if d.Act == narrow.Manage {
				*d = narrow.Decision{Rule: d.Rule, Act: narrow.Order}
			}
		},
	},
	{
		Name: "unasked", Seed: 195, thirds: true, What: "nobody asks the etcd keepers in the place of a Pacemaker in maintenance", Origin: "ask, docs/adr/0102, decision 6",
		narrow: func(_ *world, _ int, f *narrow.Facts) { f.Asked = state.Known(true) },
	},
}

// promotesUnread promotes the third member as soon as it is wanted.
func promotesUnread(w *world, i int, s *state.EtcdSnapshot, v *state.EtcdVerdict) {
	id := s.Third.Word.Value.Member
	leads := s.Record.Value.Member != 0 && state.Is(s.Local.Leader, s.Record.Value.Member)
	if m, listed := w.hosts[i].find(id); id != 0 && leads && listed && m.learner && s.Record.Value.State == state.EtcdWidening {
		*v = state.EtcdVerdict{Action: state.EtcdPromote, Rule: "majority.promote", Member: id}
	}
}

// leavesFirst removes the third member right after the first records.
func leavesFirst(_ *world, _ int, f narrow.Facts, d *narrow.Decision) {
	if d.Rule == "pairing.hand" && state.Is(f.Listed, true) {
		*d = narrow.Decision{Rule: d.Rule, Act: narrow.Leave}
	}
}
