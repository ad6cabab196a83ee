package names

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/coredns"
)

var _ network.Reconciler = (*Reconciler)(nil)

// rig is a reconciler on a host of its own, with a clock and a server that counts
// its reloads.
type rig struct {
	*Reconciler
	t       *testing.T
	root    string
	now     time.Time
	reloads int
	broken  error
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, root: t.TempDir(), now: time.Unix(1, 0)}
	r.restart()
	return r
}

// restart starts another agent on the same host.
func (r *rig) restart() {
	r.Reconciler = New(Options{
		Root: r.root, Image: "image",
		Reload: func() error { r.reloads++; return r.broken },
		Now:    func() time.Time { return r.now },
	})
}

func (r *rig) reconcile(v state.NetworkView) string {
	r.t.Helper()
	changed, err := r.Reconcile(r.t.Context(), v)
	if err != nil {
		r.t.Fatal(err)
	}
	return changed
}

func (r *rig) file(path string) string {
	data, _ := os.ReadFile(filepath.Join(r.root, path))
	return string(data)
}

func view() state.NetworkView {
	a := func(s string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(s)} }
	return state.NetworkView{
		Settings: state.NetworkSettings{
			Cluster: "demo", Domain: "demo.example.com", ManagedVIPs: true, APIVIPs: a("192.0.2.5"), IngressVIPs: a("192.0.2.6"),
		},
		Host:      state.HostFacts{NodeName: "host-0", Addresses: a("192.0.2.20")},
		Nodes:     state.Known([]state.Node{{Name: "host-0", Addresses: a("192.0.2.20")}, {Name: "host-1", Addresses: a("192.0.2.21")}}),
		Upstreams: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:53")},
	}
}

func TestTheFirstViewWritesZoneConfigurationAndPodAndTheSameOneNothing(t *testing.T) {
	r := newRig(t)
	if got := r.reconcile(view()); got != "wrote cluster.zone, Corefile, coredns.yaml" {
		t.Error(got)
	}
	if got := r.reconcile(view()); got != "" || r.reloads != 1 {
		t.Errorf("%q, %d reloads", got, r.reloads)
	}
}

// A changed node, or just its address (H1), causes no reload.
func TestH1_AChangedNodeIsAnotherZoneAndNoReload(t *testing.T) {
	r := newRig(t)
	r.reconcile(view())
	v := view()
	v.Nodes.Value[1].Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.99")}
	if got := r.reconcile(v); got != "wrote cluster.zone" || r.reloads != 1 {
		t.Errorf("%q, %d reloads", got, r.reloads)
	}
	if !strings.Contains(r.file(coredns.ZonePath), "host-1. 5 IN A 192.0.2.99\n") {
		t.Error(r.file(coredns.ZonePath))
	}
}

func TestAChangedUpstreamIsOneReload(t *testing.T) {
	r := newRig(t)
	r.reconcile(view())
	v := view()
	v.Upstreams[0] = netip.MustParseAddrPort("192.0.2.2:53")
	if got := r.reconcile(v); got != "wrote Corefile" || r.reloads != 2 {
		t.Errorf("%q, %d reloads", got, r.reloads)
	}
}

// The networks that may ask follow the machine networks of the Infrastructure
// object.
func TestAMachineNetworkThatComesMayAsk(t *testing.T) {
	r := newRig(t)
	v := view()
	v.Settings.MachineNetworks = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	r.reconcile(v)
	v.Settings.MachineNetworks = append(v.Settings.MachineNetworks, netip.MustParsePrefix("198.51.100.0/24"))
	if got := r.reconcile(v); got != "wrote Corefile" || r.reloads != 2 || !strings.Contains(r.file(coredns.ConfigPath), " 198.51.100.0/24\n") {
		t.Errorf("%q, %d reloads: %s", got, r.reloads, r.file(coredns.ConfigPath))
	}
}

func TestAReloadThatFailedIsTriedAgain(t *testing.T) {
	r := newRig(t)
	r.broken = errors.New("no")
	if _, err := r.Reconcile(t.Context(), view()); err == nil {
		t.Fatal("a failed reload passed for one")
	}
	r.broken = nil
	if got := r.reconcile(view()); got != "" || r.reloads != 2 {
		t.Errorf("%q, %d reloads", got, r.reloads)
	}
	if r.reconcile(view()); r.reloads != 2 {
		t.Errorf("%d reloads", r.reloads)
	}
}

