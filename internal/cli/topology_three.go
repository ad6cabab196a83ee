package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/install/grow"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// These are the parts of `holdfast topology` by which two control planes become three
// (docs/adr/0097). The agents of both hosts carry the plan out.

// more reports whether a file asks for three control planes.
func more(file *config.InstallConfig) bool { return file.ControlPlaneReplicas() == 3 }

// thirdPlane is what a file makes of a site of two control planes.
type thirdPlane struct {
	changes []manifests.Change
	// here and peer are the names of the two hosts.
	here, peer string
}

func (g *growth) third(ctx context.Context, file *config.InstallConfig) (thirdPlane, error) {
	var w thirdPlane
	have, err := g.effects.here()
	if err != nil {
		return w, err
	}
	if _, err := decide.Three(have, file); err != nil {
		return w, &UsageError{Err: fmt.Errorf("%s: %w", g.file, err)}
	}
	want, err := decide.ThreeOf(have) // as the agents make it
	if err != nil {
		return w, err
	}
	if err := g.checkThird(); err != nil {
		return w, err
	}
	if err := g.share(ctx, have, g.newName); err != nil {
		return w, err
	}
	if w.changes, err = grow.Fewer(have, want); err != nil {
		return w, err
	}
	if w.here, err = g.effects.name(); err != nil {
		return w, err
	}
	w.peer, err = g.effects.peer()
	return w, err
}

// checkThird returns the mistakes about the new host, whose name no file of three has to have.
func (g *growth) checkThird() error {
	var mistakes []error
	if err := config.NewName("--new-name", g.newName, nil); err != nil {
		mistakes = append(mistakes, fmt.Errorf("%w: it is the name of the third control plane", err))
	}
	if _, err := netip.ParseAddr(g.address); err != nil {
		mistakes = append(mistakes, fmt.Errorf("--address %q: must be the IP address that the new host will have: etcd knows it by that address", g.address))
	}
	if err := errors.Join(mistakes...); err != nil {
		return &UsageError{Err: err}
	}
	return nil
}

// beginThree shows what will be done, asks, writes the wish and follows it.
func (g *growth) beginThree(ctx context.Context, file *config.InstallConfig) error {
	w, err := g.third(ctx, file)
	if err != nil {
		return err
	}
	g.name = g.newName
	if err := g.showThree(w); err != nil {
		return err
	}
	if err := g.agreed(ctx, "new"); err != nil {
		return err
	}
	wish := g.wideWish(newPlanID())
	if err := g.store.PutWidenWish(wish); err != nil {
		return err
	}
	return g.followThree(ctx, wish.ID)
}

func (g *growth) wideWish(id string) widen.Wish {
	return widen.Wish{
		ID: id, New: replace.New{Name: g.newName, Address: g.address, UUID: g.uuid}, By: g.by, Why: g.reason, NoBackup: g.noBackup, At: g.now().UTC(),
	}
}

// planThree shows what will be done, and nothing else.
func (g *growth) planThree(ctx context.Context, file *config.InstallConfig) error {
	w, err := g.third(ctx, file)
	if err != nil {
		return err
	}
	g.name = g.newName
	return g.showThree(w)
}

// showThree prints what will be done.
func (g *growth) showThree(w thirdPlane) error {
	var out strings.Builder
	line := func(format string, a ...any) { _, _ = fmt.Fprintf(&out, format+"\n", a...) }
	line("%s becomes the third control plane of this site, at %s.", g.name, g.address)
	line("  by the agents of %s and %s:", w.here, w.peer)
	line("    %s is installed, and its etcd gets all data without a vote", g.name)
	line("      if %s or %s is lost until then, the other one goes on alone and takes the plan back", w.here, w.peer)
	line("    both etcd keepers give up their right to go on alone, and the third member gets its vote:")
	line("      for about a second the loss of %s or %s stops writes until it is back; nothing is lost", w.here, w.peer)
	line("      from then on the plan only goes forward")
	line("    Pacemaker goes into maintenance; etcd of %s, then of %s, goes to kubelet, while the other two members serve", w.peer, w.here)
	line("    Corosync, Pacemaker and the etcd keepers of both end; their packages stay")
	line("  the cluster:")
	showUndressing(line, w.changes)
	line("  afterwards any one of the three may be lost, and nobody is fenced")
	_, err := fmt.Fprint(g.streams.Out, out.String())
	return err
}

// runThree goes on with a plan that is under way.
func (g *growth) runThree(ctx context.Context, plan *widen.Plan) error {
	g.name = plan.New.Name
	here, err := g.effects.name()
	switch {
	case err != nil:
		return err
	case plan.Survivor != here && plan.Alone != here:
		lost := ""
		if widen.Handing.After(plan.Stage) {
			lost = fmt.Sprintf("; if that host is lost, %s takes the plan back by itself once it went on alone", here)
		}
		return coded(command.ExitRefused, "refused: %s carries the plan for %s: type the command there%s", plan.Survivor, g.name, lost)
	case g.abort:
		return g.takeBackThree(ctx, plan)
	case g.file != "":
		return coded(command.ExitRefused, "refused: the plan for %s has begun: run the command without --install-config to follow it", g.name)
	case g.gone != "":
		if err := g.sayThirdGone(plan); err != nil {
			return err
		}
	}
	if err := g.goesOnThree(plan); err != nil {
		return err
	}
	return g.followThree(ctx, plan.ID)
}

