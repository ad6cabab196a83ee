package twonode

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/state"
)

// fencing gives this host the device of its peer, once it was tried from
// here: what worked is not replaced by what does not. A host never has its own
// device; only the other one uses it.
func (h *Host) fencing(ctx context.Context, in twonode.Input) error {
	for _, dev := range in.Fencing {
		if dev.Target == in.Self {
			continue
		}
		if err := h.device(ctx, dev); err != nil {
			return err
		}
	}
	return nil
}

func (h *Host) device(ctx context.Context, dev state.FencingDevice) error {
	path := filepath.Join(state.FencingDir, dev.Target+".json")
	old, err := h.oldDevice(path)
	if err != nil {
		return err
	}
	dev = keepLearned(old, dev)
	data, err := json.MarshalIndent(dev, "", "  ")
	if err != nil {
		return err
	}
	h.say("test the BMC of %s at %s", dev.Target, dev.Address)
	if !h.DryRun {
		if err := h.TestDevice(ctx, dev); err != nil {
			return fmt.Errorf("the BMC of %s, tried from here, cannot fence it; the device that was there before stays: %w", dev.Target, err)
		}
	}
	return h.write(path, append(data, '\n'), 0o600)
}

// oldDevice reads the device that is there. One that cannot be read is as
// good as none: it will be replaced.
func (h *Host) oldDevice(path string) (state.FencingDevice, error) {
	data, err := h.read(path)
	if err != nil {
		return state.FencingDevice{}, err
	}
	var old state.FencingDevice
	if json.Unmarshal(data, &old) != nil {
		return state.FencingDevice{}, nil
	}
	return old, nil
}

// keepLearned keeps what was learned about a host that is not told anew: whose
// BMC it is, and a calibrated delay.
func keepLearned(old, dev state.FencingDevice) state.FencingDevice {
	if old.Target != dev.Target {
		return dev
	}
	if dev.UUID == "" && dev.Serial == "" {
		dev.UUID, dev.Serial = old.UUID, old.Serial
	}
	dev.Delay = fencing.KeepDelay(old.Delay, dev.Delay)
	return dev
}
