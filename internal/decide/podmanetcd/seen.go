package podmanetcd

import (
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Seen holds what any program can observe of etcd on a host, without the etcd
// keeper.
type Seen struct {
	// Foreign is true while kubelet runs etcd, before the hand-over.
	Foreign bool
	// Held is true if a process holds etcd's data, Lives if the process of our
	// container lives, StandsIn if a stand-in runs.
	Held, Lives, StandsIn state.Fact[bool]
}

// Nothing reports whether certainly nothing of ours runs: a stop has nothing
// left to do.
func (s Seen) Nothing() bool {
	return state.Is(s.Lives, false) && state.Is(s.StandsIn, false) && (s.Foreign || state.Is(s.Held, false))
}

// runs reports whether etcd may be at work. Then it is not ended only because
// nobody can tell its state.
func (s Seen) runs() bool {
	return state.Is(s.Held, true) || !state.Is(s.Held, false) && state.Is(s.Lives, true)
}

// Overdue is the age of a report from which a monitor looks for itself. No round
// of the etcd keeper takes so long unless something hangs.
const Overdue = 90 * time.Second

// Stale returns the result of a monitor whose etcd keeper has made no round for
// that long. A healthy etcd is not restarted because its keeper hangs; one that
// is down, or may be, is reported as a failure.
func Stale(age time.Duration, s Seen) (Code, string) {
	words := fmt.Sprintf("the etcd keeper has completed no round for %s; see: journalctl --unit podman-etcd", age.Round(time.Second))
	return unkept(words, s)
}

// Unanswered returns the result of a monitor whose etcd keeper does not answer.
// began is false if it never answered in this boot.
func Unanswered(why string, began bool, s Seen) (Code, string) {
	if !began && s.Nothing() {
		return NotRunning, ""
	}
	return unkept(why, s)
}

func unkept(words string, s Seen) (Code, string) {
	switch {
	case s.runs():
		return Success, words + " (etcd runs)"
	case state.Is(s.Held, false):
		return Generic, "etcd is down: " + words
	}
	return Generic, "unknown whether etcd runs: " + words
}
