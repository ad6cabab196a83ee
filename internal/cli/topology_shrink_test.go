package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// newShrinkRun is one run of topology on cp-1 of a site of two, with a file of one control plane.
func newShrinkRun(t *testing.T, agent func(n int, g *growthRun)) (g *growthRun, kept *[]*site.Site) {
	t.Helper()
	g = newGrowthRun(t, agent)
	two := sitetest.TwoDual
	from, to := strings.Index(two, "controlPlane:"), strings.Index(two, "networking:")
	put(t, os.WriteFile(g.file, []byte(two[:from]+"controlPlane: {replicas: 1}\n"+two[to:]), 0o600))
	kept = &[]*site.Site{}
	g.address, g.keepAccount = "", true
	g.effects.here = func() (*site.Site, error) { return sitetest.New(t, two).For(state.RoleBootstrap).Settled(), nil }
	g.effects.peer = func() (string, error) { return "cp-2", nil }
	g.effects.keep = func(s *site.Site) error { *kept = append(*kept, s); return nil }
	return g, kept
}

func TestAShrinkingSiteIsFollowedToItsEnd(t *testing.T) {
	g, kept := newShrinkRun(t, func(n int, g *growthRun) {
		p := decide.Plan{ID: g.r.orderID(t), Shrinks: true, Survivor: "cp-1", Old: decide.Old{Name: "cp-2"}, Stage: decide.Narrowing}
		if n > 2 {
			p.Stage = decide.Whole
		}
		put(t, g.store.PutPlan(p))
	})
	put(t, g.run(t.Context()))
	o, err := g.store.Order()
	if err != nil || !o.Wish.Shrinks || o.Wish.Grows || o.Wish.Old != "cp-2" || o.Wish.New != (decide.New{}) || !o.Wish.Accepts.KeepAccount {
		t.Errorf("the order: %+v, %v", o, err)
	}
	if len(*kept) != 1 || (*kept)[0].Topology().ControlPlanes != 1 || g.prepared > 0 {
		t.Errorf("kept %d sites, prepared %d times", len(*kept), g.prepared)
	}
	out := g.r.out.String()
	for _, part := range []string{"cp-2 goes for good, and cp-1 is the only control plane", "Infrastructure cluster, its status", "Etcd cluster: is deleted", "cp-1 is the only control plane: its disk holds everything\n"} {
		if !strings.Contains(out, part) {
			t.Errorf("no word of %q in\n%s", part, out)
		}
	}
}

func TestAPlanOfAShrinkingSiteChangesNothing(t *testing.T) {
	g, kept := newShrinkRun(t, func(int, *growthRun) { t.Error("the command waits") })
	put(t, g.plan(t.Context()))
	if o, err := g.store.Order(); o != nil || err != nil || len(*kept) > 0 || !strings.Contains(g.r.out.String(), "cp-2 goes for good") {
		t.Errorf("%v, %s", err, g.r.out.String())
	}
	g.effects.here = func() (*site.Site, error) {
		s := sitetest.New(t, sitetest.OneNone)
		return s, nil
	}
	if err := g.plan(t.Context()); err == nil || !strings.Contains(err.Error(), "only a site of two control planes becomes one of one") {
		t.Errorf("a site of one shrinks: %v", err)
	}
}

func TestAShrinkingSiteIsTakenBackOnlyWhileItsHostIsNotRetired(t *testing.T) {
	g, _ := newShrinkRun(t, func(_ int, g *growthRun) {
		if o, _ := g.store.Order(); o.Wish.Abort && o.Wish.Shrinks {
			put(t, g.store.PutPlan(decide.Plan{ID: "p1", Shrinks: true, Survivor: "cp-1", Old: decide.Old{Name: "cp-2"}, Stage: decide.Aborted, Ended: "an administrator took it back"}))
		}
	})
	g.abort, g.file = true, ""
	put(t, g.store.PutPlan(decide.Plan{ID: "p1", Shrinks: true, Old: decide.Old{Name: "cp-2"}, Stage: decide.Planned}))
	put(t, g.run(t.Context()))
	for _, stage := range []decide.Stage{decide.Retired, decide.Narrowing} {
		put(t, g.store.PutPlan(decide.Plan{ID: "p1", Shrinks: true, Old: decide.Old{Name: "cp-2"}, Stage: stage}))
		if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "cp-2 is retired") {
			t.Errorf("%s: %v", stage, err)
		}
	}
}

func TestAReplacementDoesNotDisturbAPlanOfTheTopology(t *testing.T) {
	r := newReplaceRun(t, func(int, *replaceRun) { t.Error("the command waits") })
	put(t, r.store.PutPlan(decide.Plan{ID: "p1", Shrinks: true, Old: decide.Old{Name: r.name}, Stage: decide.Retired}))
	if err := r.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "sudo holdfast topology apply") {
		t.Error(err)
	}
}

func TestAGateOfAShrinkingSiteNamesOnlyFlagsThatTheCommandHas(t *testing.T) {
	onlyFlagsOfTopologyApply(t,
		[]decide.Facts{{}, {Silent: true}, {Silent: true, OldMachine: state.Machine{Serial: "S"}, Volumes: state.Known([]string{"pv-1"})}},
		[]decide.Wish{{Shrinks: true, Old: "cp-2"}, {Shrinks: true, Old: "cp-2", Accepts: decide.Accepts{Gone: "T"}}})
}

func TestTheHostThatGoesIsTheOtherOneOfTwo(t *testing.T) {
	conf := corosync.Conf{Nodes: []corosync.Node{{Name: "cp-1"}, {Name: "cp-2"}}}
	if name, err := peerIn(conf, "cp-2"); err != nil || name != "cp-1" {
		t.Errorf("%q, %v", name, err)
	}
	for _, own := range []string{"cp-3", ""} {
		if name, err := peerIn(conf, own); err == nil {
			t.Errorf("%q: %q", own, name)
		}
	}
	conf.Nodes = conf.Nodes[:1]
	if name, err := peerIn(conf, "cp-1"); exitOfReplace(err) != command.ExitRefused {
		t.Errorf("alone: %q, %v", name, err)
	}
}
