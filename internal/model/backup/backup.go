// Package backup has the types of backups of a control plane: the request for one, the state
// of the child that takes it, the entry of the catalogue beside each file, the configuration of
// a site, and the rule for which backups may be removed.
//
// A backup is one file of one host and one moment. Each control plane takes its own, keeps it
// below Dir and sends it to targets under its own prefix. So two hosts never write to one
// place, and need no channel between them. Each backup has a folder of its own, which appears
// by one rename when the backup is complete:
//
//	/var/lib/holdfast/backups/ID/ID.tar      the archive
//	/var/lib/holdfast/backups/ID/entry.json  the Entry
package backup

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Places on a host. Files in Dir are not encrypted, and only root reads them: the same disk
// has the same keys anyway.
const (
	Dir = "/var/lib/holdfast/backups"
	// RunDir is gone after a boot. The agent writes the request there, which holds
	// credentials, with mode 0600; the child writes the state.
	RunDir      = "/run/holdfast/backup"
	RequestPath = RunDir + "/request.yaml"
	StatePath   = RunDir + "/state.json"
	EntryName   = "entry.json"
)

// Suffixes of an archive on its host, and of the files at a target.
const (
	ArchiveSuffix = ".tar"
	SentSuffix    = ".tar.age"
	// SentEntrySuffix is that of the entry. An entry holds no secret.
	SentEntrySuffix = ".json"
	// HalfSuffix ends the name of a file that is being written.
	HalfSuffix = ".part"
)

// idTime is the form of the time in an id, in UTC, so that ids of one host sort by time.
const idTime = "20060102T150405Z"

// NewID returns the id of a backup that a host begins at a time.
func NewID(host string, at time.Time) string { return at.UTC().Format(idTime) + "-" + host }

var idForm = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}Z-[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// ValidID reports whether a text can be the id of a backup. An id is the name of a folder.
func ValidID(id string) bool {
	if !idForm.MatchString(id) || strings.Contains(id, "..") {
		return false
	}
	_, err := time.Parse(idTime, id[:len(idTime)])
	return err == nil
}

// BegunBefore reports whether a backup of an id was begun before a moment.
func BegunBefore(id string, moment time.Time) bool {
	begun, err := time.Parse(idTime, id[:min(len(id), len(idTime))])
	return err == nil && begun.Before(moment)
}

// ArchiveName returns the name of the archive in the folder of a backup.
func ArchiveName(id string) string { return id + ArchiveSuffix }

// SentName returns the name of the archive of a backup at a target, below the target's own
// path or prefix.
func SentName(site, host, id string) string { return path.Join(site, host, id+SentSuffix) }

// SentEntryName returns the name of its entry there.
func SentEntryName(site, host, id string) string { return path.Join(site, host, id+SentEntrySuffix) }

// Reasons for which Holdfast itself takes backups. Other reasons are a person's words.
const (
	BySchedule    = "schedule"
	ByPerson      = "person"
	BeforeUpgrade = "before-upgrade"
	BeforeCommit  = "before-commit"
	BeforeReplace = "before-replace"
	OfStopped     = "stopped-etcd" // of an etcd that serves nobody
)

// Phase is a phase of the work on a request.
type Phase string

// The phases, in their order.
const (
	PhaseLook     Phase = "look"     // asks etcd, counts the free space, removes the rest of an earlier run
	PhaseSnapshot Phase = "snapshot" // reads the database from etcd
	PhaseRestore  Phase = "restore"  // restores it into an empty folder, and compares it with etcd
	PhasePack     Phase = "pack"     // writes the archive
	PhaseReread   Phase = "reread"   // reads the archive again, and compares each member
	PhaseEncrypt  Phase = "encrypt"
	PhaseSend     Phase = "send"
	PhaseRemove   Phase = "remove" // removes backups that the request names
	PhaseDone     Phase = "done"
)

// pastEtcd are the phases after the last question to etcd.
var pastEtcd = []Phase{PhasePack, PhaseReread, PhaseEncrypt, PhaseSend, PhaseRemove, PhaseDone}

// PastEtcd reports whether the work needs etcd no more. A state that has ended may be of other work
// than the one that goes on.
func (s State) PastEtcd() bool { return !s.Ended && slices.Contains(pastEtcd, s.Phase) }

// words describes each phase for people.
var words = map[Phase]string{
	PhaseLook: "looks at etcd and at the free space", PhaseSnapshot: "reads the database from etcd",
	PhaseRestore: "restores the snapshot into an empty folder and compares it with etcd", PhasePack: "writes the archive", PhaseReread: "reads the archive again",
	PhaseEncrypt: "encrypts the archive", PhaseSend: "sends the archive", PhaseRemove: "removes backups that are not kept any more", PhaseDone: "is done",
}

// Words describes a phase for people.
func (p Phase) Words() string {
	if w, known := words[p]; known {
		return w
	}
	return string(p)
}

// State is the state of the work on a request. The child writes it, the agent reads it.
type State struct {
	// Request is the id of the request.
	Request string `json:"request"`
	Phase   Phase  `json:"phase"`
	// Target is the target to which the child sends, or from which it reads back.
	Target string `json:"target,omitempty"`
	// Done and Total are bytes of the phase; Total is zero while it is not known.
	Done    int64     `json:"done,omitempty"`
	Total   int64     `json:"total,omitempty"`
	Began   time.Time `json:"began"`
	Updated time.Time `json:"updated"`
	// Ended is true once the child has done everything that it could. If it stays false, the
	// child was cut off.
	Ended bool `json:"ended,omitempty"`
	// Good is true once a good backup lies on this host. Sending may still go on or fail.
	Good bool `json:"good,omitempty"`
	// Failed says why there is no good backup; NotSent says of targets why they have none.
	Failed  string   `json:"failed,omitempty"`
	NotSent []string `json:"notSent,omitempty"`
	// Left lists copies of removed backups that are still at a target, with the reason. An
	// account may be one that cannot remove; then the target's own rules do so.
	Left []string `json:"left,omitempty"`
}

// Words describes the state for people.
func (s State) Words() string {
	out := s.Phase.Words()
	if s.Target != "" {
		out += " to " + s.Target
	}
	if s.Total > 0 {
		out += fmt.Sprintf(" (%d of %d MiB)", s.Done>>20, s.Total>>20)
	}
	return out
}
