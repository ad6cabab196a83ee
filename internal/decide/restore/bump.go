package restore

import "time"

const (
	// perSecond is more than a site writes in a second on average, over the whole life of its
	// etcd.
	perSecond = 1000
	// otherwise is what a revision is raised by where the time does not serve.
	otherwise = 1_000_000_000
)

// Bump returns by how much the revision of a backup is raised when it is restored at a time.
//
// The restored life then begins at 1000 revisions for each second since 1970. So it begins above
// every revision that any former life has served, whichever backup that one began with: a life
// that began at an earlier second has written less than 1000 a second since. A fixed number does not do that: a second
// restore, to an older backup, would begin below what the first one has served, and clients
// that remember a revision of it would go on as if nothing had happened in between
// (docs/facts/loss.md, L48). Both this and what a site writes fit into 53 bits for thousands of years.
//
// Where the clock is wrong or the revision already higher, it is raised by a thousand million.
func Bump(revision int64, now time.Time) int64 {
	if raise := now.Unix()*perSecond - revision; raise > 0 {
		return raise
	}
	return otherwise
}
