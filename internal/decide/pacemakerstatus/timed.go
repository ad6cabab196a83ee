package pacemakerstatus

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Timed gives each condition its transition time: the one in before where the
// status was the same, now where it differed or was missing. Before may be nil. The
// time of the whole status never goes back: it is now, or, where this host's clock
// is behind, one second after the time in before.
func Timed(s etcdv1.PacemakerClusterStatus, before *etcdv1.PacemakerClusterStatus, now time.Time) etcdv1.PacemakerClusterStatus {
	was := &etcdv1.PacemakerClusterStatus{}
	if before != nil {
		was = before
	}
	out := *s.DeepCopy()
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	eachList(&out, was, func(list, old []metav1.Condition) {
		for i := range list {
			list[i].LastTransitionTime = at
			if c := Find(old, list[i].Type); c.Status == list[i].Status && !c.LastTransitionTime.IsZero() {
				list[i].LastTransitionTime = c.LastTransitionTime
			}
		}
	})
	out.LastUpdated = at
	if at.Time.Before(was.LastUpdated.Time) {
		out.LastUpdated = metav1.NewTime(was.LastUpdated.Add(time.Second))
	}
	return out
}

// oneChange is the longest time between the observations of one change by two
// hosts: a host that leaves publishes it 1 to 3 s before the other one's etcd
// notices.
const oneChange = 5 * time.Second

// Known returns the last known value of each condition with its transition time. A
// condition that is Unknown in s keeps the value that it has in before. Both
// statuses are timed.
func Known(s, before etcdv1.PacemakerClusterStatus) etcdv1.PacemakerClusterStatus {
	out := *s.DeepCopy()
	eachList(&out, &before, func(list, old []metav1.Condition) {
		for i := range list {
			c := Find(old, list[i].Type)
			if c.Type != "" && (list[i].Status == metav1.ConditionUnknown || list[i].Status == c.Status) {
				list[i] = c
			}
		}
	})
	return out
}

// Merged returns the status to write where the status in the API differs from the
// one that this host expected there. A condition that is the same in both keeps the
// API's time. It gets this host's time only where this host saw it change after the
// API was last written, and where the API does not have that same change already. A
// period in which nothing was known, as while a host boots, is no change: known
// holds what this host last knew (func Known).
func Merged(own, known, api etcdv1.PacemakerClusterStatus, now time.Time) etcdv1.PacemakerClusterStatus {
	out := Timed(own, &api, now)
	eachList(&out, &known, func(list, seen []metav1.Condition) {
		for i := range list {
			c := Find(seen, list[i].Type)
			later := c.LastTransitionTime.Sub(list[i].LastTransitionTime.Time)
			if c.Status == list[i].Status && c.LastTransitionTime.After(api.LastUpdated.Time) && (later <= 0 || later > oneChange) {
				list[i].LastTransitionTime = c.LastTransitionTime
			}
		}
	})
	return out
}

// eachList calls f with each list of conditions in s and with the matching list in
// other, nil where other has none.
func eachList(s, other *etcdv1.PacemakerClusterStatus, f func(list, other []metav1.Condition)) {
	f(s.Conditions, other.Conditions)
	for i := range nodesOf(s) {
		n := &(*s.Nodes)[i]
		old := nodeNamed(other, n.NodeName)
		f(n.Conditions, old.Conditions)
		for k := range n.Resources {
			r := &n.Resources[k]
			var was []metav1.Condition
			if i := slices.IndexFunc(old.Resources, func(o etcdv1.PacemakerClusterResourceStatus) bool { return o.Name == r.Name }); i >= 0 {
				was = old.Resources[i].Conditions
			}
			f(r.Conditions, was)
		}
		for k := range n.FencingAgents {
			a := &n.FencingAgents[k]
			var was []metav1.Condition
			if i := slices.IndexFunc(old.FencingAgents, func(o etcdv1.PacemakerClusterFencingAgentStatus) bool { return o.Name == a.Name }); i >= 0 {
				was = old.FencingAgents[i].Conditions
			}
			f(a.Conditions, was)
		}
	}
}

func nodesOf(s *etcdv1.PacemakerClusterStatus) []etcdv1.PacemakerClusterNodeStatus {
	if s.Nodes == nil {
		return nil
	}
	return *s.Nodes
}

func nodeNamed(s *etcdv1.PacemakerClusterStatus, name string) etcdv1.PacemakerClusterNodeStatus {
	for _, n := range nodesOf(s) {
		if n.NodeName == name {
			return n
		}
	}
	return etcdv1.PacemakerClusterNodeStatus{}
}

// Same reports whether two statuses say the same, whatever their times.
func Same(a, b etcdv1.PacemakerClusterStatus) bool {
	return string(plain(a, false)) == string(plain(b, false))
}

// SameSince reports whether two statuses say the same with the same transition
// times.
func SameSince(a, b etcdv1.PacemakerClusterStatus) bool {
	return string(plain(a, true)) == string(plain(b, true))
}

func plain(s etcdv1.PacemakerClusterStatus, times bool) []byte {
	s = *s.DeepCopy()
	s.LastUpdated = metav1.Time{}
	eachList(&s, &etcdv1.PacemakerClusterStatus{}, func(list, _ []metav1.Condition) {
		for i := range list {
			if !times {
				list[i].LastTransitionTime = metav1.Time{}
			}
		}
		slices.SortFunc(list, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	})
	return JSON(s)
}

// wireNode writes a node's fence agents even where there are none: the API's type
// drops an empty list, and the API refuses a node without the list.
type wireNode struct {
	etcdv1.PacemakerClusterNodeStatus `json:",inline"`

	FencingAgents []etcdv1.PacemakerClusterFencingAgentStatus `json:"fencingAgents"`
}

// JSON encodes a status with its empty lists, which stand for the worst states.
func JSON(s etcdv1.PacemakerClusterStatus) []byte {
	nodes := []wireNode{}
	for _, n := range nodesOf(&s) {
		agents := n.FencingAgents
		if agents == nil {
			agents = []etcdv1.PacemakerClusterFencingAgentStatus{}
		}
		nodes = append(nodes, wireNode{PacemakerClusterNodeStatus: n, FencingAgents: agents})
	}
	data, err := json.Marshal(map[string]any{"conditions": s.Conditions, "lastUpdated": s.LastUpdated, "nodes": nodes})
	if err != nil {
		panic(err) // cannot happen: these are texts, times and lists
	}
	return data
}
