package keepalived

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/golden"
)

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// The vectors were computed with the implementation that this replaces, so
// that a cluster's ids do not change: research/network.md §1.2.
func TestRouterIDsAreThePublishedOnes(t *testing.T) {
	for cluster, want := range map[string][2]uint8{
		"cnf10": {147, 2}, "cnf11": {228, 147}, "ostest": {14, 93},
		"holdfast": {77, 92}, "prod": {2, 33}, "lab-1": {231, 102},
	} {
		api, ingress := RouterIDs(cluster)
		if got := [2]uint8{api, ingress}; got != want {
			t.Errorf("%s: got %v, want %v", cluster, got, want)
		}
	}
}

func TestRouterIDsAreNeverZeroAndNeverEqual(t *testing.T) {
	for a := 'a'; a <= 'z'; a++ {
		for b := 'a'; b <= 'z'; b++ {
			name := string(a) + string(b)
			if api, ingress := RouterIDs(name); api == 0 || ingress == 0 || api == ingress {
				t.Errorf("%s: api %d, ingress %d", name, api, ingress)
			}
		}
	}
}

func TestAHostTakesPartOnlyIfItIsAmongTheControlPlanes(t *testing.T) {
	site := Site{
		Cluster: "shop", VIPs: addrs("10.98.0.5", "fd98::5"), Interface: "eth0",
		Own: addrs("10.98.0.11", "fd98::11"),
	}
	for _, c := range []struct {
		name          string
		controlPlanes []netip.Addr
		bootstrap     bool
		want          []string
	}{
		{"an empty view", nil, false, nil},
		{"a view without this host", addrs("10.98.0.12", "fd98::12"), false, nil},
		{"a view that lacks this host's IPv6 address", addrs("10.98.0.11", "fd98::12"), false, []string{"shop_API_0"}},
		{"a whole view", addrs("10.98.0.11", "fd98::11"), false, []string{"shop_API_0", "shop_API_1"}},
		{"the bootstrapping host needs no view", nil, true, []string{"shop_API_0", "shop_API_1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			site.ControlPlanes, site.Bootstrap = c.controlPlanes, c.bootstrap
			var got []string
			for _, i := range Instances(site) {
				got = append(got, i.Name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheBootstrappingHostOutranksAHealthyControlPlane(t *testing.T) {
	if BootstrapPriority <= ControlPlanePriority+apiWeight {
		t.Errorf("bootstrap %d, control plane at best %d", BootstrapPriority, ControlPlanePriority+apiWeight)
	}
}

func TestPeersAreOfTheSameFamilyAndNeverOneself(t *testing.T) {
	got := Instances(Site{
		Cluster: "shop", VIPs: addrs("fd98::5"), Interface: "eth0", Own: addrs("10.98.0.11", "fd98::11"),
		ControlPlanes: addrs("fd98::13", "10.98.0.12", "fd98::11", "fd98::12", "fd98::12"),
	})
	if diff := cmp.Diff(addrs("fd98::12", "fd98::13"), got[0].Peers, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}

func TestConfigMatchesTheApprovedFile(t *testing.T) {
	for name, site := range map[string]Site{
		"bootstrap-v4.conf": {Cluster: "shop", VIPs: addrs("10.98.0.5"), Interface: "eth0", Own: addrs("10.98.0.11"), Bootstrap: true},
		"two-dual.conf": {
			Cluster: "shop", VIPs: addrs("10.98.0.5", "fd98::5"), Interface: "eth0", Own: addrs("10.98.0.11", "fd98::11"),
			ControlPlanes: addrs("10.98.0.11", "fd98::11", "10.98.0.12", "fd98::12"),
		},
		"three-v6.conf": {
			Cluster: "shop", VIPs: addrs("fd98::5"), Interface: "eth0", Own: addrs("fd98::12"),
			ControlPlanes: addrs("fd98::11", "fd98::12", "fd98::13"),
		},
		"none.conf": {Cluster: "shop", Interface: "eth0"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Config(Instances(site))
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, got)
		})
	}
}

func TestPodMatchesTheApprovedFile(t *testing.T) {
	got, err := Pod("release.example/keepalived:v1")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "pod.yaml", got)
}
