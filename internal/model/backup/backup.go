// Package backup holds what a backup of a control plane is: the request for one, how far
// it is, the entry of the catalogue that lies beside each file, what a site wants, and
// which backups may be taken away.
//
// A backup is one file of one host and one moment. Each control plane takes its own,
// keeps it below Dir and sends it to targets under its own prefix. So two hosts never
// write to one place, and need no channel between them. Each backup has a folder of its
// own, which appears at once when it is complete:
//
//	/var/lib/holdfast/backups/ID/ID.tar      the archive
//	/var/lib/holdfast/backups/ID/entry.json  the Entry
package backup

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"
)

// Places on a host. What lies in Dir is not encrypted and readable by root alone: the same
// disk has the same keys anyway.
const (
	Dir = "/var/lib/holdfast/backups"
	// RunDir goes with the boot. The agent writes the request, which holds credentials,
	// with mode 0600; the child writes the state.
	RunDir      = "/run/holdfast/backup"
	RequestPath = RunDir + "/request.yaml"
	StatePath   = RunDir + "/state.json"
	EntryName   = "entry.json"
)

// Suffixes of an archive as it lies on its host, and as it lies at a target.
const (
	ArchiveSuffix = ".tar"
	SentSuffix    = ".tar.age"
	// SentEntrySuffix is that of the entry beside it. An entry holds no secret.
	SentEntrySuffix = ".json"
)

// idTime is the form of the time in an id, in UTC: ids of one host sort by time.
const idTime = "20060102T150405Z"

// NewID names the backup of a host that is begun at a time.
func NewID(host string, at time.Time) string { return at.UTC().Format(idTime) + "-" + host }

var idForm = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}Z-[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// ValidID reports whether a text can be the id of a backup, and so the name of a folder.
func ValidID(id string) bool {
	if !idForm.MatchString(id) || strings.Contains(id, "..") {
		return false
	}
	_, err := time.Parse(idTime, id[:len(idTime)])
	return err == nil
}

// ArchiveName is the name of the archive below the folder of a backup.
func ArchiveName(id string) string { return id + ArchiveSuffix }

// SentName and SentEntryName are the names of the two files of a backup at a target,
// below the target's own path or prefix.
func SentName(site, host, id string) string { return path.Join(site, host, id+SentSuffix) }

// SentEntryName is the name of the entry there.
func SentEntryName(site, host, id string) string { return path.Join(site, host, id+SentEntrySuffix) }

// Reasons of backups that the product itself takes. Others are a person's words.
const (
	BySchedule    = "schedule"
	ByPerson      = "person"
	BeforeUpgrade = "before-upgrade"
	BeforeCommit  = "before-commit"
	BeforeReplace = "before-replace"
)

// Phase is what the child is at.
type Phase string

// The phases, in their order.
const (
	PhaseLook     Phase = "look"     // asks etcd, counts the free space, removes what an earlier run left
	PhaseSnapshot Phase = "snapshot" // reads the database from etcd
	PhaseRestore  Phase = "restore"  // restores it into an empty folder, and compares it with etcd
	PhasePack     Phase = "pack"     // writes the archive
	PhaseReread   Phase = "reread"   // reads the archive again, and compares each member
	PhaseEncrypt  Phase = "encrypt"
	PhaseSend     Phase = "send"
	PhaseRemove   Phase = "remove" // removes backups that the request names
	PhaseDone     Phase = "done"
)

// words say what a phase does, as a person reads it.
var words = map[Phase]string{
	PhaseLook: "looks at etcd and at the free space", PhaseSnapshot: "reads the database from etcd",
	PhaseRestore: "restores the snapshot into an empty folder and compares it with etcd", PhasePack: "writes the archive", PhaseReread: "reads the archive again",
	PhaseEncrypt: "encrypts the archive", PhaseSend: "sends the archive", PhaseRemove: "removes backups that are not kept any more", PhaseDone: "is done",
}

// Words say what a phase does.
func (p Phase) Words() string {
	if w, known := words[p]; known {
		return w
	}
	return string(p)
}

// State is how far the child is with a request. The child writes it, the agent reads it.
type State struct {
	// Request is the id of the request.
	Request string `json:"request"`
	Phase   Phase  `json:"phase"`
	// Target is the one that is written to or read back.
	Target string `json:"target,omitempty"`
	// Done and Total count bytes of the phase; Total is zero while it is not known.
	Done    int64     `json:"done,omitempty"`
	Total   int64     `json:"total,omitempty"`
	Began   time.Time `json:"began"`
	Updated time.Time `json:"updated"`
	// Ended is true once the child has done what it could. A child whose state never
	// says so was cut off.
	Ended bool `json:"ended,omitempty"`
	// Good is true once a good backup lies on this host; sending may still go on or fail.
	Good bool `json:"good,omitempty"`
	// Failed is why it ended without a good backup, and NotSent why a target has none.
	Failed  string   `json:"failed,omitempty"`
	NotSent []string `json:"notSent,omitempty"`
	// Left says which copies of removed backups are still at a target, and why: some
	// accounts may not remove, and then the target's own rules do.
	Left []string `json:"left,omitempty"`
}

// Words says how far the child is, as a person reads it.
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
