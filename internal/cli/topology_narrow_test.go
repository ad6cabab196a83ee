package cli

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/plans"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// leaving is the host that goes.
var leaving = replace.Old{Name: "cp-3", Address: "192.168.7.13", UID: "u3", Machine: state.Machine{UUID: "m3", Serial: "S3"}}

// newNarrowRun is one run of topology on cp-1 of a site of three, with a file of two control planes.
func newNarrowRun(t *testing.T, agent func(n int, g *growthRun)) *growthRun {
	t.Helper()
	g := newGrowthRun(t, agent)
	text := sitetest.TwoDual
	from, to := strings.Index(text, "controlPlane:"), strings.Index(text, "networking:")
	three := text[:from] + "controlPlane: {replicas: 3}\n" + text[to:]
	g.address = ""
	g.effects.here = func() (*site.Site, error) { return sitetest.New(t, three).For(state.RoleBootstrap).Settled(), nil }
	g.effects.planes = func(context.Context) ([]planeFacts, error) {
		return []planeFacts{
			{Name: "cp-1", Address: "192.168.7.11", UID: "u1", Member: 1, Machine: state.Machine{UUID: "m1"}},
			{Name: "cp-2", Address: "192.168.7.12", UID: "u2", Member: 2, Machine: state.Machine{UUID: "m2"}},
			{Name: "cp-3", Address: "192.168.7.13", UID: "u3", Member: 7, Machine: leaving.Machine},
		}, nil
	}
	g.effects.record = func() (state.EtcdState, error) { return state.EtcdNone, nil }
	g.effects.test = func(_ context.Context, dev state.FencingDevice) fence.Report {
		if want := map[string]string{"cp-1": "m1", "cp-2": "m2"}[dev.Target]; dev.UUID != want {
			t.Errorf("the BMC of %s is tested for the machine %s", dev.Target, dev.UUID)
		}
		return fence.Report{Target: dev.Target, Identity: map[bool]fence.Identity{true: g.ours, false: fence.IdentityMatches}[dev.Target == "cp-2"]}
	}
	return g
}

func narrowPlan(id string, s narrow.Stage) narrow.Plan {
	return narrow.Plan{Format: narrow.Format, ID: id, Narrows: true, Survivor: "cp-1", Peer: "cp-2", Old: leaving, Third: 7, Stage: s}
}

func narrowWish(t *testing.T, g *growthRun) narrow.Wish {
	t.Helper()
	w, err := g.store.NarrowWish()
	if err != nil || w == nil {
		t.Fatalf("no wish: %v", err)
	}
	return *w
}

// nothingBegan fails if a run left a wish or accounts of BMCs.
func nothingBegan(t *testing.T, sentence string, g *growthRun) {
	t.Helper()
	w, err := g.store.NarrowWish()
	target, unread := g.store.NarrowTarget()
	if w != nil || target != nil || err != nil || unread != nil {
		t.Errorf("%s: left behind: %+v, a target: %t, %v", sentence, w, target != nil, errors.Join(err, unread))
	}
}

