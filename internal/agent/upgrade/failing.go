package upgrade

import (
	"fmt"
	"strings"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
)

// failing is an act that failed: how often in a row, and why the last time.
type failing struct {
	act   parachute.Act
	times int
	why   string
}

// told is from how many failures in a row on people are told. One may be a matter of a moment.
const told = 2

// tried notes how an act ended.
func (a *Agent) tried(action parachute.Action, err error) {
	if err == nil || a.failing.act != action.Act {
		a.failing = failing{act: action.Act}
	}
	if err == nil {
		return
	}
	a.failing.times++
	a.failing.why = strings.ReplaceAll(err.Error(), "\n", "; ")
	if a.failing.times >= told {
		a.note(action.Journal, a.holding(action))
	}
}

// holding says what keeps the host where it is, empty for nothing.
func (a *Agent) holding(action parachute.Action) string {
	if action.Act == parachute.Hold {
		return action.Why
	}
	var out []string
	if action.Held != "" {
		out = append(out, action.Held)
	}
	if f := a.failing; f.act == action.Act && f.times >= told {
		out = append(out, fmt.Sprintf("%s has failed more than once, and is tried again: %s", f.act, f.why))
	}
	return strings.Join(out, "; ")
}
