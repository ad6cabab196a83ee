package doctor

import (
	"maps"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/finding"
)

// drainChecks are about the workload if a host is drained or lost.
var drainChecks = []Check{
	{
		ID: "drain-blocked", Title: "a drain of any host would complete", For: Several, judge: judgeBlocked,
		Meaning: "A drain repeats each eviction until it is granted. A budget that never grants one, such as minAvailable 1 for a single replica, blocks the drain forever; administrators then delete pods or cut the power, and the budget has protected nothing.",
		Lines: []string{
			"kubectl -n NAMESPACE get pdb NAME",
			"kubectl -n NAMESPACE scale deployment NAME --replicas=2     # or a budget with maxUnavailable: 1",
		},
	},
	{
		ID: "drain-unprotected", Title: "replicated workloads have a disruption budget", For: Several, judge: judgeUnprotected,
		Meaning: "Without a PodDisruptionBudget a drain evicts all replicas on a host at once. If all of them run on that host, as they do on the survivor after every failure, the service is down until new replicas are up.",
		Lines: []string{
			"kubectl -n NAMESPACE create poddisruptionbudget NAME --selector=KEY=VALUE --max-unavailable=1",
			"kubectl -n NAMESPACE rollout restart deployment NAME     # spreads replicas that all run on one host",
		},
	},
	{
		ID: "failover-capacity", Title: "the other hosts could carry the workload of any host", For: Several, judge: judgeCapacity,
		Alerts:  []string{"HoldfastFailoverCapacity"},
		Meaning: "When a host is lost, its pods have to run on the others. Pods whose requests exceed the capacity of the others stay pending; priority or chance decides which ones.",
		Lines:   []string{"kubectl describe node | grep -A8 'Allocated resources'", "kubectl get pods -A --sort-by=.spec.priority     # which pods need a PriorityClass"},
	},
}

// selected returns a budget's pods that a drain would evict.
func (b Budget) selected(pods []Pod) []Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool {
		return p.Fixed || p.Namespace != b.Namespace || !selects(b.Selector, p.Labels)
	})
}

func on(pods []Pod, node string) []Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return p.Node != node })
}

