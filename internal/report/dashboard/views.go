package dashboard

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/decide/standing"
)

// Every is how old a view may be: however many look at the page, the cluster is
// asked that often.
const Every = time.Second

// lookTime bounds a look for those who do not keep to their own limit.
const lookTime = 5 * time.Second

// views keeps the last view. One look at a time is under way, which goes on
// though whoever asked for it has gone: others wait for it too.
type views struct {
	look  func(context.Context) (standing.View, error)
	now   func() time.Time
	every time.Duration

	mu    sync.Mutex
	last  standing.View
	err   error
	at    time.Time
	under chan struct{} // closed when the look that is under way has ended
}

// get returns a view that is young enough.
func (v *views) get(ctx context.Context) (standing.View, error) {
	v.mu.Lock()
	if !v.at.IsZero() && v.now().Sub(v.at) < v.every {
		defer v.mu.Unlock()
		return v.last, v.err
	}
	if v.under == nil {
		v.under = make(chan struct{})
		go v.refresh(context.WithoutCancel(ctx), v.under)
	}
	under := v.under
	v.mu.Unlock()
	select {
	case <-ctx.Done():
		return standing.View{}, context.Cause(ctx)
	case <-under:
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last, v.err
}

func (v *views) refresh(ctx context.Context, done chan struct{}) {
	ctx, stop := context.WithTimeout(ctx, lookTime)
	defer stop()
	view, err := v.look(ctx)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last, v.err, v.at, v.under = view, err, v.now(), nil
	close(done)
}
