package leafcert_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// state of one control plane of several, as the walk below has it.
type turns struct {
	flag, looked [3]bool
	sees         [3]leafcert.Kind
}

// TestThreeHostsNeverRenewTogether walks through every order in which three hosts
// publish, look and work.
func TestThreeHostsNeverRenewTogether(t *testing.T) {
	names := []string{"cp-1", "cp-2", "cp-3"}
	decide := func(p turns, self int) leafcert.Kind {
		h := host(3, leaf("apiserver.crt", 121*day))
		h.Name = names[self]
		for i, up := range p.flag {
			if up {
				h.Cluster.Value.Nodes[i] = node(names[i], true, time.Minute)
			}
		}
		return leafcert.Decide(h).Kind
	}
	seen, work := map[turns]bool{}, [3]int{}
	var walk func(turns)
	walk = func(p turns) {
		if seen[p] {
			return
		}
		seen[p] = true
		working := 0
		for i := range p.looked {
			if p.looked[i] && p.sees[i] == leafcert.Work {
				working++
			}
		}
		if working > 1 {
			t.Fatalf("%d work: %+v", working, p)
		}
		for self := range p.flag {
			next := p
			if !p.looked[self] {
				next.looked[self], next.sees[self] = true, decide(p, self)
				walk(next)
				continue
			}
			next.looked[self] = false
			switch p.sees[self] {
			case leafcert.Take:
				next.flag[self] = true
			case leafcert.Release:
				next.flag[self] = false
			case leafcert.Work:
				work[self]++
				next.flag[self] = false
			case leafcert.None, leafcert.Wait:
			}
			walk(next)
		}
	}
	walk(turns{})
	for i, n := range work {
		if n == 0 {
			t.Errorf("%s never works", names[i])
		}
	}
}

// small returns every host of two with one certificate and one static pod, in the
// states that matter to a decision, with words for each.
func small(f func(words string, h leafcert.Host, due, must, reload, late bool)) {
	for _, left := range []time.Duration{300 * day, 122 * day, 121 * day, 61 * day, 60 * day, -day} {
		for _, torn := range []bool{false, true} {
			for _, replaced := range []time.Duration{-1, 0, 59 * time.Minute, time.Hour} {
				for _, problem := range []string{"", "its key is not here"} {
					for _, about := range clusters() {
						file, pod := leaf("apiserver.crt", left), leaf("scheduler.conf", 300*day)
						file.Torn, file.Issuer.Problem = torn, problem
						if replaced >= 0 {
							pod.Replaced, pod.Written = true, noon.Add(-replaced)
						}
						h := host(2, file, pod)
						h.Cluster = about.cluster
						due := (torn || left <= year/3) && problem == ""
						f(fmt.Sprintf("%s left, torn %t, a pod replaced %s ago, problem %q, %s", left, torn, replaced, problem, about.words),
							h, due, due && (torn || left <= year/6), replaced >= 0, replaced >= time.Hour)
					}
				}
			}
		}
	}
}

type about struct {
	words   string
	cluster state.Fact[leafcert.Cluster]
}

// clusters returns what the API may say of two control planes.
func clusters() []about {
	out := []about{{"the API is silent", state.Fact[leafcert.Cluster]{}}}
	for _, carries := range []state.Fact[bool]{{}, state.Known(false), state.Known(true)} {
		for _, other := range []string{"ready", "not ready", "absent", "missing", "renewing"} {
			for _, mine := range []time.Duration{0, time.Minute} {
				nodes := []state.Node{node("cp-1", true, mine)}
				n := node("cp-2", other != "not ready", 0)
				switch other {
				case "absent":
					n.Absent = true
				case "renewing":
					n = node("cp-2", true, time.Minute)
				}
				if other != "missing" {
					nodes = append(nodes, n)
				}
				out = append(out, about{
					fmt.Sprintf("it carries on: %+v, the other one is %s, own turn %t", carries, other, mine > 0),
					state.Known(leafcert.Cluster{Nodes: nodes, Spare: rollout.Spare{Carries: carries}}),
				})
			}
		}
	}
	return out
}

