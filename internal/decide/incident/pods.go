package incident

import "time"

// Pod is a pod as far as it tells where it runs.
type Pod struct {
	Node    string
	Created time.Time
	// Ready is since when it is, zero where it is not.
	Ready time.Time
	// Ends is true for one that is to be deleted, or has done its work.
	Ends bool
	// Bound is true for one that belongs to its node and goes nowhere else.
	Bound bool
}

// Moved reports how many pods came about elsewhere since a host was lost, and
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

// Unmoved is the lost host whose pods are not known to run elsewhere yet, and
// since when they have to; empty for none.
func Unmoved(i Incident) (host string, since time.Time) {
	f := i.Failures[len(i.Failures)-1]
	for _, r := range i.Records {
		if r.Kind == Tainted && len(f.Hosts) == 1 && r.Target == f.Hosts[0] && f.Moment(PhasePods).At.IsZero() {
			return r.Target, f.At
		}
	}
	return "", time.Time{}
}
