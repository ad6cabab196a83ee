// Package deleted decides what is done about files and a cluster configuration that
// somebody deleted on a host: which files the agent puts back, and what a person is
// told, with the command. A file is put back only if the agent has the same bytes,
// nobody is likely to have removed it on purpose, and it was not put back too often.
package deleted

import (
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Input has the facts about a host.
type Input struct {
	Now time.Time
	// Host is this host's name, Peer that of another control plane, empty if there is none.
	Host, Peer string
	// Files are the files that the host should have.
	Files []File
	// Leave lists paths that an administrator removed on purpose.
	Leave []string
	// Pair has the facts about two hosts under Pacemaker; nil on any other host, and
	// before their set-up.
	Pair *Pair
	// Etcd has the facts about etcd of three control planes or more; nil on any other host.
	Etcd *Etcd
}

// File is one file that the host should have.
type File struct {
	Spec

	// There is true if something has the name of the file, and Empty if that has no content: an empty
	// file, as a power cut leaves one, or an empty folder. containerd makes such a folder if a container
	// starts while a file is gone that it mounts.
	There, Empty bool
	// Kept is true if the agent has a copy of it.
	Kept bool
	// Gone is the time for which it has been missing.
	Gone time.Duration
	// Put lists the last times at which the agent put it back, in order.
	Put []time.Time
}

// Missing reports whether the host lacks the file. Without content it is missing, too; but for a file
// that makes the host one of the cluster: who takes a host apart removes that.
func (f File) Missing() bool { return !f.There || f.Empty && !f.Identity }

// Verdict is the decision.
type Verdict struct {
	// Put lists the files to put back.
	Put []string
	// Lost describes what is missing and not put back, for a person.
	Lost []state.Deleted
}

// The bounds for putting files back.
const (
	// Settles is the time for which a file may be missing: an editor or a program that
	// replaces a file removes it for a moment.
	Settles = 5 * time.Second
	// Most is how often one file is put back Within a time. After that it is only told.
	Most   = 3
	Within = 10 * time.Minute
)

// LeavePath is the file in which an administrator lists the paths that stay away, one in a
// line.
const LeavePath = "/etc/holdfast/leave-deleted"

// KeptDir is the folder with the agent's copies. Each has the path of its original below it.
const KeptDir = "/etc/holdfast/kept"

// Decide decides about everything that is missing.
func Decide(in Input) Verdict {
	var v Verdict
	apart := in.takenApart()
	for _, f := range in.Files {
		if !f.Missing() || f.Gone < Settles || slices.Contains(in.Leave, f.Path) || f.Optional && !f.Kept {
			continue
		}
		switch {
		case apart != "":
			continue // told once, below
		case f.Back && f.Kept && len(Lately(f.Put, in.Now)) < Most:
			v.Put = append(v.Put, f.Path)
		default:
			v.Lost = append(v.Lost, f.lost(in))
		}
	}
	if apart != "" {
		v.Lost = append(v.Lost, state.Deleted{
			What: apart, Problem: apart + " is gone", Meaning: "Somebody takes this host apart, as kubeadm reset does, so nothing is put back by itself. If the host should stay in the cluster, install it anew.",
		})
	}
	if in.Pair != nil {
		v.Lost = append(v.Lost, in.Pair.lost(in)...)
	}
	if in.Etcd != nil && apart == "" {
		v.Lost = append(v.Lost, in.Etcd.lost()...)
	}
	return v
}

// takenApart returns a missing file without which the host is in no cluster, so that a
// person seems to take the whole host out; empty if none is missing.
func (in Input) takenApart() string {
	for _, f := range in.Files {
		if f.Identity && f.Missing() && f.Gone >= Settles && !slices.Contains(in.Leave, f.Path) {
			return f.Path
		}
	}
	return ""
}

// Lately returns the times that are not older than Within.
func Lately(put []time.Time, now time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(put), func(t time.Time) bool { return now.Sub(t) >= Within })
}

// lost describes a file that is not put back.
func (f File) lost(in Input) state.Deleted {
	out := state.Deleted{What: f.Path, Problem: f.Path + " is gone", Meaning: f.Matters}
	if f.Empty {
		out.Problem = f.Path + " is empty"
	}
	switch {
	case f.Back && f.Kept:
		out.Meaning += " It was put back and deleted again several times within ten minutes: find what deletes it, then put it back, or list it in " + LeavePath + "."
		out.Command = "sudo cp -p " + KeptDir + f.Path + " " + f.Path
	case f.Common && in.Peer != "":
		out.Command = "ssh " + in.Peer + " sudo cat " + f.Path + " | sudo install -m 0600 /dev/stdin " + f.Path
	case f.Common:
		out.Meaning += " No other host has it: take it from a backup."
	case f.Command != "":
		out.Command = f.Command
	default:
		out.Meaning += " The agent has no copy of it: take it from a backup, or install the host anew."
	}
	return out
}