func TestASiteOfThreeIsFollowedUntilItHasTwo(t *testing.T) {
	id := ""
	g := newNarrowRun(t, func(n int, g *growthRun) {
		switch n {
		case 1:
			id = narrowWish(t, g).ID
			put(t, g.store.PutNarrowPlan(narrowPlan(id, narrow.Handing)), g.store.PutNarrowDoing(replacement.NarrowDoing{Step: "N5", Rule: "hand.turn", Words: "waits until etcd of cp-2 runs under its etcd keeper"}))
		case 2:
			put(t, g.store.PutNarrowPlan(narrowPlan(id, narrow.Whole)))
		}
	})
	put(t, g.run(t.Context()))
	if w := narrowWish(t, g); w.Old != leaving || w.Third != 7 || w.By != "ada" || w.Abort || w.Dry || w.At.IsZero() {
		t.Errorf("the wish: %+v", w)
	}
	target, err := g.store.NarrowTarget()
	if err != nil || target == nil || target.Site.Topology().ControlPlanes != 2 || len(target.Devices) != 2 || target.Devices[0].Password == "" || target.Devices[0].Delay == target.Devices[1].Delay {
		t.Fatalf("the target: %+v, %v", target, err)
	}
	if o, err := g.store.Order(); o != nil || err != nil || g.prepared > 0 {
		t.Errorf("something else was ordered: %+v, %v", o, err)
	}
	out := g.r.out.String()
	for _, part := range []string{
		"cp-3 goes for good, and cp-1 and cp-2 are the two control planes of this site, which fence each other", "the loss of cp-1 or cp-2 stops writes until it is back",
		"etcd of cp-2, then of cp-1, goes from kubelet to its etcd keeper", "Infrastructure cluster, its status", "cp-1 and cp-2 are the two control planes: either host may be lost",
	} {
		if !strings.Contains(out, part) {
			t.Errorf("no word of %q in\n%s", part, out)
		}
	}
	if strings.Contains(out+g.r.errs.String(), target.Devices[0].Password) {
		t.Error("a password of a BMC is in the output")
	}
}

func TestAPairOfThreeMayBeKnownByItsSystemIDsAlone(t *testing.T) {
	g := newNarrowRun(t, func(_ int, g *growthRun) {
		put(t, g.store.PutNarrowPlan(narrowPlan(narrowWish(t, g).ID, narrow.Whole)))
	})
	nameSystems(t, g.file)
	g.effects.test = func(_ context.Context, dev state.FencingDevice) fence.Report {
		return named(dev, map[string]string{"cp-1": "B1", "cp-2": "B2"}[dev.Target])
	}
	put(t, g.run(t.Context()))
	if target, err := g.store.NarrowTarget(); err != nil || target.Devices[0].SystemID != "B1" || target.Devices[1].SystemID != "B2" {
		t.Errorf("the target: %+v, %v", target, err)
	}
}

func TestAPlanOfTwoOfThreeShowsItsGatesAndLeavesNothing(t *testing.T) {
	for sentence, c := range map[string]struct {
		gates []replace.Gate
		exit  int
		want  string
	}{
		"all are open":  {[]replace.Gate{{ID: "three", Open: true}, {ID: "serve", Open: true}}, command.ExitOK, "serve    open"},
		"one is closed": {[]replace.Gate{{ID: "three", Open: true}, {ID: "serve", Words: "cp-3 is lost", Way: "holdfast host replace cp-3"}}, command.ExitRefused, "serve    closed: cp-3 is lost"},
	} {
		g := newNarrowRun(t, func(_ int, g *growthRun) {
			if w, _ := g.store.NarrowWish(); w != nil {
				if !w.Dry {
					t.Error("the plan would begin")
				}
				put(t, g.store.PutNarrowDoing(replacement.NarrowDoing{Rule: "rest.dry", Wish: w.ID, Gates: c.gates}))
			}
		})
		sleep, waits := g.sleep, 0
		g.sleep = func(ctx context.Context, d time.Duration) error {
			if waits++; waits > 3 { // the time is over
				return context.DeadlineExceeded
			}
			return sleep(ctx, d)
		}
		err := g.plan(t.Context())
		if exitOfReplace(err) != c.exit || !strings.Contains(g.r.out.String(), "cp-3 goes for good") || !strings.Contains(g.r.out.String(), c.want) {
			t.Errorf("%s: %v: %s", sentence, err, g.r.out.String())
		}
		nothingBegan(t, sentence, g)
	}
}

