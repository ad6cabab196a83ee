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
		Meaning: "Pods ask for names at one Service. A host that is lost stays among those behind it until the cluster has noticed, and names that are asked of it get no answer; where all of them run on one host, its loss takes names from every pod. With one on each host, which the pods of that host ask, a lost host takes names from nobody else.",
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
		s.say(finding.Warning, "", "no pod of %s with the label %s=%s has a host: nobody answers for the names of Services, or somebody whom this check does not know",
			DNSNamespace, DNSLabel, DNSValue)
		return
	}
	s.spreadOfDNS(servers, nodes)
	if slices.ContainsFunc(servers, func(p Pod) bool { _, reads := p.Labels[state.LabelHostNames]; return !reads }) {
		s.say(finding.Warning, "", "its pods do not have the names of the hosts, api-int and *.apps from their own host: while the name server there is away they ask the site's, which may deny them")
	}
	services, ok := known(s, "the Service of cluster DNS", s.Cluster.DNS)
	for _, service := range services {
		if !service.SameNode {
			s.say(finding.Warning, "Service "+DNSNamespace+"/"+service.Name,
				"it sends questions to all hosts: a lost one takes its share of everybody's until the cluster has noticed (trafficDistribution: PreferSameNode)")
		}
	}
	if ok && len(services) == 0 {
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
		s.say(finding.Warning, first, "all name servers of the cluster run on it: with it every pod loses them")
	case len(without) > 0:
		s.say(finding.Warning, "", "no name server of the cluster runs on %s: the pods there depend on other hosts", strings.Join(without, ", "))
	}
	if len(unready) > 0 {
		s.say(finding.Warning, "", "the name server on %s is not ready: the pods there depend on other hosts", strings.Join(unready, ", "))
	}
}
