// Package parachute decides what one host does on its way to another release, and
// when it returns to the old one by itself.
//
// The agent asks it to go forward. A unit of the old release, which the agent cannot
// touch, asks it at each boot and at a timer, and only ever goes back.
package parachute

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Step is how far a host is.
type Step string

// The steps. A host that is in one has done what the ones before demand.
const (
	// None: the host is on no way.
	None Step = ""
	// Prepare: its leadership of etcd and its VIPs go to other hosts.
	Prepare Step = "prepare"
	// Leave: its etcd leaves, in order, and its daemons are quiet.
	Leave Step = "leave"
	// Armed: the parachute runs, and the deadline is written.
	Armed Step = "armed"
	// Switched: the one switch leads to the new release, or is about to.
	Switched Step = "switched"
	// Started: the daemons of the new release start.
	Started Step = "started"
	// Proving: the new release shows that it is healthy.
	Proving Step = "proving"
	// Accepted: it has shown it. The timer is off.
	Accepted Step = "accepted"
	// Returning: the switch leads back to the old release, or is about to.
	Returning Step = "returning"
	// Returned: the old release is healthy again.
	Returned Step = "returned"
)

var all = []Step{None, Prepare, Leave, Armed, Switched, Started, Proving, Accepted, Returning, Returned}

// AtRest reports whether a host with this step may be left alone: it is on no way, or
// at an end of one.
func (s Step) AtRest() bool { return s == None || s == Accepted || s == Returned }

// Trying reports whether the host may run the new release, unproven.
func (s Step) Trying() bool {
	return slices.Contains([]Step{Armed, Switched, Started, Proving}, s)
}

// Journal is the durable state of one host. It is written, in the format of the old
// release, before each step.
type Journal struct {
	// Upgrade identifies the upgrade.
	Upgrade string `json:"upgrade,omitempty"`
	// From and To are the digests of the old and the new release.
	From string `json:"from"`
	To   string `json:"to"`
	Step Step   `json:"step"`
	// Since is when the step began. Deadline is when the host returns at the latest,
	// if it is not accepted by then.
	Since    time.Time `json:"since,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Switched is when the switch was thrown, or when the boot since then was counted; the limits of
	// the proof count from there.
	Switched time.Time `json:"switched,omitzero"`
	// Apart is since when Corosync had no other host, zero while it always had one. Joined is when it
	// had one again, zero until then. A release that does not know them leaves them out, and counts
	// that time.
	Apart  time.Time `json:"apart,omitzero"`
	Joined time.Time `json:"joined,omitzero"`
	// Attempts counts how often the host began the way of this upgrade. Boots counts the boots
	// since the switch, Boot is the last one that was seen.
	Attempts int    `json:"attempts,omitempty"`
	Boots    int    `json:"boots,omitempty"`
	Boot     string `json:"boot,omitempty"`
	// Empties is since when a host that is to return has its pods moved; zero while it has
	// not. A release that does not know it leaves it out, and the host returns at once.
	Empties time.Time `json:"empties,omitzero"`
	// Person is true if an administrator takes the host back. The parachute, which does not ask
	// the API, knows it from here. A release that does not know it leaves it out.
	Person bool `json:"person,omitempty"`
	// Back is that of the turn. It is all that is left of a rollback on a site whose hosts were all
	// replaced: none of them returned. A release that does not know it leaves it out.
	Back bool `json:"back,omitempty"`
	// Failed is true if the new release did not prove itself here. It is false if
	// the way was only cut off. Why is the reason of the return.
	Failed bool   `json:"failed,omitempty"`
	Why    string `json:"why,omitempty"`
	// Closed is true once this host knows that the way back is closed.
	Closed bool `json:"closed,omitempty"`
}

// format is the number of the journal's format. It never changes within one upgrade:
// it is the old release that returns.
const format = 1

// slot is how a journal lies on the disk.
type slot struct {
	Format int `json:"format"`
	// Number grows by one with each write; the two files take turns.
	Number  int             `json:"number"`
	Journal json.RawMessage `json:"journal"`
	Sum     string          `json:"sum"`
}

func sum(number int, journal []byte) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d %s", number, journal)))
}

// Encode returns the bytes of a journal for the file number%2. The number is one more
// than that of the journal that was read.
func Encode(j Journal, number int) []byte {
	inner, err := json.Marshal(j)
	if err != nil {
		return nil // the fields above can all be written
	}
	out, err := json.Marshal(slot{format, number, inner, sum(number, inner)})
	if err != nil {
		return nil
	}
	return out
}

// ErrUnreadable says that neither file has a whole journal.
var ErrUnreadable = errors.New("the journal of the upgrade cannot be read: neither of its two files is whole")

// Read returns the journal of the two files and its number. Nil stands for a file that
// is not there. A file that was torn does not count while the other one is whole;
// with neither file the host is on no way.
func Read(files [2][]byte) (Journal, int, error) {
	var out Journal
	number, read := -1, false
	for _, data := range files {
		var s slot
		var j Journal
		if json.Unmarshal(data, &s) != nil || s.Format != format || s.Sum != sum(s.Number, s.Journal) || json.Unmarshal(s.Journal, &j) != nil || !slices.Contains(all, j.Step) {
			continue
		}
		read = true
		if s.Number > number {
			out, number = j, s.Number
		}
	}
	if !read && (bytes.TrimSpace(files[0]) != nil || bytes.TrimSpace(files[1]) != nil) {
		return Journal{}, 0, ErrUnreadable
	}
	return out, max(number, 0), nil
}
