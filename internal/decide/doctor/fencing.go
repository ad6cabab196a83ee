package doctor

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

// fencingChecks show whether fencing works on the day when it is needed.
var fencingChecks = []Check{
	{
		ID: "fence-delay", Title: "of two hosts that fence each other, one waits", For: TwoFencing, judge: judgeDelay,
		Alerts:  []string{"HoldfastFenceDelayTooShort"},
		Meaning: "If both hosts run and lose contact with each other, each has the other fenced. The one that waits must wait longer than a fence by the other takes, or both are switched off.",
		Lines: []string{
			"holdfast fencing verify --hosts cp-1,cp-2 --disruptive --calibrate     # measures, and sets it",
			"sudo holdfast fencing delay cp-1 20s                                   # on cp-2, by hand",
		},
	},
	{
		ID: "fence-network", Title: "the BMCs and the Corosync ring do not share a switch", For: TwoFencing, judge: judgeFenceNetwork,
		Meaning: "If the ring and the BMCs share a switch, its failure takes both: the hosts lose each other, and neither can prove that the other is off. The cluster stops and waits for an administrator. The check sees LLDP where hosts receive it, and otherwise subnets and interfaces.",
		Lines: []string{
			"lldpctl                             # the switch at the other end",
			"ip route get ADDRESS-OF-THE-BMC     # the route to the BMC",
		},
	},
	{
		ID: "fence-proven", Title: "each BMC has proven that it cuts power", For: TwoFencing, judge: judgeProven,
		Alerts:  []string{"HoldfastFencingNotVerified"},
		Meaning: "A BMC that answers does not necessarily cut power, and an untested one fails when it is needed. Firmware and accounts change too: test at least twice a year.",
		Lines:   []string{"holdfast fencing verify --hosts cp-1,cp-2 --disruptive --calibrate"},
	},
	{
		ID: "fence-certificate", Title: "the certificates of the BMCs are verified or pinned, and do not expire soon", For: TwoFencing, judge: judgeBMCCertificate,
		Meaning: "At the address of a BMC whose certificate is neither verified nor pinned, an attacker could steal an account that can switch the host off, and answer Off for a host that runs: such a BMC is not used. A BMC that an authority verifies is refused once its certificate has expired, a pinned one once it shows another certificate: the host cannot be fenced then, until an administrator accepts the new certificate.",
		Lines: []string{
			"sudo holdfast fencing pin cp-1 --dry-run     # on cp-2; shows the pinned certificate and the present one",
			"sudo holdfast fencing pin cp-1               # after comparing it with the BMC's own page",
			"sudo holdfast fencing verify                 # after the BMC has a new certificate",
		},
	},
	{
		ID: "fence-clock", Title: "the clocks of the BMCs are right", For: TwoFencing, judge: judgeBMCClock,
		Meaning: "A BMC needs no clock to cut power. But its log is part of the record of each incident, and a clock that restarts in 1970 after each power failure makes it useless; some BMCs also refuse certificates and accounts by date.",
		Lines:   []string{"holdfast fencing verify     # shows the address of each BMC: set NTP on its own page"},
	},
	{
		ID: "machine-identity", Title: "no two hosts claim to be the same machine", For: SeveralCPs, judge: judgeIdentity,
		Meaning: "A host recognises its peer's BMC by UUID and serial number. Cloned machines, or machines to which the vendor gave the same values, cannot be told apart: with swapped addresses the wrong host would be switched off.",
		Lines:   []string{"sudo dmidecode -s system-uuid; sudo dmidecode -s system-serial-number     # on each host"},
	},
}

// device is a BMC with the host that holds it.
type device struct {
	by string
	BMC
}

// devices returns the fence devices of the control planes, ordered by the host
// that holds them.
func (s *sheet) devices() []device {
	var out []device
	eachHost(s, "fence devices", func(h Host) state.Fact[[]BMC] { return h.BMCs }, func(h Host, list []BMC) {
		if len(list) == 0 {
			s.say(finding.Critical, h.Name, "it has no fence device for its peer: it cannot fence")
		}
		for _, b := range list {
			out = append(out, device{h.Name, b})
		}
	})
	slices.SortStableFunc(out, func(a, b device) int { return strings.Compare(a.by, b.by) })
	return out
}

