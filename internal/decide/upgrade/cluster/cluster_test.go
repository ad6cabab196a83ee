package cluster

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// part is a part of a release all of whose pods run.
func part(name, release string) Part {
	return Part{Name: name, Release: state.Known(release), Pending: state.Known("")}
}

// crashes is why the pods of a part do not run.
var crashes = state.Known("DNS: 0 of 5 pods are available")

// waits is a site that waits for the pods of CoreDNS for a time; its operator is of the old
// release.
func waits(since time.Duration) Site {
	s := aSite(5)
	s.Parts[0] = Part{Name: "CoreDNS", Release: state.Known("R2"), Pending: crashes}
	s.Record.Rollout = Rollout{Part: "CoreDNS", Since: noon.Add(-since), Seen: noon.Add(-10 * time.Second)}
	return s
}

// awaited is for how long pods have been awaited.
func awaited(r Record) time.Duration {
	if r.Rollout.Since.IsZero() {
		return 0
	}
	return noon.Sub(r.Rollout.Since)
}

// aSite returns a healthy site of two control planes and three workers on its way from R1
// to R2. The first hosts, in their order, have arrived.
func aSite(arrived int) Site {
	s := Site{Now: noon, Record: Record{Upgrade: "u1", From: "R1", To: "R2", Started: true}, Wish: Wish{Release: "R2", Upgrade: "u1"}, Running: "R1", Soak: soakTime, MaxUnavailable: 2, Parts: []Part{part("CoreDNS", "R1"), part("operator", "R1")}}
	yes := state.Known(true)
	for i, h := range Order([]Host{{Name: "w-1", Worker: true}, {Name: "w-2", Worker: true}, {Name: "w-3", Worker: true}, {Name: "cp-1", Leader: true}, {Name: "cp-2", VIP: true}}) {
		h.Present, h.Well, h.Whole, h.Old, h.Raised, h.Servers, h.Running = yes, yes, yes, yes, state.Known(false), state.Known(false), state.Known("R1")
		h.Votes = state.Fact[bool]{Known: !h.Worker, Value: !h.Worker}
		if i < arrived {
			h.Running, h.Journal = state.Known("R2"), parachute.Journal{Upgrade: "u1", Step: parachute.Accepted, Since: noon.Add(time.Duration(i) * time.Second)}
		}
		s.Hosts = append(s.Hosts, h)
	}
	return s
}

// withProxy is a site whose hosts have arrived. raises is true if the commit raises the
// level, risen once it did.
func withProxy(raises, risen bool) Site {
	s := proved(aSite(5))
	s.Parts = append([]Part{part(KubeProxy, "R1")}, s.Parts...)
	s.Raises, s.Record.NoWayBack = raises, risen
	for i := range s.Hosts {
		s.Hosts[i].Raised = state.Known(risen)
	}
	return s
}

// noBackup is a gate that is closed for want of a backup.
func noBackup(id gate.ID) []gate.Gate {
	return []gate.Gate{{ID: id, Verdict: gate.Wait, Why: "there is no good backup"}}
}

// atProof has a host show what its release has to, and perhaps hold.
func atProof(h *Host, held string) {
	h.Journal = parachute.Journal{Upgrade: "u1", From: "R1", To: "R2", Step: parachute.Proving, Since: noon}
	h.Held = held
}

// unwell is a site that goes back, and hosts of it are not well.
func unwell(change func(*Site), hosts ...string) Site {
	s := aSite(5)
	s.Wish.Release, s.Record.Returning = "R1", true
	for i := range s.Hosts {
		if slices.Contains(hosts, s.Hosts[i].Name) {
			s.Hosts[i].Present, s.Hosts[i].Well = state.Known(false), state.Known(false)
		}
	}
	if change != nil {
		change(&s)
	}
	return s
}

// proved is a site on which all has followed.
func proved(s Site) Site {
	for i := range s.Parts {
		s.Parts[i].Release = state.Known("R2")
	}
	s.Record.Settled = true
	return s
}

