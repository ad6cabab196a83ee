package rotation

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Said is a host with what it says of all authorities.
type Said struct {
	Name string
	// Control is true for a control plane.
	Control, Ready bool
	Reports        Reports
}

// Trouble is one thing about the replacement of an authority that people are told.
type Trouble struct {
	Authority Authority
	// Phase is Done if the rotation was completed, and Host has other authorities.
	Phase Phase
	Host  string
	// Began is when it began, zero if the hosts do not say.
	Began time.Time
	// Late is true if a person should look at it today.
	Late bool
	// Restored is true if etcd was restored from before a rotation that hosts have
	// followed. Host is empty then.
	Restored bool
	// Unreadable is true if the wish cannot be read. Phase and Host are empty then.
	Unreadable bool
	// Why says for what it waits.
	Why string
}

// unfinished is the time after the last step of a rotation from which on people should
// look at it: the command that takes the steps waits for hosts for 45 minutes.
const unfinished = 2 * time.Hour

// TokenLife is the longest time for which a pod uses one token: kubelet renews every
// token within 24 hours (docs/facts/life.md, L-C31), and programs read it again within
// minutes.
const TokenLife = 25 * time.Hour

// tokenLife returns for how long tokens of the old key may be in use, for whoever names nothing
// else: never less than a pod may use one.
func (w Wish) tokenLife() time.Duration { return max(w.TokenLife, TokenLife) }

// Late returns from when on people should look at a rotation, zero if none is under
// way. The old key of service accounts stays until no token of it is used.
func (w Wish) Late(a Authority) time.Time {
	if !w.Running() {
		return time.Time{}
	}
	last := w.Began
	for _, step := range []time.Time{w.Trusted, w.Signed} {
		if step.After(last) {
			last = step
		}
	}
	if a == ServiceAccountKey && !w.Signed.IsZero() {
		last = last.Add(w.tokenLife())
	}
	return last.Add(unfinished)
}

// Troubles returns what people are told of rotations, by what hosts say in their nodes.
// `holdfast ca show` reads more than that: the wish, which is secret, and what the API
// publishes.
func Troubles(now time.Time, hosts []Said) []Trouble {
	var out []Trouble
	for _, a := range Authorities() {
		concerned := ofAuthority(a, hosts)
		lead, damage := leading(concerned, hosts), unreadable(a, hosts)
		switch {
		case damage != "":
			out = append(out, Trouble{Authority: a, Late: true, Unreadable: true, Why: damage})
		case lead == nil:
		case lead.Restored:
			out = append(out, Trouble{Authority: a, Phase: lead.Phase, Late: true, Restored: true, Why: lead.Problem})
		case lead.Phase == Done:
			out = append(out, without(a, *lead, concerned)...)
		default:
			out = append(out, Trouble{
				Authority: a, Phase: lead.Phase, Began: lead.Began, Late: !lead.Late.IsZero() && now.After(lead.Late), Why: underWay(a, *lead, concerned),
			})
		}
	}
	return out
}

// unreadable returns what a control plane that is there says of a wish that it cannot read, empty
// if each can.
func unreadable(a Authority, all []Said) string {
	for _, s := range all {
		if r := s.Reports.Authorities[a]; s.Control && s.Ready && r.Unreadable {
			return r.Problem
		}
	}
	return ""
}

// ofAuthority returns the hosts that take part in the rotation of an authority.
func ofAuthority(a Authority, all []Said) []Host {
	var out []Host
	for _, s := range all {
		if !s.Control && a != KubernetesCA {
			continue
		}
		h := Host{Name: s.Name, Ready: s.Ready}
		if r, said := s.Reports.Authorities[a]; said {
			h.Report = &r
		}
		out = append(out, h)
	}
	return out
}

// leading returns the report of the control plane that knows most of a rotation; nil if
// there never was one. A host that is away may say what was true before. One that has
// followed a later one than the wish knows most.
func leading(concerned []Host, all []Said) *Report {
	var best Host
	for _, h := range concerned {
		control := slices.ContainsFunc(all, func(s Said) bool { return s.Name == h.Name && s.Control })
		if control && h.Report != nil && slices.Contains(phases, h.Report.Phase) && (best.Report == nil || h.knowsMore(best)) {
			best = h
		}
	}
	return best.Report
}

func (h Host) knowsMore(o Host) bool {
	switch {
	case h.Ready != o.Ready:
		return h.Ready
	case h.Report.Restored != o.Report.Restored:
		return h.Report.Restored
	case !h.Report.Began.Equal(o.Report.Began):
		return h.Report.Began.After(o.Report.Began)
	}
	return !o.Report.Phase.reached(h.Report.Phase)
}

// underWay says for what a rotation waits.
func underWay(a Authority, lead Report, hosts []Host) string {
	var away []string
	for _, h := range hosts {
		if !h.Ready {
			away = append(away, h.Name)
		}
	}
	behind := lacking(hosts, lead.Of, lead.Phase)
	switch {
	case len(away) > 0:
		return "waiting for " + strings.Join(away, " and ") + ", not ready"
	case slices.Contains(behind, lead.Turn):
		return waitingFor(hosts, lead.Phase, lead.Turn)
	case len(behind) > 0:
		return fmt.Sprintf("%s is next, and the command has not given it its turn", behind[0])
	case a == ServiceAccountKey && lead.Phase == Sign:
		return "every control plane signs with the new key; the command drops the old one once no token of it can be in use: holdfast ca show"
	}
	return "every host has done this phase, and the command has not begun the next one"
}

// without tells of the hosts that certainly use other authorities than a completed
// rotation has left. One that is away mends itself when it comes back.
func without(a Authority, lead Report, hosts []Host) []Trouble {
	var out []Trouble
	for _, h := range hosts {
		r := h.Report
		if !h.Ready || r == nil || r.Signs == "" || lead.New == "" || r.Signs == lead.New && slices.Equal(r.Trusts, []ID{lead.New}) {
			continue
		}
		out = append(out, Trouble{Authority: a, Phase: Done, Host: h.Name, Late: true, Why: r.Problem})
	}
	return out
}
