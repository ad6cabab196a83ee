// Package vips decides about virtual IPs of a running cluster: whether a change
// keeps every rule, what follows from a requested change, and how far a change has
// got. The rules themselves are in viprule, which the installer uses too. The
// operator and `holdfast vip` use this package.
package vips

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/netaddr"
	"github.com/holdfast/holdfast/internal/model/viprule"
)

// Platform is the platform of a cluster as its Infrastructure object names it.
type Platform string

// The platforms that the decision distinguishes.
const (
	BareMetal Platform = "BareMetal"
	VSphere   Platform = "VSphere"
	OpenStack Platform = "OpenStack"
)

// Values are the lists of one half of the Infrastructure object, its spec or its
// status, as they are written there.
type Values struct {
	API, Ingress, MachineNetworks []string
}

// Clone returns a copy.
func (v Values) Clone() Values {
	return Values{slices.Clone(v.API), slices.Clone(v.Ingress), slices.Clone(v.MachineNetworks)}
}

// Equal reports whether both have the same lists, written the same way.
func (v Values) Equal(w Values) bool {
	return slices.Equal(v.API, w.API) && slices.Equal(v.Ingress, w.Ingress) && slices.Equal(v.MachineNetworks, w.MachineNetworks)
}

// Snapshot holds everything that a decision about a cluster's VIPs depends on.
type Snapshot struct {
	Platform Platform
	// Path is the place of the spec's lists in the object.
	Path *field.Path
	// HasStatus is false where the object says nothing about its platform yet. Then
	// there is nothing to compare with, and nothing is done.
	HasStatus    bool
	Spec, Status Values
	// LegacyAPI and LegacyIngress are the status' older fields, which hold one
	// address each.
	LegacyAPI, LegacyIngress string
	UserManaged              bool
	// Cluster and Service are the networks of pods and services. They are unknown
	// while NetworksKnown is false, and then nothing is accepted.
	Cluster, Service []string
	NetworksKnown    bool
	Hosts            []Host
	// Found maps an address to whoever answers for it, as the hosts report. An
	// address that is missing is unknown.
	Found map[netip.Addr]Holder
	// Moves is true while a move of the site is announced: its plan has the virtual IPs of that
	// day, and brings them, whatever was changed meanwhile.
	Moves bool
}

// Holder describes who answers for an address. The zero value is nobody.
type Holder struct {
	// Hardware is the address of the interface that answers.
	Hardware string `json:"hardware,omitempty"`
	// Seen is the host that got the answer.
	Seen string `json:"seen,omitempty"`
	// Ours names the host of this cluster that reports that it has the address from
	// earlier and will release it.
	Ours string `json:"ours,omitempty"`
}

// Outcome is the result of comparing the requested VIPs with the present ones.
type Outcome string

// The outcomes.
const (
	// Unmanaged: the platform's VIPs are not Holdfast's to move.
	Unmanaged Outcome = "unmanaged"
	// Settled: the cluster has what was requested.
	Settled Outcome = "settled"
	// Accepted: the request keeps every rule; the status must become the same.
	Accepted Outcome = "accepted"
	// Refused: the request breaks a rule; nothing changes.
	Refused Outcome = "refused"
	// Undecided: something is not known yet.
	Undecided Outcome = "undecided"
)

// Decision says what to do about a cluster's VIPs.
type Decision struct {
	Outcome Outcome
	// Spec is the new spec, nil for no change. The lists that it lacks are filled
	// from the status.
	Spec *Values
	// Status is the new status, nil for no change.
	Status *Values
	// Findings are the mistakes of a refused request.
	Findings []viprule.Finding
	// Pending lists what is not known yet, as ends of sentences.
	Pending []string
	// Added and Removed are the addresses by which the request differs from the
	// status.
	Added, Removed []netip.Addr
	// Unknown maps each rule that could not be checked to the reason.
	Unknown map[viprule.Rule]string
}

