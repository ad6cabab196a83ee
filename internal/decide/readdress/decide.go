package readdress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Steady is the time for which a host has only addresses of the other place before it takes
// them: a cable that is plugged again, or a network that starts, has more than one state.
const Steady = 10 * time.Second

// Journal is what a host remembers of a plan across crashes and boots.
type Journal struct {
	// At is the side whose addresses the files of the host have.
	At Side `json:"at"`
	// Moving is the side that the host is on its way to, empty if it is not. It is written
	// before the first file is changed. Changed names the boot in which all files were
	// changed, empty before: programs read them when they start, so the host boots then.
	Moving  Side   `json:"moving,omitempty"`
	Changed string `json:"changed,omitempty"`
	// Settled is the side whose addresses the cluster's objects have, as far as this host
	// knows; empty while it writes them.
	Settled Side `json:"settled"`
	// Told is the side at which this host last had etcd's members look for it.
	Told Side `json:"told"`
	// Taken are the addresses that the host itself took at each side.
	Taken map[Side][]netip.Addr `json:"taken,omitempty"`
	// Over is true once the host has nothing of the old place any more. A host that is
	// carried back even then, before the others are as far, takes its old addresses again.
	Over bool `json:"over,omitempty"`
}

// Announced returns the journal of a plan that has changed nothing. own are the addresses of
// the host now.
func Announced(own []netip.Addr) Journal {
	return Journal{At: From, Settled: From, Told: From, Taken: map[Side][]netip.Addr{From: own, To: nil}}
}

// Heard returns the journal of a host that hears first of the plan of its facts. node are the
// addresses at which the API has it: kubelet takes them from the host's files. A host that came
// to the new place, or was replaced there, has nothing to move. The journal is unknown while the
// API does not list a host that may be such a one.
func (f Facts) Heard(node []netip.Addr) state.Fact[Journal] {
	was := f.Plan.From.Hosts[f.Host]
	if _, lacks := f.present(From); len(was) > 0 && lacks == nil {
		return state.Known(Announced(was))
	}
	switch {
	case len(node) == 0:
		return state.Fact[Journal]{}
	case f.Plan.Of(f.Host, node) != To || f.lacks(node) != nil:
		return state.Known(Announced(was))
	}
	return state.Known(Journal{At: To, Settled: To, Told: To, Taken: map[Side][]netip.Addr{From: was, To: node}})
}

// Begun returns the journal of a host that moves to a side, with its own addresses there.
func (j Journal) Begun(to Side, own []netip.Addr) Journal {
	j.Moving, j.Changed, j.Over = to, "", false
	was := j.Taken[to.Other()]
	j.Taken = make(map[Side][]netip.Addr, 2)
	j.Taken[to], j.Taken[to.Other()] = own, was
	return j
}

// Written returns the journal once all files are changed, in this boot.
func (j Journal) Written(boot string) Journal { j.Changed = boot; return j }

// Arrived returns the journal once the host has booted with the changed files.
func (j Journal) Arrived() Journal {
	j.At, j.Moving, j.Changed = j.Moving, "", ""
	return j
}

// SettledAt returns the journal once the cluster has the addresses of a side, or before it gets them, for an
// empty one.
func (j Journal) SettledAt(s Side) Journal { j.Settled = s; return j }

// ToldAt returns the journal once etcd's members look for this host at a side.
func (j Journal) ToldAt(s Side) Journal { j.Told = s; return j }

// Ended returns the journal once nothing of the old place is left.
func (j Journal) Ended() Journal { j.Over = true; return j }

// Free reports whether the plan has changed nothing on this host, or nothing that is not at
// its end: then another plan may take its place.
func (j Journal) Free() bool {
	return j.Over || j.At == From && j.Moving == "" && j.Settled == From && j.Told == From
}

