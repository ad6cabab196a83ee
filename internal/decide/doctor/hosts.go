package doctor

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/model/state"
)

// hostChecks are about hosts in general.
var hostChecks = []Check{
	{
		ID: "nodes", Title: "every control plane has its Node, with its role labels", For: Everywhere, judge: judgeNodes,
		Meaning: "A Node is the record of its host, and can be deleted while the host runs on. Without it nothing new is scheduled there and its pods are deleted; without the role labels, routers, operators and guards ignore the host. The agent of the host restores both within seconds, so if one stays missing there is a cause.",
		Lines: []string{
			"journalctl -u holdfast-agent -n 50     # on that host: docs/runbook/deleted-objects.md",
			"systemctl restart kubelet              # on that host; kubelet then registers it",
		},
	},
	{
		ID: "certificates", Title: "no certificate expires soon", For: Everywhere, judge: judgeCertificates,
		Alerts:  []string{"HoldfastCertificateEnds", "HoldfastCertificateEndsWhileAHostIsOff", "HoldfastCertificateNotRenewed"},
		Meaning: "Whoever shows an expired certificate is refused. On a control plane holdfast-agent renews what kubeadm signed when two thirds of its life are over, and kubelet renews its own while it runs: if this check warns of one of these, that program does not run or cannot renew it. What expires while a host is off is renewed once its agent runs.",
		Lines: []string{
			"journalctl -u holdfast-agent -g 'leaf certificates'     # on that host, why it was not renewed: docs/runbook/leaf-certificates.md",
			"kubeadm certs check-expiration",
		},
	},
	{
		ID: "versions", Title: "the hosts run the same versions", For: Several, judge: judgeVersions,
		Meaning: "An upgrade that stopped halfway leaves kubelets of two versions. This works until a pod moves to the other version, and the next upgrade starts from an untested state.",
		Lines:   []string{"kubectl get nodes -o wide"},
	},
	{
		ID: "host-name", Title: "each host is called as its node is", For: Everywhere, judge: judgeCalled,
		Meaning: "A lease of DHCP, cloud-init or a person can give a living host another name. Holdfast, Corosync, Pacemaker and kubelet keep the name with which the host joined, so nobody is fenced for it. Logs, prompts and programs of the site go by the other name. A kubelet that was installed before Holdfast told it its name looks for a node of the other name at its next start, and finds none.",
		Lines: []string{
			"hostnamectl set-hostname NODE     # on that host: the name of its node",
			"echo 'preserve_hostname: true' > /etc/cloud/cloud.cfg.d/99-holdfast.cfg     # where cloud-init set the other name",
			"grep hostname-override /var/lib/kubelet/kubeadm-flags.env     # kubelet has been told its name",
		},
	},
	{
		ID: "host-address", Title: "each host has the addresses by which its node is known", For: Everywhere, judge: judgeAddresses,
		Meaning: "etcd, Corosync, certificates and kubelet of a host go by the addresses that it had when it was installed. If a lease of DHCP changes or somebody renumbers an interface, its peers do not find it: of two hosts, it is fenced once, and then waits beside the survivor until it has its address again. Nothing takes another address over by itself.",
		Lines: []string{
			"ip -brief address                     # on that host",
			"journalctl -u NetworkManager -u systemd-networkd -u networking -g -i dhcp     # which lease it got",
			"holdfast site readdress --help        # if the whole site moves: docs/runbook/readdress.md",
		},
	},
	{
		ID: "swap", Title: "hosts do not swap", For: Everywhere, judge: judgeSwap,
		Meaning: "If memory of etcd, kubelet or Corosync is swapped out, they miss their time-outs under memory pressure: the host looks dead and is fenced. kubelet refuses to start with swap unless it is configured otherwise.",
		Lines: []string{
			"swapoff -a                             # now",
			"sed -i '/\\sswap\\s/s/^/#/' /etc/fstab     # and at the next boot",
		},
	},
	{
		ID: "firewall", Title: "a host's ports are open to those that need them, and to no others", For: Everywhere, judge: judgeFirewall,
		Meaning: "A site firewall that refuses a port of the cluster looks like a broken cable: the other host does not answer. firewalld, which RHEL and its relatives start by default, refuses nearly all of these ports. Holdfast's own table refuses nothing that is needed, and closes etcd, Corosync and the pod network to foreign hosts and pods.",
		Lines: []string{
			"firewall-cmd --permanent --add-port=PORT/PROTOCOL     # or --add-protocol=vrrp; for each of them: docs/runbook/firewall.md lists all of a host",
			"firewall-cmd --permanent --zone=trusted --add-source=NETWORK     # of pods",
			"firewall-cmd --reload",
			"ufw allow in PORT/PROTOCOL     # with ufw",
		},
	},
	{
		ID: "network-policies", Title: "existing NetworkPolicies are enforced", For: Everywhere, judge: judgePolicies,
		Meaning: "The pod network that comes with Holdfast connects pods and enforces no NetworkPolicy. New ones are refused, unless the label of their namespace acknowledges this; older ones, and those of such namespaces, protect nothing, although they look as if they did.",
		Lines: []string{
			"kubectl get networkpolicies --all-namespaces",
			"kubectl -n NAMESPACE delete networkpolicy NAME     # or bring an enforcer: docs/what-you-bring.md",
		},
	},
	{
		ID: "mirrors", Title: "every file with mirrors of a registry counts", For: Everywhere, judge: judgeMirrors,
		Meaning: "containerd logs a hosts.toml that it cannot read, ignores it, and asks the registry itself. A site without a way to that registry then pulls no image, for the first time perhaps in a failover. Files of a MachineConfig are checked before any host has them; this one was written on the host.",
		Lines: []string{
			"vi PATH                                                    # on that host: what this check names",
			"journalctl -u containerd -g hosts.toml                     # what containerd says of it",
			"holdfast-agent configure                                   # puts back a file of the host's MachineConfig",
		},
	},
	{
		ID: "names", Title: "the names of the cluster resolve on each host", For: Everywhere, judge: judgeNames,
		Meaning: "Hosts, administrators and pods reach the API and ingress by name. A host that resolves these names to something else works until it has to reconnect.",
		Lines: []string{
			"holdfast-agent monitor coredns     # on that host",
			"getent ahosts api.DOMAIN           # docs/runbook/names.md",
		},
	},
}