func TestAFileOfTwoIsRefusedForItsOwnReasonBeforeAnythingIsWritten(t *testing.T) {
	for sentence, c := range map[string]struct {
		change func(g *growthRun)
		want   string
	}{
		"this host goes":             {func(g *growthRun) { g.effects.name = func() (string, error) { return "cp-3", nil } }, "this host, cp-3, among them"},
		"a host that is none stays":  {func(g *growthRun) { edit(t, g.file, "hostname: cp-2", "hostname: cp-9") }, "name the BMCs of the two control planes that stay"},
		"another site's file":        {func(g *growthRun) { edit(t, g.file, "{name: shop}", "{name: store}") }, "leave it as it is"},
		"the BMC of another machine": {func(g *growthRun) { g.ours = fence.IdentityDiffers }, "BMC of cp-2 at"},
		"a member without a Node": {func(g *growthRun) {
			g.effects.planes = func(context.Context) ([]planeFacts, error) { return []planeFacts{{Name: "cp-1"}, {Name: "cp-2"}}, nil }
		}, "has 2 control planes with a Node and a member of etcd"},
		"a plan of another kind": {func(g *growthRun) {
			put(t, g.store.PutPlan(replace.Plan{ID: "p9", Old: replace.Old{Name: "cp-2"}, New: replace.New{Name: "cp-2"}, Stage: replace.Retired}))
		}, "replaces cp-2"},
	} {
		g := newNarrowRun(t, func(int, *growthRun) { t.Errorf("%s: the command waits", sentence) })
		c.change(g)
		if err := g.run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", sentence, err)
		}
		nothingBegan(t, sentence, g)
	}
}

func TestAPlanForTwoIsTakenBackUntilEtcdChangesHands(t *testing.T) {
	g := newNarrowRun(t, func(_ int, g *growthRun) {
		if w := narrowWish(t, g); w.Abort && w.ID == "p1" {
			p := narrowPlan("p1", narrow.Aborted)
			p.Ended = "an administrator took it back"
			put(t, g.store.PutNarrowPlan(p))
		}
	})
	g.abort, g.file = true, ""
	for _, stage := range []narrow.Stage{narrow.Planned, narrow.Preparing, narrow.Dressing, narrow.Pairing, narrow.TakingBack} {
		put(t, g.store.DropNarrowWish(), g.store.PutNarrowPlan(narrowPlan("p1", stage)))
		g.r.out.Reset()
		put(t, g.run(t.Context()))
		if out := g.r.out.String(); out != "taken back: an administrator took it back; the site has three control planes as before\n" {
			t.Errorf("%s: %s", stage, out)
		}
	}
	for _, stage := range []narrow.Stage{narrow.Handing, narrow.Parting, narrow.Forgetting} {
		put(t, g.store.DropNarrowWish(), g.store.PutNarrowPlan(narrowPlan("p1", stage)))
		if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "there is only the way forward") {
			t.Errorf("%s: %v", stage, err)
		}
		nothingBegan(t, string(stage), g)
	}
}

func TestAWishForTwoWhoseGatesAreClosedIsDroppedWithTheAccounts(t *testing.T) {
	g := newNarrowRun(t, func(_ int, g *growthRun) {
		if w, _ := g.store.NarrowWish(); w != nil {
			put(t, g.store.PutNarrowDoing(replacement.NarrowDoing{Rule: "rest.refuse", Wish: w.ID, Gates: []replace.Gate{{ID: "backup", Words: "there is none", Way: "holdfast backup now"}}}))
		}
	})
	if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "backup: there is none (type: holdfast backup now)") {
		t.Error(err)
	}
	nothingBegan(t, "a closed gate", g)
	put(t, g.store.PutNarrowWish(narrow.Wish{ID: "p2", At: time.Now()}), os.WriteFile(g.store.Path(replacement.NarrowTargetPath), []byte("{}"), 0o600))
	g.abort, g.file = true, ""
	put(t, g.run(t.Context()))
	nothingBegan(t, "--abort of a wish that waits", g)
}

