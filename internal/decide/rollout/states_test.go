package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The states of a host in which a pool with the target t may find it.
var lines = []string{
	"t>t Done", "t>t Done notready", "t>t Done cordoned",
	"a>a Done", "a>a Done notready", "a>a Done pressure",
	"a>t Working", "a>t Working notready", "a>t Working cordoned",
	"a>t Degraded", "a>t Unreconcilable cordoned", "t>t Degraded",
	"a>b Degraded", "a>b Degraded notready", "a>b Working", "a>", ">",
}

// poolOfLabel is a pool whose hosts have a label.
func poolOfLabel(name, label string) rollout.Pool {
	return rollout.Pool{Name: name, Target: "t", NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: ""}}}
}

// aSite is two control planes and a worker in three of those states.
func aSite(t *testing.T, first, second, worker string, carries state.Fact[bool]) rollout.Site {
	t.Helper()
	s := rollout.Site{
		ControlPlanes: 2, Spares: map[string]rollout.Spare{"cp-1": {Carries: carries, Why: "the reason"}, "cp-2": {Carries: state.Known(true)}},
		Pools: []rollout.Pool{poolOfLabel(rollout.Master, state.LabelControlPlane), poolOfLabel(rollout.Worker, state.LabelWorker)},
	}
	for i, line := range []string{"cp-1 " + first, "cp-2 " + second, "w-1 " + worker} {
		s.Hosts = append(s.Hosts, host(t, line, i))
	}
	return s
}

func fails(h rollout.Host) bool {
	return h.Desired != "" && (h.State == rollout.Degraded || h.State == rollout.Unreconcilable)
}

func works(h rollout.Host) bool {
	return h.Desired != "" && !fails(h) && (h.Current != h.Desired || h.State != rollout.Done)
}

func isAway(h rollout.Host) bool { return !h.Ready || h.Unschedulable || h.Trouble != "" }

func named(s rollout.Site, name string) rollout.Host {
	return s.Hosts[slices.IndexFunc(s.Hosts, func(h rollout.Host) bool { return h.Name == name })]
}

// broken returns the rules that a decision breaks.
func broken(s rollout.Site, d rollout.Decision) []string {
	var out []string
	rule := func(holds bool, words string) {
		if !holds {
			out = append(out, words)
		}
	}
	var cps []rollout.Host
	for _, h := range s.Hosts {
		if controlPlane(h) {
			cps = append(cps, h)
		}
	}
	given := map[string]bool{}
	for _, a := range d.Set {
		h := named(s, a.Host)
		rule(!given[a.Host], "a host is given one configuration")
		given[a.Host] = true
		rule(a.Config == "t", "a host is given the target of its pool")
		rule(h.Desired != "t", "a host is given what it was not given already")
		rule(h.Current != "" || h.Desired == "" || fails(h), "a new host is given one configuration, and no other before it has said what it has")
		rule(fails(h) || !isAway(h) && !works(h), "a host that is away or at work is given nothing, but for one that failed")
		rule(!slices.ContainsFunc(s.Hosts, func(o rollout.Host) bool { return o.Name != h.Name && works(o) && (controlPlane(h) || controlPlane(o)) }),
			"while a host is at work, no control plane is taken; while a control plane is, nobody is")
		if !controlPlane(h) {
			continue
		}
		rule(len(d.Set) == 1, "with a control plane nobody else is taken")
		rule(state.Is(s.Spares[h.Name].Carries, true), "a control plane is taken where the cluster carries on without it")
		worker := named(s, "w-1")
		rule(!fails(worker) || worker.Desired != "t", "what failed on a worker does not reach a control plane")
		if !fails(h) {
			rule(!slices.ContainsFunc(cps, isAway), "no healthy control plane is taken while one is away")
			rule(!slices.ContainsFunc(cps, fails), "no healthy control plane is taken while one fails")
			rule(!slices.ContainsFunc(cps, func(o rollout.Host) bool { return !state.Is(s.Spares[o.Name].Carries, true) }), "and only where each of them could be lost")
		}
	}
	for _, p := range d.Pools {
		reached := !slices.ContainsFunc(p.Hosts, func(name string) bool {
			h := named(s, name)
			return h.Current != "t" || h.Desired != "t" || h.State != rollout.Done || isAway(h)
		})
		rule(p.Reached() == reached, "a pool is updated once all of its hosts have its target and take pods")
		some := slices.ContainsFunc(p.Hosts, func(name string) bool { return given[name] })
		have := p.Updated == len(p.Hosts)
		rule(have || some || p.Wait != "", "who waits is told for what")
		rule(!some || p.Wait == "", "who is given something does not wait")
	}
	return out
}

