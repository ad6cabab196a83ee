package handover

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/state"
)

// pairReport is what the etcd keeper of cp-1 says of a pair that is whole.
func pairReport() state.EtcdReport {
	r := state.EtcdReport{Wish: state.EtcdStarted, Verdict: state.EtcdVerdict{Reason: "all is well"}}
	s := &r.Snapshot
	s.Host, s.Peer = "cp-1", "cp-2"
	s.Record = state.Known(state.EtcdRecord{State: state.EtcdPair})
	s.Statement.Known = true
	s.Statement.Value.Record.State = state.EtcdPair
	s.Local.Running, s.Local.Leader = state.Known(true), state.Known(state.MemberID(7))
	s.Local.Members = state.Known([]state.EtcdMember{{ID: 7}, {ID: 8}})
	return r
}

func TestWhatKeepsAHostsEtcdWithKubelet(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*state.EtcdReport)
		want   string
	}{
		{"nothing", func(*state.EtcdReport) {}, ""},
		{"Pacemaker has not asked", func(r *state.EtcdReport) { r.Wish = state.EtcdStopped }, "Pacemaker has not asked for etcd on this host yet"},
		{"no record", func(r *state.EtcdReport) { r.Snapshot.Record.Known = false }, "the record of this host says nothing readable: all is well"},
		{"another record", func(r *state.EtcdReport) { r.Snapshot.Record.Value.State = state.EtcdSole }, "the record of this host says sole: all is well"},
		{"no statement", func(r *state.EtcdReport) { r.Snapshot.Statement.Known = false }, "no statement was received from cp-2: all is well"},
		{"a problem of the keeper", func(r *state.EtcdReport) { r.Snapshot.Statement.Known, r.Problem = false, "no route" }, "no statement was received from cp-2: all is well (no route)"},
		{"another record of the peer", func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Record.State = state.EtcdLearner }, "the record of cp-2 says learner"},
		{"etcd is stopped", func(r *state.EtcdReport) { r.Snapshot.Local.Running = state.Known(false) }, "etcd on this host is not running: all is well"},
		{"nobody knows whether etcd runs", func(r *state.EtcdReport) { r.Snapshot.Local.Running.Known = false }, "etcd on this host is not running: all is well"},
		{"no leader", func(r *state.EtcdReport) { r.Snapshot.Local.Leader.Value = 0 }, "etcd on this host knows no leader: all is well"},
		{"nobody knows the leader", func(r *state.EtcdReport) { r.Snapshot.Local.Leader.Known = false }, "etcd on this host knows no leader: all is well"},
		{"nobody knows the members", func(r *state.EtcdReport) { r.Snapshot.Local.Members.Known = false }, "etcd on this host does not report its members: all is well"},
		{"one voter", func(r *state.EtcdReport) { r.Snapshot.Local.Members.Value = r.Snapshot.Local.Members.Value[:1] }, "etcd has 1 of two voters: all is well"},
		{"a learner is no voter", func(r *state.EtcdReport) { r.Snapshot.Local.Members.Value[1].Learner = true }, "etcd has 1 of two voters: all is well"},
		{"a learner beside two voters", func(r *state.EtcdReport) {
			r.Snapshot.Local.Members.Value = append(r.Snapshot.Local.Members.Value, state.EtcdMember{ID: 9, Learner: true})
		}, ""},
	} {
		r := pairReport()
		c.change(&r)
		if got := Ready(r); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// Each of these facts alone lets kubelet keep its etcd: its data may be the only whole
// ones.
func TestOnlyAPeerThatLeadsAloneSupersedesThisHostsEtcd(t *testing.T) {
	superseded := func() state.EtcdReport {
		r := pairReport()
		s := &r.Snapshot
		s.Record.Value.State = state.EtcdLearner
		s.Pacemaker.Contact, s.Pacemaker.Ring = state.Known(true), 4
		s.Statement.Value.Ring, s.Statement.Value.Record.State = 4, state.EtcdSole
		s.Statement.Value.Running, s.Statement.Value.Leads = state.Known(true), true
		s.Local.Running = state.Known(false)
		return r
	}
	if !Superseded(superseded()) {
		t.Fatal("the cluster goes on without it")
	}
	for name, change := range map[string]func(*state.EtcdReport){
		"Pacemaker has not asked":              func(r *state.EtcdReport) { r.Wish = state.EtcdStopped },
		"its record is not known":              func(r *state.EtcdReport) { r.Snapshot.Record.Known = false },
		"it says that it goes on alone":        func(r *state.EtcdReport) { r.Snapshot.Record.Value.State = state.EtcdSole },
		"it says that it takes over":           func(r *state.EtcdReport) { r.Snapshot.Record.Value.State = state.EtcdTakingOver },
		"the hosts do not see each other":      func(r *state.EtcdReport) { r.Snapshot.Pacemaker.Contact = state.Known(false) },
		"nobody knows whether they do":         func(r *state.EtcdReport) { r.Snapshot.Pacemaker.Contact.Known = false },
		"the membership has no number":         func(r *state.EtcdReport) { r.Snapshot.Pacemaker.Ring, r.Snapshot.Statement.Value.Ring = 0, 0 },
		"the statement is not known":           func(r *state.EtcdReport) { r.Snapshot.Statement.Known = false },
		"the statement is of before":           func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Ring = 3 },
		"the peer is one of a pair":            func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Record.State = state.EtcdPair },
		"the peer's etcd is stopped":           func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Running = state.Known(false) },
		"the peer does not lead":               func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Leads = false },
		"this host is one of two voters still": func(r *state.EtcdReport) { r.Snapshot.Local.Running = state.Known(true) },
	} {
		r := superseded()
		if change(&r); Superseded(r) {
			t.Errorf("%s, and its data are no longer needed", name)
		}
	}
}

