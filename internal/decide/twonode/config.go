package twonode

// Config is how Corosync and Pacemaker are set up: all of what is wanted, or
// of what is there as much as matters to what is wanted.
type Config struct {
	Corosync    Corosync
	Properties  []Setting
	Resources   []Resource // fence devices among them
	Constraints []Constraint
	// ResourceDefaults and OperationDefaults are a person's: all of ours is said
	// where it belongs.
	ResourceDefaults, OperationDefaults []Setting
}

// Corosync is the cluster as corosync.conf has it. A host that is in no
// cluster has no name here.
type Corosync struct {
	Name  string
	Nodes []Node
	// TwoNode is true where one of two nodes has quorum, which makes a booted
	// host wait for its peer too (wait_for_all).
	TwoNode bool
	// WaitsNot is true where somebody took that wait away.
	WaitsNot bool
	// Link is how the one link between the hosts is watched. It is chosen when
	// the cluster is made: pcs changes it only while the cluster is stopped.
	Link []Setting
	// Crypto is how packets between the hosts are encrypted and signed.
	Crypto []Setting
	Totem  []Setting
}

// Setting is one name and its value, and why it has it.
type Setting struct {
	Name, Value string
	Why         string
}

// Resource is something that Pacemaker runs.
type Resource struct {
	ID string
	// Agent is class:type or class:provider:type, as pcs has it.
	Agent      string
	Parameters []Setting
	Meta       []Setting
	Operations []Operation
	// Clone is the clone around it, nil for none.
	Clone *Clone
	// Within is what else holds the resource, a group say; empty for nothing.
	Within string
}

// fence is the class of fence devices, which pcs has verbs of its own for.
const fence = "stonith"

// Operation is how Pacemaker carries out an action of a resource.
type Operation struct {
	Name     string
	Settings []Setting
}

// Clone runs a resource on both nodes.
type Clone struct {
	ID   string
	Meta []Setting
}

// ConstraintKind is the element that a constraint is in the CIB.
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

// value returns a setting's value; ok is false where it is not set.
func value(settings []Setting, name string) (v string, ok bool) {
	for _, s := range settings {
		if s.Name == name {
			return s.Value, true
		}
	}
	return "", false
}

// missing returns what of want is not so in have.
func missing(have, want []Setting) []Setting {
	var out []Setting
	for _, w := range want {
		if v, ok := value(have, w.Name); !ok || v != w.Value {
			out = append(out, w)
		}
	}
	return out
}
