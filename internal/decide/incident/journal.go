package incident

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/state"
)

// Units are those whose journals tell what happened.
func Units() []string { return []string{etcdUnit, agentUnit} }

const (
	etcdUnit  = "podman-etcd.service"
	agentUnit = "holdfast-agent.service"
)

// Line is one line of a host's journal.
type Line struct {
	Unit, Message, Boot string
	At                  time.Time
	Up                  time.Duration
}

// reader makes a record of the parts of a line that it fits.
type reader struct {
	unit string
	line *regexp.Regexp
	read func(m []string, r *Record) bool
}

// readers are tried in this order; the first that fits a line reads it.
var readers = []reader{
	{etcdUnit, regexp.MustCompile(`^membership: (?:(unknown)|\[(.*)\], ring ([0-9a-f]+), quorate (true|false))$`), readMembers},
	{etcdUnit, regexp.MustCompile(`^record (\d+): ([a-z-]+), member [0-9a-f]+ \(([a-z-]+(?:\.[a-z-]+)?): (.*)\)$`), readRecorded},
	{etcdUnit, regexp.MustCompile(`^Pacemaker wants etcd (started|stopped)$`), func(m []string, r *Record) bool {
		r.Kind, r.Wish = Wished, state.EtcdWish(m[1])
		return true
	}},
	{etcdUnit, regexp.MustCompile(`^asks Pacemaker to fence (\S+)$`), func(m []string, r *Record) bool {
		r.Kind, r.Target = AsksFence, m[1]
		return true
	}},
	{etcdUnit, regexp.MustCompile(`^(.+): it is ended, and restarted with the same data$`), func(m []string, r *Record) bool {
		r.Kind, r.Why = Restarted, m[1]
		return true
	}},
	{etcdUnit, regexp.MustCompile(`^([a-z-]+(?:\.[a-z-]+)?): ([a-z-]+) \((.*)\)$`), func(m []string, r *Record) bool {
		r.Kind, r.Rule, r.Action, r.Why = Decides, m[1], state.EtcdAction(m[2]), m[3]
		return true
	}},
	{agentUnit, regexp.MustCompile(`^taint \S+ of node (\S+): (add|remove), (.*)$`), func(m []string, r *Record) bool {
		r.Kind, r.Target, r.Why = Tainted, m[1], m[3]
		if m[2] == "remove" {
			r.Kind = Untainted
		}
		return true
	}},
}

func readMembers(m []string, r *Record) bool {
	r.Kind = Members
	if m[1] != "" {
		return true
	}
	ring, err := strconv.ParseUint(m[3], 16, 64)
	r.Members, r.Ring, r.Quorate = strings.Fields(m[2]), ring, m[4] == "true"
	return err == nil
}

func readRecorded(m []string, r *Record) bool {
	seq, err := strconv.ParseUint(m[1], 10, 64)
	r.Kind, r.Seq, r.State, r.Rule, r.Why = Recorded, seq, state.EtcdState(m[2]), m[3], m[4]
	return err == nil
}

// FromJournal returns what a line of a host's journal tells, and whether it
// tells anything.
func FromJournal(host string, l Line) (Record, bool) {
	for _, by := range readers {
		if by.unit != l.Unit {
			continue
		}
		if m := by.line.FindStringSubmatch(l.Message); m != nil {
			r := Record{Host: host, Boot: l.Boot, Up: l.Up, At: l.At.UTC(), From: "journal of " + strings.TrimSuffix(l.Unit, ".service")}
			ok := by.read(m, &r)
			return r, ok
		}
	}
	return Record{}, false
}
