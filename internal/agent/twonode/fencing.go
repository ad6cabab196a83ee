package twonode

import (
	"context"
	"slices"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/state"
)

// fencing gives this host the device of its peer, after a test from here. A host
// never has its own device: only the other one uses it.
func (h *Host) fencing(ctx context.Context, in twonode.Input) error {
	devices := slices.DeleteFunc(slices.Clone(in.Fencing), func(d state.FencingDevice) bool { return d.Target == in.Self })
	for _, d := range devices {
		h.say("test the BMC of %s at %s, then write its device below %s", d.Target, d.Address, state.FencingDir)
	}
	if h.DryRun {
		return nil
	}
	return h.WriteDevices(ctx, records.Files{Root: h.path("")}, devices)
}
