package fence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// headStart is the time that the BMC gets before the driver is started. If it
	// answers Off within that time, no interpreter is started.
	headStart = 50 * time.Millisecond
	// defaultOnBudget bounds the time in which a reboot tries to switch the target
	// on again, unless its BMC is slow. The target is off, which is what matters,
	// and others wait for this agent. But some BMCs refuse to switch on for 20 s
	// after a power-off, and nothing else switches on a host that stays off.
	defaultOnBudget = 40 * time.Second
	// settleTime bounds the wait for answers to power-off requests that are still
	// open. A BMC whose slowest answer took longer gets that time.
	settleTime = 2 * time.Second
)

// attempt is one fence in progress.
type attempt struct {
	*Agent
	dev    state.FencingDevice
	budget time.Duration
	begin  time.Time
	client *redfish.Client
	driver *driver
	// last is the error of the last reading, said the last power state that the
	// BMC answered.
	last error
	said string
	// requests holds one function per sent request; each returns the request's
	// failure once it has one.
	requests []func() error
	direct   []*direct
	asked    []time.Time
	phases   state.FencePhases
	// gaveWay is true once an administrator has confirmed that the target is off.
	// askedWord is the time of the last question for that confirmation.
	gaveWay   bool
	askedWord time.Time
	byHand    bool
	// turn is the last answer to the question whose turn it is. readable is the
	// time of the first question that the BMC answered.
	turn state.FenceRace
	// lost reports whether the target once was no member, back whether it is one
	// again.
	lost, back bool
	readable   time.Time
	refused    refusals
	// offSince is the time of the first Off since the last request or the last
	// other answer. offAsked is the time of the question that the BMC last
	// answered with Off.
	offSince, offAsked time.Time
	warned             bool // of a host that still answers although its BMC says Off
}

// fence cuts the power of a target, proves it, leaves the evidence, and
// switches the target on again if that was requested.
func (a *Agent) fence(ctx context.Context, dev state.FencingDevice, o options) error {
	f := &attempt{Agent: a, dev: dev, budget: o.powerTimeout, byHand: o.byHand, begin: time.Now(), driver: newDriver(a.Driver, a.DriverEnv)}
	defer f.close()
	proof, err := f.cut(ctx)
	f.driver.stop()
	if err == nil {
		err = f.prove(proof)
	}
	if err != nil {
		if f.last != nil {
			a.announceRefusal(ctx, dev.Target, f.last)
		}
		err = fmt.Errorf("%s %s: it is not proven to be off: %w", o.action, dev.Target, err)
		return errors.Join(err, f.record(o, err))
	}
	if o.action == "reboot" {
		f.settle(ctx)
		f.restart(ctx)
	}
	if err := f.record(o, nil); err != nil {
		a.warn("%v", err) // the fence is done and proven nevertheless
	}
	_, err = fmt.Fprintf(a.Out, "Success: %s is Off, read back from its BMC after %s\n", dev.Target, f.phases.Total.Round(time.Millisecond))
	return err
}

func (f *attempt) close() {
	if f.client != nil {
		f.client.Close()
	}
}

// cut repeats until the BMC says Off, must not be used any more, or the time is
// over.
func (f *attempt) cut(ctx context.Context) (state.EtcdFenced, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := time.AfterFunc(f.progress().Limit(), func() { cancel(errTimeOver) })
	defer over.Stop()
	if drivable(f.dev) == nil {
		timer := time.AfterFunc(headStart, func() { f.driver.prepare(ctx) })
		defer timer.Stop()
	}
	for {
		reading, proof := f.look(ctx)
		p := f.progress()
		over.Reset(p.Limit() - p.Elapsed)
		d := f.next(ctx, p, reading)
		switch d.Step {
		case fencing.Proven:
			f.proven()
			return proof, nil
		case fencing.Refuse, fencing.GiveUp:
			f.giveWay(ctx)
			return proof, f.because(ctx, d)
		case fencing.Ask:
			f.ask(ctx, p.Direct(reading))
		case fencing.Hold, fencing.Again, fencing.Done:
		}
		if f.pause(ctx, d) != nil {
			return proof, f.because(ctx, d)
		}
	}
}

// next decides. It decides again with a new answer to whose turn it is, before
// the first power-off request, and once more after an administrator's
// confirmation.
func (f *attempt) next(ctx context.Context, p fencing.Progress, r fencing.Reading) fencing.Decision {
	d := fencing.Next(p, r)
	if d.Step == fencing.Ask && p.Requests == 0 {
		f.askTurn(ctx, true)
		p = f.progress()
		d = fencing.Next(p, r)
	}
	if d.Step == fencing.Proven || !f.word(ctx, d.Step == fencing.Ask) {
		return d
	}
	p.Confirmed = true
	return fencing.Next(p, r)
}

// because returns why a fence ended without a proof. When the time is over, the
// last state that the BMC answered says more than an answer that was cut off.
func (f *attempt) because(ctx context.Context, d fencing.Decision) error {
	over := context.Cause(ctx)
	if over == nil && d.Step == fencing.GiveUp {
		over = errTimeOver
	}
	switch {
	case over != nil && f.said != "":
		return fmt.Errorf("%w; at last its BMC said %q", over, f.said)
	case f.last == nil:
		return errors.New(d.Why)
	}
	return fmt.Errorf("%s: %w", d.Why, f.last)
}

// errTimeOver ends a fence whose BMC did not settle it in time.
var errTimeOver = timeOverError{}

type timeOverError struct{}

func (timeOverError) Error() string { return "the time is over" }

