package fence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/model/state"
)

// powering is a target that is being switched on.
type powering struct {
	*Agent
	dev    state.FencingDevice
	client *redfish.Client // nil until the first good reading of the BMC
	begin  time.Time
	budget time.Duration
	asked  time.Time
	p      fencing.OnProgress
	// refused is the error of the last request, unread that of the last reading;
	// nil after a success.
	refused, unread error
	denied          refusals
}

// restart switches a target on that is proven to be off. It does not wait for
// the machine to boot. A target that stays off does not make the fence fail.
func (f *attempt) restart(ctx context.Context) {
	on := powering{
		Agent: f.Agent, dev: f.dev, client: f.client, begin: time.Now(),
		budget: fencing.OnBudget(f.onBudget, f.client.Slowest()),
	}
	// The target was read as off a moment ago: do not ask a slow BMC again.
	if err := on.run(ctx, fencing.Reading{Power: state.Known(state.PowerOff)}); err != nil {
		f.warn("%s is proven to be off, but could not be switched on again: %v", f.dev.Target, err)
	}
	f.phases.PowerOn = time.Since(on.begin)
}

// switchOn switches the target on and waits until its BMC confirms it.
func (a *Agent) switchOn(ctx context.Context, dev state.FencingDevice, o options) error {
	on := powering{Agent: a, dev: dev, begin: time.Now(), budget: o.powerTimeout}
	defer func() {
		if on.client != nil {
			on.client.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, on.budget)
	defer cancel()
	if err := on.run(ctx, on.read(ctx)); err != nil {
		return fmt.Errorf("on %s: %w", dev.Target, err)
	}
	return nil
}

// run repeats until the BMC says that the target has power, must not be used any
// more, or the time is over.
func (o *powering) run(ctx context.Context, r fencing.Reading) error {
	ctx, cancel := context.WithDeadline(ctx, o.begin.Add(o.budget))
	defer cancel()
	for {
		d := fencing.NextOn(o.progress(), r)
		switch d.Step {
		case fencing.Done:
			return nil
		case fencing.Ask:
			o.ask(ctx)
		case fencing.Refuse, fencing.GiveUp:
			return o.because(d)
		case fencing.Again, fencing.Hold, fencing.Proven:
		}
		if host.Sleep(ctx, d.Wait) != nil {
			return o.because(fencing.Decision{Why: d.Why + ", and the time is over"})
		}
		r = o.read(ctx)
	}
}

func (o *powering) because(d fencing.Decision) error {
	if err := cmp.Or(o.unread, o.refused); err != nil {
		return fmt.Errorf("%s: %w", d.Why, err)
	}
	return errors.New(d.Why)
}

func (o *powering) progress() fencing.OnProgress {
	o.p.Elapsed, o.p.Budget, o.p.RetryAfter = time.Since(o.begin), o.budget, o.retryAfter
	if o.client != nil {
		o.p.Answer = o.client.Slowest()
	}
	if o.p.Requests > 0 {
		o.p.SinceRequest = time.Since(o.asked)
	}
	return o.p
}

// ask sends one request. It waits for the answer only so that the next reading
// comes after it.
func (o *powering) ask(ctx context.Context) {
	o.refused = o.client.AskOn(ctx)
	o.p.RequestFailed, o.asked = o.refused != nil, time.Now()
	o.p.Requests++
}

func (o *powering) read(ctx context.Context) fencing.Reading {
	power, err := o.power(ctx)
	if err == nil {
		o.unread = nil
		return fencing.Reading{Power: state.Known(string(power))}
	}
	if o.unread == nil || ctx.Err() == nil { // a reading that our own time-out cut short says less than the one before
		o.unread = err
	}
	o.denied.note(err)
	o.p.Refused = o.denied.told
	return fencing.Reading{Reason: reasonOf(err)}
}

func (o *powering) power(ctx context.Context) (redfish.PowerState, error) {
	if o.client != nil {
		return o.client.Power(ctx)
	}
	c, err := o.openAgain(ctx, o.dev, &o.denied)
	if err != nil {
		return "", err
	}
	o.client = c
	return c.Opened(), nil
}
