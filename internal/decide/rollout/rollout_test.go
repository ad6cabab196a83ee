package rollout_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// host reads a line: a name, CURRENT>DESIRED, a state, and what else there is to
// say. The name says which labels the node has; hosts get older by their line.
func host(t *testing.T, line string, age int) rollout.Host {
	t.Helper()
	words := strings.Fields(line)
	current, desired, _ := strings.Cut(words[1], ">")
	h := rollout.Host{
		Name: words[0], Current: current, Desired: desired, Ready: true, Labels: map[string]string{},
		Created: time.Date(2026, 11, 23, 8, 0, age, 0, time.UTC),
	}
	roles := map[string]string{"cp": state.LabelControlPlane, "w": state.LabelWorker, "gpu": state.LabelWorker}
	kind, _, _ := strings.Cut(words[0], "-")
	h.Labels[roles[kind]] = ""
	if kind == "gpu" {
		h.Labels["site/gpu"] = ""
	}
	for _, word := range words[2:] {
		switch word {
		case "notready":
			h.Ready = false
		case "cordoned":
			h.Unschedulable = true
		case "pressure":
			h.Trouble = "its disk is full"
		case "pressed":
			h.Trouble, h.Pressed = "it is short of memory", true
		case "Done", "Working", "Degraded", "Unreconcilable":
			h.State = rollout.State(word)
		default:
			key, value, _ := strings.Cut(word, "=")
			switch key {
			case "reason":
				h.Reason = value
			case "wish":
				h.Wish = wishOf(value)
			case "given":
				ago, err := time.ParseDuration(value)
				if err != nil {
					t.Fatal(err)
				}
				h.Given = noon.Add(-ago)
			default:
				h.Labels[key] = value
			}
		}
	}
	return h
}

func hosts(t *testing.T, text string) []rollout.Host {
	t.Helper()
	var out []rollout.Host
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, host(t, line, len(out)))
		}
	}
	return out
}

func pool(name, label, target string) rollout.Pool {
	return rollout.Pool{Name: name, NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: ""}}, Target: target}
}

// pools are the two of each site, with new targets.
func pools() []rollout.Pool {
	return []rollout.Pool{pool("master", state.LabelControlPlane, "new"), pool("worker", state.LabelWorker, "new")}
}

// carries are the facts of a site whose control planes all can be lost.
func carries(names ...string) map[string]rollout.Spare {
	out := map[string]rollout.Spare{}
	for _, n := range names {
		out[n] = rollout.Spare{Carries: state.Known(true)}
	}
	return out
}

type situation struct {
	sentence string
	hosts    string
	change   func(*rollout.Site)
}

func gpus(s *rollout.Site) {
	gpu := pool("gpu", "site/gpu", "fast")
	gpu.MaxUnavailable = new(intstr.FromString("50%"))
	s.Pools = append(s.Pools, gpu)
}

// big adds another pool of the site.
func big(s *rollout.Site) { s.Pools = append(s.Pools, pool("big", "site/big", "large")) }

// kubelet has configurations with settings of kubelet, each with its name before.
func kubelet(named ...string) func(*rollout.Site) {
	return func(s *rollout.Site) {
		s.Kubelet = map[string]string{}
		for pair := range slices.Chunk(named, 2) {
			s.Kubelet[pair[0]] = pair[1]
		}
	}
}

// closed is what the maintenance window of a pool does to it until it opens.
func closed(p *rollout.Pool) {
	p.Closed = "its maintenance window opens at 2026-11-29T02:00:00+01:00"
}

// upgrades has a host at work for an upgrade of the site.
func upgrades(s *rollout.Site) { s.Upgrade = "waits for the upgrade: cp-1 at work" }

// changes has a plan change the control planes.
func changes(s *rollout.Site) { s.Plan = "the plan p1 of ada takes cp-3 out" }

func of(name string, change func(*rollout.Pool)) func(*rollout.Site) {
	return func(s *rollout.Site) {
		i := slices.IndexFunc(s.Pools, func(p rollout.Pool) bool { return p.Name == name })
		change(&s.Pools[i])
	}
}

