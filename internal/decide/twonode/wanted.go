package twonode

import (
	"slices"
	"strings"
)

// Names that other packages refer to.
const (
	Kubelet      = "kubelet"
	Etcd         = "etcd"
	KubeletClone = "kubelet-clone"
	EtcdClone    = "etcd-clone"
	EtcdAgent    = "ocf:holdfast:podman-etcd"
	FenceAgent   = "fence_holdfast"
)

// DeviceOf returns the id of the device that fences a node.
func DeviceOf(node string) string { return node + "_redfish" }

// Wanted returns the whole configuration. docs/adr/0012-pacemaker-settings.md
// holds the measurements behind the values.
func Wanted(in Input) Config {
	nodes := in.byName()
	c := Config{
		Corosync:   Corosync{Name: CorosyncName(in.Cluster), Nodes: nodes, TwoNode: true, Link: link(), Crypto: crypto(), Totem: totem()},
		Properties: properties(),
	}
	for _, n := range nodes {
		c.Resources = append(c.Resources, device(n.Name))
		c.Constraints = append(c.Constraints, ban(n.Name))
	}
	c.Resources = append(c.Resources, kubelet(), etcd(nodes))
	c.Constraints = append(c.Constraints, order(), colocation())
	return c
}

// Alone returns the configuration of a host that is one of two and has no peer yet. The device of
// the peer comes with the peer. The host's own device is there, although it never runs on its
// own host: without any device Pacemaker starts nothing.
func Alone(in Input) Config {
	c, peer := Wanted(in), in.Peer().Name
	c.Corosync.Nodes = slices.DeleteFunc(c.Corosync.Nodes, func(n Node) bool { return n.Name == peer })
	c.Corosync.TwoNode = false
	c.Resources = slices.DeleteFunc(c.Resources, func(r Resource) bool { return r.ID == DeviceOf(peer) })
	c.Constraints = slices.DeleteFunc(c.Constraints, func(con Constraint) bool { return con.ID == ban(peer).ID })
	return c
}

// link keeps knet from taking the only link down. By default knet does so when
// pings stay away for half a token, and waits for two pongs to take it up again.
// With one packet in ten lost, this broke up six memberships in a minute that
// were never in danger without it.
func link() []Setting {
	return []Setting{
		{"ping_interval", "500", "in ms"},
		{"ping_timeout", "5000", "in ms, longer than token and consensus: those decide whether the peer is lost, and there is no second link to change to"},
		{"pong_count", "1", "the first answer brings the link up again"},
	}
}

// crypto returns what pcs would choose, written down so that no other default
// counts.
func crypto() []Setting {
	return []Setting{
		{"cipher", "aes256", "nobody on the network can read the packets"},
		{"hash", "sha256", "without the key nobody can forge a membership or have a host fenced"},
	}
}

func totem() []Setting {
	return []Setting{
		{"token", "1500", "in ms: a host that is silent for longer is suspected; one and a half times the pause that a busy host may make"},
		{"consensus", "300", "in ms: a suspected host is lost after this further time; with two nodes less than token is safe, and the sum is the delay that a lost host costs"},
	}
}

func properties() []Setting {
	return []Setting{
		{"stonith-enabled", "true", "the two-node protocol of etcd depends on it"},
		{stonithAction, "reboot", "a fenced host comes back by itself"},
		{"stonith-timeout", "240s", "covers the longest fence: a BMC that takes 30 s for each answer, and a host that first waits for the other one's fence"},
		{"startup-fencing", "true", "a peer that was never seen may be running"},
		{"concurrent-fencing", "true", "no fence waits for another fence"},
		{"no-quorum-policy", "stop", "a host without quorum has booted and not seen its peer: it runs nothing"},
		{"start-failure-is-fatal", "false", "a start that failed once is tried again"},
		{"dc-deadtime", "5s", "two hosts that boot at the same time need not wait 20 s for a third"},
		{"cluster-recheck-interval", "60s", "how soon a given-up action, for example a fence after ten tries, is tried again"},
		{"load-threshold", "1000%", "a busy host must not delay recovery: Pacemaker would do one thing at a time"},
	}
}