func TestAPlanForTwoIsFollowedOnItsHostOrOnASurvivor(t *testing.T) {
	for sentence, c := range map[string]struct {
		host, file string
		stage      narrow.Stage
		record     state.EtcdState
		want       string
	}{
		"the other host":              {"cp-2", "", narrow.Handing, state.EtcdMajority, "cp-1 carries the plan by which cp-3 goes: type the command there"},
		"one of a pair":               {"cp-2", "", narrow.Forgetting, state.EtcdPair, "cp-1 carries the plan"},
		"it begins once more":         {"cp-1", "x.yaml", narrow.Handing, state.EtcdMajority, "run the command without --install-config to follow it"},
		"one that went on alone":      {"cp-2", "", narrow.Forgetting, state.EtcdSole, ""},
		"the host where it was begun": {"cp-1", "", narrow.Pairing, state.EtcdMajority, ""},
	} {
		g := newNarrowRun(t, func(_ int, g *growthRun) {
			if c.want != "" {
				t.Errorf("%s: the command waits", sentence)
			}
			put(t, g.store.PutNarrowPlan(narrowPlan("p1", narrow.Whole)))
		})
		g.file, g.effects.name, g.effects.record = c.file, func() (string, error) { return c.host, nil }, func() (state.EtcdState, error) { return c.record, nil }
		put(t, g.store.PutNarrowPlan(narrowPlan("p1", c.stage)))
		err := g.run(t.Context())
		if c.want == "" && (err != nil || !strings.Contains(g.r.out.String(), "either host may be lost")) || c.want != "" && (exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v: %s", sentence, err, g.r.out.String())
		}
	}
	// It has ended since.
	g := newNarrowRun(t, func(int, *growthRun) { t.Error("the command waits") })
	g.file = ""
	put(t, g.store.PutNarrowPlan(narrowPlan("p1", narrow.Whole)), g.run(t.Context()))
	if out := g.r.out.String(); !strings.Contains(out, "wipe the disk of cp-3") {
		t.Error(out)
	}
}

func TestAHostThatGoesIsSaidToBeLostByItsSerialNumber(t *testing.T) {
	g := newNarrowRun(t, func(_ int, g *growthRun) {
		if w := narrowWish(t, g); w.Accepts.Gone && w.ID == "p1" && w.Old == leaving {
			put(t, g.store.PutNarrowPlan(narrowPlan("p1", narrow.Whole)))
		}
	})
	g.file, g.gone = "", "S9"
	put(t, g.store.PutNarrowPlan(narrowPlan("p1", narrow.Pairing)))
	if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), `is not the serial number of cp-3`) {
		t.Error(err)
	}
	nothingBegan(t, "another machine", g)
	g.gone = "S3"
	put(t, g.run(t.Context()))
}

func TestAGateOfTwoOfThreeNamesOnlyFlagsThatTheCommandHas(t *testing.T) {
	cmd, seen := newTopologyApply(Streams{}), 0
	for _, g := range replace.Closed(narrow.Gates(narrow.Facts{Plan: &narrow.Plan{}}, narrow.Wish{})) {
		for _, name := range regexp.MustCompile(`--[a-z-]+`).FindAllString(g.Way, -1) {
			seen++
			if strings.Contains(g.Way, "topology apply") && cmd.Flags().Lookup(strings.TrimPrefix(name, "--")) == nil {
				t.Errorf("the gate %s names %s, which topology apply does not have: %s", g.ID, name, g.Way)
			}
		}
	}
	if seen == 0 {
		t.Error("no gate names a flag")
	}
}

// TestAnEndedPlanThatHoldsTheLockIsLetGoByASecondAbort: while it waits for the other host it holds the lock.
func TestAnEndedPlanThatHoldsTheLockIsLetGoByASecondAbort(t *testing.T) {
	ended := narrowPlan("p1", narrow.Aborted)
	ended.Ended = "an administrator took it back"
	g := newNarrowRun(t, func(_ int, g *growthRun) {
		if w := narrowWish(t, g); w.Abort && w.ID == "p1" && w.At.After(ended.Written) {
			put(t, g.store.PutNarrowDoing(replacement.NarrowDoing{Rule: "rest"}))
		}
	})
	g.abort, g.file = true, ""
	ended.Written = g.now().Add(-time.Minute)
	first := narrow.Wish{ID: "p1", Abort: true, At: ended.Written.Add(-time.Second)} // by which it ended
	put(t, g.store.PutNarrowPlan(ended), g.store.PutNarrowWish(first), g.store.PutNarrowDoing(replacement.NarrowDoing{Rule: plans.AwaitRule}), g.run(t.Context()))
	if out := g.r.out.String(); out != "taken back: an administrator took it back; the site has three control planes as before\n" {
		t.Error(out)
	}
	put(t, g.store.DropNarrowWish())
	if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "there is no plan to take back") {
		t.Errorf("nothing is held: %v", err)
	}
}