// redundant reports whether the other one of two is well and does not renew.
func redundant(c state.Fact[leafcert.Cluster]) bool {
	if !c.Known || !state.Is(c.Value.Spare.Carries, true) || len(c.Value.Nodes) != 2 {
		return false
	}
	n := c.Value.Nodes[1]
	return n.Ready && !n.Absent && !leafcert.Renews(n.Name, c.Value.Nodes)
}

// TestWhatOneOfTwoDoesInEveryState: it works only on what is due, waits for redundancy
// and its turn, and waits for nobody once it must not.
func TestWhatOneOfTwoDoesInEveryState(t *testing.T) {
	kinds := make(map[leafcert.Kind]int)
	small(func(words string, h leafcert.Host, due, must, reload, late bool) {
		step := leafcert.Decide(h)
		kinds[step.Kind]++
		turn := leafcert.Renews("cp-1", h.Cluster.Value.Nodes)
		var want leafcert.Kind
		switch {
		case !due && !reload && turn:
			want = leafcert.Release
		case !due && !reload:
			want = leafcert.None
		case must, late:
			want = leafcert.Work
		case !redundant(h.Cluster) && turn:
			want = leafcert.Release
		case !redundant(h.Cluster):
			want = leafcert.Wait
		case turn:
			want = leafcert.Work
		default:
			want = leafcert.Take
		}
		if step.Kind != want {
			t.Fatalf("%s: %+v, want %s", words, step, want)
		}
		if works := step.Kind == leafcert.Work; works && ((len(step.Renew) > 0) != due || (len(step.Restart) > 0) != reload) || !works && len(step.Renew)+len(step.Restart) > 0 {
			t.Fatalf("%s: %+v", words, step)
		}
		if step.Kind == leafcert.Wait && step.Why == "" {
			t.Fatalf("%s: it waits, and does not say for what", words)
		}
		file := h.Files[0]
		if stuck := file.Issuer.Problem != "" && (file.Torn || file.Ends.Sub(noon) <= year/3); stuck != (len(step.Problems) > 0) {
			t.Fatalf("%s: problems %q", words, step.Problems)
		}
	})
	for _, k := range []leafcert.Kind{leafcert.None, leafcert.Wait, leafcert.Take, leafcert.Work, leafcert.Release} {
		if kinds[k] == 0 {
			t.Errorf("no state leads to %s", k)
		}
	}
}

// TestAStaticPodIsRestartedOnce: two of its files, or one that was written before and is
// due again, are one restart.
func TestAStaticPodIsRestartedOnce(t *testing.T) {
	replaced := leaf("scheduler.conf", 100*day)
	replaced.Replaced = true
	step := leafcert.Decide(host(1, replaced, leaf("controller-manager.conf", 100*day)))
	if want := []string{"kube-scheduler", "kube-controller-manager"}; step.Kind != leafcert.Work || !slices.Equal(step.Restart, want) || len(step.Renew) != 2 {
		t.Errorf("%+v", step)
	}
}

// TestAShortLifeHasItsOwnThirds: a certificate that was made for less than the life
// which the site names is not due on its first day.
func TestAShortLifeHasItsOwnThirds(t *testing.T) {
	for _, c := range []struct {
		left time.Duration
		want leafcert.Kind
	}{{11 * day, leafcert.None}, {10 * day, leafcert.Work}} {
		f := leaf("apiserver.crt", c.left)
		f.From = f.Ends.Add(-30 * day)
		if step := leafcert.Decide(host(1, f)); step.Kind != c.want {
			t.Errorf("%s of 30 days are left: %+v", c.left, step)
		}
	}
}

// TestOwnNodeCountsOnlyWhereItIsThere: a host whose own Node is deleted is not one of
// those that carry the cluster.
func TestOwnNodeCountsOnlyWhereItIsThere(t *testing.T) {
	h := host(3, leaf("apiserver.crt", 100*day))
	h.Cluster.Value.Nodes[0].Absent = true
	if step := leafcert.Decide(h); step.Kind != leafcert.Wait || step.Why != "only 2 of 3 control planes have a Node" {
		t.Errorf("%+v", step)
	}
}