func TestTheNextStepOfAnUpgradeIsApproved(t *testing.T) {
	var out strings.Builder
	needed := map[string]bool{}
	for _, c := range []struct {
		what   string
		site   Site
		change func(*Site)
	}{
		{"nothing is wished", aSite(0), func(s *Site) { s.Record, s.Wish = Record{}, Wish{} }},
		{"a release is offered", aSite(0), func(s *Site) { s.Record = Record{} }},
		{"hosts fetch a release that nobody wants yet", aSite(0), func(s *Site) {
			s.Record, s.Wish, s.Hosts[4].Whole = Record{}, Wish{Offer: "R2"}, state.Known(false)
		}},
		{"it lies on all hosts", aSite(0), func(s *Site) { s.Record, s.Wish = Record{}, Wish{Offer: "R2"} }},
		{"the offered release runs", aSite(0), func(s *Site) { s.Record, s.Wish = Record{}, Wish{Offer: "R1"} }},
		{"another one is offered in the middle", aSite(1), func(s *Site) { s.Wish.Offer = "R3" }},
		{"somebody begins", aSite(0), func(s *Site) { s.Record, s.Wish.Start = Record{}, true }},
		{"a worker has not fetched it", aSite(0), func(s *Site) { s.Hosts[4].Whole = state.Fact[bool]{} }},
		{"a gate is closed", aSite(0), func(s *Site) {
			s.Closed = []gate.Gate{{ID: "backup", Verdict: gate.Block, Why: "there is no backup of etcd"}}
		}},
		{"a backup alone is missing", aSite(0), func(s *Site) { s.Closed, s.Ask = noBackup(gate.BackupGate), BackupWish{"cp-1", "T before-upgrade"} }},
		{"a backup was asked for", aSite(0), func(s *Site) {
			s.Closed, s.Record.Backup = noBackup(gate.BackupGate), BackupWish{"cp-1", "T before-upgrade"}
		}},
		{"a backup is missing, and another gate is closed", aSite(0), func(s *Site) {
			s.Closed, s.Ask = append(noBackup(gate.BackupGate), gate.Gate{ID: "window", Why: "it opens at 22:00"}), BackupWish{"cp-1", "T before-upgrade"}
		}},
		{"a person has paused it", aSite(1), func(s *Site) { s.Wish.Paused = "the shop is open" }},
		{"all is ready", aSite(0), nil},
		{"the first one has its turn", aSite(0), func(s *Site) { s.Record.Turns = []string{"cp-2"} }},
		{"the first one is at work", aSite(0), func(s *Site) {
			s.Record.Turns, s.Hosts[0].Journal, s.Hosts[0].Well = []string{"cp-2"}, parachute.Journal{Upgrade: "u1", Step: parachute.Proving, Deadline: noon.Add(time.Minute)}, state.Known(false)
		}},
		{"the first one is away in the middle", aSite(0), func(s *Site) {
			s.Record.Turns, s.Hosts[0].Journal.Step, s.Hosts[0].Present = []string{"cp-2"}, parachute.Proving, state.Known(false)
		}},
		{"the first one holds", aSite(0), func(s *Site) {
			s.Record.Turns, s.Hosts[0].Journal.Step, s.Hosts[0].Held = []string{"cp-2"}, parachute.Proving, "would return, and does not: this host serves, and no other one is known to serve"
		}},
		{"the first one has been silent in its step for 15 min", aSite(0), func(s *Site) {
			s.Record.Turns, s.Hosts[0].Journal.Step, s.Hosts[0].Said = []string{"cp-2"}, parachute.Leave, noon.Add(-15*time.Minute)
		}},
		{"the first one has been silent in its step for longer", aSite(0), func(s *Site) {
			s.Record.Turns, s.Hosts[0].Journal.Step, s.Hosts[0].Said = []string{"cp-2"}, parachute.Leave, noon.Add(-16*time.Minute)
		}},
		{"it is silent, and goes back", aSite(0), func(s *Site) {
			s.Record.Turns, s.Hosts[0].Journal.Step, s.Hosts[0].Said = []string{"cp-2"}, parachute.Proving, noon.Add(-16*time.Minute)
			s.Record.Returning, s.Wish.Release = true, "R1"
		}},
		{"the peer of who has its turn is not known to be well", aSite(0), func(s *Site) { s.Record.Turns, s.Hosts[1].Well = []string{"cp-2"}, state.Fact[bool]{} }},
		{"the first one has arrived", aSite(1), func(s *Site) { s.Record.Turns = []string{"cp-2"} }},
		{"the second one is next", aSite(1), nil},
		{"the first one went back", aSite(0), func(s *Site) {
			s.Hosts[0].Journal = parachute.Journal{Upgrade: "u1", Step: parachute.Returned, Failed: true, Why: "not accepted; not shown: its router answers, if it has one"}
		}},
		{"the first one was cut off once", aSite(0), func(s *Site) {
			s.Hosts[0].Journal = parachute.Journal{Upgrade: "u1", Step: parachute.Returned, Attempts: 1, Why: "the host booted before its switch"}
		}},
		{"a canary among workers", aSite(2), nil},
		{"workers after the canary", aSite(3), nil},
		{"a worker is away", aSite(3), func(s *Site) { s.Hosts[4].Present = state.Known(false) }},
		{"parts follow", aSite(5), nil},
		{"the operator is the last part", aSite(5), func(s *Site) { s.Parts[0].Release = state.Known("R2") }},
		{"the pods of a part do not run yet", waits(0), func(s *Site) { s.Record.Rollout = Rollout{} }},
		{"they are awaited", waits(7 * time.Minute), nil},
		{"they are awaited, and a gate is closed", waits(7 * time.Minute), func(s *Site) { s.Closed = []gate.Gate{{ID: "incidents", Verdict: gate.Wait, Why: "open incidents"}} }},
		{"a host is away meanwhile", waits(7 * time.Minute), func(s *Site) { s.Hosts[0].Present = state.Known(false) }},
		{"nobody has looked meanwhile", waits(time.Hour), func(s *Site) { s.Record.Rollout.Seen = noon.Add(-50 * time.Minute) }},
		{"they do not run in time", waits(8 * time.Minute), nil},
		{"whether they run is not known in time", waits(8 * time.Minute), func(s *Site) { s.Parts[0].Pending = state.Fact[string]{} }},
		{"those of the last part do not run in time", proved(waits(8 * time.Minute)), func(s *Site) { s.Record.Settled = false }},
		{"those of the last part do not run in time, and the old operator knows what follows", proved(waits(8 * time.Minute)), func(s *Site) { s.PartsReturn, s.Record.Settled = true, false }},
		{"the part goes back by itself", waits(0), func(s *Site) { s.Record.Rollout, s.Record.Failed = Rollout{}, "DNS: 0 of 5 pods are available" }},
		{"it is back", aSite(5), func(s *Site) { s.Record.Failed = "DNS: 0 of 5 pods are available" }},
		{"it is back, and its pods do not run", aSite(5), func(s *Site) {
			s.Record.Failed, s.Parts[0].Pending = "DNS: 0 of 5 pods are available", state.Known("DNS: 4 of 5 pods are available")
		}},
		{"a person goes back after that", aSite(5), func(s *Site) { s.Wish.Release, s.Record.Failed = "R1", "DNS: 0 of 5 pods are available" }},
		{"the operator did not start and was set back, and a gate is closed", aSite(5), func(s *Site) {
			s.Parts[0].Release, s.Parts[1] = state.Known("R2"), Part{Name: "operator", Undone: "the operator did not start within 3m0s; the former one is back"}
			s.Closed = []gate.Gate{{ID: "incidents", Verdict: gate.Wait, Why: "open incidents"}}
		}},
		{"the pods run", proved(waits(time.Minute)), func(s *Site) { s.Parts[0].Pending, s.Parts[1] = state.Known(""), part("operator", "R1") }},
		{"the pods of all parts run", proved(aSite(5)), func(s *Site) { s.Record.Settled = false }},
		{"the pods of all parts run for 59 s", proved(aSite(5)), func(s *Site) {
			s.Record.Settled, s.Record.Rollout = false, Rollout{Runs: noon.Add(-59 * time.Second), Seen: noon.Add(-10 * time.Second)}
		}},
		{"the pods of all parts run for 60 s", proved(aSite(5)), func(s *Site) {
			s.Record.Settled, s.Record.Rollout = false, Rollout{Runs: noon.Add(-60 * time.Second), Seen: noon.Add(-10 * time.Second)}
		}},
		{"the pods of all parts run, and nobody looked for six minutes", proved(aSite(5)), func(s *Site) {
			s.Record.Settled, s.Record.Rollout = false, Rollout{Runs: noon.Add(-7 * time.Minute), Seen: noon.Add(-6 * time.Minute)}
		}},
		{"pods of a part stop while they are watched", proved(waits(7 * time.Minute)), func(s *Site) { s.Record.Settled, s.Record.Rollout.Runs = false, noon.Add(-30*time.Second) }},
		{"pods stop in the soak", proved(waits(0)), func(s *Site) {
			s.Record.Rollout, s.Record.Settled, s.Record.Healthy, s.Record.Seen = Rollout{}, true, 20*time.Minute, noon.Add(-time.Minute)
		}},
		{"pods stop in the soak for long", proved(waits(8 * time.Minute)), func(s *Site) { s.PartsReturn, s.Record.Settled = true, true }},
		{"the soak begins", proved(aSite(5)), nil},
		{"the soak counts", proved(aSite(5)), func(s *Site) { s.Record.Healthy, s.Record.Seen = 20*time.Minute, noon.Add(-5*time.Minute) }},
		{"nobody looked for six minutes", proved(aSite(5)), func(s *Site) { s.Record.Healthy, s.Record.Seen = 20*time.Minute, noon.Add(-6*time.Minute) }},
		{"the clock went back", proved(aSite(5)), func(s *Site) { s.Record.Healthy, s.Record.Seen = 20*time.Minute, noon.Add(time.Minute) }},
		{"a host is not well in the soak", proved(aSite(5)), func(s *Site) {
			s.Record.Healthy, s.Record.Seen, s.Hosts[1].Well = 20*time.Minute, noon.Add(-time.Minute), state.Known(false)
		}},
		{"the soak ends", proved(aSite(5)), func(s *Site) { s.Record.Healthy, s.Record.Seen = 59*time.Minute, noon.Add(-time.Minute) }},
		{"the soak ends, and a worker is away", proved(aSite(5)), func(s *Site) { s.Record.Healthy, s.Hosts[4].Present = soakTime, state.Fact[bool]{} }},
		{"a person commits at once", proved(aSite(5)), func(s *Site) { s.Wish.Commit = true }},
		{"the soak ends, and a backup is missing", proved(aSite(5)), func(s *Site) {
			s.Record.Healthy, s.Record.Seen, s.Last, s.Ask = 59*time.Minute, noon.Add(-time.Minute), noBackup(gate.BackupCommitGate), BackupWish{"cp-1", "T before-commit"}
		}},
		{"the soak ended, and a backup was asked for", proved(aSite(5)), func(s *Site) {
			s.Record.Healthy, s.Record.Seen, s.Last, s.Record.Backup = soakTime, noon.Add(-time.Minute), noBackup(gate.BackupCommitGate), BackupWish{"cp-1", "T before-commit"}
		}},
		{"a person commits at once, and a backup is missing", proved(aSite(5)), func(s *Site) {
			s.Wish.Commit, s.Last, s.Ask = true, noBackup(gate.BackupCommitGate), BackupWish{"cp-1", "T before-commit"}
		}},
		{"the soak goes on without a backup for its end", proved(aSite(5)), func(s *Site) {
			s.Record.Healthy, s.Record.Seen, s.Last, s.Ask = 20*time.Minute, noon.Add(-time.Minute), noBackup(gate.BackupCommitGate), BackupWish{"cp-1", "T before-commit"}
		}},
		{"only a person commits", proved(aSite(5)), func(s *Site) { s.SoakOff, s.Record.Healthy = true, soakTime }},
		{"the way back is closed", proved(aSite(5)), func(s *Site) { s.Record.NoWayBack = true }},
		{"the way back is closed, and a host is away", proved(aSite(5)), func(s *Site) { s.Record.NoWayBack, s.Hosts[0].Present = true, state.Known(false) }},
		{"all are raised", proved(aSite(5)), func(s *Site) {
			s.Record.NoWayBack = true
			for i := range s.Hosts {
				s.Hosts[i].Raised = state.Known(true)
			}
		}},
		{"the servers of one host have risen", proved(aSite(5)), func(s *Site) { s.Record.NoWayBack, s.Hosts[0].Servers = true, state.Known(true) }},
		{"an API server restarts", proved(aSite(5)), func(s *Site) {
			s.Record.NoWayBack, s.Hosts[0].Servers, s.Hosts[1].Servers = true, state.Known(false), state.Fact[bool]{}
		}},
		{"the servers of all hosts have risen", proved(aSite(5)), func(s *Site) {
			s.Record.NoWayBack, s.Hosts[0].Servers, s.Hosts[1].Servers, s.Hosts[0].Raised = true, state.Known(true), state.Known(true), state.Known(true)
		}},
		{"kube-proxy waits for the level", withProxy(true, false), nil},
		{"kube-proxy does not wait where no level rises", withProxy(false, false), nil},
		{"kube-proxy follows the level", withProxy(true, true), nil},
		{"kube-proxy does not run after the level rose", withProxy(true, true), func(s *Site) {
			s.Parts[0] = Part{Name: KubeProxy, Release: state.Known("R2"), Pending: state.Known("kube-proxy: 4 of 5 pods are available")}
			s.Record.Rollout = Rollout{Part: KubeProxy, Since: noon.Add(-8 * time.Minute), Seen: noon}
		}},
		{"a person goes back too late", proved(aSite(5)), func(s *Site) { s.Record.NoWayBack, s.Wish.Release = true, "R1" }},
		{"a person wants a third release", aSite(1), func(s *Site) { s.Wish.Release = "R3" }},
		{"a person goes back", proved(aSite(5)), func(s *Site) { s.Wish.Release = "R1" }},
		{"a person goes back while a host is at work", aSite(0), func(s *Site) {
			s.Wish.Release, s.Record.Turns, s.Hosts[0].Journal.Step = "R1", []string{"cp-2"}, parachute.Proving
		}},
		{"the operator goes back first", proved(aSite(5)), func(s *Site) { s.Wish.Release, s.Record.Returning = "R1", true }},
		{"pods of the old release do not run yet", aSite(5), func(s *Site) { s.Wish.Release, s.Record.Returning, s.Parts[0].Pending = "R1", true, crashes }},
		{"pods of the old release do not run in time", aSite(5), func(s *Site) {
			s.Wish.Release, s.Record.Returning, s.Parts[0].Pending, s.Record.Rollout = "R1", true, crashes, Rollout{Part: "CoreDNS", Since: noon.Add(-8 * time.Minute)}
		}},
		{"then the last host", aSite(5), func(s *Site) { s.Wish.Release, s.Record.Returning = "R1", true }},
		{"then the last control plane", aSite(2), func(s *Site) { s.Wish.Release, s.Record.Returning = "R1", true }},
		{"a person goes back, and a worker is not well", unwell(nil, "w-1"), nil},
		{"a person goes back, and a control plane is not well, whose etcd votes", unwell(nil, "cp-1"), nil},
		{"a person goes back, and a control plane is not well, whose etcd does not vote", unwell(func(s *Site) { s.Hosts[1].Votes = state.Fact[bool]{} }, "cp-1", "w-1"), nil},
		{"a person goes back, and no control plane is well: whose vote nobody needs goes first", unwell(func(s *Site) { s.Hosts[1].Votes = state.Known(false) }, "cp-1", "cp-2"), nil},
		{"a person goes back, and who is not well is silent", unwell(func(s *Site) { s.Hosts[1].Running = state.Fact[string]{} }, "cp-1"), nil},
		{"a person goes back, and one that is silent has the only other vote", unwell(func(s *Site) { s.Hosts[0].Running, s.Hosts[0].Votes = state.Fact[string]{}, state.Fact[bool]{} }, "cp-1", "cp-2"), nil},
		{"a person goes back, a host is not well, and parts are of the new release", unwell(func(s *Site) { s.Parts[1] = part("operator", "R2") }, "cp-1"), nil},
		{"a person goes back, and nobody is well who could bring the parts", unwell(func(s *Site) { s.Parts[1], s.Hosts[0].Old = part("operator", "R2"), state.Known(false) }, "cp-1"), nil},
		{"a person goes back, and who is not well has its turn beside another one that is not", unwell(func(s *Site) { s.Record.Turns = []string{"cp-1"} }, "cp-1", "w-1"), nil},
		{"a person goes back, and who is not well holds", unwell(func(s *Site) {
			s.Record.Turns, s.Hosts[1].Held = []string{"cp-1"}, "would return, and does not: the old release does not lie on this host whole"
		}, "cp-1"), nil},
		{"a person goes back, a control plane is not well, and the other one holds in its proof", unwell(func(s *Site) { atProof(&s.Hosts[0], "waits") }, "cp-1"), nil},
		{"a person goes back, a control plane is not well, and the other one is in its proof", unwell(func(s *Site) { atProof(&s.Hosts[0], "") }, "cp-1"), nil},
		{"a person goes back, a control plane is not well, and the other one is silent in its proof", unwell(func(s *Site) { atProof(&s.Hosts[0], "waits"); s.Hosts[0].Present = state.Known(false) }, "cp-1"), nil},
		{"a person goes back, a control plane is not well, and a worker is silent in its step", unwell(func(s *Site) {
			atProof(&s.Hosts[2], "")
			s.Hosts[2].Present = state.Known(false)
		}, "cp-1"), nil},
		{"a person goes back, a worker is not well, and another one holds in its step", unwell(func(s *Site) { atProof(&s.Hosts[3], "waits"); s.Hosts[3].Journal.Step = parachute.Leave }, "w-1"), nil},
		{"a person goes back, a part does not start, and a control plane is not well", unwell(func(s *Site) { s.Parts[1] = part("operator", "R2"); s.Parts[1].Stuck = "it did not start" }, "cp-1"), nil},
		{"a person goes back, and one that is well has its turn while another one is not", unwell(func(s *Site) { s.Record.Turns = []string{"w-3"} }, "cp-1"), nil},
		{"a person goes back, and one that has its turn has fallen silent while another one is not well", unwell(func(s *Site) {
			s.Record.Turns, s.Hosts[4].Running = []string{"w-3"}, state.Fact[string]{}
		}, "cp-1", "w-3"), nil},
		{"a host is not well, and nobody goes back", unwell(func(s *Site) { s.Record.Returning, s.Wish.Release = false, "R2" }, "cp-1"), nil},
		{"one that was installed with the new release is not well", unwell(func(s *Site) { s.Hosts[1].Journal = parachute.Journal{} }, "cp-1"), nil},
		{"a person goes on after all", aSite(2), func(s *Site) { s.Record.Returning = true }},
		{"a plan changes the control planes, and nobody has begun its turn", aSite(1), func(s *Site) { s.Record.Turns, s.Plan = []string{"cp-1"}, "a plan replaces cp-2" }},
		{"a plan changes the control planes, and a host is at work", aSite(1), func(s *Site) {
			s.Record.Turns, s.Plan, s.Hosts[1].Journal.Step = []string{"cp-1"}, "a plan replaces cp-2", parachute.Proving
		}},
		{"a plan changes the control planes, and the site goes back", aSite(1), func(s *Site) {
			s.Record.Turns, s.Record.Returning, s.Wish.Release, s.Plan = []string{"cp-2"}, true, "R1", "a plan replaces cp-1"
		}},
		{"a plan changes the control planes in the soak", proved(aSite(5)), func(s *Site) { s.Plan, s.Record.Seen = "a plan replaces cp-2", noon }},
		{"a plan changes the control planes in the soak, and a person commits", proved(aSite(5)), func(s *Site) { s.Plan, s.Wish.Commit = "a plan replaces cp-2", true }},
		{"one that was installed with the new release is to go back, and lacks the old one", aSite(1), func(s *Site) {
			s.Record.Returning, s.Wish.Release, s.Hosts[0].Journal, s.Hosts[0].Old = true, "R1", parachute.Journal{}, state.Fact[bool]{}
		}},
		{"one that was installed with the new release is to go back", aSite(1), func(s *Site) {
			s.Record.Returning, s.Wish.Release, s.Hosts[0].Journal, s.Hosts[0].Old = true, "R1", parachute.Journal{}, state.Known(true)
		}},
		{"all are back", aSite(0), func(s *Site) { s.Wish.Release, s.Record.Returning = "R1", true }},
	} {
		s := c.site
		if c.change != nil {
			c.change(&s)
		}
		before := fmt.Sprintf("%+v", s)
		step := Next(s)
		if fmt.Sprintf("%+v", s) != before {
			t.Errorf("%s: what it was given changed", c.what)
		}
		for i, r := range rules {
			if !reflect.DeepEqual(decide(slices.Delete(slices.Clone(rules), i, i+1), s), step) {
				needed[r.name] = true
			}
		}
		fmt.Fprintf(&out, "%s\n  %s: %s %s%s%s: %s\n", c.what, step.Phase, step.Do, strings.Join(step.Hosts, ","), step.Part, step.Release, step.Why)
		if r := step.Record; step.Do == Write || !r.Seen.Equal(s.Record.Seen) {
			fmt.Fprintf(&out, "  writes: turns %v, started %v, returning %v, no way back %v, healthy %s, seen %v\n", r.Turns, r.Started, r.Returning, r.NoWayBack, r.Healthy, !r.Seen.IsZero())
		}
		if step.Record.Backup != s.Record.Backup {
			fmt.Fprintf(&out, "  asks %s for a backup: %s\n", step.Record.Backup.Host, step.Record.Backup.Text)
		}
		if r := step.Record; r.Rollout != s.Record.Rollout || r.Failed != s.Record.Failed || r.Settled != s.Record.Settled {
			fmt.Fprintf(&out, "  awaits %q for %s, runs %v, settled %v, failed %q\n", r.Rollout.Part, awaited(r), !r.Rollout.Runs.IsZero(), r.Settled, r.Failed)
		}
		if step.Refused != "" {
			fmt.Fprintf(&out, "  refused: %s\n", step.Refused)
		}
		for _, line := range Describe(s, func(digest string) string { return digest }) {
			if strings.HasPrefix(c.what, "the first one") || strings.HasPrefix(c.what, "the way back") {
				fmt.Fprintf(&out, "    %s\n", line)
			}
		}
	}
	for _, r := range rules {
		if !needed[r.name] {
			t.Errorf("without the rule %q nothing changes", r.name)
		}
	}
	golden.Check(t, "upgrade.txt", []byte(out.String()))
}

