package standing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// redundancy describes what the loss of a host would lead to.
func (d describer) redundancy() Redundancy {
	switch d.size() {
	case 0:
		return Redundancy{Survives: Unknown, Sentence: "survives the loss of a host: unknown, because no source lists the hosts"}
	case 1:
		return d.single()
	case 2:
		return d.pair()
	}
	return d.quorum()
}

// single needs no facts: there is no other host that could continue.
func (d describer) single() Redundancy {
	name := "it"
	if list := d.controlPlanes(); len(list) == 1 {
		name = list[0].Name
	}
	return Redundancy{
		Survives: No,
		Sentence: "one control plane, no redundancy: while " + name + " is down there is no API, and data lost from its disk are lost for good",
		Losses:   []Loss{{Host: name, Survives: No, Because: "there is no other control plane"}},
	}
}

// lostAlready describes the loss of a host that is already absent.
const lostAlready = "it is already lost"

const (
	either  = "survives the loss of either host: "
	anyHost = "survives the loss of any one control plane: "
)

// pair follows Pacemaker's report. An unknown condition never counts as good.
func (d describer) pair() Redundancy {
	switch {
	case d.SetUp.Known && !d.SetUp.Value.Done:
		return Redundancy{Survives: No, Sentence: either + "no, because the two hosts are not set up for it yet: " + d.SetUp.Value.Doing}
	case !d.Pacemaker.Known:
		why := d.Pacemaker.Why
		if why == "" {
			why = "no host has reported on Pacemaker"
		}
		return Redundancy{Survives: Unknown, Sentence: either + "unknown, because " + why}
	case d.stale():
		return Redundancy{Survives: Unknown, Cause: "stale", Sentence: fmt.Sprintf("%sunknown, because the last report on Pacemaker is %s old",
			either, page.Duration(d.age(d.Pacemaker.At)))}
	}
	out := Redundancy{Survives: Yes, Sentence: either + "yes, both hold every write and each can fence the other"}
	for _, s := range pacemakerstatus.Survives(d.Pacemaker.Value) {
		l := Loss{Host: s.Host, Survives: answer(s.Survives), Detail: s.Because}
		if !s.Survives {
			l.Because = cmp.Or(strings.Join(d.reasons(s.Host), ", and "), s.Because)
		}
		if d.condition(s.Host, etcdv1.NodeOnlineConditionType).Status == metav1.ConditionFalse {
			l.Because = lostAlready
		}
		if !s.Survives {
			out.Survives = No
		}
		out.Losses = append(out.Losses, l)
	}
	if len(out.Losses) < 2 {
		out.Survives = No
	}
	if out.Survives == Yes && d.writes() == No {
		return d.paused(out)
	}
	if out.Survives == No {
		out.Sentence = either + "no, because " + cmp.Or(strings.Join(d.reasons(""), ", and "), "Pacemaker does not know both hosts")
	}
	return out
}

// paused returns an answer of yes as unknown: while the cluster takes no writes,
// nothing could go on.
func (d describer) paused(r Redundancy) Redundancy {
	r.Survives, r.Sentence = Unknown, either+"unknown, because the cluster takes no writes now"
	for i := range r.Losses {
		r.Losses[i].Survives = Unknown
	}
	return r
}

// mostReasons is the number of reasons that fit into a sentence.
const mostReasons = 2

