package pacemakerstatus

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Timed gives each condition the time since when it is so: that of before
// where its status was the same, now where it was another or none. Before may
// be nil. The time of the whole never goes back: it is now, or where this
// host's clock is behind, a second after the one before.
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

// oneChange is how far apart two hosts may see one change: one that leaves says
// so 1 to 3 s before the other one's etcd knows it.
const oneChange = 5 * time.Second

// Known is what is known last of each condition, with the time since when: a
// status in which a condition is Unknown leaves the one before as it was. Both
// are timed.
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

// Merged returns the status to write where the API has another one than this host
// thought. A condition that is the same in both keeps the API's time. It gets this
// host's time only where this host saw it change after the API was last written,
// and that is another change than the API has. A while in which nothing was known,
// as while a host boots, is no change: known is what this host knew last (Known).
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

// eachList calls f with each list of conditions of a status, and with that of
// the same thing in another one.
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

// Same reports whether two statuses say the same, whenever they say it.
func Same(a, b etcdv1.PacemakerClusterStatus) bool {
	return string(plain(a, false)) == string(plain(b, false))
}

// SameSince reports whether two statuses say the same, and since when.
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

// wireNode writes the agents of a node even where there are none: the type of
// the API drops an empty list, and the API refuses a node without one.
type wireNode struct {
	etcdv1.PacemakerClusterNodeStatus `json:",inline"`

	FencingAgents []etcdv1.PacemakerClusterFencingAgentStatus `json:"fencingAgents"`
}

// JSON writes a status with its empty lists, which are the worst of states.
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
		panic(err) // texts, times and lists of them
	}
	return data
}
