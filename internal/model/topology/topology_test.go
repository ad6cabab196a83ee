package topology

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/netaddr"
)

var update = flag.Bool("update", false, "rewrite golden files")

// site returns a configuration of the matrix. It need not be valid: a topology
// must make sense for every number.
func site(controlPlanes, workers int, platform string) *config.InstallConfig {
	c := &config.InstallConfig{
		ControlPlane: config.MachinePool{Replicas: new(int64(controlPlanes))},
		Compute:      []config.MachinePool{{Replicas: new(int64(workers))}},
		Networking:   config.Networking{MachineNetwork: []config.MachineNetworkEntry{{CIDR: "10.0.0.0/16"}}},
	}
	if platform == "none" {
		c.Platform.None = &config.NonePlatform{}
	} else {
		c.Platform.BareMetal = &config.BareMetalPlatform{APIVIPs: []string{"10.0.0.5"}, IngressVIPs: []string{"10.0.0.6"}}
	}
	return c
}

// matrix calls f for every control plane 1..5, worker 0..3 and platform.
func matrix(f func(controlPlanes, workers int, platform string)) {
	for cp := 1; cp <= 5; cp++ {
		for workers := range 4 {
			f(cp, workers, "none")
			f(cp, workers, "baremetal")
		}
	}
}

