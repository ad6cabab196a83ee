package sim

import (
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// sitesOut lists the rules of a site that changes, each taken out or in another order.
var sitesOut = []Bug{
	{
		Name: "nofirst", Seed: 2, sites: true, What: "a host that never had a peer gets no first record", Origin: "gone.first, docs/adr/0092",
		verdict: forbid("gone.first"),
	},
	{
		Name: "noretired", Seed: 4, sites: true, What: "a survivor whose peer was retired waits for a proof about it", Origin: "the proof retired, docs/adr/0083, decision 4",
		snapshot: func(_ *world, _ int, s *state.EtcdSnapshot) {
			if s.Record.Value.State == state.EtcdSole {
				s.Proofs.Retired = state.Fact[state.EtcdRetired]{}
			}
		},
	},
	{
		Name: "wordstays", Seed: 8, sites: true, What: "the newcomer is listed while a file says that there is no peer", Origin: "joining.peer: the word goes before the newcomer is listed",
		facts: func(f *replace.Facts) {
			if joining(*f) {
				f.Retirement = state.Known(false)
			}
		},
		decision: instead(replace.Wait, "joining.alone"),
	},
	{
		Name: "keylast", Seed: 141, sites: true, What: "the old host is taken out of Corosync's list before its key is changed", Origin: "docs/adr/0083, decision 3: Corosync 828",
		decision: keyLast,
	},
	{
		Name: "silentisoff", Seed: 52, sites: true, What: "a host that is silent counts as off", Origin: "silence is no proof, docs/adr/0083, decision 1",
		facts: func(f *replace.Facts) {
			if state.Is(f.Contact, false) {
				f.Power, f.Answers, f.PowerAt = state.Known(state.PowerOff), state.Known(false), f.Now
			}
		},
	},
	{
		Name: "anyrecord", Seed: 8, sites: true, What: "a replacement begins from any record", Origin: "the gate sole, docs/adr/0083, decision 1",
		facts: func(f *replace.Facts) {
			if f.Record.Known && (f.Wish == nil || !f.Wish.Grows) {
				f.Record.Value, f.Voters, f.Serves = state.EtcdSole, state.Known(1), state.Known(true)
			}
		},
	},
	{
		Name: "olddevice", Seed: 109, sites: true, What: "the newcomer enters while the device of its name is the old machine's, and nobody tests it", Origin: "newcomer.device and joining.verify, docs/adr/0083",
		facts: func(f *replace.Facts) {
			if f.Asks != (replace.Newcomer{}) {
				f.Device, f.Account, f.Verified = state.Known(true), state.Known(true), state.Known(true)
			}
		},
	},
	{
		Name: "cutkey", Seed: 2462, sites: true, What: "an old host that is switched on while the key is changed is not switched off", Origin: "the simulator: the plan waited for a proof that nobody gave",
		decision: instead(replace.Wait, "retired.off"),
	},
	{
		Name: "tooearly", Seed: 19, sites: true, What: "a newcomer at the address of the old host is not told apart from it", Origin: "the simulator: the plan waited for the old host, and the newcomer for the plan",
		facts: func(f *replace.Facts) { f.OldAddress = "" },
	},
	{
		Name: "stays", Seed: 162, sites: true, What: "a replaced host that wakes up does not switch itself off", Origin: "docs/adr/0083, decision 7", stays: true,
	},
	{
		Name: "nobodyboots", Seed: 203, sites: true, What: "kubelet does not start at boot before Pacemaker goes", Origin: "narrowing.boot, docs/adr/0096",
		facts: func(f *replace.Facts) { f.Boots = state.Known(true) },
	},
	{
		Name: "twostarters", Seed: 6, sites: true, What: "kubelet gets etcd before Pacemaker was told not to start it", Origin: "narrowing.stop before narrowing.give, docs/adr/0096, decision 2",
		facts: func(f *replace.Facts) {
			if f.Plan != nil && f.Plan.Stage == replace.Narrowing {
				f.Halted, f.Podmans = state.Known(true), state.Known(false)
			}
		},
	},
	{
		Name: "unmanned", Seed: 43, sites: true, What: "etcd is taken from kubelet before the record says sole", Origin: "widening.record before widening.take, docs/adr/0092",
		facts: func(f *replace.Facts) {
			if f.Plan != nil && f.Plan.Stage == replace.Widening {
				f.Record, f.Asked = state.Known(state.EtcdSole), state.Known(true)
			}
		},
	},
}

func joining(f replace.Facts) bool { return f.Plan != nil && f.Plan.Stage == replace.Joining }

// instead puts an act in the place of a rule's.
func instead(act replace.Act, rule string) func(*world, replace.Facts, *replace.Decision) {
	return func(_ *world, _ replace.Facts, d *replace.Decision) {
		if d.Rule == rule {
			*d = replace.Decision{Rule: rule, Act: act}
		}
	}
}

// keyLast takes the old host out of the list as if the key had been changed.
func keyLast(_ *world, f replace.Facts, d *replace.Decision) {
	if d.Rule != "retired.key" {
		return
	}
	done := *f.Plan
	done.Reloaded = true
	f.Plan, f.Key = &done, state.Known(true)
	next := replace.Decide(f)
	switch next.Act { //nolint:exhaustive // all others come after the key
	case replace.LeaveRing, replace.Forget, replace.PutToken, replace.ChangeJoin, replace.PutGrave, replace.DropNode, replace.DropPods, replace.DropSecret, replace.Retire:
		*d = next
	}
}