// Is makes errTimeOver a deadline for those who wait for it. It is a type of
// its own because this deadline moves.
func (timeOverError) Is(target error) bool { return target == context.DeadlineExceeded }

// look reads the power state. It dates the possible proof before it sends the
// request: the answer does not show what happens after that moment.
func (f *attempt) look(ctx context.Context) (fencing.Reading, state.EtcdFenced) {
	asked := time.Now()
	boot, uptime, err := f.Boot()
	if err != nil {
		f.last = err
		return fencing.Reading{Reason: bmc.Unexplained}, state.EtcdFenced{}
	}
	power, err := f.power(ctx)
	if err == nil || f.last == nil || ctx.Err() == nil { // a reading that our own time-out cut short says less than the one before
		f.last = err
	}
	if err != nil {
		f.refused.note(err)
		return fencing.Reading{Reason: reasonOf(err)}, state.EtcdFenced{}
	}
	f.said = power.String()
	if f.readable.IsZero() {
		f.readable = asked
	}
	if f.phases.Identify == 0 {
		f.phases.Identify = time.Since(f.begin)
	}
	return fencing.Reading{Power: state.Known(string(power)), Heard: f.listen(ctx, power, asked)},
		state.EtcdFenced{Target: f.dev.Target, State: string(power), Boot: boot, At: uptime}
}

func (f *attempt) power(ctx context.Context) (redfish.PowerState, error) {
	if f.client != nil {
		return f.client.Power(ctx)
	}
	c, err := f.openAgain(ctx, f.dev, &f.refused)
	if err != nil {
		return "", err
	}
	f.client = c
	return c.Opened(), nil
}

func (f *attempt) progress() fencing.Progress {
	p := fencing.Progress{Delay: f.dev.Delay, Elapsed: time.Since(f.begin), Budget: f.budget, RetryAfter: f.retryAfter, Requests: len(f.requests), Refused: f.refused.told}
	if f.client != nil {
		p.Answer = f.client.Slowest()
	}
	if !f.readable.IsZero() {
		p.Readable = f.readable.Sub(f.begin)
	}
	p.OffFor = max(0, f.offAsked.Sub(f.offSince))
	p.Turn, p.GaveWay, p.Back = f.turn.Turn, f.gaveWayUntil(p.Elapsed), f.back
	if p.Requests > 0 {
		p.SinceRequest = time.Since(f.asked[p.Requests-1])
		p.RequestFailed = f.requests[p.Requests-1]() != nil
	}
	return p
}

// ask requests the power-off: first through the distribution's agent; later,
// and from a slow BMC, directly.
func (f *attempt) ask(ctx context.Context, directly bool) {
	if len(f.requests) == 0 {
		f.phases.Hold = max(0, time.Since(f.begin)-f.phases.Identify)
	}
	f.asked, f.offSince, f.offAsked = append(f.asked, time.Now()), time.Time{}, time.Time{}
	if directly || drivable(f.dev) != nil {
		f.requests = append(f.requests, f.askDirectly(ctx))
		return
	}
	f.requests = append(f.requests, f.askDriver(ctx))
}

func (f *attempt) askDriver(ctx context.Context) func() error {
	e, err := endpoint(f.dev, f.address)
	if err != nil {
		return func() error { return err }
	}
	f.driver.send(ctx, driverOptions(f.dev, e, f.client.SystemPath(), f.budget))
	return f.driver.failure
}

// askDirectly does not wait for the answer: some BMCs answer late, and the
// power state says more.
func (f *attempt) askDirectly(ctx context.Context) func() error {
	d := &direct{answered: make(chan struct{})}
	f.direct = append(f.direct, d)
	ctx = context.WithoutCancel(ctx) // the request has its own time-out; see settle
	go func(c *redfish.Client) {
		defer close(d.answered)
		d.err = c.AskOff(ctx)
	}(f.client)
	return d.failure
}

// direct is a request that this agent sent itself.
type direct struct {
	answered chan struct{}
	err      error
}

func (d *direct) failure() error {
	select {
	case <-d.answered:
		return d.err
	default:
		return nil
	}
}

// settle waits for the answers to open power-off requests. A request that the
// BMC carries out late would switch off a host that was just switched on.
func (f *attempt) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(settleTime, f.client.Slowest()))
	defer cancel()
	for _, d := range f.direct {
		select {
		case <-d.answered:
		case <-ctx.Done():
		}
	}
}

func (f *attempt) proven() {
	if len(f.requests) > 0 {
		f.phases.PowerOff = time.Since(f.asked[0])
	} else {
		f.phases.Hold = max(0, time.Since(f.begin)-f.phases.Identify)
	}
}

// prove writes the evidence. Without it this host's etcd must not go on alone,
// so a fence that cannot be proven has failed.
func (f *attempt) prove(proof state.EtcdFenced) error {
	begin := time.Now()
	err := f.Files.WriteFenced(proof)
	f.phases.Evidence = time.Since(begin)
	f.phases.Total = time.Since(f.begin)
	return err
}

// record writes the fence into the history. The phases do not include this
// write.
func (f *attempt) record(o options, failed error) error {
	f.phases.Total = time.Since(f.begin)
	r := state.FenceEntry{
		Time: f.Now().UTC(), Target: f.dev.Target, By: hostname(), Action: o.action,
		Off: failed == nil, Requests: len(f.requests), Phases: f.phases, Detail: "the BMC says Off",
		BMC: f.dev.Address,
	}
	if failed != nil {
		r.Detail = failed.Error()
	}
	return f.Files.AppendFence(r)
}
