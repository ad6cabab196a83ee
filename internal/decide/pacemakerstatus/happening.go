package pacemakerstatus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/crmmon"
)

// Happening is an action of Pacemaker, or a failure. It is reported to people once.
type Happening struct {
	// Key is the same on each host and in each reading.
	Key     string
	Fence   bool
	Warning bool
	Text    string
	At      time.Time
}

// Happenings returns the fences that have ended and the actions that failed. It
// leaves out whatever has no readable time, because that could be years old, and
// probes that found a resource as expected before its start, because they are no
// failures.
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

// key identifies a happening. It cuts the time to the second, because older and
// newer versions of Pacemaker agree only to the second.
func key(kind, where, what, who string, at time.Time) string {
	return strings.Join([]string{kind, where, what, who, at.UTC().Truncate(time.Second).Format(time.RFC3339)}, "|")
}
