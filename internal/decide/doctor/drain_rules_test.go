package doctor

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/finding"
)

// drained plays a drain of the first host. It evicts a pod whenever the budget lets it,
// starts a replacement where one may run, and reports whether the host gets empty.
// Pods that can be replaced go first, as a drain that repeats itself finds them.
func drained(pods []Pod, nodes []Node, desired int) bool {
	pods = slices.Clone(pods)
	healthy := len(pods)
	place := func(p Pod) (string, bool) {
		for _, n := range nodes[1:] {
			if !n.Closed && (!p.Alone || len(on(pods, n.Name)) == 0) {
				return n.Name, p.Stays == ""
			}
		}
		return "", false
	}
	next := func() int {
		some := -1
		for i, p := range pods {
			if p.Node != nodes[0].Name {
				continue
			}
			if _, ok := place(p); ok {
				return i
			}
			some = i
		}
		return some
	}
	for {
		i := next()
		if i < 0 {
			return true
		}
		if healthy <= desired {
			return false
		}
		to, ok := place(pods[i])
		pods[i].Node = to // empty: it waits for a host
		if !ok {
			healthy--
			pods[i].Node = ""
		}
	}
}

// small calls a function with each cluster of two and three hosts, of which others are
// closed or not, with up to four pods of one kind.
func small(f func(nodes []Node, pods []Pod)) {
	for hosts := 2; hosts <= 3; hosts++ {
		for closed := range 1 << (hosts - 1) {
			var nodes []Node
			for i := range hosts {
				nodes = append(nodes, Node{Name: fmt.Sprintf("cp-%d", i+1), Closed: i > 0 && closed&(1<<(i-1)) != 0})
			}
			for count := 1; count <= 4; count++ {
				for at := range power(hosts, count) {
					for stays := range 1 << count {
						for _, alone := range []bool{false, true} {
							f(nodes, kind(nodes, count, at, stays, alone))
						}
					}
				}
			}
		}
	}
}

func power(base, n int) int {
	out := 1
	for range n {
		out *= base
	}
	return out
}

// kind returns pods on the hosts that the digits of at name.
func kind(nodes []Node, count, at, stays int, alone bool) []Pod {
	var out []Pod
	for i := range count {
		p := Pod{Namespace: "shop", Name: fmt.Sprintf("web-%d", i), Node: nodes[at%len(nodes)].Name, Labels: map[string]string{"app": "web"}, Alone: alone}
		if stays&(1<<i) != 0 {
			p.Stays = "its disk"
		}
		at /= len(nodes)
		out = append(out, p)
	}
	return out
}

// TestADrainIsSaidToEndWhereItEnds plays a drain in each of some 18,000 small clusters
// with a budget. All pods are healthy, so that only the budget and the places count.
func TestADrainIsSaidToEndWhereItEnds(t *testing.T) {
	outcomes := map[bool]int{}
	small(func(nodes []Node, pods []Pod) {
		for desired := range len(pods) + 1 {
			b := budget(int32(len(pods)), int32(desired))
			var s sheet
			f, blocks := s.blocks(b, b.selected(pods), nodes[0], nodes)
			ends := drained(pods, nodes, desired)
			outcomes[ends]++
			// A drain that evicts nothing ends, and a budget for all pods is told only
			// where there is one to evict.
			if blocks == ends || blocks && f.Severity != finding.Warning || blocks && f.Problem == "" {
				t.Fatalf("hosts %+v, pods %+v, %d have to be healthy: the drain ends: %t; said: %t %+v", nodes, pods, desired, ends, blocks, f)
			}
		}
	})
	if outcomes[true] < 1000 || outcomes[false] < 1000 {
		t.Errorf("outcomes %v", outcomes)
	}
}

func TestWhyADrainDoesNotEndNamesTheReason(t *testing.T) {
	closed := func(f *Facts) { f.Cluster.Nodes.Value[1].Closed = true }
	two := []Pod{pod("web-a", "cp-1"), pod("web-b", "cp-1")}
	for _, c := range []one{
		{"pods that could run anywhere, and no other host takes pods", "drain-blocked", func(f *Facts) {
			closed(f)
			f.Cluster.Pods.Value, f.Cluster.Budgets.Value = two, []Budget{budget(2, 1)}
		}, finding.Warning, "it allows 1 evictions at a time, but of 2 pods on one host none can run elsewhere: no other host takes new pods (drain of cp-1)"},
		{"as many as the budget lets go at a time", "drain-blocked", func(f *Facts) {
			closed(f)
			f.Cluster.Pods.Value, f.Cluster.Budgets.Value = two[:1], []Budget{budget(2, 1)}
		}, finding.OK, ""},
	} {
		t.Run(c.name, c.run)
	}
}