// TestAnAbortOfTwoThatComesTooLateIsRefusedOnceThePlanIsWhole, in each form of output.
func TestAnAbortOfTwoThatComesTooLateIsRefusedOnceThePlanIsWhole(t *testing.T) {
	for _, output := range []string{"", "json"} {
		g := newNarrowRun(t, func(_ int, g *growthRun) { put(t, g.store.PutNarrowPlan(narrowPlan("p1", narrow.Whole))) })
		g.abort, g.file, g.output = true, "", output
		put(t, g.store.PutNarrowPlan(narrowPlan("p1", narrow.Pairing)))
		if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "was not taken back: it is whole") || g.r.out.String() == "" {
			t.Errorf("%q: %v: %s", output, err, g.r.out.String())
		}
	}
}

func TestTheOtherHostOfTwoIsSaidToBeLostByItsMachine(t *testing.T) {
	g := newNarrowRun(t, func(_ int, g *growthRun) {
		if w := narrowWish(t, g); w.Abort && w.Lost && w.ID == "p1" {
			put(t, g.store.PutNarrowPlan(narrowPlan("p1", narrow.Aborted)))
		}
	})
	put(t, g.store.PutNarrowPlan(narrowPlan("p1", narrow.Pairing)))
	target := replacement.NarrowTarget{Plan: "p1", Devices: []state.FencingDevice{{Target: "cp-1", UUID: "m1"}, {Target: "cp-2", UUID: "m2"}}}
	var err error
	target.Site, err = g.effects.here()
	put(t, err, g.store.PutNarrowTarget(target))
	g.file, g.abort = "", true
	for _, typed := range []string{"S3", "m1"} { // of the host that goes, and of this one
		g.gone = typed
		if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), typed+" is not its UUID") {
			t.Error(err)
		}
	}
	g.gone = "m2"
	put(t, g.run(t.Context()))
}

// TestAHostThatWasSaidToBeLostTakesItsPartBack, but not while the cluster has the plan.
func TestAHostThatWasSaidToBeLostTakesItsPartBack(t *testing.T) {
	locked := "p1"
	g := newNarrowRun(t, func(_ int, g *growthRun) {
		if w := narrowWish(t, g); w.Abort && !w.Lost && locked == "" {
			put(t, g.store.PutNarrowPlan(narrowPlan("p1", narrow.Aborted)))
		}
	})
	g.file, g.abort = "", true
	g.effects.name = func() (string, error) { return "cp-2", nil }
	g.effects.locked = func(context.Context) (string, error) { return locked, nil }
	put(t, g.store.PutNarrowPlan(narrowPlan("p1", narrow.Pairing)))
	if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "cp-1 carries the plan") {
		t.Error(err)
	}
	nothingBegan(t, "the cluster has the plan", g)
	locked = ""
	put(t, g.run(t.Context()))
}

