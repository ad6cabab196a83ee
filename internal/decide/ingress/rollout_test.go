package ingress

import (
	"fmt"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

// site is a number of hosts, of which the last ones are lost.
type site struct{ hosts, lost int }

func (s site) all() []Host {
	var out []Host
	for i := range s.hosts {
		out = append(out, host(fmt.Sprintf("h%d", i), i < s.hosts-s.lost, state.LabelWorker, state.LabelMaster))
	}
	return out
}

// of returns the router of an IngressController on a site.
func of(t *testing.T, kind operatorv1.EndpointPublishingStrategyType, replicas *int32, s site) *Router {
	t.Helper()
	c := Cluster{ControlPlane: ha, Infrastructure: ha, Domain: "apps.example"}
	if s.hosts == 1 {
		c.ControlPlane, c.Infrastructure = single, single
	}
	ic := controller("x", func(ic *operatorv1.IngressController) {
		ic.Spec.EndpointPublishingStrategy = &operatorv1.EndpointPublishingStrategy{Type: kind}
		ic.Spec.Replicas = replicas
	})
	snapshot := Snapshot{Controller: ic, Cluster: c, Hosts: s.all()}
	return RouterOf(snapshot, Admit(ic, nil, c, nil))
}

const (
	hostNet = operatorv1.HostNetworkStrategyType
	nodePrt = operatorv1.NodePortServiceStrategyType
	private = operatorv1.PrivateStrategyType
	balance = operatorv1.LoadBalancerServiceStrategyType
)

// TestHardCase12_RolloutAndBudgetForEveryNumberOfRouters is the table of
// docs/facts/ingress.md#routers: what an administrator finds in the objects.
func TestHardCase12_RolloutAndBudgetForEveryNumberOfRouters(t *testing.T) {
	tests := []struct {
		kind     operatorv1.EndpointPublishingStrategyType
		replicas *int32
		site     site
		want     string // maxUnavailable maxSurge spread budget
	}{
		{hostNet, nil, site{1, 0}, "25% 0 false 50%"},
		{hostNet, nil, site{2, 0}, "25% 0 false 50%"},
		{hostNet, new(int32(0)), site{2, 0}, "25% 0 false none"},
		{hostNet, new(int32(1)), site{2, 0}, "25% 0 false none"},
		{hostNet, new(int32(2)), site{2, 0}, "25% 0 false 1"},
		{hostNet, new(int32(2)), site{3, 0}, "25% 0 false 1"},
		{hostNet, new(int32(3)), site{3, 0}, "25% 0 false 25%"},
		{hostNet, new(int32(2)), site{2, 1}, "2 0 false 2"},
		{hostNet, new(int32(3)), site{2, 0}, "2 0 false 2"},
		{nodePrt, nil, site{1, 0}, "25% 25% false 50%"},
		{nodePrt, new(int32(2)), site{1, 0}, "25% 25% false 2"},
		{nodePrt, nil, site{2, 0}, "50% 25% true 50%"},
		{nodePrt, new(int32(2)), site{2, 0}, "50% 25% true 1"},
		{nodePrt, new(int32(3)), site{3, 0}, "50% 25% true 25%"},
		{nodePrt, new(int32(4)), site{5, 0}, "25% 25% true 25%"},
		{nodePrt, new(int32(5)), site{5, 0}, "25% 25% true 25%"},
		{nodePrt, new(int32(5)), site{3, 0}, "2 25% true 3"},
		{private, new(int32(2)), site{2, 1}, "50% 25% true 2"},
		{balance, new(int32(3)), site{3, 1}, "50% 25% true 2"},
	}
	for _, tt := range tests {
		r := of(t, tt.kind, tt.replicas, tt.site).Rollout
		budget := "none"
		if r.Budget != nil {
			budget = r.Budget.String()
		}
		if got := fmt.Sprintf("%s %s %v %s", r.MaxUnavailable.String(), r.MaxSurge.String(), r.Spread, budget); got != tt.want {
			t.Errorf("%s, %s replicas, %+v: %s, want %s", tt.kind, number(tt.replicas), tt.site, got, tt.want)
		}
	}
}

// Beside control planes that take no router, one router without a host stayed
// Pending for ever, and the Deployment never became complete
// (docs/facts/findings.md#lab, K2).
func TestOneWorkerBesideControlPlanesHasOneRouterAndASecondWorkerASecondOne(t *testing.T) {
	cp1 := kubeadmTaint(host("cp-1", true, state.LabelMaster, state.LabelControlPlane))
	cp2 := kubeadmTaint(host("cp-2", true, state.LabelMaster, state.LabelControlPlane))
	w1, w2 := host("w-1", true, state.LabelWorker), host("w-2", true, state.LabelWorker)
	lost := host("w-2", false, state.LabelWorker)
	for name, tt := range map[string]struct {
		hosts  []Host
		wanted *int32
		want   int32
		budget string
	}{
		"no worker yet":            {[]Host{cp1, cp2}, nil, 2, "50%"},
		"one worker":               {[]Host{cp1, cp2, w1}, nil, 1, "50%"},
		"two workers":              {[]Host{cp1, cp2, w1, w2}, nil, 2, "50%"},
		"one of two is lost":       {[]Host{cp1, cp2, w1, lost}, nil, 2, "2"},
		"who asks for two, has to": {[]Host{cp1, cp2, w1}, new(int32(2)), 2, "2"},
	} {
		ic := controller("x", func(ic *operatorv1.IngressController) {
			ic.Spec.Replicas = tt.wanted
			ic.Spec.EndpointPublishingStrategy = &operatorv1.EndpointPublishingStrategy{Type: hostNet}
		})
		s := Snapshot{Controller: ic, Cluster: Cluster{ControlPlane: dual, Infrastructure: ha, Domain: "apps.example"}, Hosts: tt.hosts}
		r := RouterOf(s, Admit(ic, nil, s.Cluster, nil))
		if r.Replicas != tt.want || r.Rollout.Budget.String() != tt.budget {
			t.Errorf("%s: %d routers and a budget of %s, want %d and %s", name, r.Replicas, r.Rollout.Budget.String(), tt.want, tt.budget)
		}
	}
}

func number(n *int32) string {
	if n == nil {
		return "no"
	}
	return fmt.Sprint(*n)
}

// everyCase calls f for every combination of strategy, number of routers,
// number of hosts, and none or one of them lost.
func everyCase(t *testing.T, f func(name string, r *Router, s site)) {
	t.Helper()
	numbers := []*int32{nil}
	for n := range int32(6) {
		numbers = append(numbers, new(n))
	}
	for _, kind := range strategyTypes() {
		for _, n := range numbers {
			for hosts := 1; hosts <= 3; hosts++ {
				for lost := range min(hosts, 2) {
					s := site{hosts, lost}
					f(fmt.Sprintf("%s, %s replicas, %d hosts of which %d lost", kind, number(n), hosts, lost), of(t, kind, n, s), s)
				}
			}
		}
	}
}

// exclusive reports whether a host takes only one router of a version.
func exclusive(r *Router) bool { return r.HostNetwork() || r.Rollout.Spread }

// TestHardCase12_EveryDrainEnds drains each live host in turn, as kubectl does:
// it evicts while the budget allows it, and routers start elsewhere if there is
// room.
func TestHardCase12_EveryDrainEnds(t *testing.T) {
	everyCase(t, func(name string, r *Router, s site) {
		live := s.hosts - s.lost
		if r.Rollout.Budget == nil {
			return // nothing limits a drain
		}
		for drained := range live {
			on := placed(r, live)
			allowed := r.Replicas - resolved(*r.Rollout.Budget, r.Replicas, true) // must stay healthy
			for on[drained] > 0 {
				if int32(total(on))-1 < allowed {
					t.Errorf("%s: h%d is never empty: %v, %d must stay", name, drained, on, allowed)
					return
				}
				on[drained]--
				restart(r, on, drained)
			}
		}
	})
}

// placed puts as many routers on hosts as fit.
func placed(r *Router, live int) []int {
	on := make([]int, live)
	for i := range int(r.Replicas) {
		if exclusive(r) && i >= live {
			break
		}
		on[i%live]++
	}
	return on
}

func total(on []int) int {
	n := 0
	for _, k := range on {
		n += k
	}
	return n
}

// restart starts an evicted router on another host, if there is one.
func restart(r *Router, on []int, drained int) {
	for h := range on {
		if h != drained && (!exclusive(r) || on[h] == 0) {
			on[h]++
			return
		}
	}
}

// TestHardCase14_ARollOutEndsWhereverThereIsALivingHost plays the controller of
// Deployments. In the end no live host has an old router, even if one host is
// lost. At least one router serves all the time, unless only one fits on the
// host network and its successor needs the same ports.
func TestHardCase14_ARollOutEndsWhereverThereIsALivingHost(t *testing.T) {
	everyCase(t, func(name string, r *Router, s site) {
		if r.Replicas == 0 {
			return
		}
		play := newRoll(r, s)
		least := play.run()
		if play.old() > 0 {
			t.Errorf("%s: %d old routers stay: %+v", name, play.old(), play.hosts)
		}
		alone := r.HostNetwork() && min(int(r.Replicas), s.hosts-s.lost) == 1
		if least == 0 && !alone {
			t.Errorf("%s: none served for a while", name)
		}
		if least > 0 && alone {
			t.Errorf("%s: two routers had the same ports", name)
		}
	})
}

// roll is a roll-out: old and new routers on each living host.
type roll struct {
	r     *Router
	hosts []struct{ old, new int }
	// wanted is the size of the new set, including routers without a host.
	// surge is the number of extra routers that are allowed. least is the
	// number that must stay available.
	wanted, surge, least int
}

func newRoll(r *Router, s site) *roll {
	live := s.hosts - s.lost
	p := &roll{r: r, hosts: make([]struct{ old, new int }, live)}
	for h, n := range placed(r, live) {
		p.hosts[h].old = n
	}
	p.surge = int(resolved(r.Rollout.MaxSurge, r.Replicas, true))
	p.least = int(minAvailable(r))
	return p
}

func (p *roll) old() (n int) {
	for _, h := range p.hosts {
		n += h.old
	}
	return n
}

func (p *roll) serving() (n int) {
	for _, h := range p.hosts {
		n += h.old + h.new
	}
	return n
}

// run returns the smallest number of routers that served at any time. Old
// routers without a host have already gone.
func (p *roll) run() int {
	least := p.serving()
	for changed := true; changed; {
		changed = false
		if room := int(p.r.Replicas) + p.surge - p.old() - p.wanted; room > 0 && p.wanted < int(p.r.Replicas) {
			p.wanted += min(room, int(p.r.Replicas)-p.wanted)
			changed = true
		}
		for p.schedule() {
			changed = true
		}
		for p.old() > 0 && p.serving()-1 >= p.least {
			p.stopOne()
			changed, least = true, min(least, p.serving())
		}
	}
	return least
}

func (p *roll) schedule() bool {
	if p.serving()-p.old() >= p.wanted {
		return false
	}
	for i := range p.hosts {
		h := &p.hosts[i]
		switch {
		case p.r.HostNetwork() && h.old+h.new > 0, p.r.Rollout.Spread && h.new > 0:
			continue
		}
		h.new++
		return true
	}
	return false
}

func (p *roll) stopOne() {
	for i := range p.hosts {
		if p.hosts[i].old > 0 {
			p.hosts[i].old--
			return
		}
	}
}

func TestARouterDrainsNoLongerThanItsPortsAreNeeded(t *testing.T) {
	for _, tt := range []struct {
		kind operatorv1.EndpointPublishingStrategyType
		site site
		most float64
	}{{hostNet, site{1, 0}, 20}, {hostNet, site{2, 0}, 60}, {nodePrt, site{1, 0}, 3600}, {nodePrt, site{2, 0}, 3600}} {
		d := of(t, tt.kind, nil, tt.site).Drain
		if d.Grace().Seconds() > tt.most || d.Finish <= 0 || d.Grace() <= d.Accept+d.Finish {
			t.Errorf("%s, %+v: %+v", tt.kind, tt.site, d)
		}
	}
}
