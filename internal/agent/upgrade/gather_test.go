package upgrade

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/crmmon"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatPacemakerSaysOfAHostIsTold(t *testing.T) {
	in := pacemakerstatus.Input{Host: self, Cluster: state.Known(crmmon.Cluster{
		Options:  crmmon.Options{FencingEnabled: true, Maintenance: true},
		Nodes:    []crmmon.Node{{Name: "cp-2", Standby: true}, {Name: self, Online: true, Features: "3.16.1", Maintenance: true}},
		Failures: []crmmon.Failure{{Node: self, Task: "start", Resource: "etcd"}, {Node: "cp-2", Task: "stop", Resource: "kubelet"}},
	})}
	var h gate.Host
	addPacemaker(&h, in)
	if !state.Is(h.Online, true) || !state.Is(h.Fencing, true) || !state.Is(h.Features, "3.16.1") ||
		!slices.Equal(h.Marked.Value, []string{"maintenance", "maintenance-mode of the cluster"}) || !slices.Equal(h.Failed.Value, []string{"start of etcd"}) {
		t.Errorf("%+v", h)
	}
	h, in.Host = gate.Host{}, "cp-3"
	if addPacemaker(&h, in); !state.Is(h.Online, false) {
		t.Errorf("a node that Pacemaker does not have: %+v", h.Online)
	}
	h = gate.Host{}
	if addPacemaker(&h, pacemakerstatus.Input{Host: self}); h.Online.Known || h.Marked.Known || h.Failed.Known || h.Features.Known || h.Fencing.Known {
		t.Errorf("without an answer nothing is known: %+v", h)
	}
}

func TestKubeProxyTellsItsVersion(t *testing.T) {
	body := `kubernetes_build_info{build_date="x",git_version="v1.36.3",go_version="go1"} 1` + "\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
	defer server.Close()
	if got, err := proxyVersion(t.Context(), server.URL); err != nil || got != (gate.Version{Major: 1, Minor: 36, Patch: 3}) {
		t.Errorf("%v %v", got, err)
	}
	body = "nothing\n"
	if _, err := proxyVersion(t.Context(), server.URL); err == nil {
		t.Error("silence is a version")
	}
}

