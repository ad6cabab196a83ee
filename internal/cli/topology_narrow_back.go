package cli

import (
	"context"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// These are the parts of `holdfast topology` by which a person goes on with a plan for two of three control
// planes, or takes it back.

// runTwo goes on with a plan that is under way.
func (g *growth) runTwo(ctx context.Context, plan *narrow.Plan) error {
	g.name = plan.Old.Name
	here, err := g.effects.name()
	if err != nil {
		return err
	}
	carries, err := g.carriesTwo(plan, here)
	switch {
	case err != nil:
		return err
	case !carries && g.abort && !plan.Stage.After(narrow.TakingBack):
		return g.partBackTwo(ctx, plan)
	case !carries:
		return coded(command.ExitRefused, "refused: %s carries the plan by which %s goes: type the command there; if that host is lost for good before etcd changes hands, %[3]s takes the plan back: sudo holdfast topology apply --abort --is-gone SERIAL; if it is lost after %[2]s has left, %[3]s ends the plan by itself once it went on alone; in between it has to come back", plan.Carrier(), g.name, here)
	case g.abort:
		return g.takeBackTwo(ctx, plan)
	case g.file != "":
		return coded(command.ExitRefused, "refused: the plan by which %s goes has begun: run the command without --install-config to follow it", g.name)
	case g.gone != "":
		if err := g.sayGone(plan); err != nil {
			return err
		}
	}
	return g.followTwo(ctx, plan.ID)
}

// partBackTwo has this host, which does not carry the plan, take its part of it back. It may do so once the
// cluster has no such plan any more: somebody said that this host will not come back. If the one that carries
// the plan will not come back, this host takes the whole plan back, also if somebody deleted the lock.
func (g *growth) partBackTwo(ctx context.Context, plan *narrow.Plan) error {
	switch id, err := g.effects.locked(ctx); {
	case err != nil:
		return err
	case g.gone != "":
		return g.takeOverTwo(ctx, plan)
	case id == plan.ID:
		return coded(command.ExitRefused, "refused: %s carries the plan by which %s goes: type the command there; if that host is lost for good, and you have seen that it has no power, add --is-gone with the serial number of its machine", plan.Carrier(), g.name)
	}
	return g.askBackTwo(ctx, plan, narrow.Wish{})
}

// takeOverTwo has this host take the plan over and take it back, since the one that carries it is lost. Of a
// plan that is over only the lock is left.
func (g *growth) takeOverTwo(ctx context.Context, plan *narrow.Plan) error {
	if plan.Taken != "" {
		return coded(command.ExitRefused, "refused: %s took the plan by which %s goes over already, and has to come back", plan.Taken, g.name)
	}
	if err := g.lostTwo(ctx, plan, plan.Carrier()); err != nil {
		return err
	}
	replaced, err := g.replacedTwo(ctx, plan, plan.Carrier())
	if err != nil {
		return err
	}
	if replaced {
		g.say("another machine has the name %s by now: the plan is taken back though etcd serves there", plan.Carrier())
	}
	g.takes, g.letsGo = true, plan.Stage.Over()
	return g.askBackTwo(ctx, plan, narrow.Wish{Lost: true, Replaced: replaced})
}

// leftTwo reports whether a plan that is over holds the lock for a host that is said to be lost.
func (g *growth) leftTwo(ctx context.Context, plan *narrow.Plan) (bool, error) {
	if plan == nil || !plan.Stage.Over() || g.gone == "" {
		return false, nil
	}
	here, err := g.effects.name()
	if err != nil || plan.Carrier() == here {
		return false, err
	}
	id, err := g.effects.locked(ctx)
	return id == plan.ID, err
}

// holds reports whether the lock of a plan is not known to be gone.
func (g *growth) holds(ctx context.Context, plan *narrow.Plan) bool {
	id, err := g.effects.locked(ctx)
	return err != nil || id == plan.ID
}

// carriesTwo reports whether this host carries a plan: it began there, or the host where it did is lost.
func (g *growth) carriesTwo(plan *narrow.Plan, here string) (bool, error) {
	if plan.Carrier() == here {
		return true, nil
	}
	record, err := g.effects.record()
	return err == nil && record.Leads() && plan.Stage.After(narrow.Handing), err
}

// sayGone tells the agent that the host that goes will not come back.
func (g *growth) sayGone(plan *narrow.Plan) error {
	if why := replace.MachineProblem(g.gone, plan.Old.Machine, plan.Old.Name); why != "" {
		return coded(command.ExitRefused, "refused: %s", why)
	}
	return g.store.PutNarrowWish(narrow.Wish{ID: plan.ID, Old: plan.Old, Third: plan.Third, By: g.by, Why: g.reason, Accepts: narrow.Accepts{Gone: true}, At: g.now().UTC()})
}

// takeBackTwo asks the agent to take the plan back, and waits for it.
func (g *growth) takeBackTwo(ctx context.Context, plan *narrow.Plan) error {
	if plan.Stage.After(narrow.TakingBack) {
		return coded(command.ExitRefused, "refused: etcd goes to the etcd keepers, so there is only the way forward: %s", g.again())
	}
	if g.gone != "" {
		if err := g.lostTwo(ctx, plan, plan.Other()); err != nil {
			return err
		}
	}
	return g.askBackTwo(ctx, plan, narrow.Wish{Lost: g.gone != ""})
}

// lostTwo refuses what is no word of a person that a host of the two is lost for good. The host that goes
// needs no word: it votes as before.
func (g *growth) lostTwo(ctx context.Context, plan *narrow.Plan, name string) error {
	machine, err := g.machineOf(ctx, plan, name)
	if err != nil {
		return err
	}
	if machine == (state.Machine{}) {
		if g.gone == name {
			return nil
		}
		return coded(command.ExitRefused, "refused: neither the serial number nor the UUID of %s is known: type its name instead", name)
	}
	if why := replace.MachineProblem(g.gone, machine, name); why != "" {
		return coded(command.ExitRefused, "refused: %s", why)
	}
	return nil
}

// machineOf returns the machine of a host of the two: as the plan knows it and, before this host has got
// that, as the cluster does. It is empty if nobody knows it, since the Node is gone, or that of another machine.
func (g *growth) machineOf(ctx context.Context, plan *narrow.Plan, name string) (state.Machine, error) {
	was, known, err := g.remembered(plan, name)
	if err != nil || known {
		return was, err
	}
	node, err := g.planeOf(ctx, name)
	if err != nil || plan.Replaced(was, node.Machine, node.Created) {
		return state.Machine{}, err
	}
	return node.Machine, nil
}

// remembered returns the machine of a host of the two as the plan knows it. known is false before this host
// has got that.
func (g *growth) remembered(plan *narrow.Plan, name string) (was state.Machine, known bool, err error) {
	target, err := g.store.NarrowTarget()
	if err != nil || target == nil || target.Plan != plan.ID {
		return was, false, err
	}
	for _, d := range target.Devices {
		if d.Target == name {
			return state.Machine{UUID: d.UUID, Serial: d.Serial}, true, nil
		}
	}
	return was, false, nil
}

// planeOf returns what the cluster knows of a control plane, nothing if that is none.
func (g *growth) planeOf(ctx context.Context, name string) (planeFacts, error) {
	all, err := g.effects.planes(ctx)
	for _, p := range all {
		if p.Name == name {
			return p, err
		}
	}
	return planeFacts{}, err
}

// replacedTwo reports whether another machine has the name of a host of the two by now.
func (g *growth) replacedTwo(ctx context.Context, plan *narrow.Plan, name string) (bool, error) {
	was, _, err := g.remembered(plan, name)
	if err != nil {
		return false, err
	}
	node, err := g.planeOf(ctx, name)
	return err == nil && plan.Replaced(was, node.Machine, node.Created), err
}

// askBackTwo writes the wish by which a plan is taken back, and follows it. word says whether the other host
// of the two will not come back.
func (g *growth) askBackTwo(ctx context.Context, plan *narrow.Plan, word narrow.Wish) error {
	wish := narrow.Wish{ID: plan.ID, Old: plan.Old, Third: plan.Third, By: g.by, Why: g.reason, Abort: true, Lost: word.Lost, Replaced: word.Replaced, At: g.now().UTC()}
	if err := g.store.PutNarrowWish(wish); err != nil {
		return err
	}
	return g.followTwo(ctx, plan.ID)
}
