package clusterhealth

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
)

// Event is a change that is reported to people once.
type Event struct {
	// Name follows from the change alone. Every host that reports it, however
	// often, makes the same name: if the API has an event of that name, the change
	// was reported.
	Name            string
	Warning         bool
	Reason, Message string
	At              time.Time
}

// maxNote is the API's limit on the text of an event, in bytes.
const maxNote = 1000

// Object returns the event as an object of the API. component and controller
// name the program that reports it, instance tells which of its several copies.
func (e Event) Object(component, controller, instance string) *corev1.Event {
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	if len(e.Message) > maxNote {
		e.Message = strings.ToValidUTF8(e.Message[:maxNote], "") + " ..."
	}
	at := metav1.NewTime(e.At)
	return &corev1.Event{
		// The API wants events about objects without a namespace here.
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: e.Name},
		InvolvedObject: corev1.ObjectReference{APIVersion: etcdv1.GroupVersion.String(), Kind: "PacemakerCluster", Name: "cluster"},
		Type:           kind, Reason: e.Reason, Message: e.Message, FirstTimestamp: at, LastTimestamp: at, Count: 1,
		Source: corev1.EventSource{Component: component}, ReportingController: controller, ReportingInstance: instance,
	}
}

// Recent is the time for which a change is still reported. It is shorter than
// the time for which the API keeps events: an event that the API has dropped is
// not made again.
const Recent = 50 * time.Minute

// Settling is the time after the object's creation in which a condition that
// turns good is not reported: it shows the state then, and no change.
const Settling = time.Minute

// change names the two events of a condition: for its turn to bad, and to good.
type change struct {
	kind, bad, good string
	what            string
}

var (
	clusterChanges = []change{
		{etcdv1.ClusterInServiceConditionType, "PacemakerClusterInMaintenance", "PacemakerClusterInService", "the cluster"},
		{etcdv1.ClusterNodeCountAsExpectedConditionType, "PacemakerNodeCountWrong", "PacemakerNodeCountAsExpected", "the number of nodes"},
		{pacemakerstatus.FencingEnabled, "PacemakerFencingDisabled", "PacemakerFencingEnabled", "fencing"},
		{pacemakerstatus.SettingsAsExpected, "PacemakerSettingsChanged", "PacemakerSettingsAsExpected", "settings"},
		{pacemakerstatus.Redundant, "PacemakerRedundancyLost", "PacemakerRedundant", "redundancy"},
	}
	nodeChanges = []change{
		{etcdv1.NodeOnlineConditionType, "PacemakerNodeOffline", "PacemakerNodeOnline", "node"},
		{etcdv1.NodeCleanConditionType, "PacemakerNodeUnclean", "PacemakerNodeClean", "node"},
		{etcdv1.NodeInServiceConditionType, "PacemakerNodeInMaintenance", "PacemakerNodeInService", "node"},
		{etcdv1.NodeActiveConditionType, "PacemakerNodeStandby", "PacemakerNodeActive", "node"},
		{etcdv1.NodeFencingAvailableConditionType, "PacemakerFencingUnavailable", "PacemakerFencingAvailable", "fencing of"},
		{etcdv1.NodeFencingHealthyConditionType, "PacemakerFencingUnhealthy", "PacemakerFencingHealthy", "fencing of"},
	}
	resourceChanges = []change{
		{etcdv1.ResourceStartedConditionType, "PacemakerResourceStopped", "PacemakerResourceStarted", ""},
		{etcdv1.ResourceHealthyConditionType, "PacemakerResourceUnhealthy", "PacemakerResourceHealthy", ""},
	}
)

// Events returns the changes of the last minutes that the object's conditions
// show.
func Events(o *etcdv1.PacemakerCluster, now time.Time) []Event {
	if o == nil {
		return nil
	}
	t := teller{now: now, born: o.CreationTimestamp.Time}
	for _, c := range clusterChanges {
		t.tell(c, "", o.Status.Conditions, "cluster")
	}
	if o.Status.Nodes == nil {
		return t.out
	}
	for _, n := range *o.Status.Nodes {
		for _, c := range nodeChanges {
			t.tell(c, n.NodeName, n.Conditions, n.NodeName)
		}
		for _, r := range n.Resources {
			for _, c := range resourceChanges {
				c.what = strings.ToLower(string(r.Name)) + " on"
				t.tell(c, n.NodeName, r.Conditions, n.NodeName, string(r.Name))
			}
		}
	}
	return t.out
}

type teller struct {
	now, born time.Time
	out       []Event
}

// tell adds the event of one condition, if it changed recently.
func (t *teller) tell(c change, node string, list []metav1.Condition, path ...string) {
	is := pacemakerstatus.Find(list, c.kind)
	at := is.LastTransitionTime.Time
	age := t.now.Sub(at)
	good := is.Status == metav1.ConditionTrue
	if is.Status != metav1.ConditionFalse && !good || age > Recent || age < -Recent || good && at.Sub(t.born) < Settling {
		return
	}
	e := Event{
		Name:    Name(append(path, c.kind, string(is.Status), at.UTC().Format(time.RFC3339))...),
		Warning: !good || c.kind == etcdv1.ResourceStartedConditionType,
		Reason:  c.bad, At: at,
	}
	if good {
		e.Reason = c.good
	}
	e.Message = say(strings.TrimSpace(fmt.Sprintf("%s %s", c.what, node))+": "+is.Reason, is)
	t.out = append(t.out, e)
}

// Name makes the name of an event from the parts that identify the change.
func Name(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "pacemaker." + hex.EncodeToString(sum[:8])
}