func TestAnAnswerIsKeptForATimeAndAnUnknownOneIsNot(t *testing.T) {
	var k kept[int]
	asked, now, failed := 0, time.Now(), errors.New("x")
	ask := func() (int, error) { asked++; return asked, failed }
	for range 2 {
		if k.get("a", now, time.Minute, ask).Known {
			t.Fatal("an error is an answer")
		}
	}
	failed = nil
	for _, c := range []struct {
		key   string
		after time.Duration
		want  int
	}{{"a", 0, 3}, {"a", 59 * time.Second, 3}, {"a", time.Minute, 4}, {"b", time.Minute, 5}, {"b", -time.Hour, 6}} {
		if got := k.get(c.key, now.Add(c.after), time.Minute, ask); !state.Is(got, c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestALookAtThisMachineStartsNoProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	g := Gatherer{
		Name: self, Kind: parachute.OfTwo, Releases: unfetched{}, Now: time.Now,
		Version: func(context.Context) (version.Info, error) {
			return version.Info{GitVersion: "v1.36.3", EmulationMajor: "1", EmulationMinor: "35"}, nil
		},
		Pacemaker: func() pacemakerstatus.Input { return pacemakerstatus.Input{} },
		Links:     func(context.Context) (bool, error) { return false, errors.New("corosync does not run") },
	}
	h := g.Gather(t.Context())
	if !state.Is(h.APIServer, gate.Version{Major: 1, Minor: 36, Patch: 3}) || !state.Is(h.Emulates, gate.Version{Major: 1, Minor: 35}) || !h.Kubelet.Known {
		t.Errorf("%+v %+v", h.APIServer, h.Emulates)
	}
	if !h.Disks.Known || len(h.Disks.Value) == 0 || h.Disks.Value[0].Free == 0 {
		t.Errorf("%+v", h.Disks)
	}
	if h.Online.Known || h.Written.Known || h.Whole.Known || h.Links.Known {
		t.Errorf("what nobody said is known: %+v", h)
	}
}

// TestPackagesThatCannotBeReadAreUnknown, and are not asked for without Pacemaker.
func TestPackagesThatCannotBeReadAreUnknown(t *testing.T) {
	failed := errors.New("x")
	g := Gatherer{
		Name: self, Kind: parachute.OfTwo, Releases: unfetched{}, Now: time.Now,
		Version:  func(context.Context) (version.Info, error) { return version.Info{}, errors.New("none") },
		Packages: func(context.Context) (updates.Stack, error) { return updates.Stack{Have: []string{"pcs=1"}}, failed },
	}
	if h := g.Gather(t.Context()); h.Stack.Known || h.Loose.Known {
		t.Errorf("%+v, %+v", h.Stack, h.Loose)
	}
	failed = nil
	if h := g.Gather(t.Context()); !slices.Equal(h.Stack.Value, []string{"pcs=1"}) || !h.Loose.Known {
		t.Errorf("%+v, %+v", h.Stack, h.Loose)
	}
	g.Kind = parachute.OfMore
	if h := g.Gather(t.Context()); h.Stack.Known || h.Loose.Known {
		t.Errorf("without Pacemaker: %+v, %+v", h.Stack, h.Loose)
	}
}

// TestCorosyncIsAskedOncePerMinuteAndOnlyOfTwoControlPlanes.
func TestCorosyncIsAskedOncePerMinuteAndOnlyOfTwoControlPlanes(t *testing.T) {
	asked, now := 0, time.Now()
	g := Gatherer{
		Name: self, Kind: parachute.OfTwo, Releases: unfetched{}, Now: func() time.Time { return now },
		Version: func(context.Context) (version.Info, error) { return version.Info{}, errors.New("none") },
		Links:   func(context.Context) (bool, error) { asked++; return asked < 2, nil },
	}
	for _, c := range []struct {
		after time.Duration
		works bool
		asked int
	}{{0, true, 1}, {59 * time.Second, true, 1}, {time.Second, false, 2}} {
		now = now.Add(c.after)
		if h := g.Gather(t.Context()); !state.Is(h.Links, c.works) || asked != c.asked {
			t.Errorf("after %s: %+v, asked %d times", c.after, h.Links, asked)
		}
	}
	g.Kind = parachute.OfMore
	if h := g.Gather(t.Context()); h.Links.Known || asked != 2 {
		t.Errorf("without Pacemaker: %+v, asked %d times", h.Links, asked)
	}
}

// BenchmarkLook measures what a host pays every 30 s.
func BenchmarkLook(b *testing.B) {
	g := Gatherer{
		Kind: parachute.OfTwo, Releases: unfetched{}, Now: time.Now, Version: func(context.Context) (version.Info, error) { return version.Info{}, errors.New("none") },
		Pacemaker: func() pacemakerstatus.Input { return pacemakerstatus.Input{} },
	}
	for b.Loop() {
		g.Gather(b.Context())
	}
}

func TestAFolderIsMeasuredAndNoFolderIsEmpty(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := sizeOf(dir); err != nil || got != 1000 {
		t.Error(got, err)
	}
	if got, err := sizeOf(filepath.Join(dir, "b")); err != nil || got != 0 {
		t.Error(got, err)
	}
}

// proves is a host of two with a release that has shown all.
func proves() (*Prover, map[string]etcd.MemberStatus) {
	members := map[string]etcd.MemberStatus{}
	both := []state.EtcdMember{{ID: 1}, {ID: 2}}
	for i, name := range []string{self, "cp-2"} {
		members[name] = etcd.MemberStatus{Cluster: 7, Member: state.MemberID(i + 1), Leader: 2, Serves: true, Members: both, RaftIndex: 5000, Version: "3.6.14"}
	}
	conditions := []metav1.Condition{}
	for _, kind := range []string{etcdv1.NodeOnlineConditionType, etcdv1.NodeMemberConditionType, etcdv1.NodeFencingAvailableConditionType} {
		conditions = append(conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue})
	}
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	yes := func(context.Context) state.Fact[bool] { return state.Known(true) }
	return &Prover{
		Self: self, Kind: parachute.OfTwo, Releases: shelf{map[string]gate.Release{
			newOne: {Etcd: gate.Version{Major: 3, Minor: 6, Patch: 14}, Kubernetes: gate.Version{Major: 1, Minor: 36, Patch: 3}},
			oldOne: {Kubernetes: gate.Version{Major: 1, Minor: 35, Patch: 4}},
		}}, Now: func() time.Time { return now },
		View: func() state.NetworkView {
			return state.NetworkView{Host: state.HostFacts{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}}
		},
		Root:      func(context.Context, netip.AddrPort) error { return nil },
		Members:   func(context.Context, map[string]string) map[string]etcd.MemberStatus { return members },
		Kubelet:   func(context.Context) bool { return true },
		NodeReady: func(context.Context, string) (bool, error) { return true, nil },
		Pacemaker: func() pacemakerstatus.Report {
			return pacemakerstatus.Report{At: now, Status: etcdv1.PacemakerClusterStatus{Nodes: &[]etcdv1.PacemakerClusterNodeStatus{{NodeName: self, Conditions: conditions}}}}
		},
		Daemons: func(context.Context, string) (bool, error) { return true, nil }, Serves: yes, PeerServes: yes,
		Service: netip.MustParseAddr("127.0.0.1"), DNS: netip.MustParseAddr("127.0.0.1"), Name: "x.",
		Keepalived: func() (bool, error) { return true, nil }, Servers: func() ([]int, error) { return []int{7}, nil },
		Well: func(context.Context, string) state.Fact[bool] { return state.Known(true) },
		Held: func() (string, error) { return oldOne, nil },
		Version: func(context.Context) (is, emulates state.Fact[gate.Version]) {
			return state.Known(gate.Version{Major: 1, Minor: 36, Patch: 3}), state.Known(gate.Version{Major: 1, Minor: 35})
		},
	}, members
}

// without returns what is not shown, beside what is named.
func without(p parachute.Proof, known ...string) (out []string) {
	known = append(known, "pods")
	for _, c := range parachute.Criteria() {
		if !state.Is(p[c.ID], true) && !slices.Contains(known, c.ID) {
			out = append(out, c.ID)
		}
	}
	return out
}

// claims says that a host which holds the API's VIP heard somebody else claim one.
func claims(c state.VIPClaim) func(*Prover, map[string]etcd.MemberStatus) {
	return func(p *Prover, _ map[string]etcd.MemberStatus) {
		v := p.View()
		v.Settings.APIVIPs = []netip.Addr{netip.MustParseAddr("192.0.2.5")}
		v.Addresses = []state.HostAddress{{Prefix: netip.MustParsePrefix("192.0.2.1/24"), Usable: true}, {Prefix: netip.MustParsePrefix("192.0.2.5/32")}}
		both := state.FormatAnnotation(state.VIPReport{Holds: v.Settings.APIVIPs})
		v.Nodes = state.Known([]state.Node{{Name: "cp-2", Labels: map[string]string{state.LabelMaster: ""}, Annotations: map[string]string{state.AnnotationVIPs: both}}, {Name: "w-1"}})
		v.Claims = []state.VIPClaim{c}
		p.View = func() state.NetworkView { return v }
	}
}

// TestEachCriterionHasAProbeThatCanFail: the pods' own needs a cluster.
func TestEachCriterionHasAProbeThatCanFail(t *testing.T) {
	later := func(p *Prover) {
		p.Prove(t.Context(), newOne)
		at := p.Now().Add(steady)
		p.Now = func() time.Time { return at }
	}
	p, _ := proves()
	if got := without(p.Prove(t.Context(), newOne), "api-server"); len(got) > 0 {
		t.Fatalf("not shown: %v", got)
	}
	if p.server(t.Context()).Value {
		t.Error("an API server is steady at once")
	}
	later(p)
	if got := without(p.Prove(t.Context(), newOne)); len(got) > 0 {
		t.Fatalf("not shown later: %v", got)
	}
	for what, c := range map[string]struct {
		spoil func(*Prover, map[string]etcd.MemberStatus)
		want  []string
	}{
		"etcd of another version": {func(_ *Prover, m map[string]etcd.MemberStatus) { s := m[self]; s.Version = "3.6.12"; m[self] = s }, []string{"etcd"}},
		"etcd behind":             {func(_ *Prover, m map[string]etcd.MemberStatus) { s := m["cp-2"]; s.RaftIndex = 9000; m["cp-2"] = s }, []string{"etcd"}},
		"etcd of another cluster": {func(_ *Prover, m map[string]etcd.MemberStatus) { s := m["cp-2"]; s.Cluster = 8; m["cp-2"] = s }, []string{"etcd"}},
		"etcd is away":            {func(_ *Prover, m map[string]etcd.MemberStatus) { delete(m, self) }, []string{"etcd", "peer-view"}},
		"the peer has no member of it": {func(_ *Prover, m map[string]etcd.MemberStatus) {
			s := m["cp-2"]
			s.Members = s.Members[1:]
			m["cp-2"] = s
		}, []string{"peer-view"}},
		"the API server restarts": {func(p *Prover, _ map[string]etcd.MemberStatus) {
			p.Servers = func() ([]int, error) { return []int{8}, nil }
		}, []string{"api-server"}},
		"the API server is of the old release": {func(p *Prover, _ map[string]etcd.MemberStatus) {
			p.Version = func(context.Context) (is, emulates state.Fact[gate.Version]) {
				return state.Known(gate.Version{Major: 1, Minor: 35, Patch: 4}), state.Known(gate.Version{Major: 1, Minor: 35})
			}
		}, []string{"api-server"}},
		"the API server is above the level": {func(p *Prover, _ map[string]etcd.MemberStatus) {
			p.Version = func(context.Context) (is, emulates state.Fact[gate.Version]) {
				return state.Known(gate.Version{Major: 1, Minor: 36, Patch: 3}), state.Known(gate.Version{Major: 1, Minor: 36})
			}
		}, []string{"api-server"}},
		"the API server is below the level": {func(p *Prover, _ map[string]etcd.MemberStatus) {
			p.Held = func() (string, error) { return "", nil }
		}, []string{"api-server"}},
		"whose kubelet is held is not known": {func(p *Prover, _ map[string]etcd.MemberStatus) {
			p.Held = func() (string, error) { return "sha256:none", nil }
		}, []string{"api-server"}},
		"controllers are ill": {func(p *Prover, _ map[string]etcd.MemberStatus) {
			p.Well = func(context.Context, string) state.Fact[bool] { return state.Known(false) }
		}, []string{"controllers"}},
		"kubelet is ill": {func(p *Prover, _ map[string]etcd.MemberStatus) {
			p.Kubelet = func(context.Context) bool { return false }
		}, []string{"kubelet"}},
		"a daemon is of the old one": {func(p *Prover, _ map[string]etcd.MemberStatus) {
			p.Daemons = func(context.Context, string) (bool, error) { return false, nil }
		}, []string{"kubelet"}},
		"the API does not know": {func(p *Prover, _ map[string]etcd.MemberStatus) {
			p.NodeReady = func(context.Context, string) (bool, error) { return false, errors.New("x") }
		}, []string{"kubelet", "peer-view"}},
		"its addresses are not known": {func(p *Prover, _ map[string]etcd.MemberStatus) {
			p.View = func() state.NetworkView { return state.NetworkView{} }
		}, []string{"names"}},
		"the router is ill": {func(p *Prover, _ map[string]etcd.MemberStatus) {
			v := p.View()
			p.View = func() state.NetworkView { v.Router = state.Known(state.Router{Default: true}); return v }
		}, []string{"router"}},
		"another control plane has its VIP, too":               {claims(state.VIPClaim{VIP: netip.MustParseAddr("192.0.2.5"), By: "02:00:00:00:00:12", Host: "cp-2"}), []string{"vip"}},
		"an advert that the filter drops returns no host":      {claims(state.VIPClaim{By: "192.0.2.99", RouterID: 7}), nil},
		"a worker's advert that changes nothing returns none":  {claims(state.VIPClaim{By: "192.0.2.31", RouterID: 7, Host: "w-1"}), nil},
		"a machine that is no host and has a VIP returns none": {claims(state.VIPClaim{VIP: netip.MustParseAddr("192.0.2.5"), By: "02:00:00:00:00:99"}), nil},
		"keepalived is away": {func(p *Prover, _ map[string]etcd.MemberStatus) {
			p.Keepalived = func() (bool, error) { return false, nil }
		}, []string{"vip"}},
		"Pacemaker is silent": {func(p *Prover, _ map[string]etcd.MemberStatus) {
			p.Pacemaker = func() pacemakerstatus.Report { return pacemakerstatus.Report{} }
		}, []string{"pacemaker"}},
		"the peer does not serve": {func(p *Prover, _ map[string]etcd.MemberStatus) {
			p.PeerServes = func(context.Context) state.Fact[bool] { return state.Fact[bool]{} }
		}, []string{"peer-view"}},
	} {
		p, members := proves()
		later(p)
		c.spoil(p, members)
		if got := without(p.Prove(t.Context(), newOne)); !slices.Equal(got, c.want) {
			t.Errorf("%s: not shown: %v, want %v", what, got, c.want)
		}
	}
}

func TestWhatTheOldReleaseCannotReadIsNamed(t *testing.T) {
	formats := func(min, max, writes int) map[string]gate.Format {
		return map[string]gate.Format{"record": {Reads: gate.Range{Min: min, Max: max}, Writes: writes}}
	}
	of := map[string]gate.Release{
		"old": {Etcd: gate.Version{Major: 3, Minor: 6, Patch: 12}, Formats: formats(1, 1, 1)}, "same": {Etcd: gate.Version{Major: 3, Minor: 6, Patch: 14}, Formats: formats(1, 2, 1)},
		"formats": {Etcd: gate.Version{Major: 3, Minor: 6, Patch: 14}, Formats: formats(1, 2, 2)}, "etcd": {Etcd: gate.Version{Major: 3, Minor: 7}, Formats: formats(1, 1, 1)},
	}
	newer := NewerBy(shelf{of})
	for now, want := range map[string]state.Fact[string]{
		"same": state.Known(""), "formats": state.Known("what this host has in the formats record"),
		"etcd": state.Known("the data of etcd, which 3.7.0 may have raised"), "none": {},
	} {
		if got := newer("old", now); got != want {
			t.Errorf("%s: %+v", now, got)
		}
	}
}

// shelf are releases by their digests.
type shelf struct{ of map[string]gate.Release }

func (shelf) Whole(context.Context) state.Fact[[]string] { return state.Fact[[]string]{} }
func (shelf) Placed(string) bool                         { return true }
func (shelf) Fetching() (how, failed string)             { return "", "" }
func (k shelf) About(digest string) (gate.Release, error) {
	if r, ok := k.of[digest]; ok {
		return r, nil
	}
	return gate.Release{}, errNotFetched
}
