package rotation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhichNodesARotationWaitsFor(t *testing.T) {
	control := map[string]string{state.LabelControlPlane: ""}
	said := state.FormatAnnotation(Reports{ControlPlanes: 2, NoRoot: true, Authorities: map[Authority]Report{ServiceAccountKey: {Signs: oldKey, Trusts: []ID{oldKey}}}}) //nolint:exhaustive // one is enough
	renews := state.FormatAnnotation(state.CertificateRenewal{Since: time.Unix(1, 0)})
	hosts, absent := HostsOf([]state.Node{
		{Name: "says all", Ready: true, Labels: control, Annotations: map[string]string{state.AnnotationTrust: said}},
		{Name: "renews", Ready: true, Labels: control, Annotations: map[string]string{state.AnnotationRenewal: renews}},
		{Name: "has no Node", Ready: true, Absent: true, Labels: control},
		{Name: "joins", Ready: true, Labels: map[string]string{noderole.Claim: string(state.RoleMaster)}},
		{Name: "says nonsense", Labels: control, Annotations: map[string]string{state.AnnotationTrust: "x"}},
		{Name: "worker", Ready: true},
		{Name: "worker that is off"},
	}, ServiceAccountKey)
	var names []string
	for _, h := range hosts {
		names = append(names, h.Name)
		if h.Ready != slices.Contains([]string{"says all", "renews", "joins"}, h.Name) || h.Renews != (h.Name == "renews") ||
			(h.Report != nil) != (h.Name == "says all") || h.NoRoot != (h.Name == "says all") {
			t.Errorf("%+v", h)
		}
	}
	if want := []string{"says all", "renews", "has no Node", "joins", "says nonsense"}; !slices.Equal(names, want) {
		t.Errorf("control planes are %q", names)
	}
	if !slices.Equal(absent, []string{"worker that is off"}) {
		t.Errorf("absent are %q", absent)
	}
	if r := hosts[0].Report; r.Signs != oldKey || hosts[0].ControlPlanes != 2 {
		t.Errorf("%+v", r)
	}
	if hosts, _ := HostsOf([]state.Node{{Name: "x", Labels: control, Annotations: map[string]string{state.AnnotationTrust: said}}}, EtcdCA); hosts[0].Report != nil {
		t.Error("a host that says nothing of an authority is taken to have said something")
	}
}

// TestAHostThatSaysThatItBecomesAControlPlaneSaysNothingOfTheSite: root on a worker may write its
// Node. It is waited for, holds no rotation for others, and does not count for etcd.
func TestAHostThatSaysThatItBecomesAControlPlaneSaysNothingOfTheSite(t *testing.T) {
	said := state.FormatAnnotation(Reports{ControlPlanes: 99, NoRoot: true, Authorities: map[Authority]Report{EtcdCA: {Of: "a", Restored: true, Signs: oldKey, Trusts: []ID{oldKey}}}}) //nolint:exhaustive // one is enough
	hosts, _ := HostsOf([]state.Node{
		{Name: "cp-1", Ready: true, Labels: map[string]string{state.LabelControlPlane: ""}},
		{Name: "cp-2", Ready: true, Labels: map[string]string{state.LabelControlPlane: ""}},
		{Name: "w-1", Ready: true, Labels: map[string]string{noderole.Claim: string(state.RoleMaster)}, Annotations: map[string]string{state.AnnotationTrust: said}},
	}, EtcdCA)
	if h := hosts[2]; !h.Joins || h.ControlPlanes != 0 || h.NoRoot || h.Report == nil || h.Report.Restored || h.Report.Signs != oldKey {
		t.Errorf("%+v, %+v", h, h.Report)
	}
	if why := EtcdSpares(hosts, nil); !strings.Contains(why, "cp-1") {
		t.Errorf("of two control planes and one that says so: %q", why)
	}
}

func TestWhoseClockIsApart(t *testing.T) {
	for _, c := range []struct {
		sentence string
		seen     map[string]time.Duration
		apart    string
	}{
		{"nobody has said anything", nil, ""},
		{"a kubelet that is alive", map[string]time.Duration{"cp-1": -9 * time.Second}, ""},
		{"one that fell silent, beside one that is alive", map[string]time.Duration{"cp-1": -time.Hour, "cp-2": -9 * time.Second}, ""},
		{"ours is ahead", map[string]time.Duration{"cp-1": -time.Hour, "cp-2": -time.Hour}, "cp-1"},
		{"ours is behind", map[string]time.Duration{"cp-1": -time.Second, "cp-2": time.Hour}, "cp-2"},
	} {
		seen := map[string]time.Time{}
		for name, ago := range c.seen {
			seen[name] = began.Add(ago)
		}
		got := ClockOf(began, seen)
		if (got == "") != (c.apart == "") || !strings.Contains(got, c.apart) {
			t.Errorf("%s: %q", c.sentence, got)
		}
	}
}

func TestWhichHostThatIsInstalledARotationWaitsFor(t *testing.T) {
	later := began.Add(time.Hour)
	master := Newcomer{Name: "cp-3", Control: true, Token: "abcdef", Ends: later}
	worker := Newcomer{Name: "worker-2", Token: "abcdef", Ends: later}
	ended := master
	ended.Ends = began
	for what, c := range map[string]struct {
		of    Authority
		host  Newcomer
		nodes []state.Node
		want  string
	}{
		"a control plane":             {EtcdCA, master, nil, "cp-3"},
		"its Node is not ready":       {EtcdCA, master, []state.Node{{Name: "cp-3"}}, "cp-3"},
		"its Node is ready":           {EtcdCA, master, []state.Node{{Name: "cp-3", Ready: true}}, ""},
		"it was given up":             {EtcdCA, ended, nil, ""},
		"a worker, and the API's CA":  {KubernetesCA, worker, []state.Node{{Name: "cp-3", Ready: true}}, "worker-2"},
		"a worker, and another one's": {ServiceAccountKey, worker, nil, ""},
	} {
		got := Joining(c.of, []Newcomer{c.host}, c.nodes, began)
		if c.want == "" && got != "" || c.want != "" && (!strings.HasPrefix(got, c.want+" is being installed") || !strings.HasSuffix(got, " at 2026-11-23T19:00:00Z, or at once after kubectl -n kube-system delete secret bootstrap-token-abcdef")) {
			t.Errorf("%s: %q", what, got)
		}
	}
}

func TestWhetherEtcdCouldDoWithoutEitherOfTwo(t *testing.T) {
	two := []Host{{Name: "cp-1"}, {Name: "cp-2"}}
	well := rollout.Spare{Carries: state.Known(true)}
	for what, c := range map[string]struct {
		hosts  []Host
		spares map[string]rollout.Spare
		want   string
	}{
		"a pair":             {two, map[string]rollout.Spare{"cp-1": well, "cp-2": well}, ""},
		"one":                {two[:1], nil, ""},
		"three":              {append(two, Host{Name: "cp-3"}), nil, ""},
		"a learner":          {two, map[string]rollout.Spare{"cp-1": well, "cp-2": {Carries: state.Known(false), Why: "not both hosts hold every write"}}, "etcd could not do without cp-2 now: not both hosts hold every write"},
		"unknown":            {two, map[string]rollout.Spare{"cp-1": {}, "cp-2": well}, "etcd could not do without cp-1 now"},
		"no status":          {two, nil, "Pacemaker's status says nothing of cp-1: holdfast status"},
		"a status of others": {two, map[string]rollout.Spare{"cp-1": well, "cp-9": well}, "Pacemaker's status says nothing of cp-2: holdfast status"},
	} {
		if got := EtcdSpares(c.hosts, c.spares); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}
