package readdress_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
	"github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// modelHost is a host of the model. Its files are at one place or, in between, at none.
type modelHost struct {
	at, moving, settled readdress.Side
	// changed is how old the change of the files is: "" not changed, "now" in this boot,
	// "before" in an earlier one.
	changed string
	over    bool
	// is is where somebody has put the host, member where etcd's members look for it, node
	// where the API has it.
	is, member, node readdress.Side
	// replaced is true of a host that was installed at the new place, and not carried since.
	replaced bool
}

// model is a site of two, whose etcd needs both. It is comparable, so that each state is
// visited once.
type model struct {
	hosts    [2]modelHost
	objects  readdress.Side
	carried  int
	replaced bool // once
}

var names = [2]string{"cp-1", "cp-2"}

func newModel() model {
	from := readdress.From
	h := modelHost{at: from, settled: from, is: from, member: from, node: from}
	return model{hosts: [2]modelHost{h, h}, objects: from}
}

// answers reports whether etcd, and so the API, answers: both hosts are where their files say, in
// the same place, and have booted with these files.
func (m model) answers() bool {
	for _, h := range m.hosts {
		if h.moving != "" || h.is != h.at || h.at != m.hosts[0].at {
			return false
		}
	}
	return true
}

func (m model) facts(i int) readdress.Facts {
	p, h := plan(), m.hosts[i]
	j := readdress.Journal{At: h.at, Moving: h.moving, Settled: h.settled, Over: h.over}
	f := readdress.Facts{Host: names[i], ControlPlane: true, Plan: &p, Journal: j, Same: time.Minute, Boot: "b1"}
	switch h.changed {
	case "now":
		f.Journal.Changed = "b1"
	case "before":
		f.Journal.Changed = "b0"
	}
	for _, a := range p.Place(h.is).Hosts[names[i]] {
		f.Addresses = append(f.Addresses, nodeaddress.Address{Interface: "eth0", Index: 2, Prefix: netip.PrefixFrom(a, 24), Usable: true})
	}
	if m.answers() {
		f.Objects, f.Member = state.Known(m.objects), state.Known(h.member)
		f.Members = state.Known([]readdress.Side{m.hosts[0].member, m.hosts[1].member})
		f.Hosts = state.Known(map[string]readdress.Side{names[0]: m.hosts[0].node, names[1]: m.hosts[1].node})
	}
	return f
}

// cut says when the power goes in an act: not at all, right before it counts, or once the cluster has it
// and the journal says no more than that it began.
type cut int

const (
	never cut = iota
	before
	between
)

// step lets a host do what it decides.
func (m model) step(t *testing.T, i int, at cut) model {
	s := readdress.Decide(m.facts(i))
	h := &m.hosts[i]
	if m.answers() {
		h.node = h.at // its kubelet says so
	}
	if at != never && s.Act == readdress.Settle {
		h.settled = ""
		if at == between {
			m.objects = s.Side
		}
	}
	if at != never {
		return m.boot(i)
	}
	switch s.Act {
	case readdress.Begin:
		if h.replaced {
			t.Fatalf("%+v: %s was installed at the new place, and moves there", m, names[i])
		}
		h.moving, h.changed, h.over = s.Side, "", false
	case readdress.Move:
		h.changed = "now"
	case readdress.Boot:
		return m.boot(i)
	case readdress.Arrive:
		h.at, h.moving, h.changed = h.moving, "", ""
	case readdress.Announce:
		if !m.answers() {
			t.Fatalf("%+v: etcd is told although it does not answer", m)
		}
		h.member = s.Side
	case readdress.Settle:
		m.objects, h.settled = s.Side, s.Side
	case readdress.Finish:
		for _, other := range m.hosts {
			if other.at != readdress.To || other.member != readdress.To || other.moving != "" {
				t.Fatalf("%+v: %s finishes although a host is not at the new place", m, names[i])
			}
		}
		h.over = true
	case readdress.Idle, readdress.Wait:
	}
	return m
}

func (m model) boot(i int) model {
	if m.hosts[i].changed == "now" {
		m.hosts[i].changed = "before"
	}
	return m
}

// replace puts a machine in the place of a host at the new place, which hears then of the plan. It
// says false if that cannot be.
func (m model) replace(t *testing.T, i int) (model, bool) {
	if other := m.hosts[1-i]; m.replaced || !m.answers() || other.at != readdress.To || other.settled != readdress.To || other.member != readdress.To || m.objects != readdress.To {
		return m, false
	}
	f := m.facts(i)
	f.Journal = readdress.Journal{}
	j := f.Heard(f.Plan.To.Hosts[names[i]])
	if !j.Known {
		t.Fatalf("%+v: a replaced host does not know where it is", m)
	}
	m.hosts[i] = modelHost{at: j.Value.At, settled: j.Value.Settled, is: readdress.To, member: readdress.To, node: readdress.To, replaced: true}
	m.replaced = true
	return m, true
}

