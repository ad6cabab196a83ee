package doctor

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

var now = time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// wellHost returns one of two hosts, with everything that a careful site has.
func wellHost(name, peer, number string, delay time.Duration) Host {
	return Host{
		Name: name, From: now, To: now, Source: Asked,
		Topology: state.Known(Topology{ControlPlanes: 2, Fencing: true}),
		Clock:    state.Known(Clock{Synchronised: true, Service: "chrony"}),
		Offset:   state.Known(Offset{Low: -10 * time.Millisecond, High: 10 * time.Millisecond}),
		Called:   state.Known(name), Addresses: state.Known([]OwnAddress{{Address: "10.0.0." + number, Interface: "eth0"}}),
		Swap: state.Known[uint64](0), Rebooters: state.Known([]string{}), Watchdogs: state.Known([]string{}),
		Rings: state.Known([]Ring{
			{Address: "10.0.0." + number, Interface: "eth0", Subnet: "10.0.0.0/24", MTU: 1500},
			{Address: "10.0.1." + number, Interface: "eth1", Subnet: "10.0.1.0/24", MTU: 9000},
		}),
		BMCs: state.Known([]BMC{{
			Target: peer, Address: "10.9.0.1" + number, Delay: delay, Verified: true, Interface: "eth2",
			Shows:  state.Known(Shown{Ends: now.Add(700 * day), Offset: state.Known(Offset{Low: -time.Second, High: time.Second})}),
			Proven: now.Add(-20 * day), Slowest: 2 * time.Second,
		}}),
		RingLacks: state.Known(""),
		Devices:   state.Known([]Device{{ID: peer + "_redfish", Agent: "fence_holdfast", Ours: true}}),
		Etcd:      state.Known(Etcd{Size: 100 << 20, InUse: 80 << 20, Quota: 2 << 30, FsyncP99: 3 * time.Millisecond, Writes: 100000}),
		Certificates: state.Known([]Certificate{
			{Path: "/etc/kubernetes/pki/ca.crt", Ends: now.Add(3000 * day), Authority: true},
			{Path: "/etc/kubernetes/pki/apiserver.crt", Ends: now.Add(300 * day)},
		}),
		NICs:     state.Known(NICs{Uplinks: []string{"eth0", "eth1", "eth2"}}),
		Names:    state.Known([]Name{{Name: "api.one.site", Addresses: []string{"10.0.0.5"}, Want: []string{"10.0.0.5"}}}),
		Firewall: state.Known(Firewall{Ours: true}),
		Mirrors:  state.Known([]Mirror{}),
	}
}

func amountOf(cores, gib, pods int64) Amount {
	return Amount{CPU: cores * 1000, Memory: gib << 30, Pods: pods}
}

func node(name string) Node {
	return Node{
		Name: name, ControlPlane: true, Kubelet: "v1.36.3", Runtime: "containerd://2.4.1", Allocatable: amountOf(8, 32, 110),
		Labels:  map[string]string{state.LabelControlPlane: "", state.LabelMaster: "", "kubernetes.io/hostname": name},
		Machine: state.Machine{UUID: "uuid-" + name, Serial: "serial-" + name}.String(),
	}
}

func pod(name, node string) Pod {
	return Pod{Namespace: "shop", Name: name, Node: node, Labels: map[string]string{"app": "web"}, Requests: amountOf(1, 1, 1)}
}

func web(replicas int32) Workload {
	return Workload{Kind: "Deployment", Namespace: "shop", Name: "web", Replicas: replicas, Labels: map[string]string{"app": "web"}, Images: []string{"registry.site/kured-fans/web:1"}}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// budget returns a budget that wants desired of expected pods healthy; all of
// them are.
func budget(expected, desired int32) Budget {
	return Budget{Namespace: "shop", Name: "web", Selector: selector("web"), Observed: true, Expected: expected, Desired: desired, Healthy: expected, Allowed: expected - desired}
}

// wellTwo returns a cluster of two hosts without findings.
func wellTwo() Facts {
	return Facts{
		At: now, Topology: Topology{ControlPlanes: 2, Fencing: true},
		Hosts: []Host{wellHost("cp-1", "cp-2", "1", 0), wellHost("cp-2", "cp-1", "2", 20*time.Second)},
		Cluster: Cluster{
			Nodes:      state.Known([]Node{node("cp-1"), node("cp-2")}),
			Pods:       state.Known([]Pod{pod("web-a", "cp-1"), pod("web-b", "cp-2"), nameServer("cp-1"), nameServer("cp-2")}),
			Unenforced: state.Known([]string{}),
			DNS:        state.Known([]DNSService{{Name: "kube-dns", SameNode: true}}),
			Budgets:    state.Known([]Budget{budget(2, 1)}),
			Workloads:  state.Known([]Workload{web(2)}),
			Metal:      state.Known([]BareMetalHost{}), Remedies: state.Known([]RemediationRule{}),
		},
	}
}

// nameServer returns the pod of cluster DNS on a host.
func nameServer(node string) Pod {
	return Pod{
		Namespace: "kube-system", Name: "coredns-" + node, Node: node, Fixed: true,
		Labels: map[string]string{"k8s-app": "kube-dns", "holdfast.io/host-names": ""}, Requests: Amount{CPU: 100, Memory: 70 << 20, Pods: 1},
	}
}

// wellMany returns a cluster of one or three hosts, without fencing.
func wellMany(names ...string) Facts {
	f := wellTwo()
	f.Topology = Topology{ControlPlanes: len(names)}
	f.Hosts, f.Cluster.Nodes.Value = nil, nil
	f.Cluster.Pods.Value = f.Cluster.Pods.Value[:2]
	for _, name := range names {
		f.Cluster.Pods.Value = append(f.Cluster.Pods.Value, nameServer(name))
		h := wellHost(name, "", "1", 0)
		h.Watchdogs, h.Rings = state.Fact[[]string]{}, state.Fact[[]Ring]{}
		h.BMCs, h.Devices = state.Fact[[]BMC]{}, state.Fact[[]Device]{}
		f.Hosts = append(f.Hosts, h)
		f.Cluster.Nodes.Value = append(f.Cluster.Nodes.Value, node(name))
	}
	return f
}
