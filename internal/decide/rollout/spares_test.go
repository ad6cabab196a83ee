package rollout_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// pacemaker returns the status of a recorded cluster, as the host cp-1 with etcd
// in a state reports it.
func pacemaker(t *testing.T, name string, record state.EtcdState) etcdv1.PacemakerClusterStatus {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../../test/corpus/pacemaker/cases", name, "cp-1", "crm_mon.xml"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := crmmon.Parse(data, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	etcd := state.EtcdSnapshot{Host: "cp-1", Peer: "cp-2", Record: state.Known(state.EtcdRecord{State: record})}
	etcd.Local.Running, etcd.Local.Leader = state.Known(true), state.Known(state.MemberID(1))
	etcd.Local.Members = state.Known([]state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}})
	etcd.Pacemaker.Contact = state.Known(true)
	if record == state.EtcdSole {
		etcd.Local.Members.Value = etcd.Local.Members.Value[:1]
	}
	s := pacemakerstatus.Status(pacemakerstatus.Input{
		Host: "cp-1", Cluster: state.Known(c), Etcd: state.Known(state.EtcdReport{Snapshot: etcd}),
		Corosync: state.Known(corosync.Conf{TwoNode: true, Nodes: []corosync.Node{
			{Name: "cp-1", Addresses: []string{"10.98.0.11"}}, {Name: "cp-2", Addresses: []string{"10.98.0.12"}},
		}}),
	})
	s.LastUpdated = metav1.NewTime(noon)
	return s
}

func TestWhichOfTwoControlPlanesCanBeSpared(t *testing.T) {
	for _, c := range []struct {
		sentence, recorded string
		record             state.EtcdState
		after              time.Duration
		want               [2]string // of cp-1, of cp-2; "yes", or the reason
	}{
		{"both hold everything", "healthy", state.EtcdPair, 0, [2]string{"yes", "yes"}},
		{"the other host was fenced, and this one carries alone", "lost-fenced", state.EtcdSole, 0, [2]string{"cp-2 is absent", "yes"}},
		{"the other host cannot be fenced", "device-cannot-start", state.EtcdPair, 0, [2]string{"yes", "cp-2 cannot be fenced"}},
		{"this host carries alone while the other one copies", "healthy", state.EtcdSole, 0, [2]string{"not both hosts hold every write", "not both hosts hold every write"}},
		{"etcd of one host does not run", "etcd-failed", state.EtcdPair, 0, [2]string{"yes", "etcd on cp-1 is not healthy"}},
		{"fencing is off", "fencing-disabled", state.EtcdPair, 0, [2]string{"fencing is disabled", "fencing is disabled"}},
		{"nobody has reported for a while", "healthy", state.EtcdPair, 2 * time.Minute, [2]string{"no host has reported on Pacemaker for 2m", "no host has reported on Pacemaker for 2m"}},
		{"the report is of tomorrow", "healthy", state.EtcdPair, -time.Hour, [2]string{"no host has reported", "no host has reported"}},
	} {
		got := rollout.PairSpares(pacemaker(t, c.recorded, c.record), noon.Add(c.after))
		for i, host := range []string{"cp-1", "cp-2"} {
			s := got[host]
			if yes := state.Is(s.Carries, true); yes != (c.want[i] == "yes") || !yes && !strings.Contains(s.Why, c.want[i]) {
				t.Errorf("%s: %s: %+v, want %q", c.sentence, host, s, c.want[i])
			}
			if c.after != 0 && s.Carries.Known {
				t.Errorf("%s: %s: it is known", c.sentence, host)
			}
		}
	}
	if got := rollout.PairSpares(etcdv1.PacemakerClusterStatus{}, noon); len(got) > 0 {
		t.Errorf("an empty status says %+v", got)
	}
}

