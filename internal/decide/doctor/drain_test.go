package doctor

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

func pods(list ...Pod) func(*Facts) {
	return func(f *Facts) { f.Cluster.Pods.Value = list }
}

func with(changes ...func(*Facts)) func(*Facts) {
	return func(f *Facts) {
		for _, c := range changes {
			c(f)
		}
	}
}

func budgets(list ...Budget) func(*Facts) {
	return func(f *Facts) { f.Cluster.Budgets.Value = list }
}

func but(p Pod, change func(*Pod)) Pod {
	change(&p)
	return p
}

func TestABudgetThatBlocksADrainOfTwoHostsIsFound(t *testing.T) {
	alone := func(p *Pod) { p.Alone = true }
	stays := func(p *Pod) { p.Stays = "its volume data is on one host" }
	named := budget(2, 1)
	named.Name = "web-too"
	ill := budget(2, 1)
	ill.Healthy, ill.Allowed = 1, 0
	unobserved := budget(2, 1)
	unobserved.Observed = false
	for _, c := range []one{
		{"a single replica with minAvailable 1", "drain-blocked", with(pods(pod("web-a", "cp-1")), budgets(budget(1, 1))), finding.Warning, "PodDisruptionBudget shop/web: it requires 1 healthy pods of 1: no pod can ever be evicted (drain of cp-1)"},
		{"two replicas of which two must be there block both hosts", "drain-blocked", budgets(budget(2, 2)), finding.Warning, "(drain of cp-1, cp-2)"},
		{"maxUnavailable 0 is the same", "drain-blocked", budgets(budget(4, 4)), finding.Warning, "no pod can ever be evicted"},
		{"the pods are of another namespace", "drain-blocked", func(f *Facts) {
			budgets(budget(2, 2))(f)
			f.Cluster.Budgets.Value[0].Namespace = "other"
		}, finding.OK, ""},
		{"the pods of a DaemonSet are not evicted", "drain-blocked", with(pods(but(pod("web-a", "cp-1"), func(p *Pod) { p.Fixed = true })), budgets(budget(1, 1))), finding.OK, ""},
		{"one host each, and one may be missing", "drain-blocked", with(pods(but(pod("web-a", "cp-1"), alone), but(pod("web-b", "cp-2"), alone)), budgets(budget(2, 1))), finding.OK, ""},
		{"one host each, all on one, and the other is free", "drain-blocked", with(pods(but(pod("web-a", "cp-1"), alone)), budgets(budget(2, 1))), finding.OK, ""},
		{
			"replacements have no other host", "drain-blocked", with(
				pods(but(pod("web-a", "cp-1"), stays), but(pod("web-b", "cp-1"), stays), pod("web-c", "cp-2")), budgets(budget(3, 2))),
			finding.Warning, "of 2 pods on one host some cannot run on another host (web-a: its volume data is on one host) (drain of cp-1)",
		},
		{
			"the other host takes only one of its kind", "drain-blocked", with(
				pods(but(pod("web-a", "cp-1"), alone), but(pod("web-b", "cp-1"), alone), but(pod("web-c", "cp-1"), alone)), budgets(budget(3, 2))),
			finding.Warning, "some have no other host",
		},
		{"the other host is closed", "drain-blocked", func(f *Facts) {
			with(pods(but(pod("web-a", "cp-1"), alone), but(pod("web-b", "cp-1"), alone)), budgets(budget(2, 1)))(f)
			f.Cluster.Nodes.Value[1].Closed = true
		}, finding.Warning, "some have no other host"},
		{"replacements that move one after the other", "drain-blocked", with(pods(pod("web-a", "cp-1"), pod("web-b", "cp-1"), pod("web-c", "cp-1")), budgets(budget(3, 2))), finding.OK, ""},
		{"two budgets for one pod", "drain-blocked", budgets(budget(2, 1), named), finding.Warning, "pod shop/web-a: the budgets web and web-too both select it"},
		{"a pod that is ill blocks for now", "drain-blocked", budgets(ill), finding.Note, "1 of 2 pods are healthy"},
		{"a budget that nobody worked out yet", "drain-blocked", budgets(unobserved), finding.Unknown, "has not computed"},
		{"budgets that cannot be read", "drain-blocked", func(f *Facts) { f.Cluster.Budgets = state.Fact[[]Budget]{} }, finding.Unknown, "PodDisruptionBudgets"},
	} {
		t.Run(c.name, c.run)
	}
}

