package podmanetcd

import (
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Seen is what anybody can see of etcd on a host, without its daemon.
type Seen struct {
	// Foreign is true while kubelet runs etcd, before the hand-over.
	Foreign bool
	// Held is whether somebody holds etcd's data, Lives whether the process of
	// our container does, StandsIn whether a stand-in runs.
	Held, Lives, StandsIn state.Fact[bool]
}

// Nothing reports whether nothing of ours runs, for certain: what a stop has to
// bring about is so already.
func (s Seen) Nothing() bool {
	return state.Is(s.Lives, false) && state.Is(s.StandsIn, false) && (s.Foreign || state.Is(s.Held, false))
}

// runs reports whether etcd may be at work: then it is not ended because nobody
// can say how it is.
func (s Seen) runs() bool {
	return state.Is(s.Held, true) || !state.Is(s.Held, false) && state.Is(s.Lives, true)
}

// Overdue is how old a report may be before a monitor looks for itself. No round
// lasts so long that nothing hangs in.
const Overdue = 90 * time.Second

// Stale returns what a monitor says whose daemon has not looked for so long. A
// healthy etcd is not restarted because its keeper hangs, and one that nobody
// keeps is not well.
func Stale(age time.Duration, s Seen) (Code, string) {
	words := fmt.Sprintf("the daemon has not looked for %s; see: journalctl --unit podman-etcd", age.Round(time.Second))
	return unkept(words, s)
}

// Unanswered returns what a monitor says where the daemon does not answer.
// began is false where it never did so in this boot.
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
	return Generic, "nobody can tell whether etcd runs: " + words
}
