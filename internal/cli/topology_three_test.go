package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// newThreeRun is one run of topology on cp-1 of a site of two, with a file of three control planes.
func newThreeRun(t *testing.T, agent func(n int, g *growthRun)) *growthRun {
	t.Helper()
	g, _ := newShrinkRun(t, agent)
	two := sitetest.TwoDual
	from, to := strings.Index(two, "controlPlane:"), strings.Index(two, "networking:")
	put(t, os.WriteFile(g.file, []byte(two[:from]+"controlPlane: {replicas: 3}\n"+two[to:]), 0o600))
	g.newName, g.address, g.keepAccount = "cp-3", "192.168.7.13", false
	return g
}

func widePlan(id string, s widen.Stage) widen.Plan {
	return widen.Plan{Format: widen.Format, ID: id, Widens: true, Survivor: "cp-1", Peer: "cp-2", New: replace.New{Name: "cp-3", Address: "192.168.7.13"}, Stage: s}
}

func wishOf(t *testing.T, g *growthRun) widen.Wish {
	t.Helper()
	w, err := g.store.WidenWish()
	if err != nil || w == nil {
		t.Fatalf("no wish: %v", err)
	}
	return *w
}

func TestAThirdControlPlaneIsFollowedToItsEnd(t *testing.T) {
	id := ""
	g := newThreeRun(t, func(n int, g *growthRun) {
		switch n {
		case 1:
			id = wishOf(t, g).ID
			put(t, g.store.PutWidenPlan(widePlan(id, widen.Coming)), g.store.PutWidenDoing(replacement.WidenDoing{Step: "W3", Rule: "coming.await", Words: "waits until cp-3 is installed"}))
		case 2:
			put(t, g.store.PutWidenDoing(replacement.WidenDoing{Step: "W4", Rule: "letting.votes", Words: "waits until cp-3 votes"}))
		case 3:
			put(t, g.store.PutWidenPlan(widePlan(id, widen.Whole)))
		}
	})
	put(t, g.run(t.Context()))
	if w := wishOf(t, g); w.New != (replace.New{Name: "cp-3", Address: "192.168.7.13"}) || w.By != "ada" || w.Abort || w.Dry || w.At.IsZero() {
		t.Errorf("the wish: %+v", w)
	}
	if o, err := g.store.Order(); o != nil || err != nil || g.prepared > 0 {
		t.Errorf("something else was ordered: %+v, %v", o, err)
	}
	if data, err := os.ReadFile(g.joinFile); err != nil || string(data) != "pointer of cp-3" {
		t.Errorf("the join file: %q, %v", data, err)
	}
	out := g.r.out.String()
	for _, part := range []string{
		"cp-3 becomes the third control plane of this site, at 192.168.7.13", "the loss of cp-1 or cp-2 stops writes until it is back", "etcd of cp-2, then of cp-1, goes to kubelet",
		"Infrastructure cluster, its status", "cp-3 is the third control plane: any one may be lost\n",
	} {
		if !strings.Contains(out, part) {
			t.Errorf("no word of %q in\n%s", part, out)
		}
	}
	if errs := g.r.errs.String(); !strings.Contains(errs, "W4 waits until cp-3 votes") {
		t.Error(errs)
	}
}

func TestAPlanOfAThirdControlPlaneChangesNothing(t *testing.T) {
	g := newThreeRun(t, func(int, *growthRun) { t.Error("the command waits") })
	put(t, g.plan(t.Context()))
	if w, err := g.store.WidenWish(); w != nil || err != nil || !strings.Contains(g.r.out.String(), "cp-3 becomes the third control plane") {
		t.Errorf("%v, %s", err, g.r.out.String())
	}
	for sentence, c := range map[string]struct {
		change func()
		want   string
	}{
		"no name":             {func() { g.newName = "" }, "--new-name"},
		"a name that is none": {func() { g.newName = "Cp_3" }, "--new-name"},
		"no address":          {func() { g.address = "" }, "--address"},
		"another site's file": {func() { edit(t, g.file, "{name: shop}", "{name: store}") }, "leave it as it is"},
		"a plan of another kind": {func() {
			put(t, g.store.PutPlan(replace.Plan{ID: "p9", Old: replace.Old{Name: "cp-2"}, New: replace.New{Name: "cp-2"}, Stage: replace.Retired}))
		}, "replaces cp-2"},
	} {
		g = newThreeRun(t, func(int, *growthRun) { t.Errorf("%s: the command waits", sentence) })
		c.change()
		if err := g.run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", sentence, err)
		}
		if w, err := g.store.WidenWish(); w != nil || err != nil {
			t.Errorf("%s: there is a wish: %v", sentence, err)
		}
	}
}

func edit(t *testing.T, path, from, to string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(data), from) {
		t.Fatalf("%s has no %s: %v", path, from, err)
	}
	put(t, os.WriteFile(path, []byte(strings.Replace(string(data), from, to, 1)), 0o600))
}

