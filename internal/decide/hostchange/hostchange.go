// Package hostchange compares two configurations of a host and decides what the
// step from one to the other needs: nothing, that a unit is told or restarted, or
// a drain and a reboot.
//
// After the step a host shall be as if it had booted with the new configuration.
// Where that is not known to be so without a reboot, it needs one.
package hostchange

import (
	"cmp"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/ignition"
)

// Kind says what changes.
type Kind string

// The kinds of changes.
const (
	File            Kind = "file"
	Unit            Kind = "unit"
	Keys            Kind = "keys"
	KernelArguments Kind = "kernel arguments"
)

// Verb says how it changes.
type Verb string

// The verbs.
const (
	Added   Verb = "added"
	Changed Verb = "changed"
	Removed Verb = "removed"
)

// Change is one difference of two configurations.
type Change struct {
	Kind Kind `json:"kind"`
	// Name is a path, the name of a unit or of an account; kernel arguments have
	// none.
	Name string `json:"name,omitempty"`
	Verb Verb   `json:"verb"`
	// Parts lists what of it is different, where both have it.
	Parts []string `json:"parts,omitempty"`
	// Rule is the row of the table that decides what the change needs.
	Rule  string   `json:"rule"`
	Needs []Action `json:"needs,omitempty"`

	// before and after are the contents of a file.
	before, after []byte
	// was and is are a unit; nil where a configuration lacks it.
	was, is *types.Unit
}

// Do is what is done: an order of systemctl, or one of the two others.
type Do string

// The orders.
const (
	// Drain moves the pods of the host to others.
	Drain Do = "drain"
	// Stop stops a unit, before its files change.
	Stop         Do = "stop"
	DaemonReload Do = "daemon-reload"
	// TryReload has a unit that runs read its files again, or restarts it if it
	// cannot.
	TryReload Do = "try-reload-or-restart"
	// TryRestart restarts a unit that runs.
	TryRestart Do = "try-restart"
	Restart    Do = "restart"
	// Reboot boots the host, after a drain.
	Reboot Do = "reboot"
)

// order is the order in which a host does things.
var order = []Do{Drain, Stop, DaemonReload, TryReload, TryRestart, Restart, Reboot}

// Action is one thing to do.
type Action struct {
	Do Do `json:"do"`
	// Unit is empty where no single unit is meant.
	Unit string `json:"unit,omitempty"`
}

func (a Action) String() string { return strings.TrimSpace(string(a.Do) + " " + a.Unit) }

// Plan is what the step from one configuration to another is.
type Plan struct {
	Changes []Change `json:"changes"`
	// Before is done before the first file changes, After when all have changed.
	Before []Action `json:"before,omitempty"`
	After  []Action `json:"after,omitempty"`
}

// Compare returns the step from one configuration to another by a table.
func Compare(from, to machineconfig.Config, table []Row) Plan {
	changes := slices.Concat(
		kernelArguments(from.KernelArguments, to.KernelArguments),
		files(from.Ignition.Storage.Files, to.Ignition.Storage.Files),
		units(from.Ignition.Systemd.Units, to.Ignition.Systemd.Units),
		keys(from.Ignition.Passwd.Users, to.Ignition.Passwd.Users),
	)
	p := Plan{Changes: changes}
	var all []Action
	for i := range p.Changes {
		c := &p.Changes[i]
		row := find(table, *c)
		c.Rule, c.Needs = row.Rule, row.actions(*c)
		all = append(all, c.Needs...)
	}
	p.Before, p.After = sequence(all)
	return p
}

// sequence puts actions into their order, each once. A reboot takes the place of
// all others, and the host is drained before it.
func sequence(all []Action) (before, after []Action) {
	if slices.Contains(all, Action{Do: Reboot}) {
		return []Action{{Do: Drain}}, []Action{{Do: Reboot}}
	}
	slices.SortStableFunc(all, func(a, b Action) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Do), slices.Index(order, b.Do)), cmp.Compare(turn(a.Unit), turn(b.Unit)), cmp.Compare(a.Unit, b.Unit))
	})
	all = slices.Compact(all)
	i := slices.IndexFunc(all, func(a Action) bool { return a.Do != Drain && a.Do != Stop })
	if i < 0 {
		i = len(all)
	}
	return all[:i:i], all[i:]
}

// turn puts a unit first that makes what others read when they start.
func turn(unit string) int {
	if unit == trustUnit {
		return 0
	}
	return 1
}

// Reboots reports whether a step boots the host.
func (p Plan) Reboots() bool { return slices.Contains(p.After, Action{Do: Reboot}) }

// Drains reports whether a step moves the host's pods away.
func (p Plan) Drains() bool { return slices.Contains(p.Before, Action{Do: Drain}) }

// Quiet reports whether nothing has to be done after the files are written.
func (p Plan) Quiet() bool { return len(p.Before) == 0 && len(p.After) == 0 }

func kernelArguments(from, to []string) []Change {
	if slices.Equal(from, to) {
		return nil
	}
	c := Change{Kind: KernelArguments, Verb: Changed}
	for _, a := range from {
		if !slices.Contains(to, a) {
			c.Parts = append(c.Parts, "without "+a)
		}
	}
	for _, a := range to {
		if !slices.Contains(from, a) {
			c.Parts = append(c.Parts, "with "+a)
		}
	}
	if len(c.Parts) == 0 {
		c.Parts = []string{"order"}
	}
	return []Change{c}
}

// pair is what two configurations have of one name. What one of them lacks is nil.
type pair[T any] struct {
	name     string
	old, now *T
}

// pairs compares two lists that are sorted by name.
func pairs[T any](from, to []T, name func(T) string) []pair[T] {
	var out []pair[T]
	for len(from)+len(to) > 0 {
		var p pair[T]
		hasOld := len(to) == 0 || len(from) > 0 && name(from[0]) <= name(to[0])
		hasNow := len(from) == 0 || len(to) > 0 && name(to[0]) <= name(from[0])
		if hasOld {
			p.name, p.old, from = name(from[0]), &from[0], from[1:]
		}
		if hasNow {
			p.name, p.now, to = name(to[0]), &to[0], to[1:]
		}
		out = append(out, p)
	}
	return out
}

func (p pair[T]) verb() Verb {
	switch {
	case p.old == nil:
		return Added
	case p.now == nil:
		return Removed
	default:
		return Changed
	}
}

// contents returns the bytes of a file of a merged configuration, which carries
// them in itself.
func contents(f *types.File) []byte {
	if f == nil {
		return nil
	}
	data, err := ignition.Contents(f.Contents)
	if err != nil {
		return nil // machineconfig has read them
	}
	return data
}