// The times before the end of a certificate at which findings begin.
const (
	endsCritical  = 7 * 24 * time.Hour
	endsWarning   = 30 * 24 * time.Hour
	lacksWarning  = 90 * 24 * time.Hour
	authorityEnds = 365 * 24 * time.Hour
)

func judgeCertificates(s *sheet) {
	eachHost(s, "certificates", func(h Host) state.Fact[[]Certificate] { return h.Certificates }, func(h Host, list []Certificate) {
		s.unrenewed(h.Name, list)
		s.crowded(h.Name, list)
		var first time.Time
		for _, c := range list {
			if severity := s.ending(c); severity != finding.OK {
				s.say(severity, h.Name, "%s %s", c.Path, ends(c.Ends.Sub(s.At)))
			} else if first.IsZero() || c.Ends.Before(first) {
				first = c.Ends
			}
		}
		if !first.IsZero() {
			s.say(finding.OK, h.Name, "the next of the other certificates expires in %d days", days(first.Sub(s.At)))
		}
	})
}

// unrenewed tells which certificates of a host a person has to renew, because the key
// of their authority is kept elsewhere (docs/facts/life.md#certificates, L-C23).
func (s *sheet) unrenewed(host string, list []Certificate) {
	first, count := map[string]time.Time{}, map[string]int{}
	for _, c := range list {
		if c.Lacks == "" {
			continue
		}
		if count[c.Lacks]++; count[c.Lacks] == 1 || c.Ends.Before(first[c.Lacks]) {
			first[c.Lacks] = c.Ends
		}
	}
	for _, key := range slices.Sorted(maps.Keys(first)) {
		left, level := first[key].Sub(s.At), finding.Note
		if left < lacksWarning {
			level = finding.Warning
		}
		s.say(level, host, "%s is not on this host, so %d of its certificates can be renewed only where the key is; the first %s", key, count[key], ends(left))
	}
}

