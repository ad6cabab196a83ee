package dualstack

import (
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Stage is how far a host is. It is on the host's disk, and its Node tells it.
type Stage string

// The stages, in their order.
const (
	// Kept: the host has the plan and has changed nothing.
	Kept Stage = "kept"
	// Served: the API server and the controller manager of this control plane know both
	// families. A worker is there without doing anything.
	Served Stage = "served"
	// Written: the files of the host have both families; it boots once, because kubelet, pods
	// and the pod network read them when they start.
	Written Stage = "written"
	// Over: it has booted, and its Node has addresses of both families.
	Over Stage = "over"
)

var stages = []Stage{Kept, Served, Written, Over}

// Since reports whether a host is as far as another stage.
func (s Stage) Since(t Stage) bool { return slices.Index(stages, s) >= slices.Index(stages, t) }

// Journal is what a host remembers of a plan across crashes and boots.
type Journal struct {
	Stage Stage `json:"stage"`
	// Begun is true once this host knows that the plan has begun. It changes no file before.
	Begun bool `json:"begun,omitempty"`
	// Changed names the boot in which the files of the host were changed.
	Changed string `json:"changed,omitempty"`
	// Settled is true on the carrier once the cluster's objects have both families.
	Settled bool `json:"settled,omitempty"`
}

// Announced is what the API says of the plan. It is empty if the API has none.
type Announced struct {
	ID    string
	Begun bool
}

// Seen is what the API says of a host.
type Seen struct {
	// Plan is the plan of which the host tells its stage.
	Plan  string
	Stage Stage
	// Begun is true if the host has noted that the plan has begun, Settled if it has settled the
	// objects of the cluster.
	Begun, Settled bool
	// Lacks says what the host lacks for the second family, in its own words.
	Lacks string
	// Shares is how many shares of the pod networks the Node has; only the carrier knows it. Ready
	// and Both are true if its kubelet reports, and has an address of each family.
	Shares      int
	Ready, Both bool
}

// Facts are what a host knows when it decides. A fact that could not be found out is unknown,
// and leads to no step.
type Facts struct {
	Host    string
	Plan    *Plan // the host's copy, nil if there is none
	Journal Journal
	Boot    string // names this boot of the host

	Announced state.Fact[Announced]
	Nodes     state.Fact[map[string]Seen]
	// Kept are the hosts whose Node the carrier kept, and that have none: it was cut between the two
	// requests that make a Node anew, and a cordoned worker does not make its Node again.
	Kept []string
	// Stands are the hosts of which the carrier has a copy of the Node that it does not need any more: the Node
	// is there, with both shares, or as it was kept, since its deletion failed.
	Stands []string
	// Retired are the hosts of the plan that somebody took out for good, as the list of retired hosts
	// and their missing Nodes say. Nobody waits for them. A host of which that is not known is not
	// among them, and is waited for.
	Retired []string

	// About a control plane. Serves is true if its API server and its controller manager know
	// both families: their files name them, and what runs was started from these files.
	// Carried is true if the cluster goes on while its API server starts anew.
	Serves, Carried state.Fact[bool]

	// Others says, of the carrier, which other plan has the lock of all plans; empty for none.
	Others state.Fact[string]

	// About the carrier. Work says what else changes hosts or control planes, and Whole what
	// the redundancy lacks, empty for nothing. Noted is true if kubeadm's configuration in the
	// cluster has both families: a host that joins gets its files from there. Routed says the
	// same of the pod network's configuration.
	Work, Whole   state.Fact[string]
	Noted, Routed state.Fact[bool]
}

// Carrier returns the host that writes the objects of the cluster now: the first control plane of the
// plan that was not taken out. What the one before it left half done is done again.
func (f Facts) Carrier() string {
	if among := f.stay(f.controlPlanes()); len(among) > 0 {
		return among[0]
	}
	return ""
}

func (f Facts) carries() bool      { return f.Carrier() == f.Host }
func (f Facts) controlPlane() bool { return f.Plan.Hosts[f.Host].ControlPlane }
func (f Facts) begun() bool        { return f.Journal.Begun }
func (f Facts) stage(s Stage) bool { return f.Journal.Stage.Since(s) }

// gone reports whether it is known that the API does not announce the plan of this host.
func (f Facts) gone() bool { return f.Announced.Known && f.Announced.Value.ID != f.Plan.ID }

// seen returns what the API says of a host about this plan. A host without a Node, and one
// that tells of another plan, says nothing.
func (f Facts) seen(name string) Seen {
	s := f.Nodes.Value[name]
	if s.Plan != f.Plan.ID {
		s.Stage, s.Begun, s.Settled, s.Lacks = "", false, false, ""
	}
	return s
}

// stay returns the hosts that were not taken out.
func (f Facts) stay(among []string) []string {
	return slices.DeleteFunc(slices.Clone(among), func(n string) bool { return slices.Contains(f.Retired, n) })
}

// listed reports whether the plan names this host. One that came later has no share in it.
func (f Facts) listed() bool {
	_, is := f.Plan.Hosts[f.Host]
	return is
}

// late returns the hosts that are not as far as ok says, in the order of turns; all of them
// while the API does not list the Nodes. A host that was taken out is never late.
func (f Facts) late(among []string, ok func(Seen) bool) []string {
	var out []string
	for _, name := range f.stay(among) {
		if !f.Nodes.Known || !ok(f.seen(name)) {
			out = append(out, name)
		}
	}
	return out
}

func (f Facts) controlPlanes() []string {
	return slices.DeleteFunc(f.Plan.Order(), func(n string) bool { return !f.Plan.Hosts[n].ControlPlane })
}

// before returns the hosts that have their turn before this one.
func (f Facts) before() []string {
	order := f.Plan.Order()
	return order[:max(slices.Index(order, f.Host), 0)]
}

func ready(s Seen) bool   { return s.Ready }
func heeds(s Seen) bool   { return s.Begun }
func kept(s Seen) bool    { return s.Stage.Since(Kept) && s.Lacks == "" && s.Ready }
func served(s Seen) bool  { return s.Stage.Since(Served) }
func whole(s Seen) bool   { return served(s) && s.Ready }
func shared(s Seen) bool  { return s.Shares == 2 }
func over(s Seen) bool    { return s.Stage == Over }
func settled(s Seen) bool { return over(s) && s.Ready && s.Both }