func TestAThirdControlPlaneIsTakenBackUntilItVotes(t *testing.T) {
	g := newThreeRun(t, func(_ int, g *growthRun) {
		if w := wishOf(t, g); w.Abort && w.ID == "p1" {
			p := widePlan("p1", widen.Aborted)
			p.Ended = "an administrator took it back"
			put(t, g.store.PutWidenPlan(p))
		}
	})
	g.abort, g.file = true, ""
	for _, stage := range []widen.Stage{widen.Planned, widen.Coming, widen.LettingIn, widen.TakingBack} {
		put(t, g.store.DropWidenWish(), g.store.PutWidenPlan(widePlan("p1", stage)))
		g.r.out.Reset()
		put(t, g.run(t.Context()))
		if out := g.r.out.String(); out != "taken back: an administrator took it back; the site has two control planes as before\n" {
			t.Errorf("%s: %s", stage, out)
		}
	}
	for _, stage := range []widen.Stage{widen.Handing, widen.Ending, widen.Dressing} {
		put(t, g.store.DropWidenWish(), g.store.PutWidenPlan(widePlan("p1", stage)))
		if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "cp-3 votes, so there is only the way forward") {
			t.Errorf("%s: %v", stage, err)
		}
		if w, err := g.store.WidenWish(); w != nil || err != nil {
			t.Errorf("%s: there is a wish: %v", stage, err)
		}
	}
}

func TestAThirdControlPlaneThatVotesIsSaidToBeLostByItsSerialNumber(t *testing.T) {
	g := newThreeRun(t, func(_ int, g *growthRun) {
		if w := wishOf(t, g); w.Abort && w.Gone {
			p := widePlan("p1", widen.Aborted)
			p.Ended = "an administrator said that cp-3 will not come back"
			put(t, g.store.PutWidenPlan(p))
		}
	})
	g.abort, g.file, g.gone = true, "", "S3"
	p := widePlan("p1", widen.LettingIn)
	for sentence, c := range map[string]struct {
		third  state.MemberID
		serial string
		want   string
	}{
		"it was not let in":              {0, "", "leave --is-gone out"},
		"its serial number is not known": {7, "", "is not known"},
		"another machine":                {7, "S4", "S3 is not the serial number of cp-3"},
	} {
		p.Third, p.Newcomer.Machine.Serial = c.third, c.serial
		put(t, g.store.PutWidenPlan(p))
		if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", sentence, err)
		}
		if w, err := g.store.WidenWish(); w != nil || err != nil {
			t.Errorf("%s: there is a wish: %v", sentence, err)
		}
	}
	p.Third, p.Newcomer.Machine.Serial = 7, "S3"
	put(t, g.store.PutWidenPlan(p), g.run(t.Context()))
	if out := g.r.out.String(); out != "taken back: an administrator said that cp-3 will not come back; the site has two control planes as before\n" {
		t.Error(out)
	}
}

func TestAThirdControlPlaneThatIsLostWhileEtcdMovesIsSaidToBeLostByItsSerialNumber(t *testing.T) {
	p := widePlan("p1", widen.Handing)
	p.Third, p.Newcomer.Machine.Serial = 7, "S3"
	g := newThreeRun(t, func(_ int, g *growthRun) {
		if w := wishOf(t, g); w.Gone && !w.Abort && w.ID == "p1" && w.New == p.New {
			whole := p
			whole.Stage = widen.Whole
			put(t, g.store.PutWidenPlan(whole))
		}
	})
	g.file = ""
	for sentence, c := range map[string]struct {
		stage        widen.Stage
		serial, want string
	}{
		"it can be taken back": {widen.LettingIn, "S3", "add --abort"},
		"another machine":      {widen.Handing, "S9", "S9 is not the serial number of cp-3"},
		"nobody waits for it":  {widen.Ending, "S3", "holdfast host replace cp-3 --is-gone S3"},
	} {
		p.Stage, g.gone = c.stage, c.serial
		put(t, g.store.PutWidenPlan(p))
		if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", sentence, err)
		}
		if w, err := g.store.WidenWish(); w != nil || err != nil {
			t.Errorf("%s: there is a wish: %v", sentence, err)
		}
	}
	p.Stage, g.gone, g.abort = widen.Handing, "S3", true
	put(t, g.store.PutWidenPlan(p))
	if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "leave --abort out") {
		t.Errorf("taken back: %v", err)
	}
	g.abort = false
	put(t, g.run(t.Context()))
	if out := g.r.out.String(); !strings.Contains(out, "cp-3 is the third control plane") {
		t.Error(out)
	}
}

