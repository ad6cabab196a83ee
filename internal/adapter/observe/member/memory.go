package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Memory keeps two facts of an observer in a file that lasts as long as the boot:
// when the peer last joined, and whether it was heard.
type Memory struct {
	path string
	m    memory
	// blind is true until the first look: nobody watched before it.
	blind bool
}

type memory struct {
	Boot    string        `json:"boot"`
	Ring    uint64        `json:"ring"`
	Contact bool          `json:"contact"`
	Joined  time.Duration `json:"joined"`
	// Unseen is true if Joined is only the time at which the peer may have
	// joined.
	Unseen bool `json:"unseen,omitempty"`
	// Together is the time since which the peer was in every membership.
	Together time.Duration `json:"together,omitempty"`
	Heard    string        `json:"heard,omitempty"`
	// Stalls counts how often the pair committed nothing until this host went
	// on alone; Stalled is the time of the last one.
	Stalls  int           `json:"stalls,omitempty"`
	Stalled time.Duration `json:"stalled,omitempty"`
}

// OpenMemory reads the memory of this boot and ignores that of another one.
func OpenMemory(path, boot string) (*Memory, error) {
	out := &Memory{path: path, m: memory{Boot: boot}, blind: true}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what was seen in this boot: %w", err)
	}
	var m memory
	if err := json.Unmarshal(data, &m); err == nil && m.Boot == boot {
		out.m = m
	}
	return out, nil
}

// Joined notes the present membership and returns when the peer last joined. If
// the peer may have joined and left again unseen, it counts as having joined
// now: an earlier fence proves nothing about it. Who reports a membership was seen to name the
// present one with the hosts of the former one first: the peer joins when it is listed.
func (m *Memory) Joined(boot string, ring uint64, contact bool, now time.Duration) (time.Duration, error) {
	if m.m.Boot == boot && m.m.Ring == ring && m.m.Contact == contact {
		m.blind = false
		return m.m.Joined, nil
	}
	next := m.m
	next.Boot, next.Ring, next.Contact = boot, ring, contact
	if !contact || m.m.Boot != boot || !m.m.Contact || !state.RingFollows(m.m.Ring, ring) {
		next.Together = now
	}
	// A host that is alone forms one membership after the other while packets
	// of its peer still come in, but the peer is in none of them.
	known := m.m.Ring != 0 && (m.m.Contact || !state.RingFollows(m.m.Ring, ring))
	if contact || known && (m.blind || !m.m.Contact) {
		next.Joined, next.Unseen = now, !contact
	}
	m.blind = false
	return next.Joined, m.write(next)
}

// Together returns the time since which the peer was in every observed
// membership. It is valid while the peer is in contact.
func (m *Memory) Together() time.Duration { return m.m.Together }

// Unseen reports whether Joined is only the time at which the peer may have
// joined.
func (m *Memory) Unseen() bool { return m.m.Unseen }

// Heard returns the boot in which the peer said that it had not gone on alone.
func (m *Memory) Heard() string { return m.m.Heard }

// Hear notes that the peer said so in this boot.
func (m *Memory) Hear(boot string) error {
	if m.m.Heard == boot {
		return nil
	}
	next := m.m
	next.Heard = boot
	return m.write(next)
}

// sameStall is the longest duration of one stall: calls within it count once.
// After forgetStalls without a stall the count begins anew.
const (
	sameStall    = 2 * time.Minute
	forgetStalls = 6 * time.Hour
)

// Stall notes that the pair committed nothing until this host went on alone.
func (m *Memory) Stall(now time.Duration) error {
	if m.m.Stalls > 0 && now-m.m.Stalled < sameStall {
		return nil
	}
	next := m.m
	if now-next.Stalled > forgetStalls {
		next.Stalls = 0
	}
	next.Stalls, next.Stalled = next.Stalls+1, now
	return m.write(next)
}

// Quarantine returns the time since boot until which a learner is not promoted;
// zero if nothing stalled.
func (m *Memory) Quarantine() time.Duration {
	if m.m.Stalls == 0 {
		return 0
	}
	return m.m.Stalled + etcdmember.Quarantine(m.m.Stalls)
}

// reserve is the file beside the memory that keeps room for it in /run. The other files
// of the keeper there use the same one.
const reserve = "reserve"

func (m *Memory) write(next memory) error {
	data, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := host.WriteFileReserved(m.path, filepath.Join(filepath.Dir(m.path), reserve), data, 0o600); err != nil {
		return fmt.Errorf("remember what was seen: %w", err)
	}
	m.m = next
	return nil
}