func TestAViewThatIsNotEnoughLeavesEverythingAsItIs(t *testing.T) {
	r := newRig(t)
	r.reconcile(view())
	before := r.file(coredns.ZonePath) + r.file(coredns.ConfigPath)
	for _, change := range []func(*state.NetworkView){
		func(v *state.NetworkView) { *v = state.NetworkView{} },
		func(v *state.NetworkView) { v.Settings.Domain = "" },
		func(v *state.NetworkView) { v.Host.Addresses = nil },
		func(v *state.NetworkView) { v.Nodes = state.Fact[[]state.Node]{} },
		func(v *state.NetworkView) { v.Upstreams = nil },
	} {
		v := view()
		change(&v)
		if got := r.reconcile(v); got != "" || r.file(coredns.ZonePath)+r.file(coredns.ConfigPath) != before {
			t.Errorf("%q: %s", got, r.file(coredns.ZonePath)+r.file(coredns.ConfigPath))
		}
	}
}

// Hard case 33, the part of DNS: an agent that starts and cannot read the API
// must not remove the names that the agent before it knew.
func TestHardCase33_AnAgentThatDoesNotKnowTheNodesKeepsTheZoneOfOneThatDid(t *testing.T) {
	r := newRig(t)
	r.reconcile(view())
	r.restart()
	v := view()
	v.Nodes = state.Fact[[]state.Node]{}
	if got := r.reconcile(v); got != "" || !strings.Contains(r.file(coredns.ZonePath), "host-1.") {
		t.Errorf("%q: %s", got, r.file(coredns.ZonePath))
	}
}

func TestOnAHostThatNeverKnewTheNodesTheNamesOfTheVIPsFollow(t *testing.T) {
	r := newRig(t)
	v := view()
	v.Nodes = state.Fact[[]state.Node]{}
	r.reconcile(v)
	r.restart()
	v.Settings.APIVIPs = []netip.Addr{netip.MustParseAddr("192.0.2.7")}
	if got := r.reconcile(v); got != "wrote cluster.zone" || !strings.Contains(r.file(coredns.ZonePath), "192.0.2.7") {
		t.Errorf("%q: %s", got, r.file(coredns.ZonePath))
	}
}

func TestHardCase29_B48_WithoutUpstreamsTheServerIsStillSetUp(t *testing.T) {
	r := newRig(t)
	v := view()
	v.Upstreams = nil
	if got := r.reconcile(v); got != "wrote cluster.zone, Corefile, coredns.yaml" {
		t.Error(got)
	}
}

func TestUpstreamsThatAreGoneForGoodAreTakenOut(t *testing.T) {
	r := newRig(t)
	r.reconcile(view())
	r.restart()
	v := view()
	v.Upstreams = nil
	if got := r.reconcile(v); got != "" {
		t.Errorf("at once: %q", got)
	}
	r.now = r.now.Add(startGrace)
	if got := r.reconcile(v); got != "wrote Corefile" || strings.Contains(r.file(coredns.ConfigPath), "forward") {
		t.Errorf("%q: %s", got, r.file(coredns.ConfigPath))
	}
}

func TestWhereTheSiteHasTheNamesNoServerIsSetUp(t *testing.T) {
	r := newRig(t)
	v := view()
	v.Settings.ManagedVIPs, v.Settings.APIVIPs, v.Settings.IngressVIPs = false, nil, nil
	if got := r.reconcile(v); got != "" || r.file(coredns.PodPath) != "" {
		t.Errorf("%q", got)
	}
}

func TestWhereTheSiteTakesItsLoadBalancerOverTheNamesOfNodesStay(t *testing.T) {
	r := newRig(t)
	r.reconcile(view())
	v := view()
	v.Settings.ManagedVIPs, v.Settings.APIVIPs, v.Settings.IngressVIPs = false, nil, nil
	r.reconcile(v)
	if zone := r.file(coredns.ZonePath); strings.Contains(zone, "\napi.") || !strings.Contains(zone, "\nhost-1. ") {
		t.Error(zone)
	}
}
