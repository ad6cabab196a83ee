package fence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// headStart is how long the BMC may take before the driver is started. A
	// BMC that says Off within it costs no interpreter.
	headStart = 50 * time.Millisecond
	// defaultOnBudget bounds what a reboot spends on switching on again, unless
	// its BMC is slow: the target is off, which is what matters, and others wait
	// for this agent. Some BMCs refuse to switch on for 20 s after a power-off, and
	// a host that stays off comes back by nobody's doing.
	defaultOnBudget = 40 * time.Second
	// settleTime bounds the wait for answers that nobody needs any more, where
	// the BMC is not slower.
	settleTime = 2 * time.Second
)

// attempt is one fence under way.
type attempt struct {
	*Agent
	dev    state.FencingDevice
	budget time.Duration
	begin  time.Time
	client *redfish.Client
	driver *driver
	// last is why the BMC could not be read the last time, said what it said
	// when it could.
	last error
	said string
	// requests are those that were sent; each tells its failure once it has
	// one.
	requests []func() error
	direct   []*direct
	asked    []time.Time
	phases   state.FencePhases
	// gaveWay is true once a person has confirmed that the target is off, which
	// was asked for at askedWord.
	gaveWay   bool
	askedWord time.Time
	byHand    bool
	// turn is whose turn it is; readable is when the first question was asked
	// that the BMC answered.
	turn state.FenceRace
	// lost is whether the target was no member once, back whether it is again.
	lost, back bool
	readable   time.Time
	refused    refusals
	// offSince is when the BMC first answered Off, since the last request and
	// since it said something else; offAsked is when it was last asked that.
	offSince, offAsked time.Time
	warned             bool // that the host is heard although its BMC says Off
}

// fence cuts the power of a target, proves it, leaves the evidence, and
// switches it on again where that is asked for.
func (a *Agent) fence(ctx context.Context, dev state.FencingDevice, o options) error {
	f := &attempt{Agent: a, dev: dev, budget: o.powerTimeout, byHand: o.byHand, begin: time.Now(), driver: newDriver(a.Driver, a.DriverEnv)}
	defer f.close()
	proof, err := f.cut(ctx)
	f.driver.stop()
	if err == nil {
		err = f.prove(proof)
	}
	if err != nil {
		err = fmt.Errorf("%s %s: it is not proven to be off: %w", o.action, dev.Target, err)
		return errors.Join(err, f.record(o, err))
	}
	if o.action == "reboot" {
		f.settle(ctx)
		f.restart(ctx)
	}
	if err := f.record(o, nil); err != nil {
		a.warn("%v", err) // the fence is done and proven all the same
	}
	_, err = fmt.Fprintf(a.Out, "Success: %s is Off, read back from its BMC after %s\n", dev.Target, f.phases.Total.Round(time.Millisecond))
	return err
}

func (f *attempt) close() {
	if f.client != nil {
		f.client.Close()
	}
}

// cut goes on until the BMC says Off, must not be used, or the time is over.
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

// next decides, and once more where it still is this host's turn, or a person's
// word has come.
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

// because is why a fence ends without a proof. An answer that was cut off by
// the end itself says less than the one before it.
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

// errTimeOver ends a fence that its BMC did not decide in time.
var errTimeOver = timeOverError{}

type timeOverError struct{}

func (timeOverError) Error() string { return "the time is over" }

// Is makes it what it is to whoever waits: a deadline, which moves.
func (timeOverError) Is(target error) bool { return target == context.DeadlineExceeded }

// look reads the power state. The proof that it could become is dated before
// the request is sent: what happens after that moment is not in the answer.
func (f *attempt) look(ctx context.Context) (fencing.Reading, state.EtcdFenced) {
	asked := time.Now()
	boot, uptime, err := f.Boot()
	if err != nil {
		f.last = err
		return fencing.Reading{Reason: "unknown"}, state.EtcdFenced{}
	}
	power, err := f.power(ctx)
	if err == nil || f.last == nil || ctx.Err() == nil { // a look that our own time cut short tells less than the one before
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

// ask has the power cut: first by the distribution's agent, later and at a slow
// BMC by this one.
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

// askDirectly does not wait for the answer: some BMCs give it late, and the
// power state tells more.
func (f *attempt) askDirectly(ctx context.Context) func() error {
	d := &direct{answered: make(chan struct{})}
	f.direct = append(f.direct, d)
	ctx = context.WithoutCancel(ctx) // it has a time-out of its own; see settle
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

// settle waits for the answers to requests that are under way: one that the
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

// prove leaves the evidence, without which the etcd of this host must not go
// on alone: a fence that cannot be proven has failed.
func (f *attempt) prove(proof state.EtcdFenced) error {
	begin := time.Now()
	err := f.Files.WriteFenced(proof)
	f.phases.Evidence = time.Since(begin)
	f.phases.Total = time.Since(f.begin)
	return err
}

// record keeps what was done. The phases end before it.
func (f *attempt) record(o options, failed error) error {
	f.phases.Total = time.Since(f.begin)
	r := state.FenceEntry{
		Time: f.Now().UTC(), Target: f.dev.Target, By: hostname(), Action: o.action,
		Off: failed == nil, Requests: len(f.requests), Phases: f.phases, Detail: "the BMC says Off",
	}
	if failed != nil {
		r.Detail = failed.Error()
	}
	return f.Files.AppendFence(r)
}