// drains has the pods of the first host move for some time.
func drains(ago time.Duration, inTheWay string) func(*rollout.Site) {
	return func(s *rollout.Site) { s.Hosts[0].Draining, s.Hosts[0].InTheWay = noon.Add(-ago), inTheWay }
}

func workerSituations() []situation {
	limit := func(v intstr.IntOrString) func(*rollout.Site) {
		return of("worker", func(p *rollout.Pool) { p.MaxUnavailable = &v })
	}
	const four = "w-1 old>old Done\nw-2 old>old Done\nw-3 old>old Done\nw-4 old>old Done"
	return []situation{
		{"workers one after the other", four, nil},
		{"the second waits for the first", "w-1 old>new Working cordoned\nw-2 old>old Done", nil},
		{"the pods of the first move", "w-1 old>new Working cordoned reason=moves\nw-2 old>old Done", drains(0, "")},
		{"one of them is in the way", "w-1 old>new Working cordoned reason=moves\nw-2 old>old Done", drains(time.Hour, "default/web: a budget")},
		{"it is in the way for too long", "w-1 old>new Working cordoned reason=moves\nw-2 old>old Done", drains(time.Hour+time.Second, "default/web: a budget")},
		{"nobody moves them", "w-1 old>new Working cordoned reason=moves\nw-2 old>old Done", drains(2*time.Hour, "")},
		{"the first is done", "w-1 new>new Done\nw-2 old>old Done", nil},
		{"all are done", "w-1 new>new Done\nw-2 new>new Done", nil},
		{"two at once", four, limit(intstr.FromInt32(2))},
		{"a third, rounded down", four, limit(intstr.FromString("70%"))},
		{"a small percentage is one", four, limit(intstr.FromString("10%"))},
		{"0 is one, as upstream has it", four, limit(intstr.FromInt32(0))},
		{"what is no number", four, limit(intstr.FromString("some"))},
		{"a host that is away counts", "w-1 old>old Done notready\nw-2 old>old Done\nw-3 old>old Done", nil},
		{"a host that an administrator has cordoned counts", "w-1 old>old Done cordoned\nw-2 old>old Done", nil},
		{"a full disk counts", "w-1 old>old Done pressure\nw-2 old>old Done", nil},
		{"so does a want of memory where nobody knows whether the target changes kubelet's settings", "w-1 old>old Done\nw-2 new>new Done pressed", nil},
		{"so does one where it changes them", "w-1 old>old Done\nw-2 new>new Done pressed", kubelet("old", "", "new", "500Gi")},
		{"no other target waits for a host that is short of memory and has it", "w-1 old>old Done\nw-2 new>new Done pressed", kubelet("old", "500Mi", "new", "500Mi")},
		{"a host that never had one gets it beside", "w-1 >\nw-2 new>new Done pressed", kubelet("new", "")},
		{"all have it, and one is short of memory", "w-1 new>new Done\nw-2 new>new Done pressed", nil},
		{"a host that is short of memory is given another configuration first", "w-1 old>old Done\nw-2 old>old Done pressed", nil},
		{"of several such the others wait", "w-1 old>new Working pressed reason=writes\nw-2 old>old Done pressed\nw-3 old>old Done", nil},
		{"one that failed is given it before them", "w-1 old>old Done pressed\nw-2 old>bad Degraded pressed", nil},
		{"with room for it the others go on", "w-1 old>old Done notready\nw-2 old>old Done\nw-3 old>old Done", limit(intstr.FromInt32(2))},
		{"a host that comes back catches up", "w-1 old>old Done\nw-2 new>new Done", nil},
		{"a host that died at its work is waited for", "w-1 old>new Working notready\nw-2 old>old Done", nil},
		{"the pool is paused", four, of("worker", func(p *rollout.Pool) { p.Paused = true })},
		{"its maintenance window is closed", four, of("worker", closed)},
		{"an upgrade takes hosts away", four, upgrades},
		{"a plan changes the control planes, and workers go on", "cp-1 old>old Done\ncp-2 old>old Done\nw-1 old>old Done", changes},
		{"it lets a control plane finish", "cp-1 old>new Working\ncp-2 old>old Done", changes},
		{"one that failed gets the next configuration: the plan may wait for it", "cp-1 old>bad Degraded\ncp-2 old>old Done", changes},
		{"an upgrade lets a host finish", "w-1 old>new Working\nw-2 old>old Done", upgrades},
		{"an upgrade lets a host that failed wait", "w-1 old>bad Degraded\nw-2 old>old Done", upgrades},
		{"a closed window lets a host finish", "w-1 old>new Working\nw-2 old>old Done", of("worker", closed)},
		{"a closed window lets a host that failed wait", "w-1 old>bad Degraded\nw-2 old>old Done", of("worker", closed)},
		{"a closed window holds no other pool up", "cp-1 old>old Done\nw-1 old>old Done", of("worker", closed)},
		{"a paused pool lets a host finish", "w-1 old>new Working\nw-2 old>old Done", of("worker", func(p *rollout.Pool) { p.Paused = true })},
		{"the merge was refused", four, of("worker", func(p *rollout.Pool) { p.Target, p.Problem = "", "MachineConfig 50-a: spec.fips: no" })},
		{"a host that failed stops the pool", "w-1 old>new Degraded reason=disk\nw-2 old>old Done", limit(intstr.FromInt32(2))},
		{"so does one that refused it", "w-1 old>new Unreconcilable\nw-2 old>old Done", nil},
		{"so does one that somebody changed", "w-1 new>new Degraded reason=drift\nw-2 old>old Done", nil},
		{"it failed on one, and somebody had changed the other one", "w-1 old>new Degraded reason=late\nw-2 old>old Degraded reason=drift", nil},
		{"one refused it, and somebody had changed the other one", "w-1 old>new Unreconcilable reason=no-such-group\nw-2 old>old Degraded reason=drift", nil},
		{"somebody changed one that has it, and another one failed before", "w-1 new>new Degraded reason=drift\nw-2 old>older Degraded reason=late", nil},
		{"a host that failed on another one is given this first", "w-1 old>old Done\nw-2 old>bad Degraded cordoned", nil},
		{"of several that failed so many as may be away", "w-1 old>bad Degraded\nw-2 old>bad Degraded\nw-3 old>bad Degraded notready", nil},
		{"those that failed wait for one at work", "w-1 old>bad Degraded\nw-2 old>new Working", nil},
		{"also back to what it has", "w-1 new>new Done\nw-2 new>bad Degraded", nil},
		{"a new host is given it too", "w-1 >\nw-2 new>new Done", nil},
		{"a host that has never answered is the last", "w-1 >\nw-2 old>old Done", nil},
		{"it is away", "w-1 > notready\nw-2 new>new Done", nil},
		{"its agent does not answer", "w-1 >new\nw-2 old>old Done", nil},
		{"for too long", "w-1 >new given=8h\nw-2 old>old Done", nil},
		{"that of a known host does not", "w-1 old>new Done given=8h\nw-2 old>old Done", nil},
		{"it has answered", "w-1 old>new Working given=8h\nw-2 old>old Done", nil},
		{"it cannot answer", "w-1 old>new Done given=8h notready\nw-2 old>old Done", nil},
		{"a new host failed, and is given another one", "w-1 >bad Degraded reason=disk", nil},
		{"several MachineConfigs change one after the other", four, of("worker", func(p *rollout.Pool) { p.Settling = true })},
		{"the target changes while a host is at work", "w-1 old>former Working\nw-2 old>old Done", nil},
		{"it changes back to what the host has", "w-1 old>former Working reason=reboot\nw-2 older>older Done", of("worker", func(p *rollout.Pool) { p.Target = "old" })},
		{"the same, and its pool is paused", "w-1 old>former Working\nw-2 old>old Done", of("worker", func(p *rollout.Pool) { p.Target, p.Paused = "old", true })},
		{"a host says for what it waits", "w-1 old>new Working reason=reboot\nw-2 old>old Done", nil},
		{"zones one after the other, and the oldest host first", "w-1 old>old Done topology.kubernetes.io/zone=b\nw-2 old>old Done topology.kubernetes.io/zone=a\nw-3 old>old Done topology.kubernetes.io/zone=a", limit(intstr.FromInt32(2))},
	}
}

