package pacemakerstatus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/crmmon"
)

// Happening is something that Pacemaker did, or that failed: people are told of
// it once.
type Happening struct {
	// Key is the same on each host and at each look.
	Key     string
	Fence   bool
	Warning bool
	Text    string
	At      time.Time
}

// Happenings are the fences that have ended and the actions that failed. What
// happened at a time that cannot be read is left out: it could be years ago.
// That something was found as it should be, before it was started, is no
// failure.
func Happenings(c crmmon.Cluster) []Happening {
	var out []Happening
	for _, f := range c.Fences {
		if f.State == crmmon.FencePending || f.Done.IsZero() {
			continue
		}
		words := "succeeded"
		if f.State == crmmon.FenceFailed {
			words = "failed"
		}
		out = append(out, Happening{
			Key: key("fence", f.Target, f.Action, f.By, f.Done), Fence: true, Warning: true, At: f.Done,
			Text: fmt.Sprintf("fence of %s %s: %s", f.Target, words, fenceWords(f)),
		})
	}
	for _, f := range c.Failures {
		if f.Expected() || f.When.IsZero() {
			continue
		}
		out = append(out, Happening{
			Key: key("failure", f.Node, f.Resource, f.Task+" "+f.Call, f.When), Warning: true, At: f.When,
			Text: fmt.Sprintf("%s of %s on %s failed: %s (code %d)", f.Task, f.Resource, f.Node, shorten(f.Words, maxMessage/4), f.Code),
		})
	}
	slices.SortStableFunc(out, func(a, b Happening) int { return a.At.Compare(b.At) })
	return out
}

// key names what happened, to the second: that is what all versions tell.
func key(kind, where, what, who string, at time.Time) string {
	return strings.Join([]string{kind, where, what, who, at.UTC().Truncate(time.Second).Format(time.RFC3339)}, "|")
}