// Decide compares the spec with the status. It writes nothing where nothing
// changes: an address that is written differently is the same address.
func Decide(s Snapshot) Decision {
	switch {
	case s.Platform != BareMetal:
		return s.elsewhere()
	case !s.HasStatus:
		return Decision{Outcome: Settled}
	}
	d := Decision{Outcome: Settled, Unknown: make(map[viprule.Rule]string)}
	now := s.upgraded()
	if !now.Equal(s.Status) || s.LegacyAPI != first(now.API) || s.LegacyIngress != first(now.Ingress) {
		d.Status = &now
	}
	s.Status = now
	if wish := s.filled(); !wish.Equal(s.Spec) {
		d.Spec = &wish
		s.Spec = wish
	}
	if same(s.Spec.API, s.Status.API) && same(s.Spec.Ingress, s.Status.Ingress) &&
		sameNetworks(s.Spec.MachineNetworks, s.Status.MachineNetworks) {
		return d
	}
	s.judge(&d)
	return d
}

// Examine decides as Decide does, for an administrator who wants to see every rule.
// Where nothing changes it checks the present VIPs.
func Examine(s Snapshot) Decision {
	d := Decide(s)
	if d.Outcome != Settled || !s.HasStatus {
		return d
	}
	s.Status = s.upgraded()
	s.Spec = s.filled()
	d.Findings = slices.Concat(s.soundNetworks(s.Path.Child("machineNetworks")), s.lists().Findings(), s.strangeFamilies(s.entries()))
	for _, a := range s.entries() {
		d.Findings = append(d.Findings, a.fits(&s)...)
	}
	s.unknown(&d, nil)
	d.Pending = nil
	d.Unknown[viprule.Nobody] = "checked only before an address is added"
	return d
}

// Unasked returns the addresses for which hosts have to find out who answers,
// before anything else can be decided.
func (d Decision) Unasked() []netip.Addr {
	if d.Outcome != Undecided || d.Unknown[viprule.Nobody] == "" {
		return nil
	}
	return d.Added
}

// elsewhere validates VIPs that Holdfast does not move, so that a wrong request is
// told from one that is only not carried out.
func (s Snapshot) elsewhere() Decision {
	d := Decision{Outcome: Unmanaged}
	if len(s.Spec.API)+len(s.Spec.Ingress) == 0 || s.Platform != VSphere && s.Platform != OpenStack {
		return d
	}
	d.Findings = s.lists().Findings()
	if len(s.Status.API) > 0 && len(s.Status.Ingress) > 0 {
		d.Findings = append(d.Findings, s.changes()...)
	}
	return d
}

// upgraded returns the status with lists filled in where only the older fields are
// set.
func (s Snapshot) upgraded() Values {
	out := s.Status.Clone()
	if len(out.API) == 0 && s.LegacyAPI != "" {
		out.API = []string{s.LegacyAPI}
	}
	if len(out.Ingress) == 0 && s.LegacyIngress != "" {
		out.Ingress = []string{s.LegacyIngress}
	}
	return out
}

// first returns the first address of a list, which the older fields repeat.
func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// filled returns the spec with the status' value for each address list that it
// lacks, as after an upgrade. Machine networks are filled in only where the spec
// has no list at all: somebody who took them out of a whole spec must be told.
func (s Snapshot) filled() Values {
	out := s.Spec.Clone()
	if len(out.API) == 0 && len(out.Ingress) == 0 && len(out.MachineNetworks) == 0 {
		return s.Status.Clone()
	}
	if len(out.API) == 0 {
		out.API = slices.Clone(s.Status.API)
	}
	if len(out.Ingress) == 0 {
		out.Ingress = slices.Clone(s.Status.Ingress)
	}
	return out
}

