package bmc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// errClosed reports that the controller is closed.
var errClosed = errors.New("cannot cut the machine's power: its controller is closed")

// Machine is the power of one simulated machine. Its methods are called one
// at a time, except Power, which may be called while another one runs. They
// must be idempotent: cutting a machine that is off is no error.
type Machine interface {
	// Power reports whether the machine is powered.
	Power(ctx context.Context) (on bool, err error)
	// PowerOn starts the machine and returns once it is powered; it does not
	// wait for the host to boot.
	PowerOn(ctx context.Context) error
	// PowerOff cuts the power, and returns once the machine is dead.
	PowerOff(ctx context.Context) error
	// Shutdown asks the host to end, as the power button does. It does not wait
	// for the end.
	Shutdown(ctx context.Context) error
}

const (
	// effectTimeout bounds one effect on the machine.
	effectTimeout = 2 * time.Minute
	// watchEvery is the interval at which a host that was asked to restart is
	// checked.
	watchEvery = 200 * time.Millisecond
)

// power carries out the state machine: it owns the state, the timer that
// drives it, and the queue of effects.
type power struct {
	machine Machine
	log     *slog.Logger
	ctx     context.Context // of the effects; ended by close
	cancel  context.CancelFunc

	mu        sync.Mutex
	state     State
	offSince  time.Time // time of the last cut
	revision  uint64    // counts changes of state
	behaviour Behaviour
	timer     *time.Timer
	queue     []job
	working   bool
}

// job is one effect to carry out. Its outcome goes to done, if that is not nil.
type job struct {
	effect Effect
	done   chan<- error
}

func newPower(m Machine, log *slog.Logger) *power {
	ctx, cancel := context.WithCancel(context.Background())
	return &power{machine: m, log: log, ctx: ctx, cancel: cancel, state: State{Phase: PhaseOff}}
}

// close drops everything that is pending. The machine keeps the power it has.
func (p *power) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cancel()
	p.queue = nil
	if p.timer != nil {
		p.timer.Stop()
	}
}

// behave changes the behaviour from now on.
func (p *power) behave(change func(*Behaviour)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stuck := p.behaviour.OffSticks
	change(&p.behaviour)
	if stuck && !p.behaviour.OffSticks {
		_ = p.step(Event{Kind: EventUnstick}) // only a reset can be refused
	}
}

// offFor returns the time for which a machine has been off whose power was cut
// here, and zero for others.
func (p *power) offFor() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.state.off() || p.offSince.IsZero() {
		return 0
	}
	return max(1, time.Since(p.offSince))
}

// observe reads the machine's power and returns the state. If the state changed
// meanwhile, it drops the reading, which may be older than the change.
func (p *power) observe(ctx context.Context) (State, error) {
	p.mu.Lock()
	before := p.revision
	p.mu.Unlock()
	on, err := p.machine.Power(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		return p.state, fmt.Errorf("look at the machine's power: %w", err)
	}
	if p.revision == before {
		// Only a reset can be refused.
		_ = p.step(Event{Kind: EventSeen, On: on}) //nolint:contextcheck // what was accepted outlives who asked
	}
	return p.state, nil
}

// reset requests a change of power. It returns once the request is accepted,
// before it is carried out.
func (p *power) reset(ctx context.Context, t ResetType) error {
	if _, err := p.observe(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.step(Event{Kind: EventReset, Reset: t}) //nolint:contextcheck // what was accepted outlives who asked
}

// cut takes the power away at once, whatever is pending, and returns when the
// machine is dead.
func (p *power) cut(ctx context.Context) error {
	outcome := make(chan error, 1)
	p.mu.Lock()
	p.become(State{Phase: PhaseCutting})
	p.queue = slices.DeleteFunc(p.queue, func(j job) bool { return j.done == nil })
	p.enqueue(job{effect: EffectOff, done: outcome}) //nolint:contextcheck // what was accepted outlives who asked
	p.mu.Unlock()
	select {
	case err := <-outcome:
		return err
	case <-ctx.Done():
		return fmt.Errorf("cut the machine's power: %w", context.Cause(ctx))
	case <-p.ctx.Done():
		return errClosed
	}
}

// step applies an event and all ticks that are due. The caller holds mu.
func (p *power) step(e Event) error {
	now := time.Now()
	for {
		next, effect, err := Step(p.state, e, now, p.behaviour)
		if err != nil {
			return err
		}
		if next != p.state {
			p.become(next)
		}
		if effect != EffectNone {
			p.enqueue(job{effect: effect})
		}
		if !p.state.due(now) {
			break
		}
		e = Event{Kind: EventTick}
	}
	p.arm(now)
	return nil
}

func (p *power) become(next State) {
	p.log.Debug("power", "from", p.state.Phase, "to", next.Phase, "then", next.Then)
	if next.off() && !p.state.off() {
		p.offSince = time.Now()
	}
	p.state = next
	p.revision++
}

// arm sets the timer for the next event that the state waits for.
func (p *power) arm(now time.Time) {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if p.ctx.Err() != nil {
		return
	}
	switch {
	case !p.state.Due.IsZero():
		p.timer = time.AfterFunc(p.state.Due.Sub(now), p.tick)
	case p.state.watched():
		p.timer = time.AfterFunc(watchEvery, p.watch)
	}
}

func (p *power) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() == nil {
		_ = p.step(Event{Kind: EventTick}) // only a reset can be refused
	}
}

func (p *power) watch() {
	if _, err := p.observe(p.ctx); err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arm(time.Now())
}

// enqueue adds an effect and makes sure that one goroutine works. The caller
// holds mu.
func (p *power) enqueue(j job) {
	p.queue = append(p.queue, j)
	if !p.working && p.ctx.Err() == nil {
		p.working = true
		go p.work()
	}
}

func (p *power) work() {
	for {
		j, ok := p.next()
		if !ok {
			return
		}
		err := p.carryOut(j.effect)
		if err != nil {
			p.log.Error("power effect failed", "effect", j.effect, "error", err)
		}
		p.mu.Lock()
		_ = p.step(Event{Kind: EventDone, Effect: j.effect, OK: err == nil}) // only a reset can be refused
		p.mu.Unlock()
		if j.done != nil {
			j.done <- err
		}
	}
}

func (p *power) next() (job, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 || p.ctx.Err() != nil {
		p.working = false
		return job{}, false
	}
	j := p.queue[0]
	p.queue = p.queue[1:]
	return j, true
}

func (p *power) carryOut(e Effect) error {
	ctx, cancel := context.WithTimeout(p.ctx, effectTimeout)
	defer cancel()
	switch e {
	case EffectOn:
		return p.machine.PowerOn(ctx)
	case EffectOff:
		return p.machine.PowerOff(ctx)
	case EffectShutdown:
		return p.machine.Shutdown(ctx)
	case EffectNone:
	}
	return nil
}