// reasons lists why the cluster would not survive the loss of the named host,
// or of either host if none is named. Each reason has a few words; causes come
// before their consequences.
func (d describer) reasons(lost string) []string {
	s := d.Pacemaker.Value
	var out []string
	add := func(format string, args ...any) {
		if len(out) < mostReasons {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	// A condition that is unknown or missing is no proof of the opposite.
	judge := func(c metav1.Condition, no, whether string) {
		switch c.Status {
		case metav1.ConditionTrue:
		case metav1.ConditionFalse:
			add("%s", no)
		default:
			add("it is unknown whether %s", whether)
		}
	}
	nodes := d.nodes()
	if len(nodes) < 2 {
		add("Pacemaker knows %s", only(len(nodes)))
	}
	for _, n := range nodes {
		if n.NodeName != lost {
			judge(pacemakerstatus.Find(n.Conditions, etcdv1.NodeOnlineConditionType), n.NodeName+" is absent", n.NodeName+" is present")
		}
	}
	if d.maintenance() {
		add("Pacemaker is in maintenance and recovers nothing")
	}
	if len(out) > 0 {
		return out // the rest follows from it
	}
	c := d.redundant()
	behind := "not both hosts hold every write"
	if c.Reason == pacemakerstatus.ReasonResyncing {
		behind = "one of the two is still catching up and does not hold every write yet"
	}
	if c.Reason == pacemakerstatus.ReasonStranger {
		behind = "etcd lists a member that belongs to neither host"
	}
	judge(c, behind, "both hold every write")
	for _, n := range nodes {
		if n.NodeName != lost {
			judge(pacemakerstatus.EtcdOf(n), "etcd on "+n.NodeName+" is unhealthy", "etcd on "+n.NodeName+" is healthy")
		}
	}
	judge(pacemakerstatus.Find(s.Conditions, pacemakerstatus.FencingEnabled), "fencing is disabled", "fencing is enabled")
	judge(pacemakerstatus.Find(s.Conditions, etcdv1.ClusterInServiceConditionType), "", "Pacemaker is in maintenance")
	for _, n := range nodes {
		if lost != "" && n.NodeName != lost {
			continue
		}
		able := pacemakerstatus.Find(n.Conditions, etcdv1.NodeFencingAvailableConditionType)
		judge(able, n.NodeName+" cannot be fenced", n.NodeName+" can be fenced")
		if able.Status == metav1.ConditionTrue && !pacemakerstatus.Holds(n.Conditions, pacemakerstatus.FencingProven) {
			add("it is not verified that %s can be fenced", n.NodeName)
		}
	}
	return out
}

// only says how few hosts there are.
func only(hosts int) string {
	if hosts == 0 {
		return "no host"
	}
	return "only " + page.Count(hosts, "host")
}

func (d describer) nodes() []etcdv1.PacemakerClusterNodeStatus {
	if d.Pacemaker.Value.Nodes == nil {
		return nil
	}
	return *d.Pacemaker.Value.Nodes
}

// quorum counts the control planes that work: more than half of them are
// needed.
func (d describer) quorum() Redundancy {
	n := d.size()
	var well, ill, unknown []string
	for _, h := range d.controlPlanes() {
		switch d.serves(h) {
		case Yes:
			well = append(well, h.Name)
		case No:
			ill = append(ill, h.Name)
		default:
			unknown = append(unknown, h.Name)
		}
	}
	needed := n/2 + 1
	out := Redundancy{Survives: Unknown}
	switch {
	case len(well) > needed:
		out.Survives, out.Sentence = Yes, fmt.Sprintf("%syes, %d of %d work and %d are enough", anyHost, len(well), n, needed)
	case len(well)+len(unknown) <= needed:
		out.Survives = No
		out.Sentence = fmt.Sprintf("%sno, because %d of %d work and %d are needed%s", anyHost, len(well), n, needed, without(ill))
	default:
		out.Sentence = anyHost + "unknown, because these hosts report no status: " + strings.Join(unknown, ", ")
	}
	for _, h := range d.controlPlanes() {
		l := Loss{Host: h.Name, Survives: out.Survives}
		if slices.Contains(ill, h.Name) {
			l.Because = lostAlready
		} else if out.Survives == No {
			l.Because = fmt.Sprintf("%d would be left and %d are needed", max(len(well)-1, 0), needed)
		}
		out.Losses = append(out.Losses, l)
	}
	return out
}

func without(ill []string) string {
	if len(ill) == 0 {
		return ""
	}
	return "; not " + strings.Join(ill, ", ")
}

// serves reports whether a control plane counts for the quorum of etcd.
func (d describer) serves(h Host) Answer {
	m := h.Member
	switch {
	case m.Known && (m.Value.Learner || state.Is(m.Value.Healthy, false) || state.Is(m.Value.Running, false) || state.Is(m.Value.Listed, false)):
		return No
	case d.there(h) == No:
		return No
	case m.Known && (state.Is(m.Value.Healthy, true) || state.Is(m.Value.Running, true)):
		return Yes
	}
	return Unknown
}