// judge decides about a spec that differs from the status.
func (s Snapshot) judge(d *Decision) {
	wish := s.difference()
	d.Added, d.Removed = addresses(wish), s.removed()
	d.Findings = slices.Concat(s.networkFindings(), s.lists().Findings(), s.changes(), s.strangeFamilies(wish))
	if len(d.Findings) == 0 {
		for _, a := range wish {
			d.Findings = append(d.Findings, a.fits(&s)...)
		}
	}
	s.unknown(d, wish)
	switch {
	case len(d.Findings) > 0:
	case s.Moves:
		d.Pending = append(d.Pending, "a move of the site is announced, and brings the virtual IPs of its plan: wait for its end, or take it back (holdfast site readdress withdraw)")
	default:
		s.occupied(d, wish)
	}
	switch {
	case len(d.Findings) > 0:
		d.Outcome = Refused
		d.Status = nil
	case len(d.Pending) > 0:
		d.Outcome = Undecided
		d.Status = nil
	default:
		d.Outcome = Accepted
		accepted := s.accepted()
		d.Status = &accepted
	}
}

// accepted returns the status that the spec asks for. An address that is only
// written differently stays as the status has it.
func (s Snapshot) accepted() Values {
	out := s.Spec.Clone()
	keep := func(list, before []string) {
		for i := range min(len(list), len(before)) {
			if same(list[i:i+1], before[i:i+1]) {
				list[i] = before[i]
			}
		}
	}
	keep(out.API, s.Status.API)
	keep(out.Ingress, s.Status.Ingress)
	return out
}

// unknown records which rules nobody can check, and what has to be known first.
func (s Snapshot) unknown(d *Decision, wish []added) {
	if !s.NetworksKnown {
		d.Pending = append(d.Pending, "the networks of pods and services (object networks.config.openshift.io/cluster) cannot be read")
		for _, r := range []viprule.Rule{viprule.PodNetwork, viprule.ServiceNetwork, viprule.ClusterFamily} {
			d.Unknown[r] = "not read"
		}
	}
	if len(s.Spec.MachineNetworks) == 0 {
		for _, r := range []viprule.Rule{viprule.MachineNetwork, viprule.HostsHold, viprule.Edge} {
			d.Unknown[r] = "the cluster has no machine network in its configuration"
		}
	}
	if len(s.Hosts) == 0 && len(wish) > 0 {
		d.Pending = append(d.Pending, "no node is known")
	}
	silent := slices.IndexFunc(s.Hosts, func(h Host) bool { return !h.Report.Known })
	if silent >= 0 && len(wish) > 0 {
		d.Unknown[viprule.NotAGateway] = "node " + s.Hosts[silent].Name + " has not reported its gateways"
	}
}

// occupied checks of each new VIP that nobody answers for it.
func (s Snapshot) occupied(d *Decision, wish []added) {
	if s.UserManaged {
		d.Unknown[viprule.Nobody] = "the site's load balancer answers for it"
		return
	}
	for _, a := range wish {
		by, known := s.Found[a.addr]
		switch {
		case !known:
			d.Pending = append(d.Pending, fmt.Sprintf("no host has yet reported whether %s is in use", a.addr))
			d.Unknown[viprule.Nobody] = "no host has reported it yet"
		case by.Ours != "":
			d.Pending = append(d.Pending, fmt.Sprintf("%s still holds %s from an earlier configuration (what answers: %s)", by.Ours, a.addr, by.Hardware))
			d.Unknown[viprule.Nobody] = by.Ours + " still holds " + a.addr.String() + " from an earlier configuration"
		case by.Hardware != "":
			d.Findings = append(d.Findings, viprule.Nobody.Broken(field.Invalid(a.path, a.addr.String(), a.held(by))))
		}
	}
}