// crowded tells of an authority's file with which the controller manager does not
// start: it signs by the one certificate of that file, unless it has a file of its own
// (docs/facts/life.md#certificates, L-C25).
func (s *sheet) crowded(host string, list []Certificate) {
	if slices.ContainsFunc(list, func(c Certificate) bool { return c.Path == state.SigningPair }) {
		return
	}
	for _, c := range list {
		if c.Path == leafcert.KubernetesCA+".crt" && c.Others > 0 {
			s.say(finding.Warning, host, "%s contains %d certificates, and kube-controller-manager signs nothing and does not start again with more than one: keep the one that belongs to %s.key",
				c.Path, c.Others+1, leafcert.KubernetesCA)
		}
	}
}

func (s *sheet) ending(c Certificate) finding.Severity {
	left := c.Ends.Sub(s.At)
	switch {
	case left < endsCritical:
		return finding.Critical
	case left < endsWarning:
		return finding.Warning
	case c.Authority && left < authorityEnds:
		return finding.Note
	}
	return finding.OK
}

func ends(left time.Duration) string {
	switch {
	case left <= 0:
		return sprintf("expired %d days ago", days(-left))
	case left < 48*time.Hour:
		return sprintf("expires in %d hours", int(left/time.Hour))
	}
	return sprintf("expires in %d days", days(left))
}

func judgeVersions(s *sheet) {
	nodes, ok := known(s, "nodes", s.Cluster.Nodes)
	if !ok {
		return
	}
	s.differ(nodes, "kubelet", finding.Warning, func(n Node) string { return n.Kubelet })
	s.differ(nodes, "container runtime", finding.Note, func(n Node) string { return n.Runtime })
}

func (s *sheet) differ(nodes []Node, what string, severity finding.Severity, version func(Node) string) {
	on := map[string][]string{}
	for _, n := range nodes {
		on[version(n)] = append(on[version(n)], n.Name)
	}
	if len(on) < 2 {
		return
	}
	var words []string
	for _, v := range slices.Sorted(maps.Keys(on)) {
		words = append(words, v+" on "+strings.Join(on[v], ", "))
	}
	s.say(severity, "", "%s: %s", what, strings.Join(words, "; "))
}

// judgeNodes compares the Nodes with the topology for which the cluster was
// installed.
func judgeNodes(s *sheet) {
	nodes, ok := known(s, "the nodes", s.Cluster.Nodes)
	if !ok {
		return
	}
	there := 0
	for _, n := range nodes {
		if n.ControlPlane {
			there++
		}
		if lost := noderole.Missing(n.Labels, false, n.ControlPlane); len(lost) > 0 {
			s.say(finding.Warning, n.Name, "its Node lacks %s", strings.Join(lost, ", "))
		}
	}
	severity := finding.OK
	if there < s.Topology.ControlPlanes {
		severity = finding.Critical
	}
	s.say(severity, "", "%d of %d control planes have a Node", there, s.Topology.ControlPlanes)
}

// judgeCalled compares what the kernel calls a host with its node (docs/facts/loss.md, L74).
func judgeCalled(s *sheet) {
	eachHost(s, "name of the kernel", func(h Host) state.Fact[string] { return h.Called }, func(h Host, called string) {
		if called != h.Name {
			s.say(finding.Warning, h.Name, "this host is called %q now, and its node %q", called, h.Name)
		}
	})
}

// judgeAddresses finds addresses that a host has lost (docs/facts/loss.md, L73).
func judgeAddresses(s *sheet) {
	eachHost(s, "own addresses", func(h Host) state.Fact[[]OwnAddress] { return h.Addresses }, func(h Host, list []OwnAddress) {
		for _, a := range list {
			if a.Interface == "" {
				s.say(finding.Critical, h.Name, "no interface has %s, by which kubelet, etcd and its peers know it: give it that address back (a reservation in DHCP, or a static one)", a.Address)
			}
		}
	})
}

