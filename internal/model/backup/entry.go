package backup

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Format is the number of the form of entries and archives that this build writes. A
// reader refuses a greater number.
const Format = 1

// Entry is the catalogue's description of one backup. It lies beside the file, on the host and
// at each target, and holds no secret. It is not in the API, because a restored site would
// have forgotten its newest backups.
type Entry struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	Site   string `json:"site"`
	Host   string `json:"host"`
	Life   string `json:"life,omitempty"`
	// Taken is when the snapshot began, by the clock of the host.
	Taken  time.Time `json:"taken"`
	Reason string    `json:"reason"`

	Release     Release     `json:"release,omitzero"`
	Database    Database    `json:"database"`
	Authorities []Authority `json:"authorities,omitempty"`
	File        File        `json:"file"`
	// Missing lists files of the host that a restore can use and that the host did not have.
	Missing []string `json:"missing,omitempty"`

	Checks []Check `json:"checks"`
	// Good is true if every check passed. It says nothing about copies at targets.
	Good   bool   `json:"good"`
	Copies []Copy `json:"copies,omitempty"`
}

// Release names the release that the host ran.
type Release struct {
	Digest     string `json:"digest,omitempty"`
	Version    string `json:"version,omitempty"`
	Kubernetes string `json:"kubernetes,omitempty"`
	Etcd       string `json:"etcd,omitempty"`
}

// Database describes the database of the snapshot.
type Database struct {
	Cluster state.MemberID `json:"cluster"`
	Member  state.MemberID `json:"member"`
	// Revision is the latest revision in the snapshot. Read is the revision of a linearizable
	// read right before the snapshot, and is not greater.
	Revision int64 `json:"revision"`
	Read     int64 `json:"read"`
	// RaftIndex and RaftTerm are those of the member right before the snapshot.
	RaftIndex uint64 `json:"raftIndex"`
	RaftTerm  uint64 `json:"raftTerm"`
	// Hash is HashKV at HashRevision, of all keys above CompactRevision.
	Hash            uint32 `json:"hash"`
	HashRevision    int64  `json:"hashRevision"`
	CompactRevision int64  `json:"compactRevision"`
	Keys            int64  `json:"keys"`
	// Size is the size of the snapshot in bytes.
	Size int64 `json:"size"`
	// Alarms are the alarms of etcd at that time, in its words. A restore takes them back.
	Alarms []string `json:"alarms,omitempty"`
}

// Authority identifies an authority of the site by the SHA-256 of its certificate or key.
type Authority struct {
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
}

// File identifies a file by its size in bytes and its SHA-256.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Check is the result of one check.
type Check struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
	OK   bool      `json:"ok"`
	// Says has the figures or, if the check failed, the reason.
	Says string `json:"says,omitempty"`
	// Again is true for a check that failed because something else changed meanwhile, so that
	// the next try may pass.
	Again bool `json:"again,omitempty"`
}

// Copy is the copy of a backup at a target.
type Copy struct {
	Target string `json:"target"`
	// File identifies the encrypted archive that was sent.
	File File `json:"file,omitzero"`
	// Recipients are the public keys of those who can open it.
	Recipients []string  `json:"recipients,omitempty"`
	Sent       time.Time `json:"sent,omitzero"`
	// Verified is the time at which it was read back and compared; zero if it was not.
	Verified time.Time `json:"verified,omitzero"`
	// Failed is the error of the last try, empty if it succeeded; Tried is the time of that try.
	Failed string    `json:"failed,omitempty"`
	Tried  time.Time `json:"tried,omitzero"`
}

// Has reports whether a target has a copy of the backup that was read back and compared.
func (e Entry) Has(target string) bool {
	return slices.ContainsFunc(e.Copies, func(c Copy) bool { return c.Target == target && !c.Verified.IsZero() })
}

// WithCopy returns the entry with a copy that it did not have, or with a newer result for one.
func (e Entry) WithCopy(c Copy) Entry {
	copies := slices.DeleteFunc(slices.Clone(e.Copies), func(o Copy) bool { return o.Target == c.Target })
	e.Copies = append(copies, c)
	return e
}

// Judge returns the entry with Good set by its checks. Without checks it is not good.
func (e Entry) Judge() Entry {
	e.Good = len(e.Checks) > 0 && !slices.ContainsFunc(e.Checks, func(c Check) bool { return !c.OK })
	return e
}

// Why returns the first check that failed and its reason; empty if all checks passed.
func (e Entry) Why() string {
	for _, c := range e.Checks {
		if !c.OK {
			return c.Name + ": " + c.Says
		}
	}
	if !e.Good {
		return "it was not checked"
	}
	return ""
}

// Again reports whether the first check that failed may pass in another try.
func (e Entry) Again() bool {
	for _, c := range e.Checks {
		if !c.OK {
			return c.Again
		}
	}
	return false
}

// maxAhead is how far the clock of one host may be ahead of another's.
const maxAhead = 5 * time.Minute

// Ahead reports whether a clock that was ahead wrote the time at which a backup was taken. Such a
// backup is as good as others, but nobody knows how old it is: it is never taken for the newest one.
func Ahead(taken, now time.Time) bool { return taken.Sub(now) > maxAhead }

// Encode encodes an entry.
func (e Entry) Encode() ([]byte, error) {
	out, err := json.MarshalIndent(e, "", "  ")
	return append(out, '\n'), err
}

// DecodeEntry decodes an entry. It ignores unknown fields. An entry that calls itself good counts
// as good only if all its checks passed.
func DecodeEntry(data []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(data, &e); err != nil {
		return Entry{}, fmt.Errorf("the entry of a backup is not readable: %w", err)
	}
	if e.Format < 1 || e.Format > Format {
		return Entry{}, fmt.Errorf("the entry of a backup has the format %d, and this build reads up to %d: read it with the release that wrote it", e.Format, Format)
	}
	if !ValidID(e.ID) {
		return Entry{}, fmt.Errorf("the entry of a backup has the id %q, which is none", e.ID)
	}
	if e.Good {
		e = e.Judge()
	}
	return e, nil
}
