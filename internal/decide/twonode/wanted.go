package twonode

import "strings"

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

// link keeps knet from taking the only link down. By default knet does so when
// pings stay away for half a token, and waits for two pongs to take it up again.
// With one packet in ten lost, this broke up six memberships in a minute that
// were never in danger without it.
func link() []Setting {
	return []Setting{
		{"ping_interval", "500", "in ms"},
		{"ping_timeout", "5000", "longer than token and consensus, in ms: whether the peer is lost is for them to say, there is no second link to change to"},
		{"pong_count", "1", "the first answer takes the link up again"},
	}
}

// crypto returns what pcs would choose, written down so that no other default
// counts.
func crypto() []Setting {
	return []Setting{
		{"cipher", "aes256", "who hears the packets reads none of them"},
		{"hash", "sha256", "who has not the key forges no membership, and fences nobody"},
	}
}

func totem() []Setting {
	return []Setting{
		{"token", "1500", "a host that is silent for so long, in ms, is suspected: half again the pause that a busy host may make"},
		{"consensus", "300", "and lost after so long more, in ms: with two nodes less than token is safe, and the sum is what a lost host costs"},
	}
}

func properties() []Setting {
	return []Setting{
		{"stonith-enabled", "true", "the protocol of etcd rests on it"},
		{"stonith-action", "reboot", "a fenced host comes back by itself"},
		{"stonith-timeout", "240s", "covers the longest fence: a BMC that takes 30 s for each answer, asked by the host that waits for the other"},
		{"startup-fencing", "true", "a peer that was never seen may be running"},
		{"concurrent-fencing", "true", "no fence waits for another one"},
		{"no-quorum-policy", "stop", "without quorum a host has booted and not seen its peer: it runs nothing"},
		{"start-failure-is-fatal", "false", "a start that failed once is tried again"},
		{"dc-deadtime", "5s", "two hosts that boot at once need not wait 20 s for a third"},
		{"cluster-recheck-interval", "60s", "what was given up, a fence after ten tries say, is tried again so soon"},
		{"load-threshold", "1000%", "a busy host must not hold recovery up: Pacemaker would do one thing at a time"},
	}
}

// device fences a node. Address and account are in the fence agent's file.
func device(node string) Resource {
	return Resource{
		ID: DeviceOf(node), Agent: fence + ":" + FenceAgent,
		Parameters: []Setting{
			{"plug", node, "names the agent's file"},
			{"power_timeout", "60", "a BMC may take so long to cut the power, and longer where it is slow with each answer; with the delay and the request to switch on again it is below stonith-timeout"},
			{"pcmk_host_list", node, "it switches this node"},
			{"pcmk_host_check", "static-list", "and no other: the BMC is not asked for a list"},
			{"pcmk_action_limit", "-1", "a fence does not wait for a monitor of a slow BMC"},
			{"pcmk_reboot_timeout", "240s", "as stonith-timeout"},
			{"pcmk_off_timeout", "240s", "as stonith-timeout"},
			{"pcmk_reboot_retries", "1", "the agent tries again by itself; where it ends a fence that is moot, Pacemaker decides anew and does not ask for the same once more"},
			{"pcmk_off_retries", "1", "as pcmk_reboot_retries"},
			{"pcmk_monitor_timeout", "90s", "two answers of the BMC, each of which is given up after 40 s"},
			{"pcmk_status_timeout", "60s", "an answer of the BMC is given up after 40 s"},
		},
		Meta: []Setting{
			{"migration-threshold", "3", "a BMC that refuses at once must not be asked in a loop"},
			{"failure-timeout", "60s", "but again after a minute; a device that failed fences nevertheless"},
		},
		Operations: []Operation{
			{"start", []Setting{{"timeout", "100s", "longer than pcmk_monitor_timeout, whose words say more"}}},
			{"stop", []Setting{{"timeout", "20s", "nothing is asked"}}},
			{"monitor", []Setting{{"interval", "60s", "how soon a wrong password is noticed"}, {"timeout", "100s", "longer than pcmk_monitor_timeout, whose words say more"}}},
		},
	}
}

func kubelet() Resource {
	return Resource{
		ID: Kubelet, Agent: "systemd:kubelet",
		Meta: []Setting{
			{"migration-threshold", "5", "after so many failures it is left off for a while"},
			{"failure-timeout", "120s", "and tried again: what broke it may be mended"},
		},
		Operations: []Operation{
			{"start", []Setting{{"timeout", "60s", "it starts at once or not at all"}}},
			{"stop", []Setting{
				{"timeout", "120s", "systemd kills a process that does not end after 90 s: a frozen kubelet must not fence its host"},
				{"on-fail", "fence", "what not even systemd can end is a broken host"},
			}},
			{"monitor", []Setting{
				{"interval", "5s", "systemd is asked over D-Bus, no process is started"},
				{"timeout", "20s", "systemd may be busy"},
				{"on-fail", "restart", "its host has a vote and running pods"},
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
		Parameters: []Setting{{"node_ip_map", strings.Join(addresses, ";"), "who the two are"}},
		Meta: []Setting{
			{"migration-threshold", "10", "the agent mends in place what it can; what it cannot is not tried forever"},
			{"failure-timeout", "60s", "but again after a minute"},
		},
		Operations: []Operation{
			{"start", []Setting{{"timeout", "30s", "the agent takes the wish and returns"}}},
			{"stop", []Setting{
				{"timeout", "90s", "leadership is handed over, the member leaves, etcd ends"},
				{"on-fail", "fence", "an etcd that cannot be stopped could go on beside its successor"},
			}},
			{"monitor", []Setting{
				{"interval", "3s", "one request to a socket, no process in the container"},
				{"timeout", "10s", "it answers within one"},
				{"on-fail", "restart", "a crash of etcd is no reason to cut a host's power"},
			}},
			{"notify", []Setting{{"timeout", "10s", "a hint, never waited for"}}},
		},
		Clone: &Clone{EtcdClone, []Setting{
			{"interleave", "true", "a node's etcd waits for that node's kubelet only"},
			{"notify", "true", "the agent hears when the peer's instance has ended, which is 20 ms after a fence"},
		}},
	}
}

// ban keeps a device from its own target: a host that cannot be reached cannot
// fence itself, and its monitor would not test the peer's way to the BMC.
func ban(node string) Constraint {
	d := DeviceOf(node)
	return Constraint{
		ID: d + "-not-on-" + node, Kind: Location, Why: "who fences is the peer, and the peer's way to the BMC is what is watched",
		Settings: []Setting{{Name: "rsc", Value: d}, {Name: "node", Value: node}, {Name: "score", Value: "-INFINITY"}},
	}
}

func order() Constraint {
	return Constraint{
		ID: "holdfast-kubelet-then-etcd", Kind: Order,
		Why: "kubelet first where both start; but a kubelet that fails or cannot start neither stops nor keeps back a voter",
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
		Why: "etcd belongs where kubelet is; a preference, because a node without kubelet still has a vote",
		Settings: []Setting{
			{Name: "rsc", Value: EtcdClone},
			{Name: "with-rsc", Value: KubeletClone},
			{Name: "score", Value: "1000"},
		},
	}
}