func poolSituations() []situation {
	return []situation{
		{"a pool of the site goes before workers and control planes", "cp-1 old>old Done\nw-1 old>old Done\ngpu-1 old>old Done\ngpu-2 old>old Done\ngpu-3 old>old Done\ngpu-4 old>old Done", gpus},
		{"workers follow", "w-1 old>old Done\ngpu-1 fast>fast Done", gpus},
		{"workers wait for a host of another pool", "w-1 old>old Done\ngpu-1 old>fast Working", gpus},
		{"also for a control plane", "cp-1 old>new Working\nw-1 old>old Done", nil},
		{"what fails on a worker reaches no control plane", "cp-1 old>old Done\nw-1 old>new Degraded", nil},
		{"what fails on a control plane stops no worker", "cp-1 old>new Degraded\nw-1 old>old Done", nil},
		{"a worker that is away holds no control plane up", "cp-1 old>old Done\nw-1 old>old Done notready", nil},
		{"a paused pool holds no other up", "cp-1 old>old Done\nw-1 old>old Done", of("worker", func(p *rollout.Pool) { p.Paused = true })},
		{"MachineConfigs of workers have just changed, and those of control planes a little before", "cp-1 old>old Done\nw-1 old>old Done", of("worker", func(p *rollout.Pool) { p.Settling = true })},
		{"no worker waits for them", "cp-1 old>old Done\nw-1 new>new Done", of("worker", func(p *rollout.Pool) { p.Settling = true })},
		{"the workers' pool is paused besides", "cp-1 old>old Done\nw-1 old>old Done", of("worker", func(p *rollout.Pool) { p.Settling, p.Paused = true, true })},
		{"several pools select a host", "gpu-1 old>old Done\nw-1 old>old Done", func(s *rollout.Site) {
			gpus(s)
			s.Pools = append(s.Pools, pool("ai", "site/gpu", "x"))
		}},
		{"somebody gives a host at work the label of a second pool", "cp-1 old>old Done\nw-1 old>old Done\ngpu-1 old>fast Working reason=boots site/big=\ngpu-2 fast>fast Done", both(gpus, big)},
		{"it failed there, and no control plane follows", "cp-1 old>old Done\nw-1 new>new Done\ngpu-1 old>fast Degraded site/big=", both(gpus, big)},
		{"workers go on", "w-1 old>old Done\ngpu-1 old>fast Degraded site/big=", both(gpus, big)},
		{"somebody takes all labels from a host at work", "cp-1 old>old Done\nw-1 old>old Done\nother-1 old>new Working notready", nil},
		{"a pool of the site selects a control plane", "cp-1 old>old Done site/gpu=", gpus},
		{"no pool selects a host", "other-1 old>old Done", nil},
		{"a pool without a selector selects none", "w-1 old>old Done", of("worker", func(p *rollout.Pool) { p.NodeSelector = nil })},
		{"a pool that would select all selects none", "w-1 old>old Done", of("worker", func(p *rollout.Pool) { p.NodeSelector = &metav1.LabelSelector{} })},
		{"control planes that no pool selects", "cp-1 old>old Done", of("master", func(p *rollout.Pool) { p.NodeSelector = nil })},
	}
}

