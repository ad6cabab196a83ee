package standing

import (
	"fmt"
	"slices"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// unsaid is the cell of an unknown fact.
var unsaid = Cell{Text: "unknown", Good: Unknown}

func cell[T any](s Seen[T], text string, good Answer) Cell {
	return Cell{Text: text, Good: good, From: s.From, At: s.At}
}

// line describes one host.
func (d describer) line(h Host) HostLine {
	l := HostLine{Name: h.Name, Role: d.role(h), Power: d.power(h), Kubelet: d.kubelet(h)}
	for _, a := range h.Addresses {
		l.Addresses = append(l.Addresses, a.String())
	}
	if !h.ControlPlane {
		return l
	}
	if d.size() == 2 {
		l.Record = d.record(h)
	}
	l.Etcd, l.Lag = d.etcd(h), d.lag(h)
	if h.Explanation.Known {
		l.Doing = h.Explanation.Value.Summary
	}
	return l
}

// role returns a host's role. A control plane is also a worker if the cluster
// says so, even if its Node has lost that label.
func (d describer) role(h Host) string {
	switch {
	case h.ControlPlane && (h.Worker || d.MastersSchedulable.Known && d.MastersSchedulable.Value):
		return "control+worker"
	case h.ControlPlane:
		return "control plane"
	case h.Worker:
		return "worker"
	}
	return "no role yet"
}

// power returns the reported power state, or infers it from the host's presence or
// from its last fence.
func (d describer) power(h Host) Cell {
	switch there := d.there(h); {
	case h.Power.Known:
		return cell(h.Power, string(h.Power.Value), answer(h.Power.Value == PowerOn))
	case there == Yes:
		return Cell{Text: "on", Good: Yes, From: "what runs on it"}
	case there == No && h.LastFence.Known && h.LastFence.Value.Off:
		off := cell(h.LastFence, "off (fenced "+d.ago(h.LastFence.Value.At)+")", No)
		off.State = "off (fenced)"
		return off
	}
	return unsaid
}

// ago returns how long ago a moment was, in words.
func (d describer) ago(at time.Time) string {
	if at.IsZero() {
		return "at an unknown time"
	}
	return page.Duration(d.age(at).Truncate(time.Second)) + " ago"
}

// long returns how long something has lasted, in words.
func (d describer) long(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " for " + page.Duration(d.age(at).Truncate(time.Second))
}

// kubelet describes the kubelet as the API has it, or, on two hosts without an
// API, as Pacemaker reports it.
func (d describer) kubelet(h Host) Cell {
	if k := h.Kubelet; k.Known {
		now, cordoned, good := "ready", "", Yes
		if !k.Value.Ready {
			now, good = "not ready", No
		}
		if k.Value.Cordoned {
			cordoned, good = ", cordoned", No
		}
		out := cell(k, now+d.long(k.Value.Since)+cordoned, good)
		out.State = now + cordoned
		return out
	}
	if d.there(h) == No {
		return unsaid // Pacemaker's report on it is from before the loss
	}
	if c := d.resource(h.Name, etcdv1.PacemakerClusterResourceNameKubelet, etcdv1.ResourceStartedConditionType); d.reported() && c.Status == metav1.ConditionTrue {
		return Cell{Text: "runs", Good: Yes, From: d.Pacemaker.From, At: d.Pacemaker.At}
	} else if d.reported() && c.Status == metav1.ConditionFalse {
		return Cell{Text: "not running", Good: No, From: d.Pacemaker.From, At: d.Pacemaker.At}
	}
	return unsaid
}

func (d describer) resource(host string, name etcdv1.PacemakerClusterResourceName, kind string) metav1.Condition {
	n := d.node(host)
	if n == nil {
		return metav1.Condition{}
	}
	for _, r := range n.Resources {
		if r.Name == name {
			return pacemakerstatus.Find(r.Conditions, kind)
		}
	}
	return metav1.Condition{}
}

// record describes the host's own record. A lost host's last record may have
// changed since.
func (d describer) record(h Host) Cell {
	if !h.Record.Known {
		return unsaid
	}
	s := h.Record.Value.State
	if d.there(h) == No {
		return cell(h.Record, "was "+string(s), Unknown)
	}
	good := Unknown
	switch s {
	case state.EtcdPair:
		good = Yes
	case state.EtcdNone, state.EtcdDeparting, state.EtcdTakingOver, state.EtcdSole, state.EtcdLearner, state.EtcdVoter, state.EtcdWidening, state.EtcdMajority:
		good = No
	}
	return cell(h.Record, string(s), good)
}

// etcd describes the host's member of etcd.
func (d describer) etcd(h Host) Cell {
	m := h.Member
	if !m.Known {
		return d.etcdByPacemaker(h)
	}
	switch v := m.Value; {
	case state.Is(v.Running, false):
		return cell(m, "stopped", No)
	case state.Is(v.Listed, false):
		return cell(m, "not a member", No)
	case state.Is(v.Healthy, false):
		return cell(m, "not serving", No)
	case v.Learner:
		return cell(m, "learner", No)
	case v.Leader:
		return cell(m, "voter, leader", Yes)
	case state.Is(v.Running, true) || state.Is(v.Healthy, true):
		return cell(m, "voter", Yes)
	case state.Is(v.Listed, true):
		return cell(m, "voter, not checked", Unknown)
	}
	return unsaid
}

// etcdByPacemaker describes a member of etcd by Pacemaker's report.
func (d describer) etcdByPacemaker(h Host) Cell {
	if !d.reported() || d.there(h) == No {
		return unsaid
	}
	c := d.resource(h.Name, etcdv1.PacemakerClusterResourceNameEtcd, etcdv1.ResourceHealthyConditionType)
	from := Cell{From: d.Pacemaker.From, At: d.Pacemaker.At}
	switch {
	case c.Status == metav1.ConditionTrue && pacemakerstatus.CatchesUp(d.redundant(), h.Name):
		from.Text, from.Good = "catching up", No
	case c.Status == metav1.ConditionTrue:
		from.Text, from.Good = "runs", Yes
	case d.maintenance():
		return unsaid // Pacemaker calls all that it does not manage unhealthy
	case c.Status == metav1.ConditionFalse:
		from.Text, from.Good = "unhealthy", No
	default:
		return unsaid
	}
	return from
}

func (d describer) redundant() metav1.Condition {
	return pacemakerstatus.Find(d.Pacemaker.Value.Conditions, pacemakerstatus.Redundant)
}

// small is the lag in entries below which a member still counts as healthy: a
// moment's delay.
const small = 1000

// lag describes how far a member is behind.
func (d describer) lag(h Host) Cell {
	m := h.Member
	switch {
	case m.Known && m.Value.Behind.Known && m.Value.Behind.Value == 0:
		return cell(m, "none", Yes)
	case m.Known && m.Value.Behind.Known:
		return cell(m, page.Count(int(min(m.Value.Behind.Value, 1<<40)), "write"), answer(m.Value.Behind.Value < small))
	case m.Known && state.Is(m.Value.Running, false), m.Known && state.Is(m.Value.Listed, false):
		return Cell{Text: "-"}
	case d.reported() && d.redundant().Status == metav1.ConditionTrue:
		return Cell{Text: "in step", Good: Yes, From: d.Pacemaker.From, At: d.Pacemaker.At}
	}
	return unsaid
}

// fencing describes, for each of two hosts, whether its peer can fence it.
func (d describer) fencing() []FencingLine {
	if d.size() != 2 {
		return nil
	}
	var out []FencingLine
	for _, h := range d.controlPlanes() {
		out = append(out, FencingLine{Host: h.Name, Able: d.able(h), Verified: d.verified(h), Last: d.last(h)})
	}
	return out
}

func (d describer) able(h Host) Cell {
	c := d.condition(h.Name, etcdv1.NodeFencingAvailableConditionType)
	if !d.reported() || c.Status == "" || c.Status == metav1.ConditionUnknown {
		return unsaid
	}
	if d.offline(d.peer(h.Name)) != nil {
		return Cell{Text: "not available: " + d.peer(h.Name) + " is absent", Good: No, From: d.Pacemaker.From, At: d.Pacemaker.At}
	}
	text := "not available"
	if c.Status == metav1.ConditionTrue {
		text = "available, by " + d.peer(h.Name)
	}
	return Cell{Text: text, Good: answer(c.Status == metav1.ConditionTrue), From: d.Pacemaker.From, At: d.Pacemaker.At}
}

// verified describes the last proof that a host can be fenced: a fence, or an
// answer of its BMC to the host that would fence it.
func (d describer) verified(h Host) Cell {
	c := d.condition(h.Name, pacemakerstatus.FencingProven)
	peer := d.peer(h.Name)
	switch {
	case d.reported() && d.offline(peer) != nil:
		return unsaid
	case d.reported() && c.Status == metav1.ConditionTrue:
		return Cell{
			Text: fmt.Sprintf("its BMC answers %s%s", peer, d.long(c.LastTransitionTime.Time)), Good: Yes, From: d.Pacemaker.From, At: d.Pacemaker.At,
		}
	case d.reported() && c.Status == metav1.ConditionFalse:
		return Cell{Text: "no: its BMC does not answer " + peer, Good: No, From: d.Pacemaker.From, At: d.Pacemaker.At}
	case h.Verified.Known:
		v := h.Verified.Value
		return cell(h.Verified, fmt.Sprintf("%s by %s: %s", d.ago(v.At), v.By, v.How), Unknown)
	case d.reported():
		return Cell{Text: "no host has tried it", Good: No, From: d.Pacemaker.From, At: d.Pacemaker.At}
	}
	return unsaid
}

func (d describer) peer(name string) string {
	for _, h := range d.controlPlanes() {
		if h.Name != name {
			return h.Name
		}
	}
	return "the peer"
}

// last describes the last fence of a host, and how long it took.
func (d describer) last(h Host) Cell {
	if f := h.LastFence; f.Known {
		text, good := "off", Yes
		if !f.Value.Off {
			text, good = "FAILED", No
		}
		if f.Value.Took > 0 {
			text += " in " + page.Duration(f.Value.Took.Round(10*time.Millisecond))
		}
		text += ", " + d.ago(f.Value.At)
		if f.Value.By != "" {
			text += ", by " + f.Value.By
		}
		return cell(f, text, good)
	}
	c := d.condition(h.Name, pacemakerstatus.LastFenceSucceeded)
	from := Cell{From: d.Pacemaker.From, At: d.Pacemaker.At}
	switch {
	case c.Status == "" || c.Status == metav1.ConditionUnknown:
		return unsaid
	case c.Reason == pacemakerstatus.ReasonNeverFenced:
		from.Text = "none in Pacemaker's history"
	case c.Reason == pacemakerstatus.ReasonFencePending:
		from.Text, from.Good = "under way", No
	case c.Status == metav1.ConditionTrue:
		from.Text, from.Good = "succeeded: "+c.Message, Yes
	default:
		from.Text, from.Good = "FAILED: "+c.Message, No
	}
	return from
}

// vips lists the VIPs and their holders. The claim of a host that was lost
// since is no longer true.
func (d describer) vips() []VIPLine {
	var out []VIPLine
	for _, v := range d.VIPs {
		l := VIPLine{Address: v.Address.String(), Kind: v.Kind, Holder: unsaid}
		if v.Holders.Known {
			switch list, lost := d.holders(v); len(list) {
			case 0:
				l.Holder = cell(v.Holders, "no host", No)
				if len(lost) > 0 {
					l.Holder = cell(v.Holders, "last held by "+strings.Join(lost, " and ")+", now absent", Unknown)
				}
			case 1:
				l.Holder = cell(v.Holders, list[0], Yes)
			default:
				l.Holder = cell(v.Holders, strings.Join(list, " and ")+" both report it", No)
			}
		}
		if !v.Holders.Known && v.Holders.Why != "" {
			l.Holder = Cell{Text: v.Holders.Why, Good: Unknown}
		}
		if len(v.Claims) > 0 {
			l.Holder.Text, l.Holder.Good = l.Holder.Text+", and a foreign host: "+strings.Join(v.Claims, ", "), No
		}
		out = append(out, l)
	}
	return out
}

// holders returns the hosts that claim to hold a VIP: those that are present,
// and those that were lost since.
func (d describer) holders(v VIP) (there, lost []string) {
	for _, name := range v.Holders.Value {
		i := slices.IndexFunc(d.Hosts, func(h Host) bool { return h.Name == name })
		if i >= 0 && d.there(d.Hosts[i]) == No {
			lost = append(lost, name)
			continue
		}
		there = append(there, name)
	}
	slices.Sort(there)
	slices.Sort(lost)
	return slices.Compact(there), slices.Compact(lost)
}
