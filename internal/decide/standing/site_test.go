package standing

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

var roles = map[string]string{noderole.ControlPlane: "", noderole.Master: "", noderole.Worker: "", noderole.Claim: "master"}

// whole returns a pair for which every fact about redundancy is known and good.
func whole(t *testing.T) Facts {
	f := recorded(t, "healthy", etcdReport(t, "healthy"))
	f.MastersSchedulable = Know(true, "the API", now)
	f.Nodes = Know([]string{"cp-1", "cp-2"}, "the API", now)
	f.Missing = Know([]Object{}, "the API", now)
	for i := range f.Hosts {
		f.Hosts[i].Labels = Know(maps.Clone(roles), "the API", now)
		f.Hosts[i].Peers = Know(state.PeerReport{VRRP: []string{[]string{"cp-2", "cp-1"}[i]}, Backends: []string{"cp-1", "cp-2"}}, "the API", now)
	}
	return f
}

func TestWhateverSomebodyDeletedOfAPairIsNeverWell(t *testing.T) {
	if v := Describe(whole(t)); v.Status != explain.Healthy || len(v.Findings) > 0 {
		t.Fatalf("a whole pair is %s: %+v", v.Status, v.Findings)
	}
	for name, c := range map[string]struct {
		lose func(f *Facts)
		says string
	}{
		"the Node": {func(f *Facts) {
			f.Nodes.Value = f.Nodes.Value[:1]
			f.Hosts[1].Kubelet, f.Hosts[1].Labels = Seen[Kubelet]{}, Seen[map[string]string]{}
		}, "cp-2 has no Node"},
		"the Node, as a host without an API has it": {func(f *Facts) {
			f.Nodes = Seen[[]string]{}
			f.Hosts[1].Registered = Know(false, "cp-1", now)
		}, "cp-2 has no Node"},
		"the Node, of which not even the name is known": {func(f *Facts) {
			f.Nodes.Value, f.Hosts = f.Nodes.Value[:1], f.Hosts[:1]
			f.Hosts[0].Peers = Seen[state.PeerReport]{}
		}, "the API lists 1 of 2 control planes"},
		"all role labels": {func(f *Facts) {
			f.Hosts[1].Labels.Value = map[string]string{noderole.Claim: "master"}
		}, "node cp-2 lacks the labels node-role.kubernetes.io/control-plane"},
		"one role label": {func(f *Facts) {
			delete(f.Hosts[0].Labels.Value, noderole.Worker)
		}, "node cp-1 lacks the label node-role.kubernetes.io/worker"},
		"a peer of the API VIP": {func(f *Facts) { f.Hosts[0].Peers.Value.VRRP = nil }, "cp-1 does not have cp-2 among its VRRP peers"},
		"a backend":             {func(f *Facts) { f.Hosts[0].Peers.Value.Backends = []string{"cp-1"} }, "balancer on cp-1 has no backend for cp-2"},
		"a file of a host": {func(f *Facts) {
			f.Hosts[1].Deleted = Know([]state.Deleted{{What: "x", Problem: "corosync.conf lists cp-2; it had cp-1 and cp-2", Meaning: "m", Command: "sudo y"}}, "the API", now)
		}, "on cp-2: corosync.conf lists cp-2; it had cp-1 and cp-2"},
		"an object": {func(f *Facts) {
			f.Missing.Value = []Object{{"ClusterRole", "", "holdfast-hosts"}, {"Secret", "openshift-etcd", "fencing-credentials-cp-1"}}
		}, "the API lacks ClusterRole holdfast-hosts, Secret openshift-etcd/fencing-credentials-cp-1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := whole(t)
			c.lose(&f)
			v := Describe(f)
			if v.Status != explain.Degraded || strings.Contains(v.Summary, "Healthy") {
				t.Errorf("%s: %s", v.Status, v.Summary)
			}
			var said []string
			for _, f := range v.Findings {
				said = append(said, f.Problem)
				if len(f.Commands) == 0 || f.Page == "" {
					t.Errorf("it does not say what to type: %+v", f)
				}
			}
			if !strings.Contains(strings.Join(said, "\n"), c.says) {
				t.Errorf("%q", said)
			}
		})
	}
}