func TestBeforeFencingIsThereEachMemberHasToBeWhole(t *testing.T) {
	ill := func(s *Snapshot) { s.Nodes[1].Etcd = MemberUnhealthy }
	waits := func(s Snapshot) string { return condition(t, Decide(s), SetupProgressing).Message }
	for _, step := range []twonode.Step{twonode.Auth, twonode.Fencing, twonode.Setup} {
		if got := waits(change(upTo(step), ill)); !strings.HasSuffix(got, "waiting: etcd on cp-2 is not a healthy voter") {
			t.Errorf("%s: %q", step, got)
		}
	}
	tried := change(with(upTo(twonode.Setup), "setup cp-1 failed"), ill)
	if got := waits(tried); strings.Contains(got, "waiting") {
		t.Errorf("from then on a lost host's member is removed, and nobody waits for it: %q", got)
	}
	unknown := func(s *Snapshot) { s.Nodes[1].Etcd = MemberUnknown }
	if got := waits(change(upTo(twonode.Setup), unknown)); !strings.HasSuffix(got, "waiting: it is unknown whether etcd on cp-2 is healthy") {
		t.Errorf("%q", got)
	}
}

// A host may be given a newer manifest at once: only the other one's restart matters.
func TestAHostWaitsForTheOtherOnesRestartAlone(t *testing.T) {
	for _, c := range []struct{ written, again, want string }{
		{"cp-2", "cp-1", "waiting: etcd on cp-2 is restarting with its new manifest"},
		{"cp-1", "cp-1", ""},
	} {
		s := allDone()
		s.Digests.Manifest = map[string]string{"cp-1": "pod 1", "cp-2": "pod 2"}
		s.Digests.Manifest[c.again] = "a newer pod"
		for i := range s.Jobs {
			if s.Jobs[i].Name == work(twonode.Manifest, c.written, "").Name {
				s.Jobs[i].Ended = now.Add(-time.Second)
			}
		}
		if got := condition(t, Decide(s), SetupProgressing).Message; strings.Contains(got, "waiting") != (c.want != "") || !strings.HasSuffix(got, c.want) {
			t.Errorf("%s was written, and %s is to be: %q", c.written, c.again, got)
		}
	}
}

// A host repeats once what a failed step rests on, after the pause.
func TestWhatAFailedStepRestsOnIsDoneAgainAfterThePause(t *testing.T) {
	for ago, again := range map[time.Duration]bool{firstPause - time.Second: false, firstPause: true, firstPause + time.Second: true} {
		d := Decide(failed(upTo(twonode.Setup), twonode.Setup, "cp-1", 1, ago, "no answer"))
		if got := slices.Contains(d.Delete, "two-node-auth-cp-1"); got != again {
			t.Errorf("after %s: %s", ago, told(d))
		}
	}
}

func TestWhatTheConditionsAreCalledAndWhatDegrades(t *testing.T) {
	var kinds []string
	for _, c := range Decide(two()).Conditions {
		kinds = append(kinds, c.Type)
	}
	own := ConditionTypes()
	slices.Sort(kinds)
	if slices.Sort(own); !slices.Equal(kinds, own) || len(own) != 5 {
		t.Errorf("%v are said, and %v are owned", kinds, own)
	}
	for _, c := range []struct {
		s               Snapshot
		reason, message string
		degraded        bool
	}{
		{allDone(), AsExpected, "no step fails", false},
		{change(allDone(), func(s *Snapshot) { s.Moved = []string{"cp-1 moved", "cp-2 moved"} }), "AddressChanged", "cp-1 moved\ncp-2 moved", true},
		{change(two(), func(s *Snapshot) { s.Missing = []string{"a", "b"} }), "Missing", "a; b", true},
		{change(two(), func(s *Snapshot) { s.Nodes, s.Missing = s.Nodes[:1], []string{"a"} }), AsExpected, "no step fails", false},
		{change(two(), func(s *Snapshot) { s.Nodes = append(s.Nodes, Node{Name: "cp-3"}) }), "ControlPlanes", "there are 3 control planes, but a two-node cluster has exactly 2", true},
		{change(two(), func(s *Snapshot) { s.Nodes, s.Third = append(s.Nodes, Node{Name: "cp-3"}), "cp-3" }), AsExpected, "no step fails", false},
		{change(two(), func(s *Snapshot) { s.Nodes, s.Third = append(s.Nodes, Node{Name: "cp-9"}), "cp-3" }), "ControlPlanes", "there are 3 control planes, but a two-node cluster has exactly 2", true},
		{failed(upTo(twonode.HandOver), twonode.HandOver, "cp-1", 2, time.Second, "no quorum"), "HandOverFailed", "hand-over on cp-1 failed (attempt 2): no quorum", true},
	} {
		if got := condition(t, Decide(c.s), SetupDegraded); got.Status != c.degraded || got.Reason != c.reason || got.Message != c.message {
			t.Errorf("want %q, got %+v", c.message, got)
		}
	}
}

// TestTheSetUpOfTwoRestsWhileAThirdControlPlaneComes: etcd goes to kubelet then, which is no work that
// is outstanding.
func TestTheSetUpOfTwoRestsWhileAThirdControlPlaneComes(t *testing.T) {
	s := change(upTo(twonode.HandOver), func(s *Snapshot) { s.Nodes, s.Third = append(s.Nodes, Node{Name: "cp-3"}), "cp-3" })
	d := Decide(s)
	if len(d.Create)+len(d.Delete) > 0 || d.Begin {
		t.Errorf("%+v", d)
	}
	if c := condition(t, d, SetupProgressing); !c.Status || c.Message != "waiting: a plan is about cp-3 as the third control plane: the set-up of two is left as it is" {
		t.Errorf("%+v", c)
	}
}