// TestWhoGoesFirst: whoever neither leads etcd nor holds a VIP, and the leader last.
func TestWhoGoesFirst(t *testing.T) {
	for want, hosts := range map[string][]Host{
		"cp-2 cp-1":          {{Name: "cp-1", Leader: true, VIP: true}, {Name: "cp-2"}},
		"cp-1 cp-2":          {{Name: "cp-2", Leader: true}, {Name: "cp-1", VIP: true}},
		"cp-3 cp-2 cp-1 w-1": {{Name: "w-1", Worker: true}, {Name: "cp-1", Leader: true}, {Name: "cp-2", VIP: true}, {Name: "cp-3"}},
	} {
		if got := strings.Join(names(Order(hosts)), " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestALevelRisesWithAMinorReleaseAndKubeProxyWaitsForIt also of releases that nobody has
// told of.
func TestALevelRisesWithAMinorReleaseAndKubeProxyWaitsForIt(t *testing.T) {
	release := func(text string) gate.Release {
		v, err := gate.ParseVersion(text)
		if err != nil {
			return gate.Release{}
		}
		return gate.Release{Digest: "sha256:" + text, Kubernetes: v}
	}
	for _, c := range []struct {
		from, to, level string
		raises          bool
	}{
		{"1.35.4", "1.36.3", "1.35", true},
		{"1.36.2", "1.36.3", "", false},
		{"1.36.3", "1.36.3", "", false},
		{"1.36.3", "1.35.4", "", false},
		{"1.36.3", "2.0.0", "1.36", true},
		{"2.0.0", "1.36.3", "", false},
		{"", "1.36.3", "0.0", true},
		{"1.36.3", "", "", true},
	} {
		from, to := release(c.from), release(c.to)
		if got := Level(from.Kubernetes, to.Kubernetes); got != c.level {
			t.Errorf("%s to %s: the level stays at %q, want %q", c.from, c.to, got, c.level)
		}
		raises := Raises(from, to)
		if raises != c.raises {
			t.Errorf("%s to %s raises the level: %v", c.from, c.to, raises)
		}
		if Follows(KubeProxy, raises, false) == c.raises || !Follows(KubeProxy, raises, true) || !Follows("coredns", raises, false) {
			t.Errorf("%s to %s: who follows", c.from, c.to)
		}
	}
}

// TestTheGatesOfEachStage: before the first host those of the beginning are asked, then
// fewer, and other ones before the commit.
func TestTheGatesOfEachStage(t *testing.T) {
	for arrived, want := range map[int]gate.Stage{0: gate.Begin, 1: gate.Between, 5: gate.Bring} {
		if got := Stage(aSite(arrived)); got != want {
			t.Errorf("%d have arrived: %d", arrived, got)
		}
	}
	if got := Stage(proved(aSite(5))); got != gate.Commit {
		t.Errorf("the soak: %d", got)
	}
}