func controlPlaneSituations() []situation {
	const two = "cp-1 old>old Done\ncp-2 old>old Done"
	spare := func(name string, s rollout.Spare) func(*rollout.Site) {
		return func(site *rollout.Site) { site.Spares[name] = s }
	}
	return []situation{
		{"one control plane", "cp-1 old>old Done", func(s *rollout.Site) { s.Spares = nil }},
		{"two control planes, one after the other", two, nil},
		{"the host of the operator is the last", two, func(s *rollout.Site) { s.Operator = "cp-1" }},
		{"the other one is at work", "cp-1 old>new Working\ncp-2 old>old Done", nil},
		{"the other one is done, and is not whole yet", "cp-1 new>new Done\ncp-2 old>old Done", spare("cp-2", rollout.Spare{Carries: state.Known(false), Why: "cp-1 is a learner"})},
		{"it is whole", "cp-1 new>new Done\ncp-2 old>old Done", nil},
		{"the other one is away", "cp-1 old>old Done notready\ncp-2 old>old Done", nil},
		{"both are short of memory", "cp-1 old>old Done pressed\ncp-2 old>old Done pressed", nil},
		{"the other one is short of memory, and has it", "cp-1 old>old Done\ncp-2 new>new Done pressed", nil},
		{"the same, and it leaves kubelet's settings alone", "cp-1 old>old Done\ncp-2 new>new Done pressed", kubelet("old", "", "new", "")},
		{"nobody knows whether one of them may be lost", two, spare("cp-2", rollout.Spare{})},
		{"only the one that is first could be lost", two, spare("cp-2", rollout.Spare{Carries: state.Known(false), Why: "the BMC of cp-1 does not answer"})},
		{"a node was deleted", "cp-1 old>old Done", func(s *rollout.Site) { s.ControlPlanes = 2 }},
		{"nobody knows how many there are", two, func(s *rollout.Site) { s.ControlPlanes = 0 }},
		{"two of them are never away at once", "cp-1 old>old Done\ncp-2 old>old Done\ncp-3 old>old Done", of("master", func(p *rollout.Pool) { p.MaxUnavailable = new(intstr.FromInt32(2)) })},
		{"paused", two, of("master", func(p *rollout.Pool) { p.Paused = true })},
		{"one failed", "cp-1 old>new Degraded reason=nospace\ncp-2 old>old Done", nil},
		{"one failed on another, and the other carries on", "cp-1 old>bad Degraded notready\ncp-2 old>old Done", spare("cp-2", rollout.Spare{Carries: state.Known(false), Why: "cp-1 is absent"})},
		{"one failed on another, and it is the one that carries", "cp-1 old>bad Degraded\ncp-2 old>old Done notready", spare("cp-1", rollout.Spare{Carries: state.Known(false), Why: "cp-2 is absent"})},
		{"both failed on another", "cp-1 old>bad Degraded\ncp-2 old>bad Degraded", nil},
		{"one failed on another while the other is at work", "cp-1 old>bad Degraded\ncp-2 old>new Working", nil},
		{"the only one failed on another", "cp-1 old>bad Degraded", func(s *rollout.Site) { s.Spares = nil }},
	}
}