func TestAWishWhoseGatesAreClosedIsRefusedAndDropped(t *testing.T) {
	g := newThreeRun(t, func(_ int, g *growthRun) {
		w, err := g.store.WidenWish()
		if err != nil || w == nil {
			return
		}
		put(t, g.store.PutWidenDoing(replacement.WidenDoing{Rule: "rest.refuse", Wish: w.ID, Gates: []replace.Gate{{ID: "backup", Words: "there is none", Way: "sudo holdfast backup create"}}}))
	})
	err := g.run(t.Context())
	if exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "backup: there is none (type: sudo holdfast backup create)") {
		t.Error(err)
	}
	if w, err := g.store.WidenWish(); w != nil || err != nil {
		t.Errorf("there is a wish: %v", err)
	}
	// --abort drops a wish that waits, too
	put(t, g.store.PutWidenWish(widen.Wish{ID: "p2", At: time.Now()}))
	g.abort, g.file = true, ""
	put(t, g.run(t.Context()))
	if w, err := g.store.WidenWish(); w != nil || err != nil {
		t.Errorf("there is a wish: %v", err)
	}
}

func TestAPlanUnderWayIsFollowedOnItsHostAlone(t *testing.T) {
	for sentence, c := range map[string]struct {
		host, file string
		want       string
	}{
		"the other host":      {"cp-2", "", "cp-1 carries the plan for cp-3: type the command there"},
		"it begins once more": {"cp-1", "x.yaml", "run the command without --install-config to follow it"},
	} {
		g := newThreeRun(t, func(int, *growthRun) { t.Errorf("%s: the command waits", sentence) })
		g.file, g.effects.name = c.file, func() (string, error) { return c.host, nil }
		put(t, g.store.PutWidenPlan(widePlan("p1", widen.Handing)))
		if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", sentence, err)
		}
	}
	// The host that went on alone carries it.
	alone := newThreeRun(t, func(_ int, g *growthRun) {
		p := widePlan("p1", widen.Aborted)
		p.Ended, p.Alone = "cp-2 went on alone", "cp-2"
		put(t, g.store.PutWidenPlan(p))
	})
	alone.file, alone.effects.name = "", func() (string, error) { return "cp-2", nil }
	coming := widePlan("p1", widen.Coming)
	put(t, alone.store.PutWidenPlan(coming))
	if err := alone.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "if that host is lost, cp-2 takes the plan back by itself once it went on alone") {
		t.Error(err)
	}
	coming.Stage, coming.Alone = widen.TakingBack, "cp-2"
	put(t, alone.store.PutWidenPlan(coming))
	if err := alone.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(alone.r.out.String(), "taken back: cp-2 went on alone; the site has two control planes as before") {
		t.Errorf("%v: %s", err, alone.r.out.String())
	}
	g := newThreeRun(t, func(n int, g *growthRun) {
		if n == 2 {
			put(t, g.store.PutWidenPlan(widePlan("p1", widen.Whole)))
		}
	})
	g.file = ""
	put(t, g.store.PutWidenPlan(widePlan("p1", widen.Dressing)))
	put(t, g.run(t.Context()))
	put(t, g.run(t.Context())) // it has ended since
	if out := g.r.out.String(); strings.Count(out, "cp-3 is the third control plane") != 2 {
		t.Error(out)
	}
}

func TestAGateOfAThirdControlPlaneNamesOnlyFlagsThatTheCommandHas(t *testing.T) {
	cmd, seen := newTopologyApply(Streams{}), 0
	for _, g := range replace.Closed(widen.Gates(widen.Facts{}, widen.Wish{})) {
		for _, name := range regexp.MustCompile(`--[a-z-]+`).FindAllString(g.Way, -1) {
			if !strings.Contains(g.Way, "topology apply") {
				continue
			}
			seen++
			if cmd.Flags().Lookup(strings.TrimPrefix(name, "--")) == nil {
				t.Errorf("the gate %s names %s, which topology apply does not have: %s", g.ID, name, g.Way)
			}
		}
	}
	if seen == 0 {
		t.Error("no gate names a flag")
	}
}

// TestAnAbortOfThreeThatComesTooLateIsRefusedOnceThePlanIsWhole, and a person who was asked may let it go on.
func TestAnAbortOfThreeThatComesTooLateIsRefusedOnceThePlanIsWhole(t *testing.T) {
	asked := false
	g := newThreeRun(t, func(_ int, g *growthRun) {
		w, err := g.store.WidenWish()
		put(t, err)
		switch {
		case w != nil && w.Abort && asked:
			put(t, g.store.PutWidenDoing(replacement.WidenDoing{Rule: widen.AskedRule, Words: "cp-3 votes already"}))
		default:
			put(t, g.store.PutWidenPlan(widePlan("p1", widen.Whole)))
		}
	})
	g.abort, g.file = true, ""
	put(t, g.store.PutWidenPlan(widePlan("p1", widen.LettingIn)))
	if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "the plan for cp-3 was not taken back: it is whole") {
		t.Error(err)
	}
	asked, g.abort = true, false
	put(t, g.store.PutWidenPlan(widePlan("p1", widen.LettingIn)), g.store.PutWidenWish(widen.Wish{ID: "p1", Abort: true}), g.store.PutWidenDoing(replacement.WidenDoing{Rule: widen.AskedRule}))
	put(t, g.run(t.Context()))
	if w, err := g.store.WidenWish(); w != nil || err != nil {
		t.Errorf("the plan waits still: %+v, %v", w, err)
	}
}