// TestWorkDoesNotWaitForTheFormerWork: an API server that still shows an older
// certificate than its file keeps the turn, and no certificate from being renewed.
func TestWorkDoesNotWaitForTheFormerWork(t *testing.T) {
	h := host(2, leaf("apiserver.crt", 100*day))
	h.Cluster.Value.Nodes[0] = node("cp-1", true, time.Minute)
	h.Shows = state.Known(false)
	if step := leafcert.Decide(h); step.Kind != leafcert.Work {
		t.Errorf("%+v", step)
	}
	h.Files = []leafcert.File{leaf("apiserver.crt", 300*day)}
	h.Files[0].Written = noon
	for shows, want := range map[state.Fact[bool]]leafcert.Kind{{}: leafcert.Release, state.Known(true): leafcert.Release, state.Known(false): leafcert.Wait} {
		h.Shows = shows
		if step := leafcert.Decide(h); step.Kind != want {
			t.Errorf("it shows the new one: %+v: %+v", shows, step)
		}
	}
}

// TestAClockThatCannotBeRightDecidesNothing: before the day of any certificate or
// authority on the host, whatever else is due.
func TestAClockThatCannotBeRightDecidesNothing(t *testing.T) {
	for what, change := range map[string]func(*leafcert.File){
		"a certificate": func(f *leafcert.File) { f.From = noon.Add(time.Second) },
		"an authority":  func(f *leafcert.File) { f.Issuer.From = noon.Add(time.Second) },
	} {
		young, torn := leaf("apiserver.crt", 300*day), leaf("admin.conf", -day)
		torn.Torn = true
		change(&young)
		step := leafcert.Decide(host(1, torn, young))
		if step.Kind != leafcert.None || len(step.Problems) != 1 || !strings.Contains(step.Problems[0], "the clock of this host says 2026-11-23T12:00:00Z") {
			t.Errorf("%s of a second from now: %+v", what, step)
		}
	}
}

// TestWhatGainsNothingHurriesNothing: a certificate that already ends with its authority
// is not renewed, however near its end is, and other work keeps waiting for its turn.
func TestWhatGainsNothingHurriesNothing(t *testing.T) {
	last := leaf("front-proxy-client.crt", 10*day)
	last.Issuer.Ends = last.Ends
	if step := leafcert.Decide(host(2, last)); step.Kind != leafcert.None {
		t.Errorf("alone: %+v", step)
	}
	if step := leafcert.Decide(host(2, last, leaf("apiserver.crt", 100*day))); step.Kind != leafcert.Take {
		t.Errorf("beside one that is due: %+v", step)
	}
}

// TestATurnHasATime: what an older release or a person left in the annotation is no
// turn.
func TestATurnHasATime(t *testing.T) {
	h := host(2, leaf("apiserver.crt", 100*day))
	h.Cluster.Value.Nodes[1].Annotations[state.AnnotationRenewal] = state.FormatAnnotation(state.CertificateRenewal{})
	if step := leafcert.Decide(h); step.Kind != leafcert.Take {
		t.Errorf("%+v", step)
	}
}

// TestAnAPIServerHasTwoMinutesToShowItsFile: then a person is told.
func TestAnAPIServerHasTwoMinutesToShowItsFile(t *testing.T) {
	for problems, ago := range []time.Duration{2 * time.Minute, 2*time.Minute + time.Second} {
		h := host(2, leaf("apiserver.crt", 300*day), leaf("admin.conf", 300*day))
		h.Cluster.Value.Nodes[0] = node("cp-1", true, time.Minute)
		h.Files[0].Written, h.Shows = noon.Add(-ago), state.Known(false)
		if step := leafcert.Decide(h); step.Kind != leafcert.Wait || len(step.Problems) != problems {
			t.Errorf("written %s ago: %+v", ago, step)
		}
	}
}