// judgeMirrors tells which files containerd ignores (docs/facts/life.md, L-M41).
func judgeMirrors(s *sheet) {
	eachHost(s, "mirrors", func(h Host) state.Fact[[]Mirror] { return h.Mirrors }, func(h Host, list []Mirror) {
		for _, m := range list {
			s.say(finding.Warning, h.Name, "containerd ignores %s: %s", m.Path, m.Why)
		}
	})
}

func judgeSwap(s *sheet) {
	eachHost(s, "swap", func(h Host) state.Fact[uint64] { return h.Swap }, func(h Host, bytes uint64) {
		if bytes > 0 {
			s.say(finding.Warning, h.Name, "it has %d MiB of swap", bytes>>20)
		}
	})
}

func judgeNames(s *sheet) {
	eachHost(s, "names", func(h Host) state.Fact[[]Name] { return h.Names }, func(h Host, list []Name) {
		for _, n := range list {
			switch {
			case n.Problem != "":
				s.say(finding.Warning, h.Name, "%s does not resolve: %s", n.Name, n.Problem)
			case len(n.Want) > 0 && !anyOf(n.Addresses, n.Want):
				s.say(finding.Warning, h.Name, "%s resolves to %s, not to %s", n.Name, strings.Join(n.Addresses, ", "), strings.Join(n.Want, " or "))
			default:
				s.say(finding.OK, h.Name, "%s resolves to %s", n.Name, strings.Join(n.Addresses, ", "))
			}
		}
	})
}

func judgeFirewall(s *sheet) {
	eachHost(s, "firewalls", func(h Host) state.Fact[Firewall] { return h.Firewall }, func(h Host, f Firewall) {
		switch {
		case f.Off:
			s.say(finding.Note, h.Name, "Holdfast's rules are switched off in /etc/holdfast/firewall: etcd, Corosync and the pod network are open to anyone who reaches the host")
		case !f.Ours:
			s.say(finding.Warning, h.Name, "it lacks Holdfast's rules: check nft list table inet holdfast_input; for the reason see journalctl -u holdfast-agent")
		}
		for _, site := range f.Site {
			s.siteFirewall(h.Name, site)
		}
		if len(f.Site) == 0 && f.Ours {
			s.say(finding.OK, h.Name, "no other firewall refuses packets there")
		}
	})
}

func (s *sheet) siteFirewall(name string, f state.SiteFirewall) {
	if len(f.Cluster) > 0 {
		s.say(finding.Critical, name, "%s refuses ports that hosts need from each other: %s", f.Name, strings.Join(f.Cluster, ", "))
	}
	if len(f.Pods) > 0 {
		s.say(finding.Critical, name, "%s refuses packets of pods (%s)", f.Name, strings.Join(f.Pods, ", "))
	}
	if len(f.Applications) > 0 {
		s.say(finding.Warning, name, "%s refuses ports that clients of applications need if they reach them through this host: %s", f.Name, strings.Join(f.Applications, ", "))
	}
	switch {
	case f.Unjudged:
		s.notSeen("what %s on %s refuses (docs/ports.md lists what is needed)", f.Name, name)
	case !f.Refuses():
		s.say(finding.OK, name, "%s allows everything that is needed", f.Name)
	}
}

// mostNamed is the number of objects that a finding names.
const mostNamed = 5

func judgePolicies(s *sheet) {
	list, ok := known(s, "NetworkPolicies", s.Cluster.Unenforced)
	if !ok || len(list) == 0 {
		return
	}
	words := strings.Join(list[:min(len(list), mostNamed)], ", ")
	if more := len(list) - mostNamed; more > 0 {
		words += sprintf(" and %d more", more)
	}
	s.say(finding.Warning, "", "%d NetworkPolicies are not enforced: %s", len(list), words)
}
