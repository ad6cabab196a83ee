package fencing

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// pair is the report of a host in full health.
func pair() state.EtcdReport {
	var r state.EtcdReport
	r.Snapshot.Record = state.Known(state.EtcdRecord{State: state.EtcdPair})
	r.Snapshot.Local.Running = state.Known(true)
	r.Snapshot.Local.Leader = state.Known(state.MemberID(1))
	r.Snapshot.Local.Members = state.Known([]state.EtcdMember{{ID: 1}, {ID: 2}})
	r.Snapshot.Pacemaker.Contact = state.Known(true)
	r.Snapshot.Statement = state.Known(state.EtcdStatement{Record: state.EtcdRecord{State: state.EtcdPair}, Running: state.Known(true)})
	return r
}

func healthOf(a, b *state.EtcdReport) Health {
	h := Health{
		Hosts: []string{"cp-1", "cp-2"}, Reports: map[string]state.Fact[state.EtcdReport]{},
		Online: state.Known(map[string]bool{"cp-1": true, "cp-2": true}),
	}
	if a != nil {
		h.Reports["cp-1"] = state.Known(*a)
	}
	if b != nil {
		h.Reports["cp-2"] = state.Known(*b)
	}
	return h
}

func TestFullHealthIsThatEitherHostMayBeLost(t *testing.T) {
	a, b := pair(), pair()
	if got := healthOf(&a, &b).Problems(); len(got) != 0 {
		t.Errorf("a healthy pair: %v", got)
	}
	if got := healthOf(&a, nil).Problems(); len(got) != 0 {
		t.Errorf("a healthy pair, one host asked: %v", got)
	}
}

func TestWhatIsNotFullHealth(t *testing.T) {
	cases := []struct {
		says   string
		change func(*state.EtcdReport)
	}{
		{"its record is sole", func(r *state.EtcdReport) { r.Snapshot.Record.Value.State = state.EtcdSole }},
		{"its record is unknown", func(r *state.EtcdReport) { r.Snapshot.Record.Known = false }},
		{"etcd is not running", func(r *state.EtcdReport) { r.Snapshot.Local.Running = state.Known(false) }},
		{"etcd is not running", func(r *state.EtcdReport) { r.Snapshot.Local.Running = state.Fact[bool]{} }},
		{"knows no leader", func(r *state.EtcdReport) { r.Snapshot.Local.Leader = state.Known(state.MemberID(0)) }},
		{"not 2", func(r *state.EtcdReport) { r.Snapshot.Local.Members.Value[1].Learner = true }},
		{"1 voters", func(r *state.EtcdReport) { r.Snapshot.Local.Members.Value = r.Snapshot.Local.Members.Value[:1] }},
		{"does not report its members", func(r *state.EtcdReport) { r.Snapshot.Local.Members = state.Fact[[]state.EtcdMember]{} }},
		{"no contact", func(r *state.EtcdReport) { r.Snapshot.Pacemaker.Contact = state.Known(false) }},
		{"disk is slow", func(r *state.EtcdReport) { r.Problem = "disk is slow" }},
	}
	for _, c := range cases {
		a, b := pair(), pair()
		c.change(&a)
		for name, h := range map[string]Health{"first": healthOf(&a, &b), "second": healthOf(&b, &a)} {
			if got := strings.Join(h.Problems(), "; "); !strings.Contains(got, c.says) {
				t.Errorf("%s: got %q, want %q", name, got, c.says)
			}
		}
	}
}

func TestAHostThatCannotBeAskedIsJudgedByWhatItsPeerHeard(t *testing.T) {
	for says, change := range map[string]func(*state.EtcdReport){
		"no statement from it was received": func(r *state.EtcdReport) { r.Snapshot.Statement.Known = false },
		"record is learner":                 func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Record.State = state.EtcdLearner },
		"is not running":                    func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Running = state.Known(false) },
	} {
		a := pair()
		change(&a)
		if got := strings.Join(healthOf(&a, nil).Problems(), "; "); !strings.HasPrefix(got, "cp-2: ") || !strings.Contains(got, says) {
			t.Errorf("got %q, want %q", got, says)
		}
	}
	if got := healthOf(nil, nil).Problems(); len(got) == 0 {
		t.Error("nobody answers, and all is well")
	}
}

func TestPacemakerHasToSeeBoth(t *testing.T) {
	a, b := pair(), pair()
	h := healthOf(&a, &b)
	h.Online.Value["cp-2"] = false
	if got := strings.Join(h.Problems(), "; "); got != "cp-2 is not online in Pacemaker" {
		t.Errorf("got %q", got)
	}
	h.Online = state.Fact[map[string]bool]{}
	if got := strings.Join(h.Problems(), "; "); got != "Pacemaker does not answer" {
		t.Errorf("got %q", got)
	}
}

func TestASurvivorGoesOnAloneWhenItsEtcdLeads(t *testing.T) {
	r := pair()
	if GoesOnAlone(r) {
		t.Error("a pair goes on alone")
	}
	r.Snapshot.Record.Value.State = state.EtcdSole
	if !GoesOnAlone(r) {
		t.Error("a sole voter does not go on alone")
	}
	r.Snapshot.Local.Leader.Known = false
	if GoesOnAlone(r) {
		t.Error("without a leader it goes on")
	}
}
