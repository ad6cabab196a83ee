package dashboard

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/decide/standing"
)

// Every is the greatest age of a view, so the cluster is read that often at
// most, however many clients ask.
const Every = time.Second

// lookTime bounds a reading that does not keep to its own limit.
const lookTime = 5 * time.Second

// views keeps the last view. At most one reading is in progress. It continues
// even if the client that caused it has gone, because others wait for it too.
type views struct {
	look  func(context.Context) (standing.View, error)
	now   func() time.Time
	every time.Duration

	mu    sync.Mutex
	last  standing.View
	err   error
	at    time.Time
	under chan struct{} // closed when the reading in progress has ended
}

// get returns a view that is not older than every.
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