func site(t *testing.T, c situation) rollout.Site {
	t.Helper()
	s := rollout.Site{Now: noon, Hosts: hosts(t, c.hosts), Pools: pools(), Spares: carries("cp-1", "cp-2", "cp-3")}
	for _, h := range s.Hosts {
		if strings.HasPrefix(h.Name, "cp-") {
			s.ControlPlanes++
		}
	}
	if c.change != nil {
		c.change(&s)
	}
	return s
}

// told shows a decision.
func told(d rollout.Decision) string {
	var out strings.Builder
	for _, a := range d.Set {
		fmt.Fprintf(&out, "    give %s the configuration %s\n", a.Host, a.Config)
	}
	for _, a := range d.Astray {
		fmt.Fprintf(&out, "    %s: %s\n", a.Host, a.Why)
	}
	for _, w := range d.Wishes {
		switch {
		case w.Over:
			fmt.Fprintf(&out, "    the wish for %s is over\n", w.Host)
		case w.Give && w.Patch:
			fmt.Fprintf(&out, "    %s may get updates\n", w.Host)
		case w.Give:
			fmt.Fprintf(&out, "    %s may boot\n", w.Host)
		case w.Wish != "":
			fmt.Fprintf(&out, "    a reboot of %s is wished: %s\n", w.Host, w.Wish)
		case w.Remains != "":
			fmt.Fprintf(&out, "    of what was wished for %s remains: %s\n", w.Host, w.Remains)
		case w.Forget:
			fmt.Fprintf(&out, "    what was wished for %s is forgotten\n", w.Host)
		case w.Patch:
			fmt.Fprintf(&out, "    %s waits with its updates: %s\n", w.Host, w.Waits)
		default:
			fmt.Fprintf(&out, "    %s waits with its reboot: %s\n", w.Host, w.Waits)
		}
	}
	for _, p := range d.Pools {
		if len(p.Hosts) == 0 {
			continue
		}
		fmt.Fprintf(&out, "    pool %s: %d hosts, %d updated, %d ready, %d unavailable, %d degraded\n", p.Pool, len(p.Hosts), p.Updated, p.Ready, p.Unavailable, p.Degraded)
		if p.Wait != "" {
			fmt.Fprintf(&out, "      waits: %s\n", p.Wait)
		}
		for _, c := range p.Conditions {
			if c.Reason != "" {
				fmt.Fprintf(&out, "      %s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
			}
		}
	}
	return out.String()
}

func TestWhoGetsItsConfigurationNextIsApproved(t *testing.T) {
	var out strings.Builder
	for _, c := range slices.Concat(workerSituations(), poolSituations(), controlPlaneSituations()) {
		fmt.Fprintf(&out, "%s\n  %s\n%s", c.sentence, strings.ReplaceAll(c.hosts, "\n", "\n  "), told(rollout.Decide(site(t, c))))
	}
	golden.Check(t, "situations.txt", []byte(out.String()))
}

func TestTheOrderOfHostsAndPoolsChangesNothing(t *testing.T) {
	for _, c := range slices.Concat(workerSituations(), poolSituations(), controlPlaneSituations(), rebootSituations()) {
		s := site(t, c)
		want := told(rollout.Decide(s))
		slices.Reverse(s.Hosts)
		slices.SortFunc(s.Pools, func(a, b rollout.Pool) int { return cmp.Compare(b.Name, a.Name) })
		if got := told(rollout.Decide(s)); got != want {
			t.Errorf("%s: got\n%s, want\n%s", c.sentence, got, want)
		}
	}
}

// TestAHostThatLosesItsPoolAtWorkHoldsUpAllOthers: it is as away as before, and what people read
// names it, with what is wrong with its labels.
func TestAHostThatLosesItsPoolAtWorkHoldsUpAllOthers(t *testing.T) {
	const why = "gpu-1 (boots) is at work, and in no pool: several pools select it: big, gpu"
	s := site(t, situation{"", "cp-1 old>old Done\nw-1 old>old Done\nw-2 old>old Done wish=heard\ngpu-1 old>fast Working reason=boots site/big=", both(gpus, big)})
	d := rollout.Decide(s)
	if len(d.Set) != 0 {
		t.Errorf("given: %+v", d.Set)
	}
	for _, p := range d.Pools {
		if (p.Pool == rollout.Worker || p.Pool == rollout.Master) && p.Wait != why {
			t.Errorf("the pool %s waits: %q", p.Pool, p.Wait)
		}
	}
	if len(d.Wishes) != 1 || d.Wishes[0].Give || d.Wishes[0].Waits != why {
		t.Errorf("wishes: %+v", d.Wishes)
	}
	delete(s.Hosts[3].Labels, "site/big") // somebody puts it right
	s.Hosts[3].Current, s.Hosts[3].State = "fast", rollout.Done
	if d := rollout.Decide(s); len(d.Set) != 1 || d.Set[0].Host != "w-1" {
		t.Errorf("then given: %+v", d.Set)
	}
}
