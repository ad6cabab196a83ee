package incident

import "time"

// Pod holds the facts about a pod that show where it runs.
type Pod struct {
	Node    string
	Created time.Time
	// Ready is the time since which the pod is ready, zero if it is not.
	Ready time.Time
	// Ends is true for a pod that is being deleted or has finished.
	Ends bool
	// Bound is true for a pod that belongs to its node and never moves.
	Bound bool
}

// Moved returns how many pods were started elsewhere since a host was lost, and
// when the last of them was ready; false while pods still have to move.
func Moved(pods []Pod, lost string, since time.Time) (count int, at time.Time, ok bool) {
	for _, p := range pods {
		switch {
		case p.Bound, p.Ends:
		case p.Node == lost:
			return 0, time.Time{}, false
		case p.Created.Before(since.Truncate(time.Second)):
		case p.Ready.IsZero():
			return 0, time.Time{}, false
		default:
			count++
			if p.Ready.After(at) {
				at = p.Ready
			}
		}
	}
	return count, at, count > 0
}

// Unmoved returns the lost host whose pods are not known to run elsewhere yet,
// and the time of its loss; empty if there is none.
func Unmoved(i Incident) (host string, since time.Time) {
	f := i.Failures[len(i.Failures)-1]
	for _, r := range i.Records {
		if r.Kind == Tainted && len(f.Hosts) == 1 && r.Target == f.Hosts[0] && f.Moment(PhasePods).At.IsZero() {
			return r.Target, f.At
		}
	}
	return "", time.Time{}
}