// Facts are what a host knows when it decides.
type Facts struct {
	Host         string
	ControlPlane bool
	// Plan is nil if there is none.
	Plan    *Plan
	Journal Journal
	// Addresses and Routes are those of the kernel now, and Same the time for which the
	// addresses have been like this.
	Addresses []nodeaddress.Address
	Routes    []state.HostRoute
	Same      time.Duration
	// Boot names this boot of the host.
	Boot string
	// Lacks says why the host cannot give its files the addresses of the place that it has not;
	// empty if it can.
	Lacks string
	// Objects is the side whose virtual IPs the Infrastructure object has; unknown while the
	// API does not answer or if it has neither.
	Objects state.Fact[Side]
	// Hosts is the side at which the API says that each node is, by its name; empty for neither.
	Hosts state.Fact[map[string]Side]
	// Member is the side of the address at which etcd's other members look for this host;
	// unknown while etcd does not answer. It counts on a control plane.
	Member state.Fact[Side]
	// Members are the sides of all members of etcd; empty for neither.
	Members state.Fact[[]Side]
}

// Act is what a host does next.
type Act string

// The acts.
const (
	// Idle: there is no plan, or it is over.
	Idle Act = "idle"
	// Wait: Words says for what.
	Wait Act = "wait"
	// Begin writes into the journal that the host moves to Side, with Own, and keeps the
	// files as they are.
	Begin Act = "begin"
	// Move changes the files of the host to Side; Boot boots the host, and Arrive writes into
	// the journal that it has booted.
	Move   Act = "move"
	Boot   Act = "boot"
	Arrive Act = "arrive"
	// Announce has etcd's other members look for this host at Side.
	Announce Act = "announce"
	// Settle gives the objects of the cluster the addresses of Side.
	Settle Act = "settle"
	// Finish takes everything of the old place from this host.
	Finish Act = "finish"
)

// Step is a decision.
type Step struct {
	Act  Act
	Side Side
	Own  []netip.Addr
	// Words explain the step to people.
	Words string
}

// Decide decides what a host does next. The two places are equals until the plan is over: a
// host that is carried back takes its former addresses again.
func Decide(f Facts) Step {
	switch {
	case f.Plan == nil:
		return Step{Act: Idle}
	case f.Journal.Moving != "":
		return f.move(f.Journal.Moving)
	}
	here, there := f.Journal.At, f.Journal.At.Other()
	own, lacks := f.present(here)
	switch {
	case lacks == nil && f.Journal.Over:
		return Step{Act: Idle, Words: "the move is over"}
	case lacks == nil:
		return f.settle(here, own)
	}
	next, missing := f.present(there)
	switch {
	case missing != nil:
		return Step{Act: Wait, Words: fmt.Sprintf("this host has no address of either place: %v; %v. Give it one of them; if it was replaced since the announcement, take that back and announce the move anew: %s", lacks, missing, WithdrawCommand)}
	case f.Same < Steady:
		return Step{Act: Wait, Words: fmt.Sprintf("this host is at %s: it waits until its addresses have been the same for %v", f.name(there), Steady)}
	case f.Lacks != "":
		return Step{Act: Wait, Words: fmt.Sprintf("this host is at %s, and does not begin to move: %s", f.name(there), f.Lacks)}
	}
	return Step{Act: Begin, Side: there, Own: next, Words: fmt.Sprintf("this host is at %s, with %s", f.name(there), join(next))}
}

// move is about a host that is on its way. A move that has begun is carried to its end,
// wherever the host is by then: half of the files of each place serve nobody.
func (f Facts) move(to Side) Step {
	s := Step{Side: to, Own: f.Journal.Taken[to]}
	switch f.Journal.Changed {
	case "":
		s.Act, s.Words = Move, "gives the files of this host the addresses of "+f.name(to)
	case f.Boot:
		s.Act, s.Words = Boot, "boots, because programs read their addresses when they start"
	default:
		s.Act, s.Words = Arrive, "this host has the addresses of "+f.name(to)
	}
	return s
}