func TestTheWholeMatrix(t *testing.T) {
	var b strings.Builder
	row := func(cells ...any) {
		var line strings.Builder
		for i, cell := range cells {
			fmt.Fprintf(&line, "%-*v ", columns[i], cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	row("cp", "workers", "platform", "controlPlane", "infrastructure", "schedulable", "placement", "featureSet", "gates", "etcd", "fencing", "VIPs")
	matrix(func(cp, workers int, platform string) {
		x := Of(site(cp, workers, platform))
		row(cp, workers, platform, x.ControlPlaneTopology, x.InfrastructureTopology, x.MastersSchedulable,
			x.DefaultPlacement, dash(string(x.FeatureSet)), dash(gateNames(x)), x.EtcdScaling, x.Fencing, x.HasVIPs)
	})
	const path = "testdata/matrix.txt"
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

var columns = []int{2, 7, 9, 15, 15, 11, 12, 15, 19, 15, 7, 5}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func gateNames(x Topology) string {
	var names []string
	for _, g := range x.FeatureGates {
		names = append(names, fmt.Sprintf("%s%s", map[bool]string{true: "+", false: "-"}[g.Enabled], g.Name))
	}
	return strings.Join(names, ",")
}

// TestEverySentenceOfTheSpecifications compares the matrix with the sentences
// one by one, so that a golden file that was rewritten without thought is
// noticed.
func TestEverySentenceOfTheSpecifications(t *testing.T) {
	type row struct {
		cp, workers int
		platform    string
		Topology
	}
	sentences := []struct {
		text string
		when func(row) bool
		then func(row) bool
	}{
		{
			"one control plane is SingleReplica",
			func(r row) bool { return r.cp == 1 },
			func(r row) bool { return r.ControlPlaneTopology == "SingleReplica" },
		},
		{
			"two control planes are DualReplica",
			func(r row) bool { return r.cp == 2 },
			func(r row) bool { return r.ControlPlaneTopology == "DualReplica" },
		},
		{
			"three and more control planes are HighlyAvailable",
			func(r row) bool { return r.cp >= 3 },
			func(r row) bool { return r.ControlPlaneTopology == "HighlyAvailable" },
		},
		{
			"a lone host has SingleReplica infrastructure",
			func(r row) bool { return r.cp+r.workers == 1 },
			func(r row) bool { return r.InfrastructureTopology == "SingleReplica" },
		},
		{
			"any other cluster has HighlyAvailable infrastructure",
			func(r row) bool { return r.cp+r.workers > 1 },
			func(r row) bool { return r.InfrastructureTopology == "HighlyAvailable" },
		},
		{
			"without workers the control planes are schedulable",
			func(r row) bool { return r.workers == 0 },
			func(r row) bool { return r.MastersSchedulable },
		},
		{
			"with workers the control planes are not schedulable",
			func(r row) bool { return r.workers > 0 },
			func(r row) bool { return !r.MastersSchedulable },
		},
		{
			"routers stay on a single control plane of platform none, with day-1 workers too",
			func(r row) bool { return r.cp == 1 && r.platform == "none" },
			func(r row) bool { return r.DefaultPlacement == "ControlPlane" },
		},
		{
			"in any other situation routers are placed on workers",
			func(r row) bool { return r.cp != 1 || r.platform != "none" },
			func(r row) bool { return r.DefaultPlacement == "Workers" },
		},
		{
			"two control planes have the gate DualReplicaTopology under CustomNoUpgrade, and are fenced",
			func(r row) bool { return r.cp == 2 },
			func(r row) bool {
				return r.FeatureSet == "CustomNoUpgrade" && gateNames(r.Topology) == "+DualReplicaTopology" && r.Fencing
			},
		},
		{
			"other numbers of control planes have neither gates nor fencing",
			func(r row) bool { return r.cp != 2 },
			func(r row) bool { return r.FeatureSet == "" && len(r.FeatureGates) == 0 && !r.Fencing },
		},
		{
			"etcd has as many members as it needs to be what the topology promises",
			func(row) bool { return true },
			func(r row) bool {
				return r.EtcdScaling == map[int]EtcdScaling{1: EtcdSingleMember, 2: EtcdTwoNode}[r.cp] || r.cp > 2 && r.EtcdScaling == EtcdHighlyAvailable
			},
		},
		{
			"platform baremetal has VIPs and none has not",
			func(row) bool { return true },
			func(r row) bool { return r.HasVIPs == (r.platform == "baremetal") },
		},
	}
	for _, s := range sentences {
		applied := 0
		matrix(func(cp, workers int, platform string) {
			r := row{cp, workers, platform, Of(site(cp, workers, platform))}
			if !s.when(r) {
				return
			}
			applied++
			if !s.then(r) {
				t.Errorf("%s: %d+%d %s gives %+v", s.text, cp, workers, platform, r.Topology)
			}
		})
		if applied == 0 {
			t.Errorf("%s: no row", s.text)
		}
	}
}

func TestFeatureGatesOfTheConfigurationAreKept(t *testing.T) {
	c := site(2, 0, "none")
	c.FeatureSet = config.CustomNoUpgrade
	c.FeatureGates = []string{"Zeta=false", "Alpha=true"}
	x := Of(c)
	if got, want := gateNames(x), "+Alpha,+DualReplicaTopology,-Zeta"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	c = site(3, 0, "none")
	c.FeatureSet = config.TechPreviewNoUpgrade
	if x := Of(c); x.FeatureSet != configv1.TechPreviewNoUpgrade || len(x.FeatureGates) != 0 {
		t.Errorf("got %+v", x)
	}
}

func TestFamiliesFollowTheMachineNetworks(t *testing.T) {
	tests := []struct {
		cidrs []string
		want  []netaddr.Family
	}{
		{[]string{"10.0.0.0/24"}, []netaddr.Family{netaddr.IPv4}},
		{[]string{"fd98::/64"}, []netaddr.Family{netaddr.IPv6}},
		{[]string{"10.0.0.0/24", "10.0.1.0/24", "fd98::/64"}, []netaddr.Family{netaddr.IPv4, netaddr.IPv6}},
		{[]string{"fd98::/64", "10.0.0.0/24"}, []netaddr.Family{netaddr.IPv6, netaddr.IPv4}},
	}
	for _, tt := range tests {
		c := site(1, 0, "none")
		c.Networking.MachineNetwork = nil
		for _, cidr := range tt.cidrs {
			c.Networking.MachineNetwork = append(c.Networking.MachineNetwork, config.MachineNetworkEntry{CIDR: cidr})
		}
		x := Of(c)
		if diff := cmp.Diff(tt.want, x.Families); diff != "" || x.PrimaryFamily != tt.want[0] {
			t.Errorf("%v: primary %s (-want +got):\n%s", tt.cidrs, x.PrimaryFamily, diff)
		}
	}
}