func judgeBlocked(s *sheet) {
	pods, ok := known(s, "pods", s.Cluster.Pods)
	budgets, ok2 := known(s, "PodDisruptionBudgets", s.Cluster.Budgets)
	nodes, ok3 := known(s, "nodes", s.Cluster.Nodes)
	if !ok || !ok2 || !ok3 {
		return
	}
	why := map[string][]string{} // which hosts' drains a sentence is about
	about := map[string]finding.Finding{}
	add := func(f finding.Finding, node string) {
		key := f.Subject + "\x00" + f.Problem
		about[key] = f
		why[key] = append(why[key], node)
	}
	for _, n := range nodes {
		for _, b := range budgets {
			if f, blocks := s.blocks(b, b.selected(pods), n, nodes); blocks {
				add(f, n.Name)
			}
		}
		for _, f := range covered(budgets, on(pods, n.Name)) {
			add(f, n.Name)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(about)) {
		f := about[key]
		s.say(f.Severity, f.Subject, "%s (drain of %s)", f.Problem, strings.Join(why[key], ", "))
	}
}

// blocks describes how a budget keeps a drain of a node from ending. It assumes
// that all pods are healthy; pods that are unhealthy today only lead to advice.
func (s *sheet) blocks(b Budget, pods []Pod, n Node, nodes []Node) (finding.Finding, bool) {
	here := on(pods, n.Name)
	if len(here) == 0 {
		return finding.Finding{}, false
	}
	f := finding.Finding{Severity: finding.Warning, Subject: "PodDisruptionBudget " + b.Namespace + "/" + b.Name}
	most := int(b.Expected - b.Desired)
	switch {
	case !b.Observed:
		s.notSeen("%s: the cluster has not computed the allowed disruptions yet", f.Subject)
		return f, false
	case most <= 0:
		f.Problem = sprintf("it requires %d healthy pods of %d: no pod can ever be evicted", b.Desired, b.Expected)
	case len(here)-movable(here, pods, n, nodes) > most:
		f.Problem = sprintf("it allows %d evictions at a time, but of %d pods on one host %s", most, len(here), stuck(here))
	case b.Allowed == 0:
		f.Severity = finding.Note
		f.Problem = sprintf("it allows no eviction now: %d of %d pods are healthy and it requires %d", b.Healthy, b.Expected, b.Desired)
	default:
		return f, false
	}
	return f, true
}

// movable counts the pods of a node whose replacement could run on another
// node.
func movable(here, all []Pod, n Node, nodes []Node) int {
	open, free := false, 0 // whether any other host takes pods; hosts without a pod of this kind
	for _, other := range nodes {
		if other.Name == n.Name || other.Closed {
			continue
		}
		open = true
		if len(on(all, other.Name)) == 0 {
			free++
		}
	}
	moves := 0
	for _, p := range here {
		switch {
		case p.Stays != "" || !open:
		case !p.Alone:
			moves++
		case free > 0:
			free--
			moves++
		}
	}
	return moves
}

func stuck(pods []Pod) string {
	for _, p := range pods {
		if p.Stays != "" {
			return "some cannot run on another host (" + p.Name + ": " + p.Stays + ")"
		}
	}
	if !slices.ContainsFunc(pods, func(p Pod) bool { return p.Alone }) {
		return "none can run elsewhere: no other host takes new pods"
	}
	return "some have no other host without a pod of the same set"
}

// covered finds pods that several budgets select: Kubernetes refuses to evict
// those.
func covered(budgets []Budget, pods []Pod) []finding.Finding {
	names := map[string][]string{}
	for _, b := range budgets {
		for _, p := range b.selected(pods) {
			names[p.Namespace+"/"+p.Name] = append(names[p.Namespace+"/"+p.Name], b.Name)
		}
	}
	var out []finding.Finding
	for _, pod := range slices.Sorted(maps.Keys(names)) {
		if list := names[pod]; len(list) > 1 {
			out = append(out, finding.Finding{Severity: finding.Warning, Subject: "pod " + pod, Problem: "the budgets " + strings.Join(list, " and ") + " both select it: Kubernetes never evicts such a pod"})
		}
	}
	return out
}

func judgeUnprotected(s *sheet) {
	pods, ok := known(s, "pods", s.Cluster.Pods)
	budgets, ok2 := known(s, "PodDisruptionBudgets", s.Cluster.Budgets)
	workloads, ok3 := known(s, "workloads", s.Cluster.Workloads)
	if !ok || !ok2 || !ok3 {
		return
	}
	for _, w := range workloads {
		if w.Replicas < 2 || w.Kind == "DaemonSet" || w.protected(budgets) {
			continue
		}
		switch where := w.hosts(pods); {
		case len(where) == 1:
			s.say(finding.Warning, objectName(w.Kind, w.Namespace, w.Name), "no budget, and all its pods run on %s: a drain takes all of them at once", where[0])
		default:
			s.say(finding.Note, objectName(w.Kind, w.Namespace, w.Name), "no budget for its %d replicas", w.Replicas)
		}
	}
}

func (w Workload) protected(budgets []Budget) bool {
	return slices.ContainsFunc(budgets, func(b Budget) bool { return b.Namespace == w.Namespace && selects(b.Selector, w.Labels) })
}

// hosts returns the hosts that run pods with the labels of a workload.
func (w Workload) hosts(pods []Pod) []string {
	found := map[string]bool{}
	for _, p := range pods {
		if p.Namespace == w.Namespace && p.Node != "" && within(w.Labels, p.Labels) {
			found[p.Node] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func within(some, all map[string]string) bool {
	for k, v := range some {
		if got, ok := all[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// quantities lists the amounts that capacity adds up, with their units.
var quantities = []struct {
	name string
	of   func(Amount) int64
	text func(int64) string
}{
	{"processor", func(a Amount) int64 { return a.CPU }, func(v int64) string { return sprintf("%.1f cores", float64(v)/1000) }},
	{"memory", func(a Amount) int64 { return a.Memory }, func(v int64) string { return sprintf("%d MiB", v>>20) }},
	{"number of pods", func(a Amount) int64 { return a.Pods }, func(v int64) string { return sprintf("%d pods", v) }},
}

func judgeCapacity(s *sheet) {
	nodes, ok := known(s, "nodes", s.Cluster.Nodes)
	pods, ok2 := known(s, "pods", s.Cluster.Pods)
	if !ok || !ok2 {
		return
	}
	for _, lost := range nodes {
		for _, q := range quantities {
			s.capacity(q.name, lost, nodes, pods, q.of, q.text)
		}
	}
}

// capacity compares the requests of the pods that move from a lost host and of
// the pods on the others with the capacity of the others.
func (s *sheet) capacity(what string, lost Node, nodes []Node, pods []Pod, of func(Amount) int64, text func(int64) string) {
	var have, need, moves int64
	for _, n := range nodes {
		if n.Name != lost.Name && !n.Closed {
			have += of(n.Allocatable)
		}
	}
	for _, p := range pods {
		switch {
		case p.Node == lost.Name && (p.Fixed || p.Stays != ""):
		case p.Node == lost.Name:
			moves += of(p.Requests)
		case !slices.ContainsFunc(nodes, func(n Node) bool { return n.Name == p.Node && n.Closed }):
			need += of(p.Requests)
		}
	}
	severity, word := finding.OK, "fits"
	switch {
	case moves > 0 && need+moves > have:
		severity, word = finding.Warning, "does not fit"
	case moves > 0 && (need+moves)*10 > have*9:
		severity, word = finding.Note, "barely fits"
	}
	s.say(severity, lost.Name, "without it the %s %s: %s requested, the other hosts have %s", what, word, text(need+moves), text(have))
}