func TestWhichOfThreeControlPlanesCanBeSpared(t *testing.T) {
	yes, no, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	for _, c := range []struct {
		sentence string
		serves   [3]state.Fact[bool]
		want     [3]string // "yes", or a part of the reason; of cp-1, cp-2, cp-3
	}{
		{"all serve", [3]state.Fact[bool]{yes, yes, yes}, [3]string{"yes", "yes", "yes"}},
		{"one does not, and can itself be spared", [3]state.Fact[bool]{yes, no, yes}, [3]string{"serve; not cp-2 (it is not healthy)", "yes", "serve; not cp-2 (it is not healthy)"}},
		{"one does not answer", [3]state.Fact[bool]{unknown, yes, yes}, [3]string{"yes", "known to serve; not cp-1 (it does not answer)", "known to serve; not cp-1 (it does not answer)"}},
		{"two do not", [3]state.Fact[bool]{no, unknown, yes}, [3]string{"known to serve; not cp-2", "serve; not cp-1", "serve; not cp-1 (it is not healthy), cp-2 (it does not answer)"}},
	} {
		serves := map[string]state.Fact[bool]{"cp-1": c.serves[0], "cp-2": c.serves[1], "cp-3": c.serves[2]}
		got := rollout.QuorumSpares(serves)
		for i, host := range []string{"cp-1", "cp-2", "cp-3"} {
			s := got[host]
			if yes := state.Is(s.Carries, true); yes != (c.want[i] == "yes") || !yes && !strings.Contains(s.Why, c.want[i]) {
				t.Errorf("%s: %s: %+v, want %q", c.sentence, host, s, c.want[i])
			}
			if s.Carries.Known == strings.Contains(s.Why, "known to serve") {
				t.Errorf("%s: %s: known %t, %s", c.sentence, host, s.Carries.Known, s.Why)
			}
		}
	}
}

// TestWhichOfTwoControlPlanesCarriesNothing: what a host that sees nobody else knows of
// itself. The cases are those of /proc, of podman and of Corosync, whatever its record says.
func TestWhichOfTwoControlPlanesCarriesNothing(t *testing.T) {
	yes, no, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	for _, c := range []struct {
		sentence       string
		running, inert state.Fact[bool]
		standIn        state.Fact[state.MemberID]
		want           bool
	}{
		{"it has booted and sees nobody", no, yes, state.Known(state.MemberID(0)), true},
		{"Corosync does not start without its address", no, unknown, state.Known(state.MemberID(0)), true},
		{"it has quorum, and may be about to take over", no, no, state.Known(state.MemberID(0)), false},
		{"its etcd runs alone", yes, no, state.Known(state.MemberID(0)), false},
		{"its etcd runs, and a person granted it quorum before", yes, yes, state.Known(state.MemberID(0)), false},
		{"nobody knows whether its etcd runs", unknown, yes, state.Known(state.MemberID(0)), false},
		{"a stand-in votes beside it", no, yes, state.Known(state.MemberID(2)), false},
		{"nobody knows whether a stand-in does", no, yes, state.Fact[state.MemberID]{}, false},
	} {
		for _, record := range []state.EtcdState{state.EtcdPair, state.EtcdSole, state.EtcdTakingOver, state.EtcdDeparting} {
			s := state.EtcdSnapshot{Record: state.Known(state.EtcdRecord{State: record})}
			s.Local.Running, s.Local.StandIn, s.Pacemaker.Inert = c.running, c.standIn, c.inert
			if got := rollout.PairIdle(s); got != c.want {
				t.Errorf("%s, %s: %t", c.sentence, record, got)
			}
		}
	}
}

