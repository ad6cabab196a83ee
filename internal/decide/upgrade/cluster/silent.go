package cluster

import (
	"fmt"
	"time"
)

// silence is for how long a host at work may say nothing before a person is told. Its agent says
// something at least every nine minutes, at each step, and no step after the switch lasts for five.
const silence = 15 * time.Minute

// silent reports whether the agent of a host at work has said nothing for too long, so that
// nobody there hears what the cluster wants.
func (s Site) silent(h Host) bool {
	return !h.Journal.Step.AtRest() && !h.Said.IsZero() && s.Now.Sub(h.Said) > silence && s.Now.After(h.Journal.Deadline)
}

// mute says what a person does about it. On the only control plane the parachute hears of a way
// back, too.
func (s Site) mute(h Host) string {
	out := fmt.Sprintf("%s has said nothing since %s, in the middle of its step (%s), although its node is there: its agent does not work. Mend it there (`systemctl status holdfast-agent`)", h.Name, h.Said.UTC().Format("15:04 MST"), h.Journal.Step)
	if s.Record.Returning || s.Record.NoWayBack {
		return out
	}
	return out + ", or go back: `holdfast upgrade rollback`"
}
