package pacemakerstatus

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
)

// settings holds when Pacemaker's settings were last set back.
type settings struct {
	busy atomic.Bool
	last time.Time // used by the loop alone
}

const (
	// setBackApart is the least time between two times: it does not fight within
	// seconds with somebody who sets a setting again and again, and what cannot
	// be set back fails slowly.
	setBackApart = time.Minute
	// setBackTime bounds one time: pcs takes a second for each setting that is
	// not a property.
	setBackTime = 2 * time.Minute
)

// keepSettings sets back the settings that differ from the table. It does so
// beside the loop, which publishes the difference meanwhile.
func (c *Collector) keepSettings(ctx context.Context, in decide.Input, now time.Time) {
	own, decides := in.SetsBack()
	if c.setBack == nil || !own && !decides || now.Sub(c.settings.last) < setBackApart || !c.settings.busy.CompareAndSwap(false, true) {
		return
	}
	c.settings.last = now
	for _, d := range in.Drift.Value {
		if d.Own || d.Ours && decides {
			c.logf("set back: %s", d.Words)
		}
	}
	go func() {
		defer c.settings.busy.Store(false)
		ctx, cancel := context.WithTimeoutCause(ctx, setBackTime, errors.New("not done within "+setBackTime.String()))
		defer cancel()
		if err := c.setBack(ctx, decides); err != nil {
			c.logf("set settings back: %v", err)
		}
		c.Wake()
	}()
}