// settle is about a host that has the addresses of the place that its files name.
func (f Facts) settle(here Side, own []netip.Addr) Step {
	moved := here == To || f.Journal.Settled != here || f.ControlPlane && f.Member.Known && f.Member.Value != here
	switch {
	case !moved && f.Lacks != "":
		return Step{Act: Wait, Words: "the move is announced, and this host cannot move: " + f.Lacks}
	case !moved:
		return Step{Act: Wait, Words: "the move is announced: this host takes the other addresses when it has one of " + f.name(To)}
	case !f.ControlPlane && !state.Is(f.Objects, here):
		return Step{Act: Wait, Words: "waits until a control plane has written the new addresses into the cluster"}
	case !f.ControlPlane && f.Journal.Settled != here:
		return Step{Act: Settle, Side: here, Words: "the cluster has the new addresses"}
	case f.ControlPlane && !f.Member.Known:
		return Step{Act: Wait, Words: "waits until etcd answers"}
	case f.ControlPlane && f.Member.Value != here:
		return Step{Act: Announce, Side: here, Own: own, Words: "tells etcd's members where this host is"}
	case f.ControlPlane && f.Journal.Settled != here:
		return Step{Act: Settle, Side: here, Words: "writes the addresses of " + f.name(here) + " into the cluster"}
	case here == From:
		return Step{Act: Wait, Words: "this host is back at " + f.name(From) + "; the move stays announced"}
	}
	if away := f.away(); away != "" {
		return Step{Act: Wait, Words: away}
	}
	return Step{Act: Finish, Side: here, Own: own, Words: "every host is at " + f.name(here)}
}

// Leads returns where this host finds the members of etcd that the others still look for at
// the former place: by their former addresses. It is empty once etcd knows each of them here, and
// while the host is not where its files say: it would lead to where nobody is.
func Leads(f Facts) Mapping {
	m := Mapping{}
	if f.Plan == nil || f.Journal.Over || f.Journal.Moving != "" || !f.ControlPlane {
		return m
	}
	here := f.Journal.At
	if _, lacks := f.present(here); lacks != nil || f.Members.Known && !slices.Contains(f.Members.Value, here.Other()) {
		return m
	}
	for name, was := range f.Plan.Place(here.Other()).Hosts {
		if name != f.Host {
			m.pairs(was, f.Plan.Place(here).Hosts[name])
		}
	}
	return m
}

// Dropped reports whether the host needs its plan no more, which was given to it alone: nobody
// takes an announcement of it away.
func (f Facts) Dropped() bool {
	return f.Plan != nil && f.Plan.Local && f.Journal.Over && f.away() == ""
}

// away says who is not at the new place yet, empty if everybody is. A host that came later, and a
// member of etcd that the plan does not know, has nothing of the old place.
func (f Facts) away() string {
	if !f.Hosts.Known {
		return "waits until the API lists the nodes"
	}
	var late []string
	for name, side := range f.Hosts.Value {
		if known := len(f.Plan.From.Hosts[name]) > 0; side == From || side != To && known {
			late = append(late, name)
		}
	}
	if len(late) > 0 {
		slices.Sort(late)
		return "waits for " + strings.Join(late, ", ") + ", which the API does not know at the new place"
	}
	if f.ControlPlane && (!f.Members.Known || slices.Contains(f.Members.Value, From)) {
		return "waits until etcd knows each member at the new place"
	}
	return ""
}

// present returns the addresses that the host has at a side, or what it lacks there.
func (f Facts) present(s Side) ([]netip.Addr, error) {
	p := f.Plan.Place(s)
	if len(p.Hosts[f.Host]) > 0 {
		want := f.Plan.Own(f.Host, s, f.Journal)
		return want, f.lacks(want)
	}
	nets, err := p.Networks()
	if err != nil {
		return nil, err
	}
	vips, err := p.VIPs()
	if err != nil {
		return nil, err
	}
	choice, err := nodeaddress.Decide(nodeaddress.Input{Addresses: f.Addresses, Routes: f.Routes, Networks: nets, VIPs: vips, ManagedVIPs: len(vips) > 0})
	return choice.Addresses, err
}

// lacks says which address the host does not have, nil if it has them all.
func (f Facts) lacks(want []netip.Addr) error {
	for _, a := range want {
		if !slices.ContainsFunc(f.Addresses, func(h nodeaddress.Address) bool { return h.Usable && h.Prefix.Addr() == a }) {
			return fmt.Errorf("it lacks %s", a)
		}
	}
	return nil
}

func (f Facts) name(s Side) string { return strings.Join(f.Plan.Place(s).MachineNetworks, " and ") }

func join(list []netip.Addr) string {
	var out []string
	for _, a := range list {
		out = append(out, a.String())
	}
	return strings.Join(out, " and ")
}