// goesOnThree drops the wish of a person who asked to take the plan back, was too late for that or has
// thought better of it, and wants it to go on.
func (g *growth) goesOnThree(plan *widen.Plan) error {
	wish, err := g.store.WidenWish()
	if err != nil || wish == nil || !wish.Abort || wish.ID != plan.ID || plan.Stage != widen.LettingIn {
		return err
	}
	return g.store.DropWidenWish()
}

// sayThirdGone tells the agent that the third machine, which votes, will not come back, so that the plan
// goes on without it.
func (g *growth) sayThirdGone(plan *widen.Plan) error {
	switch {
	case widen.Handing.After(plan.Stage):
		return coded(command.ExitRefused, "refused: the plan can still be taken back: add --abort")
	case plan.Stage.After(widen.Handing):
		return coded(command.ExitRefused, "refused: the plan does not wait for %s any more: once it is whole, holdfast host replace %[1]s --is-gone %s", g.name, g.gone)
	}
	if why := g.lostThird(plan); why != "" {
		return coded(command.ExitRefused, "refused: %s", why)
	}
	wish := g.wideWish(plan.ID)
	wish.New, wish.Gone = plan.New, true
	return g.store.PutWidenWish(wish)
}

// takeBackThree asks the agent to take the plan back, and waits for it.
func (g *growth) takeBackThree(ctx context.Context, plan *widen.Plan) error {
	if plan.Stage.After(widen.TakingBack) {
		way := g.again()
		if g.gone != "" {
			way = "leave --abort out"
		}
		return coded(command.ExitRefused, "refused: %s votes, so there is only the way forward: %s", g.name, way)
	}
	if g.gone != "" {
		if why := g.lostThird(plan); why != "" {
			return coded(command.ExitRefused, "refused: %s", why)
		}
	}
	return g.askBackThree(ctx, plan, g.gone != "")
}

// askBackThree writes the wish by which a plan is taken back, and follows it. gone is true if the third
// machine will not come back.
func (g *growth) askBackThree(ctx context.Context, plan *widen.Plan, gone bool) error {
	wish := g.wideWish(plan.ID)
	wish.New, wish.Abort, wish.Gone = plan.New, true, gone
	if err := g.store.PutWidenWish(wish); err != nil {
		return err
	}
	return g.followThree(ctx, plan.ID)
}

// lostThird returns why a person may not say that the third machine is lost for good, empty if it may.
func (g *growth) lostThird(plan *widen.Plan) string {
	if plan.Third == 0 {
		return plan.New.Name + " was not let in yet, so nothing has to be said about its machine: leave --is-gone out"
	}
	return replace.MachineProblem(g.gone, plan.Newcomer.Machine, plan.New.Name)
}

// dropThree drops a wish whose gates are closed, and reports whether there was one.
func (g *growth) dropThree() (bool, error) {
	wish, err := g.store.WidenWish()
	if err != nil || wish == nil {
		return false, err
	}
	return true, g.store.DropWidenWish()
}

// followThree shows what the agent does until the plan is over, a person is needed, or the time is up.
func (g *growth) followThree(ctx context.Context, id string) error {
	return g.followPlan(ctx, id, followed{
		doing: g.doingThree,
		there: func() (bool, error) {
			wish, err := g.store.WidenWish()
			plan, unread := g.store.WidenPlan()
			return wish != nil && wish.ID == id || plan != nil && plan.ID == id, errors.Join(err, unread)
		},
		ended: func() (bool, error) {
			plan, err := g.store.WidenPlan()
			now, unread := g.doingThree()
			if err := errors.Join(err, unread); err != nil || plan == nil || plan.ID != id || !plan.Stage.Over() || !g.lockGone(now) {
				return false, err
			}
			return true, g.endedThree(plan)
		},
		drop:  g.store.DropWidenWish,
		joins: "coming.await",
	})
}

// doingThree returns the last decision of this host's agent, nil for none.
func (g *growth) doingThree() (*replacement.Doing, error) {
	d, err := g.store.WidenDoing()
	if err != nil || d == nil {
		return nil, err
	}
	return &replacement.Doing{Step: d.Step, Rule: d.Rule, Words: d.Words, Way: d.Way, Wish: d.Wish, Gates: d.Gates, Problem: d.Problem}, nil
}

func (g *growth) endedThree(plan *widen.Plan) error {
	back, words := plan.Stage == widen.Aborted, plan.New.Name+" is the third control plane: any one may be lost"
	if back {
		words = "taken back: " + plan.Ended + "; the site has two control planes as before"
	}
	return g.over(plan, back, words, "the plan for "+plan.New.Name)
}