func TestMissingDisruptionBudgetsAreFound(t *testing.T) {
	for _, c := range []one{
		{"replicas without a budget", "drain-unprotected", budgets(), finding.Note, "Deployment shop/web: no budget for its 2 replicas"},
		{"and all of them on one host", "drain-unprotected", with(budgets(), pods(pod("web-a", "cp-2"), pod("web-b", "cp-2"))), finding.Warning, "all its pods run on cp-2"},
		{"a single replica has nothing to protect", "drain-unprotected", func(f *Facts) {
			budgets()(f)
			f.Cluster.Workloads.Value = []Workload{web(1)}
		}, finding.OK, ""},
		{"a budget for others protects nobody", "drain-unprotected", func(f *Facts) { f.Cluster.Budgets.Value[0].Selector = selector("db") }, finding.Note, "no budget"},
		{"a budget without a selector protects nobody", "drain-unprotected", func(f *Facts) { f.Cluster.Budgets.Value[0].Selector = nil }, finding.Note, "no budget"},
		{"a DaemonSet is not drained", "drain-unprotected", func(f *Facts) {
			budgets()(f)
			f.Cluster.Workloads.Value[0].Kind = "DaemonSet"
		}, finding.OK, ""},
	} {
		t.Run(c.name, c.run)
	}
}

func TestRequestsOfBothHostsAboveOneHostsAllocatableAreFound(t *testing.T) {
	asks := func(name, node string, cores, gib int64) Pod {
		return but(pod(name, node), func(p *Pod) { p.Requests = amountOf(cores, gib, 1) })
	}
	many := make([]Pod, 0, 111)
	for range cap(many) {
		many = append(many, asks("web", "cp-1", 0, 0))
	}
	for _, c := range []one{
		{"more cores than one host has", "failover-capacity", pods(asks("a", "cp-1", 5, 1), asks("b", "cp-2", 4, 1)), finding.Warning, "cp-1: without it the processor does not fit: 9.0 cores requested, the other hosts have 8.0 cores"},
		{"more memory than one host has", "failover-capacity", pods(asks("a", "cp-1", 1, 20), asks("b", "cp-2", 1, 13)), finding.Warning, "cp-2: without it the memory does not fit: 33792 MiB"},
		{"more pods than one host takes", "failover-capacity", pods(many...), finding.Warning, "cp-1: without it the number of pods does not fit: 111 pods"},
		{"exactly as much is all that there is", "failover-capacity", pods(asks("a", "cp-1", 4, 1), asks("b", "cp-2", 4, 1)), finding.Note, "barely fits"},
		{"what belongs to its host does not move", "failover-capacity", pods(but(asks("a", "cp-1", 5, 1), func(p *Pod) { p.Fixed = true }), asks("b", "cp-2", 2, 1)), finding.OK, ""},
		{"but it takes its part of the survivor", "failover-capacity", pods(but(asks("a", "cp-1", 5, 1), func(p *Pod) { p.Fixed = true }), asks("b", "cp-2", 4, 1)), finding.Warning, "cp-2: without it the processor"},
		{"what cannot run elsewhere is not waited for", "failover-capacity", pods(but(asks("a", "cp-1", 5, 1), func(p *Pod) { p.Stays = "its volume" }), asks("b", "cp-2", 1, 1)), finding.OK, ""},
		{"nothing moves", "failover-capacity", pods(), finding.OK, "fits"},
	} {
		t.Run(c.name, c.run)
	}
}

func TestThreeHostsShareWhatOneLoses(t *testing.T) {
	f := wellMany("cp-1", "cp-2", "cp-3")
	f.Cluster.Pods.Value = nil
	for _, host := range []string{"cp-1", "cp-2", "cp-3"} {
		f.Cluster.Pods.Value = append(f.Cluster.Pods.Value, but(pod("web-"+host, host), func(p *Pod) { p.Requests = amountOf(4, 1, 1) }))
	}
	if r := examine(t, f, "failover-capacity"); r.Severity != finding.OK {
		t.Errorf("12 of 16 cores: %+v", r)
	}
	f.Cluster.Nodes.Value[2].Closed = true
	if r := examine(t, f, "failover-capacity"); r.Severity != finding.Note || !strings.Contains(r.Findings[0].Problem, "barely") {
		t.Errorf("4+4 of 8 cores where the third is closed: %+v", r)
	}
}
