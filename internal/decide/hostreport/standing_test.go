package hostreport

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/state"
)

// told returns what a report says of a host.
func told(t *testing.T, r Report, name string) standing.Host {
	t.Helper()
	hosts := r.Standing().Hosts
	i := slices.IndexFunc(hosts, func(h standing.Host) bool { return h.Name == name })
	if i < 0 {
		t.Fatalf("nothing is said of %s: %+v", name, hosts)
	}
	return hosts[i]
}

// keeping is the report of cp-1, whose etcd keeper says this.
func keeping(change func(*state.EtcdReport)) Report {
	var e state.EtcdReport
	s := &e.Snapshot
	e.At, s.Host, s.Peer = at, "cp-1", "cp-2"
	s.Record = state.Known(state.EtcdRecord{State: state.EtcdPair, Member: 1})
	s.Local.Running, s.Local.Leader = state.Known(true), state.Known(state.MemberID(2))
	s.Local.Members = state.Known([]state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2", Learner: true}})
	s.Pacemaker.Contact = state.Known(true)
	s.Statement = state.Known(state.EtcdStatement{Record: state.EtcdRecord{State: state.EtcdLearner, Member: 2}, Age: time.Second})
	s.Statement.Value.Running = state.Known(true)
	change(&e)
	return Report{Host: "cp-1", At: at, Keeper: see(e)}
}

// TestWhatAHostKnowsOfItsOwnMember: it is listed, learns or leads only by the list of
// the local etcd, and serves where that has a leader.
func TestWhatAHostKnowsOfItsOwnMember(t *testing.T) {
	yes, no, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	for what, c := range map[string]struct {
		change func(*state.EtcdSnapshot)
		want   standing.Member
	}{
		"a voter":                 {func(*state.EtcdSnapshot) {}, standing.Member{Listed: yes, Running: yes, Healthy: yes}},
		"the leader":              {func(s *state.EtcdSnapshot) { s.Local.Leader.Value = 1 }, standing.Member{Listed: yes, Running: yes, Healthy: yes, Leader: true}},
		"a learner":               {func(s *state.EtcdSnapshot) { s.Local.Members.Value[0].Learner = true }, standing.Member{Listed: yes, Running: yes, Healthy: yes, Learner: true}},
		"without a leader":        {func(s *state.EtcdSnapshot) { s.Local.Leader.Value = 0 }, standing.Member{Listed: yes, Running: yes, Healthy: no}},
		"it is stopped":           {func(s *state.EtcdSnapshot) { s.Local.Running, s.Local.Leader = no, state.Fact[state.MemberID]{} }, standing.Member{Listed: yes, Running: no}},
		"it is not listed":        {func(s *state.EtcdSnapshot) { s.Record.Value.Member = 9 }, standing.Member{Listed: no, Running: yes, Healthy: yes}},
		"it has no id":            {func(s *state.EtcdSnapshot) { s.Record.Value.Member = 0 }, standing.Member{Listed: unknown, Running: yes, Healthy: yes}},
		"nobody knows the list":   {func(s *state.EtcdSnapshot) { s.Local.Members.Known = false }, standing.Member{Listed: unknown, Running: yes, Healthy: yes}},
		"the record is not known": {func(s *state.EtcdSnapshot) { s.Record = state.Fact[state.EtcdRecord]{} }, standing.Member{Listed: unknown, Running: yes, Healthy: yes}},
	} {
		h := told(t, keeping(func(e *state.EtcdReport) { c.change(&e.Snapshot) }), "cp-1")
		if h.Member.Value != c.want || !h.Member.Known || !h.ControlPlane {
			t.Errorf("%s: %+v, want %+v", what, h.Member.Value, c.want)
		}
	}
}

// TestWhatAHostKnowsOfItsPeer: the peer's own statement, while the hosts see each other;
// else only that etcd lists no other one.
func TestWhatAHostKnowsOfItsPeer(t *testing.T) {
	h := told(t, keeping(func(*state.EtcdReport) {}), "cp-2")
	if h.Record.Value.State != state.EtcdLearner || !h.Record.At.Equal(at.Add(-time.Second)) || h.Record.From != "cp-2, in its statement to cp-1" {
		t.Errorf("its record: %+v", h.Record)
	}
	if want := (standing.Member{Listed: state.Known(true), Learner: true, Leader: true, Running: state.Known(true)}); h.Member.Value != want {
		t.Errorf("its member: %+v", h.Member.Value)
	}
	gone := func(s *state.EtcdSnapshot) { s.Pacemaker.Contact = state.Known(false) }
	for what, c := range map[string]struct {
		change func(*state.EtcdSnapshot)
		listed state.Fact[bool]
	}{
		"it is lost, and listed":            {gone, state.Fact[bool]{}},
		"it is lost, and listed no more":    {func(s *state.EtcdSnapshot) { gone(s); s.Local.Members.Value = s.Local.Members.Value[:1] }, state.Known(false)},
		"it is lost, and nobody knows":      {func(s *state.EtcdSnapshot) { gone(s); s.Local.Members = state.Fact[[]state.EtcdMember]{} }, state.Fact[bool]{}},
		"it is unknown whether it is there": {func(s *state.EtcdSnapshot) { s.Pacemaker.Contact = state.Fact[bool]{} }, state.Fact[bool]{}},
		"it says nothing":                   {func(s *state.EtcdSnapshot) { s.Statement.Known = false }, state.Fact[bool]{}},
	} {
		h := told(t, keeping(func(e *state.EtcdReport) { c.change(&e.Snapshot) }), "cp-2")
		if h.Record.Known || h.Member.Value.Listed != c.listed || h.Member.Known != c.listed.Known || !h.ControlPlane {
			t.Errorf("%s: record %+v, member %+v", what, h.Record, h.Member)
		}
	}
	for power, want := range map[string]standing.Power{state.PowerOff: standing.PowerOff, "On": standing.PowerOn, "PoweringOff": "", "": ""} {
		h := told(t, keeping(func(e *state.EtcdReport) { e.Snapshot.Proofs.Power = state.Known(power) }), "cp-2")
		if h.Power.Value != want || h.Power.Known != (want != "") {
			t.Errorf("its BMC says %q: %+v", power, h.Power)
		}
	}
}

// TestTheRecordOnTheDiskStandsInForAKeeperThatDoesNotAnswer, with the remark that it is.
func TestTheRecordOnTheDiskStandsInForAKeeperThatDoesNotAnswer(t *testing.T) {
	record := func(s state.EtcdState) state.Seen[state.EtcdRecord] {
		return see(state.EtcdRecord{State: s, Written: at.Add(-time.Hour)})
	}
	for what, c := range map[string]struct {
		r      Report
		known  bool
		limits []string
	}{
		"it holds a record":     {Report{Record: record(state.EtcdSole), Keeper: state.Seen[state.EtcdReport]{Why: "no answer"}}, true, []string{"no answer", "the etcd keeper does not answer, so the record is the one on the disk: sudo holdfast explain"}},
		"it never had a member": {Report{Record: record(state.EtcdNone)}, false, nil},
		"there is none":         {Report{Record: state.Seen[state.EtcdRecord]{Why: "no such file", Lack: state.LackAbsent}}, false, nil},
		"it cannot be read":     {Report{Record: state.Seen[state.EtcdRecord]{Why: "input/output error"}}, false, []string{"input/output error"}},
	} {
		c.r.Host, c.r.At = "cp-1", at
		h := told(t, c.r, "cp-1")
		if h.Record.Known != c.known || c.known && !h.Record.At.Equal(at.Add(-time.Hour)) || !slices.Equal(c.r.Standing().Sources[0].Limits, c.limits) {
			t.Errorf("%s: %+v, limits %q", what, h.Record, c.r.Standing().Sources[0].Limits)
		}
	}
}

// TestTheLoopsOfAnAgentThatIsGoneSayNothing: it writes its file while it works.
func TestTheLoopsOfAnAgentThatIsGoneSayNothing(t *testing.T) {
	for age, fresh := range map[time.Duration]bool{silent: true, silent + 1: false} {
		r := Report{Host: "cp-1", At: at, Loops: see(state.LoopsStatus{At: at.Add(-age), Loops: []state.Loop{{Name: "x"}}})}
		h, limits := told(t, r, "cp-1"), r.Standing().Sources[0].Limits
		if h.Loops.Known != fresh || (len(limits) == 0) != fresh || !fresh && limits[0] != "its agent has said nothing for 1m30s: systemctl status holdfast-agent" {
			t.Errorf("after %s: %+v, %q", age, h.Loops, limits)
		}
	}
}

// TestTheSpaceOfEtcdIsOfNow: an alarm that an agent left in its file counts for nothing.
func TestTheSpaceOfEtcdIsOfNow(t *testing.T) {
	for age, fresh := range map[time.Duration]bool{etcdspace.Fresh: true, etcdspace.Fresh + 1: false} {
		r := Report{Host: "cp-1", At: at, Space: see(etcdspace.Report{At: at.Add(-age), Summary: etcdspace.Summary{NoSpace: []string{"cp-2"}}})}
		h := told(t, r, "cp-1")
		if h.Space.Known != fresh || fresh && (h.Space.Value.Name != "cp-1" || len(h.Space.Value.NoSpace) != 1) {
			t.Errorf("after %s: %+v", age, h.Space)
		}
	}
}

// TestWhatAHostSeesOfItsNetwork: under its node's name, with who claims and who left a
// VIP told apart.
func TestWhatAHostSeesOfItsNetwork(t *testing.T) {
	api, ingress, other := netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("10.0.0.6"), netip.MustParseAddr("10.0.0.7")
	v := state.NetworkView{Role: state.RoleMaster}
	v.Host.NodeName = "node-1"
	v.Settings = state.NetworkSettings{Domain: "store-17.example", ControlPlanes: 2, ManagedVIPs: true, APIVIPs: []netip.Addr{api}, IngressVIPs: []netip.Addr{ingress}}
	v.Claims = []state.VIPClaim{{VIP: api, By: "02:00:00:00:00:01"}, {VIP: api, Host: "cp-2"}, {VIP: other, By: "02:00:00:00:00:02"}}
	v.Forged = []state.ForgedAdvert{{VIP: ingress, By: "02:00:00:00:00:03", As: other}, {VIP: other, By: "02:00:00:00:00:04", As: other}}
	v.Nodes = state.Known([]state.Node{{Name: "w-1", Labels: map[string]string{state.LabelWorker: ""}}})
	r := Report{Host: "host-1", At: at, Network: see(state.NetworkStatus{At: at, Holds: []netip.Addr{api}, View: v})}
	f := r.Standing()
	if f.Cluster != "store-17.example" || f.ControlPlanes.Value != 2 || !f.ManagedVIPs.Value || f.Sources[0].Name != "node-1" || len(f.Sources[0].Limits) != 0 {
		t.Errorf("%+v", f)
	}
	if a, i := f.VIPs[0], f.VIPs[1]; len(f.VIPs) != 2 || a.Kind != "API" || i.Kind != "ingress" ||
		!slices.Equal(a.Claims, []string{"02:00:00:00:00:01"}) || !slices.Equal(a.Left, []string{"cp-2"}) || len(a.Forged)+len(i.Claims)+len(i.Left) != 0 ||
		!slices.Equal(i.Forged, []string{"02:00:00:00:00:03 in the name of 10.0.0.7"}) {
		t.Errorf("%+v", f.VIPs)
	}
	if h := told(t, r, "node-1"); !h.ControlPlane || h.Worker || !slices.Equal(h.Holds.Value, []netip.Addr{api}) || h.Firewalls.Known || h.Power.Value != standing.PowerOn {
		t.Errorf("itself: %+v", h)
	}
	if h := told(t, r, "w-1"); h.ControlPlane || !h.Worker || !h.Registered.Value {
		t.Errorf("the worker: %+v", h)
	}
	v.Stale, v.Settings.ControlPlanes, v.SiteFirewalls = true, 0, state.Known([]state.SiteFirewall{{Name: "ufw"}})
	r.Network = see(state.NetworkStatus{At: at, View: v})
	if f := r.Standing(); f.ControlPlanes.Known || !slices.Equal(f.Sources[0].Limits, []string{"the list of nodes dates from before its last start"}) || !told(t, r, "node-1").Firewalls.Known {
		t.Errorf("of before its start: %+v", f)
	}
}

func TestPacemakersReportNamesControlPlanes(t *testing.T) {
	nodes := []etcdv1.PacemakerClusterNodeStatus{{NodeName: "cp-1"}, {NodeName: "cp-2"}}
	r := Report{Host: "cp-1", At: at, Watched: see(pacemakerstatus.Report{Status: etcdv1.PacemakerClusterStatus{Nodes: &nodes}, At: at.Add(-time.Minute)})}
	if !told(t, r, "cp-2").ControlPlane || !r.Standing().Pacemaker.Known || !r.Standing().Pacemaker.At.Equal(at.Add(-time.Minute)) {
		t.Errorf("%+v", r.Standing())
	}
}

// TestWhatIsExplainedWithoutTheKeeper: by files, with what that leaves unknown; not at
// all where only root may read them.
func TestWhatIsExplainedWithoutTheKeeper(t *testing.T) {
	for _, denied := range []Report{
		{Keeper: state.Seen[state.EtcdReport]{Lack: state.LackDenied}}, {Record: state.Seen[state.EtcdRecord]{Lack: state.LackDenied}}, {Targets: state.Seen[[]string]{Lack: state.LackDenied}},
	} {
		if _, err := denied.Explained(); err == nil || !strings.Contains(err.Error(), Sudo) {
			t.Errorf("%v", err)
		}
	}
	r := Report{
		Host: "cp-1", At: at, Targets: see([]string{"cp-1", "cp-2"}), Boot: see(Boot{ID: "b", Uptime: time.Hour}), BMC: see("https://10.97.0.12"),
		Record: see(state.EtcdRecord{State: state.EtcdSole, Seq: 6}), Running: see(true), Data: state.Seen[state.EtcdData]{Why: "the disk hangs"},
	}
	in, err := r.Explained()
	s := in.Report.Snapshot
	if err != nil || in.Unmanaged || s.Host != "cp-1" || s.Peer != "cp-2" || s.Boot != "b" || s.Uptime != time.Hour || s.Record.Value.Seq != 6 || in.BMC != "https://10.97.0.12" ||
		!state.Is(s.Local.Running, true) || s.Data.Known || in.Report.Wish != state.EtcdNotAsked || in.Report.Verdict.Rule == "" || !in.Report.At.Equal(at) {
		t.Errorf("%+v, %v", in, err)
	}
	if want := []string{"the disk hangs", "unknown without the etcd keeper: whether the peer is present, and its statement"}; !slices.Equal(in.Limits, want) {
		t.Errorf("limits %q", in.Limits)
	}
	alone := Report{Host: "cp-1", At: at, Keeper: see(state.EtcdReport{})}
	if in, err := alone.Explained(); err != nil || !in.Unmanaged {
		t.Errorf("a keeper without a peer was never asked for anything: %+v, %v", in, err)
	}
}

// TestEachQuestionAsksForItsParts, and none for a measurement that writes to the disk.
func TestEachQuestionAsksForItsParts(t *testing.T) {
	for name, list := range map[string][]Part{"all": Parts(), "explanation": ForExplanation(), "standing": ForStanding(), "fencing": ForFencing()} {
		if slices.Contains(list, Disk) || len(slices.Compact(slices.Sorted(slices.Values(list)))) != len(list) {
			t.Errorf("%s: %v", name, list)
		}
		for _, p := range list {
			if !slices.Contains(Parts(), p) {
				t.Errorf("%s asks for %s", name, p)
			}
		}
	}
	if len(ForFencing()) == 0 || !slices.Contains(ForExplanation(), Evidence) || !slices.Contains(ForStanding(), Agent) || !slices.Contains(ForFencing(), Pacemaker) {
		t.Error("a question lacks what it is about")
	}
}

// TestTheLastFenceThatCutThePowerIsTheProof: the history has the oldest first, and a
// proof of last year is none of today's.
func TestTheLastFenceThatCutThePowerIsTheProof(t *testing.T) {
	fence := func(ago time.Duration, off bool) state.FenceEntry {
		return state.FenceEntry{Time: at.Add(-ago), Target: "cp-2", By: "cp-1", Off: off}
	}
	for what, c := range map[string]struct {
		history        []state.FenceEntry
		proof, attempt time.Duration
	}{
		"two that did":                         {[]state.FenceEntry{fence(8000*time.Hour, true), fence(time.Hour, true)}, time.Hour, time.Hour},
		"one that did not, between two":        {[]state.FenceEntry{fence(3*time.Hour, true), fence(2*time.Hour, false), fence(time.Hour, true)}, time.Hour, time.Hour},
		"one that did not, after two that did": {[]state.FenceEntry{fence(3*time.Hour, true), fence(2*time.Hour, true), fence(time.Hour, false)}, 2 * time.Hour, time.Hour},
	} {
		h := told(t, Report{Host: "cp-1", At: at, Fences: see(c.history)}, "cp-2")
		if !h.Verified.Value.At.Equal(at.Add(-c.proof)) || !h.LastFence.Value.At.Equal(at.Add(-c.attempt)) {
			t.Errorf("%s: proof %s, last %s", what, h.Verified.Value.At, h.LastFence.Value.At)
		}
	}
}

// TestWhoReportsIsAControlPlaneByItsEtcdAndItsFences, even where nothing else says so.
func TestWhoReportsIsAControlPlaneByItsEtcdAndItsFences(t *testing.T) {
	if h := told(t, Report{Host: "cp-1", At: at, Fences: see([]state.FenceEntry{{Time: at, Target: "cp-2", By: "cp-1"}})}, "cp-2"); !h.ControlPlane {
		t.Errorf("a host that was fenced: %+v", h)
	}
	for name, want := range map[string]bool{"cp-1": true, "cp-2": true} {
		if h := told(t, keeping(func(*state.EtcdReport) {}), name); h.ControlPlane != want {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

// TestAHostIsKnownByTheNameOfItsNode, and by its own where it has none yet.
func TestAHostIsKnownByTheNameOfItsNode(t *testing.T) {
	for node, want := range map[string]string{"": "machine-17", "cp-1": "cp-1"} {
		r := Report{Host: "machine-17", At: at, Network: see(state.NetworkStatus{View: state.NetworkView{Host: state.HostFacts{NodeName: node}}})}
		f := r.Standing()
		if len(f.Hosts) != 1 || f.Hosts[0].Name != want || f.Sources[0].Name != want || f.Hosts[0].Holds.From != want {
			t.Errorf("node %q: %+v", node, f.Hosts)
		}
	}
}

// TestAHostThatIsNotOneOfTwoHasAMemberAndNoExplanation: the keeper of a host without a
// peer still knows its etcd, and nothing is said of a host without a name.
func TestAHostThatIsNotOneOfTwoHasAMemberAndNoExplanation(t *testing.T) {
	r := keeping(func(e *state.EtcdReport) { e.Snapshot.Peer = "" })
	h := told(t, r, "cp-1")
	if !h.Member.Known || !h.Record.Known || h.Explanation.Known {
		t.Errorf("%+v", h)
	}
	if hosts := r.Standing().Hosts; len(hosts) != 1 {
		t.Errorf("%+v", hosts)
	}
	two := told(t, keeping(func(*state.EtcdReport) {}), "cp-1")
	if !two.Explanation.Known || two.Explanation.Value.Source != explain.FromAgent || two.Explanation.From != "cp-1" {
		t.Errorf("one of two: %+v", two.Explanation)
	}
	nobody := keeping(func(e *state.EtcdReport) { e.Snapshot.Peer, e.Snapshot.Host = "", "" })
	if h := told(t, nobody, "cp-1"); h.Member.Known || h.Record.Known {
		t.Errorf("a keeper that knows no host: %+v", h)
	}
}

// TestAnAnswerOfTheBMCThatIsNotKnownSaysNothing: what it read before is not of now.
func TestAnAnswerOfTheBMCThatIsNotKnownSaysNothing(t *testing.T) {
	for _, power := range []string{state.PowerOff, "On"} {
		h := told(t, keeping(func(e *state.EtcdReport) { e.Snapshot.Proofs.Power = state.Fact[string]{Value: power} }), "cp-2")
		if h.Power.Known {
			t.Errorf("%s: %+v", power, h.Power)
		}
	}
}