// TestTheOtherHostTakesAPlanForTwoOverFromALostCarrier by the carrier's machine, until etcd changes hands, also
// if only the lock of the plan is left.
func TestTheOtherHostTakesAPlanForTwoOverFromALostCarrier(t *testing.T) {
	for stage, c := range map[narrow.Stage]struct { //nolint:exhaustive // after handing a plan goes forward alone
		typed, want string
		serves      bool // the carrier
	}{
		narrow.Planned:    {typed: "m1"},
		narrow.Pairing:    {typed: "m1"},
		narrow.TakingBack: {typed: "m1"},
		narrow.Aborted:    {typed: "m1"},
		narrow.Preparing:  {typed: "m2", want: "m2 is not its UUID"},
		narrow.Dressing:   {typed: "m1", serves: true, want: "cp-1 serves"},
		narrow.Handing:    {typed: "m1", want: "in between it has to come back"},
	} {
		locked := "p1"
		g := newNarrowRun(t, func(_ int, g *growthRun) {
			w := narrowWish(t, g)
			if !w.Abort || !w.Lost || w.ID != "p1" {
				t.Errorf("%s: the wish: %+v", stage, w)
			}
			if c.serves {
				g.r.clock = g.r.clock.Add(time.Minute)
				put(t, g.store.PutNarrowDoing(replacement.NarrowDoing{Rule: narrow.ServesRule, Words: "etcd of cp-1 serves"}))
				return
			}
			p := narrowPlan("p1", narrow.Aborted)
			p.Taken, locked = "cp-2", ""
			put(t, g.store.PutNarrowPlan(p))
		})
		g.file, g.abort, g.gone = "", true, c.typed
		g.effects.name = func() (string, error) { return "cp-2", nil }
		g.effects.locked = func(context.Context) (string, error) { return locked, nil }
		put(t, g.store.PutNarrowPlan(narrowPlan("p1", stage)))
		err := g.run(t.Context())
		if c.want == "" && (err != nil || locked != "") || c.want != "" && (exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", stage, err)
		}
		if c.want != "" {
			nothingBegan(t, string(stage), g)
		}
	}
}

// TestTheOtherHostTakesAPlanForTwoOverThoughSomebodyDeletedItsLock, also while another plan has it: the agent
// finds out whether the plan is over.
func TestTheOtherHostTakesAPlanForTwoOverThoughSomebodyDeletedItsLock(t *testing.T) {
	for _, locked := range []string{"", "p9"} {
		g := newNarrowRun(t, func(_ int, g *growthRun) {
			if w := narrowWish(t, g); !w.Abort || !w.Lost || w.ID != "p1" {
				t.Errorf("the lock of %q: the wish: %+v", locked, w)
			}
			put(t, g.store.PutNarrowPlan(narrowPlan("p1", narrow.Aborted)))
		})
		g.file, g.abort, g.gone = "", true, "m2"
		g.effects.name = func() (string, error) { return "cp-2", nil }
		g.effects.locked = func(context.Context) (string, error) { return locked, nil }
		put(t, g.store.PutNarrowPlan(narrowPlan("p1", narrow.Pairing)))
		if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "m2 is not its UUID") {
			t.Errorf("the lock of %q: another machine: %v", locked, err)
		}
		g.gone = "m1"
		put(t, g.run(t.Context()))
	}
}

// TestAPlanForTwoIsTakenOverOnce: the host that did so is not said to be lost on the one that carried it.
func TestAPlanForTwoIsTakenOverOnce(t *testing.T) {
	g := newNarrowRun(t, func(int, *growthRun) { t.Error("the command waits") })
	g.file, g.abort, g.gone = "", true, "m2"
	g.effects.locked = func(context.Context) (string, error) { return "p1", nil }
	p := narrowPlan("p1", narrow.TakingBack)
	p.Taken = "cp-2"
	put(t, g.store.PutNarrowPlan(p))
	if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "cp-2 took the plan by which cp-3 goes over already, and has to come back") {
		t.Error(err)
	}
	nothingBegan(t, "it was taken over", g)
}

// TestACarrierOfWhichNothingIsKnownIsNamed: a person deleted its Node before the other host knew its machine.
func TestACarrierOfWhichNothingIsKnownIsNamed(t *testing.T) {
	locked := "p1"
	g := newNarrowRun(t, func(_ int, g *growthRun) {
		locked = ""
		put(t, g.store.PutNarrowPlan(narrowPlan("p1", narrow.Aborted)))
	})
	g.file, g.abort, g.gone = "", true, "m1"
	g.effects.name = func() (string, error) { return "cp-2", nil }
	g.effects.locked = func(context.Context) (string, error) { return locked, nil }
	g.effects.planes = func(context.Context) ([]planeFacts, error) { return nil, nil }
	put(t, g.store.PutNarrowPlan(narrowPlan("p1", narrow.Planned)))
	if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "type its name instead") {
		t.Error(err)
	}
	g.gone = "cp-1"
	put(t, g.run(t.Context()))
}
