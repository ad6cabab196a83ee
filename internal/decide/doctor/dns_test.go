package doctor

import (
	"testing"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// An installation put both name servers on one host, and every check reported
// that all was well (docs/facts/findings.md#lab, K1).
func TestAClusterDNSThatALostHostTakesFromOthersIsTold(t *testing.T) {
	servers := func(nodes ...string) func(*Facts) {
		var list []Pod
		for _, n := range nodes {
			list = append(list, nameServer(n))
		}
		return pods(list...)
	}
	for _, c := range []one{
		{"both on one host", "cluster-dns", servers("cp-1", "cp-1"), finding.Warning, "all name servers of the cluster run on it: if it is lost, no pod can resolve names"},
		{"one of them has no host yet", "cluster-dns", servers("cp-2", ""), finding.Warning, "no pod can resolve names"},
		{"none on one host", "cluster-dns", func(f *Facts) {
			f.Cluster.Nodes.Value = append(f.Cluster.Nodes.Value, node("worker-1"))
		}, finding.Warning, "no name server of the cluster runs on worker-1"},
		{"one is not ready", "cluster-dns", pods(nameServer("cp-1"), but(nameServer("cp-2"), func(p *Pod) { p.Unready = true })), finding.Warning, "the name server on cp-2 is not ready"},
		{"a new one replaces an old one", "cluster-dns", pods(nameServer("cp-1"), nameServer("cp-2"), but(nameServer("cp-2"), func(p *Pod) { p.Unready = true })), finding.OK, ""},
		{
			"an older installation", "cluster-dns", pods(nameServer("cp-1"), but(nameServer("cp-2"), func(p *Pod) { p.Labels = map[string]string{"k8s-app": "kube-dns"} })),
			finding.Warning, "while the name server on it is down they ask the site's",
		},
		{"none at all", "cluster-dns", pods(), finding.Warning, "no name server answers for Services, or one that this check does not know"},
		{"the Service asks everybody", "cluster-dns", func(f *Facts) { f.Cluster.DNS.Value[0].SameNode = false }, finding.Warning, "it sends queries to all hosts"},
		{"there is no Service", "cluster-dns", func(f *Facts) { f.Cluster.DNS.Value = nil }, finding.Warning, "no Service of kube-system has the label k8s-app=kube-dns"},
		{"facts of a version that did not look at it", "cluster-dns", func(f *Facts) { f.Cluster.DNS = state.Fact[[]DNSService]{} }, finding.Unknown, ""},
	} {
		c.run(t)
	}
}