// device fences a node. Address and account are in the fence agent's file.
func device(node string) Resource {
	return Resource{
		ID: DeviceOf(node), Agent: fence + ":" + FenceAgent,
		Parameters: []Setting{
			{"plug", node, "names the fence agent's file"},
			{"power_timeout", "60", "in s: how long a BMC may take to cut the power, longer if each of its answers is slow; with the delay and the request to switch on again it stays below stonith-timeout"},
			{"pcmk_host_list", node, "the device switches this node"},
			{"pcmk_host_check", "static-list", "and no other: the BMC is not queried for a list"},
			{"pcmk_action_limit", "-1", "a fence does not wait for a monitor of a slow BMC"},
			{"pcmk_reboot_timeout", "240s", "as stonith-timeout"},
			{"pcmk_off_timeout", "240s", "as stonith-timeout"},
			{"pcmk_reboot_retries", "1", "the fence agent retries by itself; when it ends a fence that is no longer needed, Pacemaker decides again instead of repeating the request"},
			{"pcmk_off_retries", "1", "as pcmk_reboot_retries"},
			{"pcmk_monitor_timeout", "90s", "two answers of the BMC, each given up after 40 s"},
			{"pcmk_status_timeout", "60s", "an answer of the BMC is given up after 40 s"},
		},
		Meta: []Setting{
			{"migration-threshold", "3", "a BMC that refuses at once must not be asked in a loop"},
			{"failure-timeout", "60s", "tried again after a minute; a device that failed can fence nevertheless"},
		},
		Operations: []Operation{
			{"start", []Setting{{"timeout", "100s", "longer than pcmk_monitor_timeout, whose message says more"}}},
			{"stop", []Setting{{"timeout", "20s", "the BMC is not contacted"}}},
			{"monitor", []Setting{{"interval", "60s", "how soon a wrong password is noticed"}, {"timeout", "100s", "longer than pcmk_monitor_timeout, whose message says more"}}},
		},
	}
}

func kubelet() Resource {
	return Resource{
		ID: Kubelet, Agent: "systemd:kubelet",
		Meta: []Setting{
			{"migration-threshold", "5", "after this many failures it stays stopped for a while"},
			{"failure-timeout", "120s", "tried again after this time: the cause may be repaired"},
		},
		Operations: []Operation{
			{"start", []Setting{{"timeout", "60s", "it starts at once or not at all"}}},
			{"stop", []Setting{
				{"timeout", "120s", "systemd kills a process that has not ended after 90 s: a frozen kubelet must not cause a fence of its host"},
				{"on-fail", "fence", "a process that even systemd cannot end means a broken host"},
			}},
			{"monitor", []Setting{
				{"interval", "5s", "systemd is queried over D-Bus, no process is started"},
				{"timeout", "20s", "systemd may be busy"},
				{"on-fail", "restart", "its host has a vote and running pods, so it is not fenced"},
			}},
		},
		Clone: &Clone{KubeletClone, []Setting{{"interleave", "true", "a node's kubelet matters to that node only"}}},
	}
}

func etcd(nodes []Node) Resource {
	var addresses []string
	for _, n := range nodes {
		addresses = append(addresses, n.Name+":"+n.Address)
	}
	return Resource{
		ID: Etcd, Agent: EtcdAgent,
		Parameters: []Setting{{"node_ip_map", strings.Join(addresses, ";"), "the two hosts"}},
		Meta: []Setting{
			{"migration-threshold", "10", "the etcd keeper repairs in place what it can; the rest is not retried forever"},
			{"failure-timeout", "60s", "tried again after a minute"},
		},
		Operations: []Operation{
			{"start", []Setting{{"timeout", "30s", "the etcd keeper accepts the request and returns"}}},
			{"stop", []Setting{
				{"timeout", "90s", "leadership moves, the member leaves, etcd stops"},
				{"on-fail", "fence", "an etcd that cannot be stopped could go on beside its successor"},
			}},
			{"monitor", []Setting{
				{"interval", "3s", "one request to a socket, no process in the container"},
				{"timeout", "10s", "it answers within 1 s"},
				{"on-fail", "restart", "a crash of etcd is no reason to cut a host's power"},
			}},
			{"notify", []Setting{{"timeout", "10s", "a hint, never waited for"}}},
		},
		Clone: &Clone{EtcdClone, []Setting{
			{"interleave", "true", "a node's etcd waits for that node's kubelet only"},
			{"notify", "true", "the etcd keeper learns when the peer's instance has ended, 20 ms after a fence"},
		}},
	}
}

// ban keeps a device from its own target: a host that cannot be reached cannot
// fence itself, and its monitor would not test the peer's way to the BMC.
func ban(node string) Constraint {
	d := DeviceOf(node)
	return Constraint{
		ID: d + "-not-on-" + node, Kind: Location, Why: "the peer does the fencing, so the monitor tests the peer's connection to the BMC",
		Settings: []Setting{{Name: "rsc", Value: d}, {Name: "node", Value: node}, {Name: "score", Value: "-INFINITY"}},
	}
}

func order() Constraint {
	return Constraint{
		ID: "holdfast-kubelet-then-etcd", Kind: Order,
		Why: "kubelet first if both start; but a kubelet that fails or cannot start neither stops nor delays a voter",
		Settings: []Setting{
			{Name: "first", Value: KubeletClone},
			{Name: "first-action", Value: "start"},
			{Name: "then", Value: EtcdClone},
			{Name: "then-action", Value: "start"},
			{Name: "kind", Value: "Optional"},
		},
	}
}

func colocation() Constraint {
	return Constraint{
		ID: "holdfast-etcd-with-kubelet", Kind: Colocation,
		Why: "etcd should run where kubelet runs; only a preference, because a node without kubelet still has a vote",
		Settings: []Setting{
			{Name: "rsc", Value: EtcdClone},
			{Name: "with-rsc", Value: KubeletClone},
			{Name: "score", Value: "1000"},
		},
	}
}