// lists returns the spec's lists with the networks that they have to lie in.
func (s Snapshot) lists() viprule.Lists {
	return viprule.Lists{
		API:     viprule.List{Path: s.Path.Child("apiServerInternalIPs"), Texts: s.Spec.API},
		Ingress: viprule.List{Path: s.Path.Child("ingressIPs"), Texts: s.Spec.Ingress},
		Networks: netaddr.Networks{
			Machine: prefixes(s.networksWanted()), Cluster: prefixes(s.Cluster), Service: prefixes(s.Service), Complete: true,
		},
		UserManaged: s.UserManaged,
	}
}

// networksWanted returns the machine networks that VIPs must lie in.
func (s Snapshot) networksWanted() []string {
	if len(s.Spec.MachineNetworks) > 0 {
		return s.Spec.MachineNetworks
	}
	return s.Status.MachineNetworks
}

// changes returns the differences that are not allowed.
func (s Snapshot) changes() []viprule.Finding {
	return slices.Concat(
		changed(s.Path.Child("apiServerInternalIPs"), s.Spec.API, s.Status.API),
		changed(s.Path.Child("ingressIPs"), s.Spec.Ingress, s.Status.Ingress),
	)
}

// changed compares a requested list with the present one.
func changed(path *field.Path, wish, now []string) []viprule.Finding {
	var out []viprule.Finding
	if len(wish) == 0 {
		return nil // another check reports that
	}
	if len(now) == 0 {
		return []viprule.Finding{viprule.FirstFixed.Broken(field.Invalid(path, wish[0],
			"cannot be added: the status has no address of this kind, and only a second one may be added"))}
	}
	if !same(wish[:1], now[:1]) {
		out = append(out, viprule.FirstFixed.Broken(field.Invalid(path.Index(0), wish[0],
			"the first address cannot be changed: it must stay "+now[0])))
	}
	if len(wish) > 1 && len(now) > 1 && !same(wish[1:2], now[1:2]) {
		out = append(out, viprule.SecondReplaced.Broken(field.Invalid(path.Index(1), wish[1], fmt.Sprintf(
			"cannot replace %s: remove the second pair first (holdfast vip remove), then add the new one", now[1]))))
	}
	return out
}

// difference lists the addresses of the spec that the status does not have yet. It
// skips texts that are no addresses.
func (s Snapshot) difference() []added {
	return slices.DeleteFunc(s.entries(), func(a added) bool {
		now := s.Status.Ingress
		if a.api {
			now = s.Status.API
		}
		return slices.Contains(parsed(now), a.addr)
	})
}

// entries lists the addresses of the spec. It skips texts that are no addresses.
func (s Snapshot) entries() []added {
	lists := s.lists()
	var out []added
	for _, l := range []struct {
		list viprule.List
		api  bool
	}{{lists.API, true}, {lists.Ingress, false}} {
		for i, text := range l.list.Texts {
			if a, detail := netaddr.Parse(text); detail == "" {
				out = append(out, added{a, l.list.Path.Index(i), l.api})
			}
		}
	}
	return out
}

func (s Snapshot) removed() []netip.Addr {
	wish := append(parsed(s.Spec.API), parsed(s.Spec.Ingress)...)
	var out []netip.Addr
	for _, a := range append(parsed(s.Status.API), parsed(s.Status.Ingress)...) {
		if !slices.Contains(wish, a) {
			out = append(out, a)
		}
	}
	return out
}

func addresses(list []added) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		if !slices.Contains(out, a.addr) {
			out = append(out, a.addr)
		}
	}
	return out
}

// same reports whether two lists have the same addresses in the same order,
// however they are written.
func same(a, b []string) bool {
	return slices.EqualFunc(a, b, func(x, y string) bool {
		p, errP := netip.ParseAddr(x)
		q, errQ := netip.ParseAddr(y)
		if errP != nil || errQ != nil {
			return x == y
		}
		return p.Unmap() == q.Unmap()
	})
}

// parsed returns the addresses of a list, without texts that are none.
func parsed(list []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range list {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, a.Unmap())
		}
	}
	return out
}

// prefixes returns the networks of a list, without texts that are none.
func prefixes(list []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range list {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}