// TestWhoStopsEtcdInPacemakersPlace: in a shutdown, where Pacemaker leaves it alone, the other
// host can go on, and no plan of ours moves etcd.
func TestWhoStopsEtcdInPacemakersPlace(t *testing.T) {
	both := func() state.EtcdReport {
		r := state.EtcdReport{Wish: state.EtcdStarted}
		s := &r.Snapshot
		s.Record = state.Known(state.EtcdRecord{State: state.EtcdPair})
		s.Local.Running, s.Local.Leader = state.Known(true), state.Known(state.MemberID(2))
		s.Pacemaker.Contact = state.Known(true)
		s.Statement = state.Known(state.EtcdStatement{Record: state.EtcdRecord{State: state.EtcdPair}, Running: state.Known(true)})
		s.Third.Word = state.Known(state.EtcdThirdWord{})
		return r
	}
	for _, c := range []struct {
		sentence, recorded, host string
		change                   func(*state.EtcdReport)
		want                     bool
	}{
		{"in maintenance", "maintenance-mode", "cp-1", nil, true},
		{"its node is in maintenance", "maintenance-node", "cp-1", nil, true},
		{"the other one's is", "maintenance-node", "cp-2", nil, false},
		{"etcd is unmanaged", "etcd-unmanaged", "cp-1", nil, true},
		{"Pacemaker stops it", "healthy", "cp-1", nil, false},
		{"Pacemaker knows no such host", "maintenance-mode", "cp-3", nil, false},
		{"it was stopped before", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Wish = state.EtcdStopped }, false},
		{"nobody has asked for it", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Wish = state.EtcdNotAsked }, false},
		{"its etcd does not run", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Snapshot.Local.Running = state.Known(false) }, false},
		{"nobody leads", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Snapshot.Local.Leader.Value = 0 }, false},
		{"nothing is committed", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Snapshot.Local.Stalled = time.Second }, false},
		{"it carries alone", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Snapshot.Record.Value.State = state.EtcdSole }, false},
		{"a plan has three vote", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Snapshot.Record.Value.State = state.EtcdMajority }, false},
		{"its record is unknown", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Snapshot.Record.Known = false }, false},
		{"a plan brings a third host", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Snapshot.Third.Coming = true }, false},
		{"nobody knows whether one does", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Snapshot.Third.Word.Known = false }, false},
		{"the other host is absent", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Snapshot.Pacemaker.Contact = state.Known(false) }, false},
		{"it says nothing", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Snapshot.Statement.Known = false }, false},
		{"its etcd is down", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Running = state.Known(false) }, false},
		{"it stops too", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Leaving = true }, false},
		{"it commits nothing", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Stalled = time.Second }, false},
		{"its disk is bad", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Sick = "the disk hangs" }, false},
		{"it catches up", "maintenance-mode", "cp-1", func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Record.State = state.EtcdLearner }, false},
	} {
		r := both()
		if c.change != nil {
			c.change(&r)
		}
		if got := rollout.PairHalts(pacemaker(t, c.recorded, state.EtcdPair), c.host, r); got != c.want {
			t.Errorf("%s: %t", c.sentence, got)
		}
	}
}

func TestWhichOfThreeControlPlanesCarriesNothing(t *testing.T) {
	yes, no, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	for _, c := range []struct {
		sentence string
		runs     state.Fact[bool]
		serves   [3]state.Fact[bool]
		want     bool
	}{
		{"its etcd does not run", no, [3]state.Fact[bool]{no, unknown, yes}, true},
		{"it waits for a leader, and sees nobody", yes, [3]state.Fact[bool]{no, unknown, unknown}, true},
		{"it waits for a leader, and so does another one", yes, [3]state.Fact[bool]{no, no, unknown}, false},
		{"it waits for a leader that another one has", yes, [3]state.Fact[bool]{no, yes, unknown}, false},
		{"it serves, and the others do not answer a moment", yes, [3]state.Fact[bool]{yes, unknown, unknown}, false},
		{"it does not answer", unknown, [3]state.Fact[bool]{unknown, unknown, unknown}, false},
	} {
		serves := map[string]state.Fact[bool]{"cp-1": c.serves[0], "cp-2": c.serves[1], "cp-3": c.serves[2]}
		if got := rollout.QuorumIdle("cp-1", c.runs, serves); got != c.want {
			t.Errorf("%s: %t", c.sentence, got)
		}
	}
}
