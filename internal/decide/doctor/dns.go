package doctor

import (
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// dnsChecks are about the DNS of the cluster's Services, which every pod asks.
var dnsChecks = []Check{
	{
		ID: "cluster-dns", Title: "the pods of each host have a name server on that host", For: Several, judge: judgeClusterDNS,
		Meaning: "Pods resolve names through one Service. A lost host stays behind that Service until the cluster has noticed, and queries sent to it get no answer; if all name servers run on one host, its loss breaks name resolution for every pod. With a name server on each host, used by the pods of that host, a lost host affects no other pods.",
		Lines: []string{
			"kubectl -n kube-system get pods -l k8s-app=kube-dns -o wide",
			"kubectl apply --server-side --force-conflicts -f network/cluster-dns.yaml     # of 'holdfast create manifests'",
			"kubectl -n kube-system delete deployment coredns                              # where kubeadm made one; docs/runbook/cluster-dns.md",
		},
	},
}

// DNSLabel with DNSValue marks the pods and the Service in DNSNamespace.
const (
	DNSNamespace = "kube-system"
	DNSLabel     = "k8s-app"
	DNSValue     = "kube-dns"
)

func judgeClusterDNS(s *sheet) {
	pods, ok := known(s, "pods", s.Cluster.Pods)
	nodes, ok2 := known(s, "nodes", s.Cluster.Nodes)
	if !ok || !ok2 {
		return
	}
	servers := slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool {
		return p.Namespace != DNSNamespace || p.Labels[DNSLabel] != DNSValue || p.Node == ""
	})
	if len(servers) == 0 {
		s.say(finding.Warning, "", "no pod of %s with the label %s=%s is on a host: no name server answers for Services, or one that this check does not know",
			DNSNamespace, DNSLabel, DNSValue)
		return
	}
	s.spreadOfDNS(servers, nodes)
	if slices.ContainsFunc(servers, func(p Pod) bool { _, reads := p.Labels[state.LabelHostNames]; return !reads }) {
		s.say(finding.Warning, "", "its pods do not get the names of the hosts, api-int and *.apps from their own host: while the name server on it is down they ask the site's name servers, which may not know them")
	}
	services, ok := known(s, "the Service of cluster DNS", s.Cluster.DNS)
	if !ok {
		return
	}
	for _, service := range services {
		if !service.SameNode {
			s.say(finding.Warning, "Service "+DNSNamespace+"/"+service.Name,
				"it sends queries to all hosts: until the cluster has noticed a lost host, that host's share of all queries is lost (set trafficDistribution: PreferSameNode)")
		}
	}
	if len(services) == 0 {
		s.say(finding.Warning, "", "no Service of %s has the label %s=%s", DNSNamespace, DNSLabel, DNSValue)
	}
}

// spreadOfDNS finds hosts whose pods depend on another host's name server.
func (s *sheet) spreadOfDNS(servers []Pod, nodes []Node) {
	var without, unready []string
	for _, n := range nodes {
		here := on(servers, n.Name)
		switch {
		case len(here) == 0:
			without = append(without, n.Name)
		case !slices.ContainsFunc(here, func(p Pod) bool { return !p.Unready }):
			unready = append(unready, n.Name)
		}
	}
	switch first := servers[0].Node; {
	case len(without) > 0 && len(on(servers, first)) == len(servers):
		s.say(finding.Warning, first, "all name servers of the cluster run on it: if it is lost, no pod can resolve names")
	case len(without) > 0:
		s.say(finding.Warning, "", "no name server of the cluster runs on %s: the pods there depend on other hosts", strings.Join(without, ", "))
	}
	if len(unready) > 0 {
		s.say(finding.Warning, "", "the name server on %s is not ready: the pods there depend on other hosts", strings.Join(unready, ", "))
	}
}
