// Package updates decides how a host gets the updates of its distribution, which of
// them are left out, and whether the distribution wants a reboot.
//
// A unit of its own does what takes long, and remembers how far it is in a Record on
// the disk. The agent reads that, and starts the unit again where it was cut off.
package updates

import (
	"fmt"
	"slices"
	"strings"
)

// Phase is how far a unit is with what it was asked for.
type Phase string

// The phases.
const (
	// Fetching: packages come to the disk. Fetched: they are there, and nothing was
	// changed yet.
	Fetching Phase = "fetching"
	Fetched  Phase = "fetched"
	// Installing: packages change. Installed: nothing is left to do.
	Installing Phase = "installing"
	Installed  Phase = "installed"
	Failed     Phase = "failed"
	// Staged: all else is installed, and what etcd runs on is on the disk and changes at
	// the next boot that the agent orders. Changing: it changes, before Corosync starts.
	Staged   Phase = "staged"
	Changing Phase = "changing"
)

// Request is what the agent asks of the unit.
type Request struct {
	// Wish is the wish of a person that it serves.
	Wish string `json:"wish"`
	// Install is false while packages are to be fetched alone.
	Install bool `json:"install,omitempty"`
	// Stack is true if what etcd runs on is wanted too, and AtBoot once the host is to
	// boot for it. Boot is the boot in which that was ordered; an earlier release leaves
	// it out.
	Stack  bool   `json:"stack,omitempty"`
	AtBoot bool   `json:"atBoot,omitempty"`
	Boot   string `json:"boot,omitempty"`
}

// Record is what the unit remembers. It is written before each phase begins.
type Record struct {
	Wish  string `json:"wish"`
	Phase Phase  `json:"phase"`
	// Boot is the boot in which the phase began.
	Boot string `json:"boot"`
	// Tries counts how often the phase began.
	Tries int `json:"tries,omitempty"`
	// Updates are the packages that get or got another version. Held are those that
	// have one and are left out.
	Updates []string `json:"updates,omitempty"`
	Held    []string `json:"held,omitempty"`
	// Stack are the packages below etcd that change or changed at a boot, each as
	// NAME=VERSION.
	Stack []string `json:"stack,omitempty"`
	// Interrupted is true if somebody's installation was cut off before, so that
	// nothing can be fetched until that is completed.
	Interrupted bool `json:"interrupted,omitempty"`
	// Error is why the phase is Failed.
	Error string `json:"error,omitempty"`
}

// MaxTries is how often a phase begins at most. Who is cut off that often is cut off by
// what it does.
const MaxTries = 3

// Begin returns the record of a phase that begins now, once more if it did before.
func (r Record) Begin(wish string, p Phase, boot string) Record {
	next := Record{Wish: wish, Phase: p, Boot: boot, Tries: 1}
	if r.Wish != wish {
		return next
	}
	next.Updates, next.Held, next.Stack, next.Interrupted = r.Updates, r.Held, r.Stack, r.Interrupted
	if r.Phase == p {
		next.Tries += r.Tries
	}
	return next
}

// Stage is what the agent of a host makes of a record.
type Stage string

// The stages.
const (
	// Nothing: packages are to be fetched.
	Nothing Stage = ""
	// Busy: the unit runs.
	Busy Stage = "busy"
	// Ready: packages can be installed, also those of a run that was cut off.
	Ready Stage = "ready"
	// Over: nothing is left to install.
	Over Stage = "over"
	// Broken: it failed.
	Broken Stage = "broken"
)

// Unit is the unit that works on a request.
const Unit = "holdfast-patch.service"

// StageOf returns how far a host is with a wish, and what it does or why it failed.
// runs says whether the unit runs. starts is how often this process has started it
// since the record changed: one that cannot write its record leaves no other trace.
func StageOf(r Record, wish string, runs bool, starts int) (Stage, string) {
	begun := r.Phase == Fetching || r.Phase == Installing
	switch {
	case runs && r.Phase == Installing:
		return Busy, "installs " + r.what()
	case runs:
		return Busy, "fetches the updates of its distribution"
	case r.Wish == wish && r.Phase == Failed:
		return Broken, r.Error
	case starts >= MaxTries, r.Wish == wish && begun && r.Tries >= MaxTries:
		return Broken, fmt.Sprintf("%s ended %d times without a result; its journal says why", Unit, MaxTries)
	case r.Wish != wish, r.Phase == Fetching:
		return Nothing, ""
	case r.Phase == Installed:
		return Over, ""
	default:
		return Ready, ""
	}
}

// Result says in one line what became of a wish.
func (r Record) Result() string {
	var parts []string
	if len(r.Updates) > 0 || r.Interrupted {
		parts = append(parts, "installed "+r.what())
	}
	if len(r.Stack) > 0 {
		parts = append(parts, "changed what etcd runs on, at its boot: "+few(r.Stack))
	}
	out := "there was nothing to install"
	if len(parts) > 0 {
		out = strings.Join(parts, "; ")
	}
	if len(r.Held) > 0 {
		out += "; left out, because etcd runs on them or the release brings them: " + few(r.Held)
	}
	return out
}

func (r Record) what() string {
	switch {
	case len(r.Updates) == 0:
		return "what an earlier installation has left"
	case len(r.Updates) == 1:
		return "1 update: " + r.Updates[0]
	default:
		return fmt.Sprintf("%d updates: %s", len(r.Updates), few(r.Updates))
	}
}

// few names some packages of a list.
func few(names []string) string {
	const most = 12
	if more := len(names) - most; more > 0 {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
