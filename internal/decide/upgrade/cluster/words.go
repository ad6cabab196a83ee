package cluster

import (
	"cmp"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
)

// Describe returns what people are told of an upgrade that is under way: what each host
// runs, who returns by itself and when, and which releases can read the data. call
// gives the name of a release by its digest.
func Describe(s Site, call func(digest string) string) []string {
	if !s.Record.Started {
		return nil
	}
	var out []string
	for _, h := range s.Hosts {
		runs := "runs a release that is not known"
		if h.Running.Known {
			runs = "runs " + call(h.Running.Value)
		}
		out = append(out, h.Name+" "+runs+doing(h, s.Now)+".")
	}
	from, to := call(s.Record.From), call(s.Record.To)
	if s.Record.NoWayBack {
		return append(out, fmt.Sprintf("The way back to %s is closed: only restoring a backup leads there, and what was written since is lost.", from))
	}
	return append(out, fmt.Sprintf("The data can be read by %s and by %s: the way back is open until the commit.", from, to))
}

// doing says what a host does, in brackets.
func doing(h Host, now time.Time) string {
	j := h.Journal
	switch {
	case h.Held != "":
		return " (" + h.Held + ")"
	case j.Step.Trying() && j.Deadline.After(now):
		return fmt.Sprintf(" (%s, returns by itself at %s)", j.Step, j.Deadline.UTC().Format("15:04 MST"))
	case j.Step == parachute.Returned || j.Step == parachute.Returning:
		return fmt.Sprintf(" (%s: %s)", j.Step, cmp.Or(j.Why, "no reason is known"))
	case !j.Step.AtRest():
		return " (" + string(j.Step) + ")"
	}
	return ""
}
