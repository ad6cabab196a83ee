package pacemakerstatus

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast/holdfast/internal/agent/loop"
	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
)

// settings holds the order to set Pacemaker's settings back, and its outcome.
type settings struct {
	order        *loop.Latest[order]
	busy, failed atomic.Bool
	last         time.Time // when they were set back last; used by the look at the cluster alone
}

// order tells the task to set the settings back, or that nothing is left to set
// back. The zero value orders nothing.
type order struct{ set, over, decides bool }

const (
	// setBackApart is the least time between two attempts: it does not fight
	// within seconds with somebody who sets a setting again and again, and what
	// cannot be set back fails slowly.
	setBackApart = time.Minute
	// setBackTime bounds one attempt: pcs takes a second for each setting that is
	// not a property.
	setBackTime = 2 * time.Minute
)

// keepSettings has the settings set back that are not as the table has them,
// beside the look at the cluster: what is different is told meanwhile.
func (c *Collector) keepSettings(in decide.Input, now time.Time) {
	own, decides := in.SetsBack()
	switch {
	case c.setBack == nil || c.settings.busy.Load():
		return
	case !own && !decides:
		if c.settings.failed.Load() { // somebody else did it
			c.settings.order.Put(order{over: true})
		}
		return
	case now.Sub(c.settings.last) < setBackApart:
		return
	}
	c.settings.last = now
	for _, d := range in.Drift.Value {
		if d.Own || d.Ours && decides {
			c.Log.Info("setting of Pacemaker is set back", "which", d.Words)
		}
	}
	c.settings.busy.Store(true)
	c.settings.order.Put(order{set: true, decides: decides})
}

// settingsTask sets back what is ordered. Nothing is tried again but by another
// order.
func (c *Collector) settingsTask() loop.Task {
	return loop.Task{Name: "pacemaker settings", Wake: c.settings.order.Wake, Limit: setBackTime, Spared: true, Step: func(ctx context.Context) (loop.Result, error) {
		o := c.settings.order.Take()
		if o.over {
			c.settings.failed.Store(false)
		}
		if !o.set {
			return loop.Result{}, nil
		}
		defer c.Wake()
		defer c.settings.busy.Store(false)
		err := c.setBack(ctx, o.decides)
		c.settings.failed.Store(err != nil)
		return loop.Result{}, err
	}}
}
