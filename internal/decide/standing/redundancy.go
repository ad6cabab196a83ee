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
	if out.Survives == No {
		out.Sentence = either + "no, because " + cmp.Or(strings.Join(d.reasons(""), ", and "), "Pacemaker does not know both hosts")
	}
	return out
}

// mostReasons is the number of reasons that fit into a sentence.
const mostReasons = 2

// reasons lists why the cluster would not survive the loss of the named host,
// or of either host if none is named. Each reason has a few words; causes come
// before their consequences.
func (d describer) reasons(lost string) []string {
	s := d.Pacemaker.Value
	var out []string
	add := func(bad bool, format string, args ...any) {
		if bad && len(out) < mostReasons {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	not := func(c metav1.Condition) bool { return c.Status != metav1.ConditionTrue }
	nodes := d.nodes()
	add(len(nodes) < 2, "Pacemaker knows only %s", count(len(nodes), "host"))
	for _, n := range nodes {
		if n.NodeName == lost {
			continue
		}
		c := pacemakerstatus.Find(n.Conditions, etcdv1.NodeOnlineConditionType)
		add(c.Status == metav1.ConditionFalse, "%s is absent", n.NodeName)
		add(c.Status == metav1.ConditionUnknown, "it is unknown whether %s is present", n.NodeName)
	}
	add(d.maintenance(), "Pacemaker is in maintenance and recovers nothing")
	if len(out) > 0 {
		return out // the rest follows from it
	}
	c := pacemakerstatus.Find(s.Conditions, pacemakerstatus.Redundant)
	switch {
	case c.Reason == pacemakerstatus.ReasonResyncing:
		add(true, "one of the two is still catching up and does not hold every write yet")
	case c.Status == metav1.ConditionUnknown:
		add(true, "it is unknown whether both hold every write")
	default:
		add(not(c), "not both hosts hold every write")
	}
	for _, n := range nodes {
		for _, r := range n.Resources {
			add(n.NodeName != lost && r.Name == etcdv1.PacemakerClusterResourceNameEtcd && not(pacemakerstatus.Find(r.Conditions, etcdv1.ResourceHealthyConditionType)), "etcd on %s is unhealthy", n.NodeName)
		}
	}
	add(not(pacemakerstatus.Find(s.Conditions, pacemakerstatus.FencingEnabled)), "fencing is disabled")
	add(not(pacemakerstatus.Find(s.Conditions, etcdv1.ClusterInServiceConditionType)), "it is unknown whether Pacemaker is in maintenance")
	for _, n := range nodes {
		if lost != "" && n.NodeName != lost {
			continue
		}
		able := not(pacemakerstatus.Find(n.Conditions, etcdv1.NodeFencingAvailableConditionType))
		add(able, "%s cannot be fenced", n.NodeName)
		add(!able && not(pacemakerstatus.Find(n.Conditions, pacemakerstatus.FencingProven)), "it is not verified that %s can be fenced", n.NodeName)
	}
	return out
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
