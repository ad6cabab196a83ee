package removal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// A lost control plane of three is replaced as a worker is, and before that its member leaves etcd.
// Two of three voters are a majority, so they may do that; from then on both of them are needed, until
// the new host votes.

// three is the number of control planes of which one can be lost without a stop.
const three = 3

// Plane has the facts about a control plane of three that is to be replaced.
type Plane struct {
	// Here is the name of the host on which the command runs.
	Here string
	// Members are the members of etcd, as the etcd of this host lists them.
	Members state.Fact[[]state.EtcdMember]
	// Votes holds the names of the hosts whose etcd serves as a voter now.
	Votes []string
	// Typed is the serial number of the old machine, or its UUID if it has none, that a person typed who
	// says that it has no power.
	Typed string
	// Work says what else changes the control planes; empty for nothing.
	Work state.Fact[string]
	// Upgrade says why an upgrade of the site holds the removal; empty if it does not.
	Upgrade string
	// Backup says why no backup is good enough, empty if one is.
	Backup string
}

// OneOfThree reports whether the host is one of three control planes, or was the one that was taken
// out.
func (f Facts) OneOfThree() bool {
	number, one := f.planes()
	return one && (f.ControlPlanes == three || f.ControlPlanes == 0 && number == three)
}

// ControlPlane reports whether the host is a control plane, or may be one whose Node was deleted.
func (f Facts) ControlPlane() bool {
	_, one := f.planes()
	return one
}

// Gone reports whether a person said that the machine of a control plane has no power: by its serial
// number or UUID (replace.MachineProblem) or, since those are known from its Node, in an earlier run that
// deleted the Node.
func (f Facts) Gone(typed string) bool {
	if f.Node == nil {
		h, listed := f.Retired.Value.Of(f.Name)
		return listed && h.Open() && h.Off
	}
	machine, told := f.machine()
	return told && typed != "" && replace.MachineProblem(typed, machine, f.Name) == ""
}

// BackupGate is the name of the gate that wants a young good backup.
const BackupGate = "backup"

// planeGates are those of a control plane of three, besides some of a worker.
var planeGates = []struct {
	name string
	shut func(Facts, Plane) (why, way string)
}{
	{"list", func(f Facts, _ Plane) (string, string) { return unreadable(f) }},
	{"upgrade", upgradeHolds},
	{"three", notThree},
	{"here", elsewhere},
	{"gone", notGone},
	{"lives", planeLives},
	{"etcd", membersDiffer},
	{"voters", votersAway},
	{"work", otherWork},
	{BackupGate, noBackup},
}

// PlaneGates returns all closed gates of a control plane of three.
func PlaneGates(f Facts, p Plane) []Gate {
	var out []Gate
	for _, g := range planeGates {
		if why, way := g.shut(f, p); why != "" {
			out = append(out, Gate{g.name, why, way})
		}
	}
	return out
}

// upgradeHolds asks the upgrade whether another control plane is on its way, and not whether it is
// over: it waits for the lost host.
func upgradeHolds(_ Facts, p Plane) (why, way string) {
	if p.Upgrade == "" {
		return "", ""
	}
	return p.Upgrade, "See: holdfast upgrade status. If it does not end: docs/runbook/upgrade.md#a-host-is-lost-for-good-in-the-middle"
}

func notThree(f Facts, _ Plane) (why, way string) {
	if len(f.planesThatStay()) == three-1 && f.ControlPlanes == three {
		return "", ""
	}
	return fmt.Sprintf("the control planes beside %s are %s, and of three exactly two must stay", f.Name, list(f.planesThatStay())), "See: holdfast host list"
}

// planesThatStay are the other control planes, by the names of their Nodes.
func (f Facts) planesThatStay() []string {
	var out []string
	for i := range f.Others {
		if controlPlane(&f.Others[i]) {
			out = append(out, f.Others[i].Name)
		}
	}
	slices.Sort(out)
	return out
}

func elsewhere(f Facts, p Plane) (why, way string) {
	if slices.Contains(f.planesThatStay(), p.Here) {
		return "", ""
	}
	return "this host, " + p.Here + ", is none of the control planes that stay", "Run the command as root on one of them: " + list(f.planesThatStay())
}