func judgeDelay(s *sheet) {
	list := s.devices()
	if len(list) != 2 {
		return // devices already reported the host that has none, or is unknown
	}
	a, b := list[0], list[1]
	if a.Delay == b.Delay {
		s.say(finding.Critical, "", "%s and %s both wait %s: if they lose contact with each other, both are switched off", a.by, b.by, a.Delay)
		return
	}
	// The host that waits must wait longer than a fence by the other takes.
	waits, quick := a, b
	if b.Delay > a.Delay {
		waits, quick = b, a
	}
	apart := waits.Delay - quick.Delay
	s.say(finding.OK, "", "%s waits %s longer than %s", waits.by, apart, quick.by)
	switch {
	case quick.Slowest >= apart:
		s.say(finding.Critical, waits.by, "it waits %s, but a fence by %s has taken %s: both would be switched off", apart, quick.by, rounded(quick.Slowest))
	case apart < fencing.MinimumDelay:
		s.say(finding.Warning, waits.by, "it waits only %s, less than %s", apart, fencing.MinimumDelay)
	case apart < 2*quick.Slowest:
		s.say(finding.Warning, waits.by, "it waits %s, less than twice the %s that a fence by %s has taken", apart, rounded(quick.Slowest), quick.by)
	}
}

func rounded(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

func judgeFenceNetwork(s *sheet) {
	for _, d := range s.devices() {
		h := s.host(d.by)
		if d.Address == "" {
			s.say(finding.Critical, d.by, "the name of the BMC of %s does not resolve: it cannot be fenced", d.Target)
			continue
		}
		if !h.Rings.Known {
			s.notSeen("ring of %s", d.by)
			continue
		}
		if len(h.Rings.Value) > 0 {
			s.shared(d, h.Rings.Value)
		}
	}
}

func (s *sheet) host(name string) Host {
	for _, h := range s.Hosts {
		if h.Name == name {
			return h
		}
	}
	return Host{Name: name}
}

// shared reports what the way to a BMC has in common with every link of the
// ring. One link that has nothing in common is enough.
func (s *sheet) shared(d device, rings []Ring) {
	var how string
	for _, r := range rings {
		var common string
		switch {
		case len(r.Switches) > 0 && len(d.Switches) > 0:
			if both := intersection(r.Switches, d.Switches); len(both) > 0 && len(both) == len(r.Switches) {
				common = "the switch " + strings.Join(both, ", ")
			}
		case d.Interface != "" && d.Interface == r.Interface && r.Bond > 1:
			common = "the bond " + r.Interface
		case d.Interface != "" && d.Interface == r.Interface:
			common = "the interface " + r.Interface
		case d.Gateway == "" && r.Subnet != "" && contains(r.Subnet, d.Address):
			common = "the subnet " + r.Subnet
		}
		if common == "" {
			s.say(finding.OK, d.by, "the route to the BMC of %s has nothing visible in common with the ring's link %s", d.Target, r.Address)
			return
		}
		how = common
	}
	s.say(finding.Warning, d.by, "the ring and the route to the BMC of %s share %s: if it fails, neither host may go on", d.Target, how)
}

func intersection(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(x string) bool { return !slices.Contains(b, x) })
}

// provenFor is how long a fence counts as a proof that fencing works.
const provenFor = 183 * 24 * time.Hour

func judgeProven(s *sheet) {
	for _, d := range s.devices() {
		age := s.At.Sub(d.Proven)
		switch {
		case d.Proven.IsZero():
			s.say(finding.Warning, d.by, "it has never proven %s to be off: it is unknown whether that BMC cuts power", d.Target)
		case age > provenFor:
			s.say(finding.Note, d.by, "it last proved %s to be off %d days ago", d.Target, days(age))
		default:
			s.say(finding.OK, d.by, "it proved %s to be off %d days ago", d.Target, days(age))
		}
	}
}

