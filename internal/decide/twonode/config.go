package twonode

import (
	"slices"
	"strings"
)

// Config describes the set-up of Corosync and Pacemaker: either all that is
// wanted, or the parts of the present set-up that the wanted one is compared
// with.
type Config struct {
	Corosync    Corosync
	Properties  []Setting
	Resources   []Resource // fence devices among them
	Constraints []Constraint
	// ResourceDefaults and OperationDefaults belong to a person: Holdfast gives
	// each of its settings to the resource itself.
	ResourceDefaults, OperationDefaults []Setting
}

// Halted reports whether Pacemaker was told not to start a resource.
func (c Config) Halted(id string) bool {
	return slices.ContainsFunc(c.Resources, func(r Resource) bool {
		meta := r.Meta
		if r.Clone != nil {
			meta = append(slices.Clone(meta), r.Clone.Meta...)
		}
		return r.ID == id && slices.ContainsFunc(meta, func(s Setting) bool { return s.Name == "target-role" && s.Value == "Stopped" })
	})
}

// InMaintenance reports whether Pacemaker was told to start, stop and watch nothing. A person
// may write it in each way that Pacemaker takes for true.
func (c Config) InMaintenance() bool {
	return slices.ContainsFunc(c.Properties, func(s Setting) bool {
		return s.Name == "maintenance-mode" && slices.Contains([]string{"true", "on", "yes", "y", "1"}, strings.ToLower(s.Value))
	})
}

// Corosync is the cluster in corosync.conf. A host that is in no cluster has no
// name here.
type Corosync struct {
	Name  string
	Nodes []Node
	// TwoNode is true if one of two nodes has quorum. It also makes a host that
	// boots wait for its peer (wait_for_all).
	TwoNode bool
	// WaitsNot is true if somebody turned that wait off.
	WaitsNot bool
	// Link holds the settings that watch the one link between the hosts. They are
	// chosen when the cluster is made: pcs changes them only while the cluster is
	// stopped.
	Link []Setting
	// Crypto holds the encryption and the signature of packets between the hosts.
	Crypto []Setting
	Totem  []Setting
}

// Setting is a name, its value, and the reason for the value.
type Setting struct {
	Name, Value string
	Why         string
}

// Resource is something that Pacemaker runs.
type Resource struct {
	ID string
	// Agent is class:type or class:provider:type, as pcs writes it.
	Agent      string
	Parameters []Setting
	Meta       []Setting
	Operations []Operation
	// Clone is the clone around it, nil for none.
	Clone *Clone
	// Within names another element that holds the resource, for example a group;
	// empty for none.
	Within string
}

// fence is the class of fence devices, for which pcs has its own verbs.
const fence = "stonith"

// Operation holds the settings of one action of a resource.
type Operation struct {
	Name     string
	Settings []Setting
}

// Clone runs a resource on both nodes.
type Clone struct {
	ID   string
	Meta []Setting
}

// ConstraintKind is the name of a constraint's element in the CIB.
type ConstraintKind string

// The kinds of constraints.
const (
	Order      ConstraintKind = "rsc_order"
	Colocation ConstraintKind = "rsc_colocation"
	Location   ConstraintKind = "rsc_location"
)

// Constraint ties resources to each other or to nodes.
type Constraint struct {
	ID       string
	Kind     ConstraintKind
	Settings []Setting // attributes
	Why      string
}

// value returns a setting's value; ok is false if it is not set.
func value(settings []Setting, name string) (v string, ok bool) {
	for _, s := range settings {
		if s.Name == name {
			return s.Value, true
		}
	}
	return "", false
}

// missing returns the settings of want that have lacks, or has with another
// value.
func missing(have, want []Setting) []Setting {
	var out []Setting
	for _, w := range want {
		if v, ok := value(have, w.Name); !ok || v != w.Value {
			out = append(out, w)
		}
	}
	return out
}
