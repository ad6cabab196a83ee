package fence

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/redfish"
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

// ConfirmOff asks the BMC of a target once and leaves evidence if it says Off.
// It switches nothing: a target that is not off stays as it is. A target that
// still answers on the network is not off, whatever its BMC says.
func ConfirmOff(ctx context.Context, target string) error { return quiet().confirmOff(ctx, target) }

func (a *Agent) confirmOff(ctx context.Context, target string) error {
	proof, err := a.read(ctx, target)
	if err != nil {
		return err
	}
	if proof.State != string(redfish.Off) {
		return fmt.Errorf("confirm that %s is off: its BMC says %s", target, proof.State)
	}
	if state.Is(a.hears(ctx, target), true) {
		return fmt.Errorf("confirm that %s is off: its BMC says Off, but the host still answers on the network", target)
	}
	return a.Files.WriteFenced(proof)
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