func TestAHostThatWasTakenOutIsNoAlarm(t *testing.T) {
	f := whole(t)
	f.Nodes.Value = f.Nodes.Value[:1]
	f.Retired = Know(map[string]string{"cp-2": "taken out of the cluster at 12:00 by kim"}, "the API", now)
	for _, found := range Describe(f).Findings {
		if found.Subject == "cp-2" && (found.ID != NodeRetired || found.Severity != finding.Note || !strings.Contains(found.Problem, "by kim")) {
			t.Errorf("%+v", found)
		}
	}
	f.Retired.Known = false
	if list := Describe(f).Findings; list[0].ID != NodeDeleted {
		t.Errorf("%+v", list[0])
	}
}

// The incidents of a site that shrank still name the host that went.
func TestAControlPlaneThatTheSiteNoLongerHasIsNoHostOfIt(t *testing.T) {
	f := whole(t)
	f.Hosts = []Host{{Name: "cp-1", ControlPlane: true, Kubelet: Know(Kubelet{}, "the API", now)}, {Name: "cp-2", ControlPlane: true}}
	f.Retired = Know(map[string]string{"cp-2": "taken out of the cluster at 12:00 by kim"}, "the API", now)
	listed := func(planes int) (names []string) {
		f.ControlPlanes = Know(planes, "the API", now)
		for _, h := range Describe(f).Hosts {
			names = append(names, h.Name)
		}
		return names
	}
	if got := listed(1); !slices.Equal(got, []string{"cp-1"}) {
		t.Errorf("a site of one: %v", got)
	}
	if got := listed(2); !slices.Equal(got, []string{"cp-1", "cp-2"}) {
		t.Errorf("one of two that waits for another machine: %v", got)
	}
	f.Retired.Value = nil
	if got := listed(1); len(got) != 2 {
		t.Errorf("nobody took it out: %v", got)
	}
}

// L32: one more voter is one too many, even if everything else is well.
func TestAStrangerInEtcdIsSaidWithTheCommandThatRemovesIt(t *testing.T) {
	report := etcdReport(t, "healthy")
	m := &report.Snapshot.Local.Members
	m.Value = append(slices.Clone(m.Value), state.EtcdMember{ID: 0x9})
	v := Describe(recorded(t, "healthy", report))
	if v.Status != explain.Degraded || v.Redundancy.Survives != No || !strings.Contains(v.Redundancy.Sentence, "belongs to neither host") {
		t.Errorf("%s: %+v", v.Status, v.Redundancy)
	}
	f := v.Findings[0]
	if f.ID != EtcdStranger || f.Severity != finding.Critical || !strings.Contains(f.Problem, "voter 9 (never started)") || !strings.HasSuffix(f.Commands[0].Line, "member remove 9") {
		t.Errorf("%+v", f)
	}
}

// L32, of three control planes.
func TestAStrangerAmongManyIsSaidOnce(t *testing.T) {
	f := many(3, "10.0.0.5", "10.0.0.6")
	for i := range f.Hosts {
		f.Hosts[i].Member.Value.Strangers, f.Hosts[i].Member.Value.Stranger = "learner 9 (never started)", 0x9
	}
	n := 0
	for _, found := range Describe(f).Findings {
		if found.ID == EtcdStranger {
			n++
			if !strings.Contains(found.Problem, "learner 9 (never started)") || !strings.HasSuffix(found.Commands[0].Line, "member remove 9") {
				t.Errorf("%+v", found)
			}
		}
	}
	if n != 1 {
		t.Errorf("%d findings", n)
	}
}

func TestADeletedNodeIsSaidAsApproved(t *testing.T) {
	f := whole(t)
	f.Nodes.Value = f.Nodes.Value[:1]
	f.Hosts[1].Kubelet, f.Hosts[1].Labels = Seen[Kubelet]{}, Seen[map[string]string]{}
	golden.Check(t, "node-deleted.txt", []byte(Text(Describe(f), page.Style{})))
}

func TestAControlPlaneThatLostItsLabelsIsStillWhatItIs(t *testing.T) {
	f := whole(t)
	f.Hosts[1].Worker = false // its Node has lost the label
	v := Describe(f)
	if v.Hosts[0].Role != v.Hosts[1].Role {
		t.Errorf("%s beside %s", v.Hosts[0].Role, v.Hosts[1].Role)
	}
}

func TestWhatALostHostSaidOfItsPeersIsNotOfNow(t *testing.T) {
	f := recorded(t, "lost-fenced", etcdReport(t, "lost-fenced"))
	f.Hosts[1].Kubelet = notReady("gone")
	f.Hosts[1].Peers = Know(state.PeerReport{}, "the API", now)
	for _, f := range Describe(f).Findings {
		if strings.Contains(f.Problem, "cp-2 does not have") {
			t.Errorf("%+v", f)
		}
	}
}
