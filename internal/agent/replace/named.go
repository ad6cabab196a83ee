package replace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/install/dualstack"
	"github.com/holdfast/holdfast/internal/model/state"
)

// These are the facts and the acts of a replacement in which the new host has another name, or a BMC
// at another address.

// named reads what of the old name is left on this host.
func (h *here) named(f *replace.Facts, p replace.Plan) {
	if h.NamedIn != nil {
		f.Named = state.Known(h.NamedIn(p))
	}
	targets, err := h.files.Targets()
	f.OldDevice = carry.Fact(p.Old.Name != p.New.Name && slices.Contains(targets, p.Old.Name), err)
}

// taken finds out whether the new host may have its name.
func (h *here) taken(ctx context.Context, f *replace.Facts, api API, job Job) {
	var w replace.Wish
	switch {
	case job.Plan != nil && !job.Plan.Stage.Over():
		w = replace.Wish{Old: job.Plan.Old.Name, New: job.Plan.New, Grows: job.Plan.Grows, Shrinks: job.Plan.Shrinks}
	case job.Order != nil:
		w = job.Order.Wish
	}
	if w.Grows || w.Shrinks || w.New.Name == w.Old || job.begun() {
		return
	}
	node, err := api.Facts(ctx, w.New.Name)
	list, unread := api.Retired(ctx, w.New.Name)
	in, unsaid := api.Place(ctx)
	family, wrong := dualstack.Announced(in.DualStack)
	f.Taken = carry.Fact(cmp.Or(replace.Taken(w, h.Hosts, node.There, list), family.Keeps(w.New.Name)), errors.Join(err, unread, unsaid, wrong))
}

// peer returns the name that the etcd keeper has for its peer, which it has from Pacemaker. It is
// otherwise if Pacemaker has told none yet.
func (h *here) peer(otherwise string) string {
	p, err := h.files.Parameters()
	if err != nil || !p.Known {
		return otherwise
	}
	if name, err := p.Value.Peer(h.Host); err == nil {
		return name
	}
	return otherwise
}

// nameSite has the site name the new host. It returns when the agent is started anew.
func (h *here) nameSite(ctx context.Context, job Job) error {
	if h.Name == nil {
		return errors.New("this host does not know how to change the names in the site's configuration")
	}
	if job.Order == nil {
		return orderGone(*job.Plan)
	}
	return h.Name(ctx, *job.Plan, job.Order.Device)
}

// orderGone says how a person gives the order of a plan once more.
func orderGone(p replace.Plan) error {
	how := "--bmc-address ADDRESS"
	if p.Grows {
		how = "--install-config FILE --address " + p.New.Address
	}
	return fmt.Errorf("the order of the command is gone, and with it the account of the BMC: sudo %s %s", p.Command(), how)
}

// dropDevice removes the file with the old host's device, so that nothing on this host switches a
// machine that is none of the site's.
func (h *here) dropDevice(ctx context.Context, job Job) error {
	if job.Plan.Old.Name == job.Plan.New.Name {
		return errors.New("the new host has the name of the old one: its device stays")
	}
	return h.store.Forget(ctx, job.Plan.Old.Name)
}