// hears fails where a host of a site that moves within one network would not find the other one where
// somebody has put it: both would hold a virtual IP that the two places have in common.
func (m model) hears(t *testing.T) {
	p := shares()
	for i := range m.hosts {
		other := names[1-i]
		listed := []state.Node{{Name: other, Addresses: p.Place(m.hosts[1-i].node).Hosts[other]}}
		found := readdress.Nodes(p, m.facts(i).Journal, names[i], listed)[0]
		at := p.Place(m.hosts[1-i].is).Hosts[other][0]
		instances := m.holds(p, i, found)
		if len(instances) != 2 {
			t.Fatalf("%+v: %s holds %v", m, names[i], instances)
		}
		for _, in := range instances {
			if !slices.Contains(in.Peers, at) {
				t.Fatalf("%+v: for %s %s does not look for %s at %s, but at %v", m, in.VIP, names[i], other, at, in.Peers)
			}
		}
	}
}

// holds returns what a host takes part in where somebody has put it, beside the other one.
func (m model) holds(p readdress.Plan, i int, other state.Node) []vrrp.Instance {
	nets, _ := p.From.Networks()
	vips, _ := p.From.VIPs()
	own, plane := p.Place(m.hosts[i].is).Hosts[names[i]], map[string]string{state.LabelControlPlane: ""}
	other.Labels = plane
	return vrrp.Instances(state.NetworkView{
		Settings: state.NetworkSettings{Cluster: "shop", ManagedVIPs: true, ControlPlanes: 2, APIVIPs: vips[:1], IngressVIPs: vips[1:], MachineNetworks: nets},
		Role:     state.RoleMaster, Stage: state.StageInstalled,
		Host:      state.HostFacts{NodeName: names[i], Interface: "eth0", Addresses: own},
		Addresses: []state.HostAddress{{Interface: "eth0", Index: 2, Prefix: netip.PrefixFrom(own[0], nets[0].Bits()), Usable: true}},
		Nodes:     state.Known([]state.Node{{Name: names[i], Labels: plane, Addresses: own}, other}),
	}).Instances
}

// rests lets both hosts work until nothing changes any more.
func (m model) rests(t *testing.T) model {
	for range 60 {
		was := m
		for i := range m.hosts {
			m = m.step(t, i, never)
		}
		if m == was {
			return m
		}
	}
	t.Fatalf("%+v: it never rests", m)
	return m
}

// TestACarriedSiteEndsAtOnePlaceWhateverCutsThePower visits every state that two hosts reach which
// somebody carries to and fro, each on its own, whose power is cut at any act, and one of which is
// replaced at the new place. From each of them the site serves, with everything at one place, once both hosts stay at that place.
// If the places share a network, each host looks for the other one where that one is, in every state.
func TestACarriedSiteEndsAtOnePlaceWhateverCutsThePower(t *testing.T) {
	const carries = 4
	seen := map[model]bool{}
	open := []model{newModel()}
	for len(open) > 0 {
		m := open[len(open)-1]
		open = open[:len(open)-1]
		if seen[m] {
			continue
		}
		seen[m] = true
		m.hears(t)
		for i := range m.hosts {
			open = append(open, m.step(t, i, never), m.step(t, i, before), m.step(t, i, between))
			if next, can := m.replace(t, i); can {
				open = append(open, next)
			}
			if m.carried < carries {
				next := m
				next.hosts[i].is, next.hosts[i].replaced, next.carried = m.hosts[i].is.Other(), false, m.carried+1
				open = append(open, next)
			}
		}
		for _, place := range []readdress.Side{readdress.From, readdress.To} {
			end := m
			for i := range end.hosts {
				end.hosts[i].replaced = end.hosts[i].replaced && end.hosts[i].is == place
				end.hosts[i].is = place
			}
			if bad := end.rests(t).wrong(place); bad != "" {
				t.Fatalf("%+v, then both stay at %s: %s", m, place, bad)
			}
		}
	}
	t.Logf("%d states", len(seen))
	if len(seen) < 500 {
		t.Errorf("only %d states: the model does not move", len(seen))
	}
}

// wrong says what is not right at the end, empty if all is.
func (m model) wrong(place readdress.Side) string {
	if !m.answers() {
		return fmt.Sprintf("etcd does not answer: %+v", m)
	}
	if m.objects != place {
		return fmt.Sprintf("the cluster's objects have the addresses of %s", m.objects)
	}
	for i, h := range m.hosts {
		if h.at != place || h.member != place || h.node != place || h.settled != place || h.over != (place == readdress.To) {
			return fmt.Sprintf("%s: %+v", names[i], h)
		}
	}
	return ""
}