// notGone asks for a person's word. A site of three has no accounts of BMCs, and a silent host may
// still run.
func notGone(f Facts, p Plane) (why, way string) {
	machine, told := f.machine()
	switch {
	case f.Off:
		return "", ""
	case !told || machine.Serial+machine.UUID == "":
		return "the serial number of " + f.Name + " is not known, so nothing can be compared with the one that a person reads at the machine",
			"By hand: docs/runbook/hosts.md#a-control-plane-of-three"
	case p.Typed == "":
		return "nobody has said that " + f.Name + " has no power, and a silent host may still run",
			"Look at the machine, see that it has no power, and type its " + replace.Wanted(machine) + ": holdfast host replace " + f.Name + " --is-gone SERIAL"
	}
	return replace.MachineProblem(p.Typed, machine, f.Name), "Type: holdfast host replace " + f.Name + " --is-gone SERIAL"
}

func (f Facts) machine() (state.Machine, bool) {
	if f.Node == nil {
		return state.Machine{}, false
	}
	return state.ParseMachine(f.Node.Annotations[state.AnnotationMachine])
}

func planeLives(f Facts, p Plane) (why, way string) {
	why, way = lives(f)
	if why == "" && slices.Contains(p.Votes, f.Name) {
		why = f.Name + " is not off: its etcd answers"
	}
	if why != "" {
		way = "A control plane that runs is not replaced. Or switch it off, and wait a minute"
	}
	return why, way
}

func membersDiffer(f Facts, p Plane) (why, way string) {
	const see = "See: holdfast status"
	if !p.Members.Known {
		return "the members of etcd are not known: this host's etcd does not answer", see
	}
	var odd []string
	left := f.planesThatStay()
	_, marked := f.entry()
	for _, m := range p.Members.Value {
		switch {
		case m.Name == f.Name && (marked || !m.Learner):
		case m.Learner, !slices.Contains(left, m.Name):
			odd = append(odd, fmt.Sprintf("%q (%s)", m.Name, map[bool]string{true: "a learner", false: "a voter"}[m.Learner]))
		default:
			left = slices.DeleteFunc(left, func(name string) bool { return name == m.Name })
		}
	}
	switch {
	case len(odd) > 0:
		return "etcd has members that are none of the voters of this site: " + list(odd), "Remove a learner that nobody waits for, or wait until it votes. On a control plane: sudo " + etcdmember.ListCommand()
	case len(left) > 0:
		return "no voters of etcd: " + list(left), see
	}
	return "", ""
}

func votersAway(f Facts, p Plane) (why, way string) {
	away := slices.DeleteFunc(f.planesThatStay(), func(name string) bool { return slices.Contains(p.Votes, name) })
	if len(away) == 0 {
		return "", ""
	}
	return "etcd does not serve as a voter now on " + list(away) + ": without the member of " + f.Name + " both others are needed", "See: holdfast status"
}

func otherWork(_ Facts, p Plane) (why, way string) {
	switch {
	case !p.Work.Known:
		return "the API does not say whether another change of the control planes is under way", "See: holdfast status"
	case p.Work.Value != "":
		return p.Work.Value, "Let it end"
	}
	return "", ""
}

func noBackup(_ Facts, p Plane) (why, way string) {
	if p.Backup == "" {
		return "", ""
	}
	return p.Backup + ": a member of etcd is taken out", "holdfast backup now, or --without-backup"
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " and ")
}

// Leave takes the member of the host out of etcd. It comes before everything else: what follows has
// no way back, and by then the others must have agreed.
const Leave Action = "leave"

// PlaneNext returns the next step of a control plane of three. The caller asks the gates before each
// step. The entry is written after the member left, so a member of a name with an entry is that of the
// new machine, which is in etcd before it has a Node.
func PlaneNext(f Facts, p Plane) Step {
	if _, marked := f.entry(); marked {
		return Next(f)
	}
	for _, m := range p.Members.Value {
		if m.Name == f.Name {
			return Step{Action: Leave, Member: m.ID, Says: "takes the member of " + f.Name + " out of etcd: from here on both other control planes are needed"}
		}
	}
	return Next(f)
}

// PlaneSteps returns what a person reads first of a removal of a control plane.
func PlaneSteps(f Facts, p Plane) []string {
	if step := PlaneNext(f, p); step.Action == Leave {
		return []string{"take the member of " + f.Name + " out of etcd (its other two members vote): until the new host votes, the loss of one more control plane stops the site"}
	}
	return nil
}

// Joined reports whether the new host votes: three voters, it among them, and no learner.
func (p Plane) Joined(next string) bool {
	if !p.Members.Known || len(p.Members.Value) != three {
		return false
	}
	found := false
	for _, m := range p.Members.Value {
		if m.Learner {
			return false
		}
		found = found || m.Name == next
	}
	return found
}
