package upgrade

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// idleLimit is how long ago the last look may be that ended well. At rest one is taken every two
// minutes.
const idleLimit = 10 * time.Minute

// looks remembers when a look ended well. Another goroutine asks for it.
type looks struct{ last atomic.Pointer[time.Time] }

func (l *looks) ended(at time.Time) { l.last.Store(&at) }

// idle says why nothing shows that this operator works; nil if something does. An operator that
// does not lead, and one whose controllers hang or only fail, is well as a process, and its pod
// would be ready.
func (l *looks) idle(now time.Time) error {
	last := l.last.Load()
	if last == nil {
		return errors.New("no look at the site has ended well yet: this operator does not lead, or cannot read the cluster")
	}
	if age := now.Sub(*last); age > idleLimit || age < -idleLimit {
		return fmt.Errorf("the last look at the site that ended well is of %s", last.UTC().Format(time.RFC3339))
	}
	return nil
}

// Works is a check of the operator's readiness: an operator that looks at nothing is not ready. So
// a host that brings one sets it back, as one that does not start (docs/adr/0090, decision 9).
func (r *Reconciler) Works(*http.Request) error { return r.looks.idle(r.Now()) }
