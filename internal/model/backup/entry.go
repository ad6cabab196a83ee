package backup

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Format is the number of the form of entries and archives that this build writes. A
// reader refuses a greater one.
const Format = 1

// Entry is what the catalogue says of one backup. It lies beside the file, on the host and
// at each target, and holds no secret. The catalogue is in no API: a restored site would
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
	// Missing lists host files that a restore can use and that this host did not have.
	Missing []string `json:"missing,omitempty"`

	Checks []Check `json:"checks"`
	// Good is true if every check passed. It says nothing about targets.
	Good   bool   `json:"good"`
	Copies []Copy `json:"copies,omitempty"`
}

// Release is what the host ran.
type Release struct {
	Digest     string `json:"digest,omitempty"`
	Version    string `json:"version,omitempty"`
	Kubernetes string `json:"kubernetes,omitempty"`
	Etcd       string `json:"etcd,omitempty"`
}

// Database is what the snapshot is of.
type Database struct {
	Cluster state.MemberID `json:"cluster"`
	Member  state.MemberID `json:"member"`
	// Revision is the latest one in the snapshot. A linearizable read right before it
	// saw Read, which is not greater.
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
	// Size is that of the snapshot in bytes.
	Size int64 `json:"size"`
	// Alarms are those of etcd then, in its words. A restore disarms them.
	Alarms []string `json:"alarms,omitempty"`
}

// Authority is one that signs for the site, by the SHA-256 of its certificate or key.
type Authority struct {
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
}

// File is a file by its contents.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Check is one comparison.
type Check struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
	OK   bool      `json:"ok"`
	// Says has the figures, or why it failed.
	Says string `json:"says,omitempty"`
	// Again is true for one that failed because something else changed meanwhile: the
	// next try may well pass.
	Again bool `json:"again,omitempty"`
}

// Copy is the backup at a target.
type Copy struct {
	Target string `json:"target"`
	// File is what was sent: the encrypted archive.
	File File `json:"file,omitzero"`
	// Recipients are the public keys of those who can open it.
	Recipients []string  `json:"recipients,omitempty"`
	Sent       time.Time `json:"sent,omitzero"`
	// Verified is when it was read back and compared; zero if it was not.
	Verified time.Time `json:"verified,omitzero"`
	// Failed is why the last try ended without that, and Tried when.
	Failed string    `json:"failed,omitempty"`
	Tried  time.Time `json:"tried,omitzero"`
}

// Has reports whether a target holds the backup, read back and compared.
func (e Entry) Has(target string) bool {
	return slices.ContainsFunc(e.Copies, func(c Copy) bool { return c.Target == target && !c.Verified.IsZero() })
}

// WithCopy returns the entry with one copy more, or with a newer word about it.
func (e Entry) WithCopy(c Copy) Entry {
	copies := slices.DeleteFunc(slices.Clone(e.Copies), func(o Copy) bool { return o.Target == c.Target })
	e.Copies = append(copies, c)
	return e
}

// Judge returns the entry with Good as its checks say. No checks are no proof.
func (e Entry) Judge() Entry {
	e.Good = len(e.Checks) > 0 && !slices.ContainsFunc(e.Checks, func(c Check) bool { return !c.OK })
	return e
}

// Why says which check failed, empty if none did.
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

// Encode writes an entry.
func (e Entry) Encode() ([]byte, error) {
	out, err := json.MarshalIndent(e, "", "  ")
	return append(out, '\n'), err
}

// DecodeEntry reads an entry. It skips fields that it does not know. An entry that says of
// itself that it is good without a check that says so is not.
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
