// Package retired has the form of the list of hosts that somebody took out of a
// cluster: ConfigMap kube-system/holdfast-retired. An entry is written before
// anything of the host is deleted, so that nothing makes it again. When a person gives
// the name to a host again, the entry is closed. It stays in the list, to show which
// Node was the old one.
//
// `holdfast host remove` and the replacement of a host write entries; the agents of
// control planes close them. `holdfast host uncordon` removes the entry of a worker whose
// Node is still there.
package retired

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The ConfigMap with the list. Each host has one key, its name.
const (
	Namespace = "kube-system"
	ConfigMap = "holdfast-retired"
)

// Host is a host that somebody took out of the cluster.
type Host struct {
	// Name is the name of the host, UID that of its Node, empty if it had no Node any
	// more.
	Name string `json:"name"`
	UID  string `json:"uid,omitempty"`
	// Machine is its machine id and System the UUID of its board, as the Node had them.
	Machine string `json:"machine,omitempty"`
	System  string `json:"system,omitempty"`
	// Addresses are the internal ones of the Node: who wants to know whether the old machine still
	// runs asks there, since the Node goes.
	Addresses []string `json:"addresses,omitempty"`
	// ControlPlane is true if it was a control plane.
	ControlPlane bool      `json:"controlPlane,omitempty"`
	When         time.Time `json:"when"`
	// By names the person, and Why the command or the reason.
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
	// Off is true if a person stated that the host is off for good.
	Off bool `json:"off,omitempty"`
	// Again is the time at which a host got the name again, zero before.
	Again time.Time `json:"again,omitzero"`
}

// Open reports whether no host has got the name again.
func (h Host) Open() bool { return h.Again.IsZero() }

// String says who took the host out, and when.
func (h Host) String() string {
	var text strings.Builder
	text.WriteString("taken out of the cluster at " + h.When.UTC().Format(time.RFC3339))
	if h.By != "" {
		text.WriteString(" by " + h.By)
	}
	if h.Why != "" {
		text.WriteString(" (" + h.Why + ")")
	}
	return text.String()
}

// Marshal returns the value for the host's key in the ConfigMap.
func (h Host) Marshal() (string, error) {
	if h.Name == "" || h.When.IsZero() {
		return "", errors.New("a retired host has a name and a time")
	}
	h.When, h.Again = h.When.UTC().Truncate(time.Second), h.Again.UTC().Truncate(time.Second)
	data, err := json.Marshal(h)
	return string(data), err
}

// Patch returns a merge patch of the ConfigMap that writes the entry, and does not change
// those of other hosts.
func (h Host) Patch() ([]byte, error) {
	value, err := h.Marshal()
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"data": map[string]string{h.Name: value}})
}

// List is the list, by name.
type List []Host

// Read reads the data of the ConfigMap. It returns every entry that it can read, and an
// error that names the others. A caller that needs one of those must treat it as
// unknown.
func Read(data map[string]string) (List, error) {
	var out List
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(data)) {
		var h Host
		if err := json.Unmarshal([]byte(data[name]), &h); err != nil || h.Name != name || h.When.IsZero() {
			errs = append(errs, fmt.Errorf("ConfigMap %s/%s: key %s cannot be read: kubectl -n %[1]s edit configmap %[2]s", Namespace, ConfigMap, name))
			continue
		}
		out = append(out, h)
	}
	return out, errors.Join(errs...)
}

// Of returns the entry of a name.
func (l List) Of(name string) (Host, bool) {
	i := slices.IndexFunc(l, func(h Host) bool { return h.Name == name })
	if i < 0 {
		return Host{}, false
	}
	return l[i], true
}

// Out says who took a Node's host out of the cluster, empty if nobody did. uid and
// machine are those of the Node, empty if they are not known. It is empty, too, for the
// Node of a later host with the same name.
func (l List) Out(name, uid, machine string) string {
	h, listed := l.Of(name)
	switch {
	case !listed:
		return ""
	case h.Open(), uid != "" && uid == h.UID, uid == "" && machine != "" && machine == h.Machine:
		return h.String()
	}
	return ""
}
