package standing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/clusterhealth"
	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/page"
)

// Describe turns facts into a view.
func Describe(f Facts) View {
	d := describer{Facts: f}
	d.Pacemaker = decided(f.Pacemaker)
	d.electing = f.Pacemaker.Known && !d.Pacemaker.Known
	d.Hosts = f.present()
	slices.SortFunc(d.Hosts, func(a, b Host) int {
		if a.ControlPlane != b.ControlPlane {
			if a.ControlPlane {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	v := View{
		Cluster: cmp.Or(f.Cluster, "this cluster"), At: f.Now, Redundancy: d.redundancy(), Fencing: d.fencing(), VIPs: d.vips(),
		Sources: d.sources(), Hosts: []HostLine{}, Upgrade: d.brief(), Backup: d.backupBrief(),
	}
	if f.Incidents.Known {
		v.Incidents = f.Incidents.Value
	}
	for _, h := range d.Hosts {
		v.Hosts = append(v.Hosts, d.line(h))
	}
	v.Findings = d.findings()
	v.Status = d.status(v)
	v.Summary = d.summary(v)
	return v
}

// present returns the hosts without control planes that the site no longer has: it has fewer than
// are heard of, and these were taken out. Only reports of the past name them.
func (f Facts) present() []Host {
	planes := 0
	for _, h := range f.Hosts {
		if h.ControlPlane {
			planes++
		}
	}
	return slices.DeleteFunc(slices.Clone(f.Hosts), func(h Host) bool {
		former := h.ControlPlane && !h.Kubelet.Known && f.Retired.Known && f.Retired.Value[h.Name] != ""
		return former && f.ControlPlanes.Known && planes > f.ControlPlanes.Value
	})
}

// describer adds to the facts what several parts of a view derive from them.
type describer struct {
	Facts
	electing bool // Pacemaker has no coordinator, for seconds
}

// decided returns a report of Pacemaker, made unknown if Pacemaker has no
// coordinator: until one is elected, each host takes all others for lost.
func decided(s Seen[etcdv1.PacemakerClusterStatus]) Seen[etcdv1.PacemakerClusterStatus] {
	if s.Known && pacemakerstatus.Find(s.Value.Conditions, pacemakerstatus.Quorate).Reason == pacemakerstatus.ReasonNoCoordinator {
		return Seen[etcdv1.PacemakerClusterStatus]{Why: "Pacemaker has no coordinator (DC) at the moment, as reported by " + s.From}
	}
	return s
}

// size returns the number of control planes that the site has.
func (d describer) size() int {
	if d.ControlPlanes.Known {
		return d.ControlPlanes.Value
	}
	return len(d.controlPlanes())
}

func (d describer) controlPlanes() []Host {
	var out []Host
	for _, h := range d.Hosts {
		if h.ControlPlane {
			out = append(out, h)
		}
	}
	return out
}

// age returns how old a fact is, at least 0: a time in the future, from a clock
// that is ahead, counts as now.
func (d describer) age(at time.Time) time.Duration { return max(0, d.Now.Sub(at)) }

// fresh is the age up to which a report of Pacemaker counts as current. Reports
// have a heartbeat every 30 s.
const fresh = pacemakerstatus.Silence

func (d describer) stale() bool {
	return d.Pacemaker.Known && d.age(d.Pacemaker.At) > fresh
}

// reported reports whether there is a current report of Pacemaker.
func (d describer) reported() bool { return d.Pacemaker.Known && !d.stale() }

// node returns Pacemaker's report on a host, nil if there is none.
func (d describer) node(name string) *etcdv1.PacemakerClusterNodeStatus {
	if !d.Pacemaker.Known || d.Pacemaker.Value.Nodes == nil {
		return nil
	}
	nodes := *d.Pacemaker.Value.Nodes
	for i := range nodes {
		if nodes[i].NodeName == name {
			return &nodes[i]
		}
	}
	return nil
}

// condition returns a condition of a host, without a status if none is
// reported.
func (d describer) condition(host, kind string) metav1.Condition {
	n := d.node(host)
	if n == nil {
		return metav1.Condition{}
	}
	return pacemakerstatus.Find(n.Conditions, kind)
}

// there reports whether a host is present, by Pacemaker's report, else by its
// kubelet or its power.
func (d describer) there(h Host) Answer {
	if d.reported() {
		if c := d.condition(h.Name, etcdv1.NodeOnlineConditionType); c.Status != "" && c.Status != metav1.ConditionUnknown {
			return answer(c.Status == metav1.ConditionTrue)
		}
	}
	if h.Kubelet.Known && h.Kubelet.Value.Ready {
		return Yes
	}
	if h.Power.Known && h.Power.Value == PowerOff {
		return No
	}
	if h.Kubelet.Known {
		return No
	}
	return Unknown
}

func answer(yes bool) Answer {
	if yes {
		return Yes
	}
	return No
}

// answers reports whether any source of the API answered.
func (d describer) answers() bool {
	return slices.ContainsFunc(d.Sources, func(s Source) bool { return s.Kind == FromAPI && s.Failed == "" })
}

// TakesWrites reports whether the cluster takes writes.
func TakesWrites(f Facts) Answer { return describer{Facts: f}.writes() }

// writes reports whether the cluster takes writes. An API that answers proves
// it, because it had to ask a quorum of etcd; but an etcd without space answers, too.
func (d describer) writes() Answer {
	if _, is := d.full(); is {
		return No
	}
	if d.hostSaysItWrites() {
		return Yes
	}
	if d.answers() {
		if _, silent := d.unwritten(); silent {
			return Unknown
		}
		return Yes
	}
	if slices.ContainsFunc(d.Hosts, func(h Host) bool { return h.Explanation.Known && h.Explanation.Value.Service != explain.Unclear }) {
		return No
	}
	return Unknown
}

// unwritten returns for how long no host has written to an API that answers, if that is so long
// that etcd may take no writes: hosts cannot write there that it is full. A host that answers knows
// more than that.
func (d describer) unwritten() (time.Duration, bool) {
	onAHost := slices.ContainsFunc(d.Sources, func(s Source) bool { return s.Kind == FromHost && s.Failed == "" })
	if !d.answers() || onAHost {
		return 0, false
	}
	if d.Heartbeat.Known {
		age := d.age(d.Heartbeat.Value)
		return age, age > fresh
	}
	if d.size() == 2 && d.Pacemaker.Known {
		return d.age(d.Pacemaker.At), d.stale()
	}
	return 0, false
}

// hostSaysItWrites reports whether the etcd keeper of a host says that etcd takes writes.
func (d describer) hostSaysItWrites() bool {
	return slices.ContainsFunc(d.Hosts, func(h Host) bool { return h.Explanation.Known && h.Explanation.Value.Service == explain.Writes })
}

// status returns the cluster's status in the words of `holdfast explain`.
func (d describer) status(v View) explain.Status {
	if w := d.writes(); w != Yes {
		return d.withoutWrites(w)
	}
	serious := v.Serious() > 0
	switch {
	case d.size() == 1 && !serious:
		return explain.Healthy
	case d.size() != 1 && v.Redundancy.Survives == Unknown:
		return explain.Unknown
	case d.size() != 1 && v.Redundancy.Survives == No, serious:
		return explain.Degraded
	}
	return explain.Healthy
}

func (d describer) withoutWrites(w Answer) explain.Status {
	if w == Unknown {
		return explain.Unknown
	}
	t, waits := d.full()
	if waits && !t.Mends {
		return explain.NeedsHuman
	}
	for _, h := range d.Hosts {
		if !h.Explanation.Known {
			continue
		}
		switch h.Explanation.Value.Status {
		case explain.NeedsHuman:
			return explain.NeedsHuman
		case explain.Waiting, explain.Stopped:
			waits = true
		case explain.Healthy, explain.Degraded, explain.Unknown, explain.Unmanaged:
		}
	}
	if waits {
		return explain.Waiting
	}
	return explain.Unknown
}

// summary returns the sentence for somebody who reads nothing else.
func (d describer) summary(v View) string {
	switch v.Status {
	case explain.NeedsHuman:
		return "The cluster takes no writes and waits for an administrator. See What to do."
	case explain.Waiting:
		return "The cluster takes no writes now. It recovers by itself."
	case explain.Unknown:
		if silent, is := d.unwritten(); is {
			return "The API answers, but no host has written to it for " + page.Duration(silent) + ". Perhaps the cluster takes no writes: ask on a control plane (sudo holdfast status)."
		}
		if d.writes() == Yes {
			return "The cluster takes writes. It is unknown whether it would survive the loss of a host."
		}
		return "The state of the cluster is unknown: too little could be read."
	case explain.Healthy:
		if d.size() == 1 {
			return "Healthy, but one control plane has no redundancy."
		}
		return "Healthy" + wellWords(d.size())
	case explain.Degraded, explain.Stopped, explain.Unmanaged:
	}
	if !d.answers() {
		return "etcd takes writes, but the API does not answer from here."
	}
	if v.Redundancy.Survives == Yes || d.size() == 1 {
		return fmt.Sprintf("The cluster works, with %s to check.", page.Count(v.Serious(), "thing"))
	}
	return "The cluster works, but one more failure stops it."
}

func wellWords(n int) string {
	if n == 2 {
		return ": either host may be lost."
	}
	return ": any one control plane may be lost."
}

// sources describes where the facts are from, and how old they are.
func (d describer) sources() []SourceLine {
	out := []SourceLine{}
	for _, s := range d.Sources {
		l := SourceLine{Kind: s.Kind, Name: s.Name, Answered: s.Failed == "", Limits: s.Limits}
		switch took := s.Took.Round(time.Millisecond); {
		case s.Failed != "":
			l.Text = "no data: " + s.Failed
		case s.Kind == FromHost:
			l.Text = "its own daemons and files, which need no API"
		case took > 0:
			l.Text = fmt.Sprintf("answered in %s", took)
		default:
			l.Text = "answered"
		}
		out = append(out, l)
	}
	if d.Pacemaker.Known {
		out = append(out, SourceLine{
			Kind: FromHost, Name: "Pacemaker", Answered: !d.stale(),
			Text: fmt.Sprintf("reported by %s, %s ago", d.Pacemaker.From, page.Duration(d.age(d.Pacemaker.At))),
		})
	}
	return out
}

// tooOld is the age of the last report above which the silence is critical.
const tooOld = clusterhealth.MaxAge