func days(d time.Duration) int { return int(d / (24 * time.Hour)) }

func judgeBMCCertificate(s *sheet) {
	for _, d := range s.devices() {
		switch left := d.Shows.Value.Ends.Sub(s.At); {
		case !d.Verified:
			s.say(finding.Critical, d.by, "the certificate of the BMC of %s is not pinned yet, so the BMC is not used; the next successful test, within a minute, pins it", d.Target)
		case d.Pinned && d.another():
			s.say(finding.Critical, d.by, "the BMC of %s shows another certificate (SHA-256 %s) than the pinned one (SHA-256 %s): the BMC is refused, and cannot fence until an administrator accepts the certificate", d.Target, d.Shows.Value.Fingerprint, d.Fingerprint)
		case d.Pinned && d.Shows.Known && left > 0 && left < endsWarning:
			s.say(finding.Note, d.by, "the certificate of the BMC of %s is pinned, and %s: once the BMC makes a new one, the BMC is refused until an administrator accepts it", d.Target, ends(left))
		case d.FirstSight:
			s.say(finding.OK, d.by, "the certificate of the BMC of %s is pinned, as first shown", d.Target)
		case d.Pinned:
			s.say(finding.OK, d.by, "the certificate of the BMC of %s is pinned", d.Target)
		case !d.Shows.Known:
			s.notSeen("certificate of the BMC of %s: it did not answer %s", d.Target, d.by)
		case left <= 0:
			s.say(finding.Critical, d.by, "the certificate of the BMC of %s %s: the BMC is refused, and cannot fence", d.Target, ends(left))
		case left < endsWarning:
			s.say(finding.Warning, d.by, "the certificate of the BMC of %s %s: after that the BMC is refused, and cannot fence", d.Target, ends(left))
		}
	}
}

// another reports whether a BMC shows another certificate than the pinned one.
// A host of an older release reports neither fingerprint.
func (d device) another() bool {
	shown := d.Shows.Value.Fingerprint
	return d.Shows.Known && shown != "" && d.Fingerprint != "" && shown != d.Fingerprint
}

// bmcApart is how far a BMC's clock may be off: up to that, its log can still
// be read beside the others.
const bmcApart = time.Minute

func judgeBMCClock(s *sheet) {
	for _, d := range s.devices() {
		o := d.Shows.Value.Offset
		least := max(0, o.Value.Low, -o.Value.High)
		switch {
		case !d.Shows.Known:
			s.notSeen("clock of the BMC of %s: it did not answer %s", d.Target, d.by)
		case !o.Known:
			s.say(finding.OK, d.by, "the BMC of %s reports no time", d.Target)
		case least > bmcApart:
			s.say(finding.Note, d.by, "the clock of the BMC of %s is at least %s off", d.Target, rounded(least))
		}
	}
}

func judgeIdentity(s *sheet) {
	nodes, ok := known(s, "nodes", s.Cluster.Nodes)
	if !ok {
		return
	}
	first := map[string]string{}
	for _, n := range nodes {
		m, told := state.ParseMachine(n.Machine)
		if !n.ControlPlane || !told {
			continue
		}
		if m == (state.Machine{}) {
			if s.Topology.Fencing {
				s.say(finding.Note, n.Name, "its SMBIOS has neither UUID nor serial number: its BMC cannot be recognised")
			}
			continue
		}
		for _, id := range []string{"UUID " + m.UUID, "serial number " + m.Serial} {
			if strings.HasSuffix(id, " ") {
				continue
			}
			if other, taken := first[id]; taken {
				severity := finding.Warning
				if !s.Topology.Fencing {
					severity = finding.Note
				}
				s.say(severity, n.Name, "it has the %s of %s", id, other)
			}
			first[id] = n.Name
		}
	}
}
