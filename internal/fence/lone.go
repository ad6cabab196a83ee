package fence

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Power asks the BMC of a target once for its power state. It is for
// information only and leaves no evidence.
func Power(ctx context.Context, target string) (string, error) {
	proof, err := quiet().read(ctx, target)
	return proof.State, err
}

// A Watch asks BMCs again and again for their power state, for information only. It
// remembers refusals of the account: whoever asked as before, each few seconds, would
// have it locked, and the fence that needs it would fail.
type Watch struct {
	agent   *Agent
	refused refusals
}

// NewWatch returns a watch of the BMC of one target.
func NewWatch() *Watch { return &Watch{agent: quiet()} }

// Power asks once, and returns how long the next question has to wait at least.
func (w *Watch) Power(ctx context.Context, target string) (power string, wait time.Duration, err error) {
	proof, err := w.agent.readAgain(ctx, target, &w.refused)
	if err != nil {
		w.refused.note(err)
		return "", fencing.Pace(reasonOf(err), w.refused.told, 0), err
	}
	w.refused.told = 0 // the way by which it took the account stays known
	return proof.State, 0, nil
}

// ConfirmOff leaves evidence if a target is off, for a host that starts alone. A
// target that has power, or that still answers on the network, stays as it is. Where
// nobody could hear it, its power is cut once its BMC has said Off for a while, and
// the Off has to last after that, as in a fence.
func ConfirmOff(ctx context.Context, target string) error { return quiet().confirmOff(ctx, target) }

func (a *Agent) confirmOff(ctx context.Context, target string) error {
	dev, err := readDevice(a.Files, target)
	if err != nil {
		return err
	}
	f := &attempt{Agent: a, dev: dev, begin: time.Now()}
	defer f.close()
	proof, err := f.confirm(ctx)
	if err == nil {
		err = f.prove(proof)
	}
	if err != nil {
		err = fmt.Errorf("confirm that %s is off: %w", target, err)
	}
	if len(f.requests) > 0 {
		if noted := f.record(options{action: "off"}, err); noted != nil {
			a.warn("%v", noted)
		}
	}
	return err
}

// confirm repeats until the target is proven to be off, or must be left alone.
func (f *attempt) confirm(ctx context.Context) (state.EtcdFenced, error) {
	for {
		f.askTurn(ctx, false) // it also tells whether the target is a member again
		reading, proof := f.look(ctx)
		d := fencing.NextLone(f.progress(), reading)
		switch d.Step {
		case fencing.Proven:
			f.proven()
			return proof, nil
		case fencing.Ask:
			f.ask(ctx, true)
		case fencing.Again, fencing.Hold, fencing.Done:
		case fencing.Refuse, fencing.GiveUp:
			return proof, f.because(ctx, d)
		}
		if host.Sleep(ctx, d.Wait) != nil {
			return proof, f.because(ctx, d)
		}
	}
}

func quiet() *Agent { return New(command.Streams{Out: io.Discard, Err: io.Discard}) }

// read returns the power state of a target as a possible proof, dated before
// the request was sent.
func (a *Agent) read(ctx context.Context, target string) (state.EtcdFenced, error) {
	return a.readAgain(ctx, target, &refusals{})
}

// readAgain works like read for a BMC that may have refused the account before.
func (a *Agent) readAgain(ctx context.Context, target string, before *refusals) (state.EtcdFenced, error) {
	dev, err := readDevice(a.Files, target)
	if err != nil {
		return state.EtcdFenced{}, err
	}
	boot, uptime, err := a.Boot()
	if err != nil {
		return state.EtcdFenced{}, err
	}
	c, err := a.openAgain(ctx, dev, before)
	if err != nil {
		return state.EtcdFenced{}, err
	}
	defer c.Close()
	return state.EtcdFenced{Target: target, State: string(c.Opened()), Boot: boot, At: uptime}, nil
}
