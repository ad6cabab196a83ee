package replace

import (
	"cmp"
	"time"

	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Self is what a host knows about its own place in the cluster, and what the cluster says of
// its name.
type Self struct {
	// Installed is true once the host's installation was complete: a newcomer of the name has
	// no place yet.
	Installed bool
	// MachineID is the machine id of the host's operating system.
	MachineID string
	// Etcd is true while etcd runs on this host.
	Etcd state.Fact[bool]
	// Entry is the cluster's entry about the name in its list of hosts that were taken out,
	// nil if there is none.
	Entry state.Fact[*retired.Host]
	// Node is the machine id that the Node of the name has, empty if there is no Node, or if
	// its kubelet has not told it yet.
	Node state.Fact[string]
	// Told is what the other control plane says by the plan on its disk (Plan.Ousts), empty
	// if it says nothing. It needs no API: a site whose new host has lost its packets to this
	// one may have none.
	Told string
	// Succeeded is what control planes of a later life of the site say (decide/life), empty if
	// none of them answers.
	Succeeded string
}

// Displaces reports whether a machine is not the one that the old host was. The same machine may be
// installed again after it lost its disks.
func (p Plan) Displaces(m state.Machine) bool {
	if was := p.Old.Machine; was.UUID != "" && m.UUID != "" {
		return !equalUUID(was.UUID, m.UUID)
	}
	return p.Old.Machine.Serial == "" || p.Old.Machine.Serial != m.Serial
}

// Lost reports whether the plan ended because the machine was lost that it had let in under the name.
func (p Plan) Lost(name string) bool { return p.Stage == Whole && p.Ended != "" && p.New.Name == name }

// Ousts says that the plan took a machine out of the place of a host; empty if it did not.
func (p Plan) Ousts(name string, m state.Machine) string {
	gone := p.Stage == Retired || p.Stage == Joining || p.Stage == Narrowing || p.Stage == Whole
	if !gone || p.Old.Name != name || m.UUID == "" || !equalUUID(p.Old.Machine.UUID, m.UUID) || equalUUID(p.Newcomer.Machine.UUID, m.UUID) {
		return ""
	}
	if p.Shrinks {
		return "the site goes on without " + name + " since " + p.Begun.UTC().Format(time.RFC3339) + ", by " + p.By
	}
	return "another machine takes the place of " + name + " since " + p.Begun.UTC().Format(time.RFC3339) + ", by " + p.By
}

// Ousted says that another machine has taken the place of this host, or will: it was
// retired as the lost control plane, and woke up; or the site was restored without it. It is empty if
// that is not so, or not known.
//
// A host that is ousted still has its addresses, and accounts that the API takes. So it takes the
// packets of the machine that has its address now, and its agent writes as that machine. Nobody
// but its own agent can end that. A host whose etcd runs is never ousted, whatever the
// list says: Overtaken tells of it.
func Ousted(s Self) string {
	if !s.Installed || s.MachineID == "" || !no(s.Etcd) {
		return ""
	}
	if s.Succeeded != "" { // the lists of that life know nothing of this host
		return s.Succeeded
	}
	if state.Is(s.Node, s.MachineID) {
		return ""
	}
	if s.Told != "" {
		return s.Told
	}
	if !s.Entry.Known || !s.Node.Known || s.Entry.Value == nil {
		return ""
	}
	entry := *s.Entry.Value
	switch {
	case !entry.ControlPlane:
		return ""
	case s.Node.Value != "":
		return "another machine is " + entry.Name + " now: this one was " + entry.String()
	case entry.Open() && entry.Machine == s.MachineID:
		return "another machine is to be " + entry.Name + ": this one was " + entry.String()
	}
	return ""
}

// Overtaken says that another machine has taken the place of this host although etcd runs here:
// a person confirmed there before the host could learn of it, or the restored site did not answer
// while the host booted. Then there are two clusters, and only a person can choose between them. The
// API is not asked: it may be this host's own.
func Overtaken(s Self) string {
	if !s.Installed || !state.Is(s.Etcd, true) {
		return ""
	}
	return cmp.Or(s.Told, s.Succeeded)
}