// TestInEveryStateOfASmallSiteTheRulesHold plays all states of two control planes and a
// worker.
func TestInEveryStateOfASmallSiteTheRulesHold(t *testing.T) {
	states, decisions := 0, map[string]int{}
	for _, carries := range []state.Fact[bool]{state.Known(true), state.Known(false), {}} {
		for _, first := range lines {
			for _, second := range lines {
				for _, worker := range lines {
					s := aSite(t, first, second, worker, carries)
					states++
					d := rollout.Decide(s)
					for _, rule := range broken(s, d) {
						t.Errorf("cp-1 %s, cp-2 %s, w-1 %s, carries on without cp-1 %+v: given %v: broken: %s", first, second, worker, carries, d.Set, rule)
					}
					for _, a := range d.Set {
						decisions[a.Host]++
					}
					if t.Failed() {
						return // one state is enough to see what is wrong
					}
				}
			}
		}
	}
	if states != 3*len(lines)*len(lines)*len(lines) || decisions["cp-1"] == 0 || decisions["cp-2"] == 0 || decisions["w-1"] == 0 {
		t.Errorf("%d states, %v", states, decisions)
	}
}

// TestWhatStopsAWholePool: whatever its hosts are, nobody is given anything.
func TestWhatStopsAWholePool(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*rollout.Pool)
		wait   string
	}{
		"it is paused":              {func(p *rollout.Pool) { p.Paused = true }, "the pool is paused"},
		"its merge was refused":     {func(p *rollout.Pool) { p.Target, p.Problem = "", "two files have one path" }, "two files have one path"},
		"its limit is no number":    {func(p *rollout.Pool) { p.MaxUnavailable = new(intstr.FromString("many")) }, "is not a number of hosts or a percentage"},
		"its limit is below nobody": {func(p *rollout.Pool) { p.MaxUnavailable = new(intstr.FromInt32(-1)) }, "is not a number of hosts or a percentage"},
	} {
		s := aSite(t, "t>t Done", "t>t Done", "a>a Done", state.Known(true))
		c.change(&s.Pools[1])
		d := rollout.Decide(s)
		if len(d.Set) != 0 || d.Pools[0].Pool != rollout.Worker || !strings.Contains(d.Pools[0].Wait, c.wait) {
			t.Errorf("%s: given %v, waits for %q", what, d.Set, d.Pools[0].Wait)
		}
	}
}

// TestHowManyWorkersAreTakenAtOnce: a share is rounded down, and one may always be.
func TestHowManyWorkersAreTakenAtOnce(t *testing.T) {
	for limit, want := range map[string]int{"": 1, "0": 1, "1": 1, "2": 2, "9": 5, "10%": 1, "39%": 1, "40%": 2, "59%": 2, "100%": 5} {
		for away := range 3 {
			s := rollout.Site{ControlPlanes: 1, Pools: []rollout.Pool{poolOfLabel(rollout.Worker, state.LabelWorker)}}
			if limit != "" {
				s.Pools[0].MaxUnavailable = new(intstr.Parse(limit))
			}
			for i := range 5 {
				line := fmt.Sprintf("w-%d a>a Done", i)
				if i < away {
					line += " notready"
				}
				s.Hosts = append(s.Hosts, host(t, line, i))
			}
			d := rollout.Decide(s)
			if may := min(max(want-away, 0), 5-away); len(d.Set) != may || (may == 0) == (d.Pools[0].Wait == "") {
				t.Errorf("limit %q, %d are away: given %v, waits for %q", limit, away, d.Set, d.Pools[0].Wait)
			}
		}
	}
}

// TestWhoComesFirst: whoever failed on another configuration, then by zone and age; the
// operator's own host is the last control plane.
func TestWhoComesFirst(t *testing.T) {
	const zone = "topology.kubernetes.io/zone="
	for rule, c := range map[string]struct {
		hosts    []string
		operator string
		want     string
	}{
		"the oldest":                                 {[]string{"w-2 a>a Done", "w-1 a>a Done"}, "", "w-2"},
		"the first zone before the oldest":           {[]string{"w-1 a>a Done " + zone + "b", "w-2 a>a Done " + zone + "a"}, "", "w-2"},
		"without a zone before any":                  {[]string{"w-1 a>a Done " + zone + "a", "w-2 a>a Done"}, "", "w-2"},
		"who failed on another one":                  {[]string{"w-1 a>a Done", "w-2 a>b Degraded " + zone + "z"}, "", "w-2"},
		"not who failed on this one":                 {[]string{"w-1 a>a Done", "w-2 a>t Degraded"}, "", ""},
		"the operator's control plane last":          {[]string{"cp-1 a>a Done", "cp-2 a>a Done"}, "cp-1", "cp-2"},
		"unless it failed":                           {[]string{"cp-1 a>b Degraded", "cp-2 a>a Done"}, "cp-1", "cp-1"},
		"and of workers the operator's as any other": {[]string{"w-1 a>a Done", "w-2 a>a Done"}, "w-1", "w-1"},
	} {
		s := rollout.Site{ControlPlanes: 2, Operator: c.operator, Spares: map[string]rollout.Spare{"cp-1": {Carries: state.Known(true)}, "cp-2": {Carries: state.Known(true)}}}
		s.Pools = []rollout.Pool{poolOfLabel(rollout.Master, state.LabelControlPlane), poolOfLabel(rollout.Worker, state.LabelWorker)}
		for i, line := range c.hosts {
			s.Hosts = append(s.Hosts, host(t, line, i))
		}
		got := ""
		if d := rollout.Decide(s); len(d.Set) > 0 {
			got = d.Set[0].Host
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", rule, got, c.want)
		}
	}
}
