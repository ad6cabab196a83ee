package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/install/plan"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// growthRun is one run of topology on a lone control plane cp-1, with an agent and effects that a
// test plays.
type growthRun struct {
	*growth
	r        *replaceRun
	prepared int
	// ours and theirs are what the tests of both BMCs find.
	ours, theirs fence.Identity
}

func newGrowthRun(t *testing.T, agent func(n int, g *growthRun)) *growthRun {
	t.Helper()
	run := &growthRun{ours: fence.IdentityMatches, theirs: fence.IdentityDiffers}
	run.r = newReplaceRun(t, func(n int, _ *replaceRun) { agent(n, run) })
	two := sitetest.TwoDual
	from, to := strings.Index(two, "controlPlane:"), strings.Index(two, "networking:")
	one := two[:from] + "controlPlane: {replicas: 1}\n" + two[to:]
	file := filepath.Join(t.TempDir(), "two.yaml")
	if err := os.WriteFile(file, []byte(two), 0o600); err != nil {
		t.Fatal(err)
	}
	h := run.r.hostReplacement
	h.name, h.topology = "", true
	lone := func() (*site.Site, error) { return sitetest.New(t, one).For(state.RoleBootstrap).Settled(), nil }
	run.growth = &growth{hostReplacement: h, file: file, address: "192.168.7.12", effects: growthEffects{
		lone: func(*decide.Plan) (*site.Site, error) { return lone() }, here: lone,
		said: func(_ context.Context, installed, _ *config.InstallConfig) (*config.InstallConfig, error) {
			return installed, nil
		},
		name: func() (string, error) { return "cp-1", nil },
		own:  func() (string, string, error) { return "own", "S1", nil },
		test: func(_ context.Context, dev state.FencingDevice) fence.Report {
			if dev.Target == "cp-1" {
				return fence.Report{Identity: run.ours, Problems: []string{"as the test wants"}}
			}
			return fence.Report{Identity: run.theirs, Problems: []string{"as the test wants"}}
		},
		steps: func(context.Context, *site.Site) ([]plan.Step, error) {
			return []plan.Step{{ID: "file:/etc/x", Why: "absent"}}, nil
		},
		nodes: func(context.Context) ([]state.Node, error) { return []state.Node{{Name: "cp-1"}}, nil },
		early: func(_ context.Context, now time.Time) decide.Facts {
			return decide.Facts{
				Host: "cp-1", Now: now, Backup: state.Known(now.Add(-time.Hour)), Lock: state.Known(""), Work: state.Known(""), Moves: state.Known(""), Room: state.Known(true), Ships: state.Known(true),
			}
		},
		prepare: func(context.Context, widening, func(string, ...any)) error { run.prepared++; return nil },
	}}
	return run
}

func TestAGrowthIsFollowedToItsEnd(t *testing.T) {
	id := ""
	g := newGrowthRun(t, func(n int, g *growthRun) {
		p := decide.Plan{Grows: true, New: decide.New{Name: "cp-2"}, Stage: decide.Waiting}
		switch n {
		case 1:
			id = g.r.orderID(t)
			p.ID = id
			put(t, g.store.PutPlan(p), g.store.PutDoing(replacement.Doing{Step: "R4", Rule: "newcomer.install", Words: "waits for cp-2"}))
		case 3:
			p.ID, p.Stage = id, decide.Whole
			put(t, g.store.PutPlan(p))
		}
	})
	put(t, g.run(t.Context()))
	o, err := g.store.Order()
	if err != nil || !o.Wish.Grows || o.Wish.Old != "" || o.Wish.New.Name != "cp-2" || o.Wish.New.Address != "192.168.7.12" || o.Device.Target != "cp-2" || o.Device.Password == "" {
		t.Errorf("the order: %+v, %v", o, err)
	}
	if g.prepared != 1 {
		t.Errorf("the host was prepared %d times", g.prepared)
	}
	if data, err := os.ReadFile(g.joinFile); err != nil || string(data) != "pointer of cp-2" {
		t.Errorf("the join file: %q, %v", data, err)
	}
	if out := g.r.out.String(); !strings.Contains(out, "file:/etc/x (absent)") || !strings.Contains(out, "Infrastructure cluster, its status") || !strings.HasSuffix(out, "cp-2 is the second control plane: either host may be lost\n") {
		t.Error(out)
	}
	if strings.Contains(g.r.out.String()+g.r.errs.String(), o.Device.Password) {
		t.Error("a password of a BMC is in the output")
	}
}

func TestNothingIsPreparedForABMCThatIsNotTheRightOne(t *testing.T) {
	for name, change := range map[string]func(*growthRun){
		"the own one is another machine's": func(g *growthRun) { g.ours = fence.IdentityDiffers },
		"the own one does not answer":      func(g *growthRun) { g.ours = fence.IdentityUnknown },
		"the new one is this machine's":    func(g *growthRun) { g.theirs = fence.IdentityMatches },
		"the new one does not answer":      func(g *growthRun) { g.theirs = fence.IdentityUnknown },
	} {
		g := newGrowthRun(t, func(int, *growthRun) { t.Errorf("%s: the command waits", name) })
		change(g)
		err := g.run(t.Context())
		if exitOfReplace(err) != command.ExitRefused || g.prepared > 0 || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%s: %v, prepared %d times", name, err, g.prepared)
		}
		if o, err := g.store.Order(); o != nil || err != nil {
			t.Errorf("%s: there is an order: %v", name, err)
		}
	}
}

func TestNothingIsPreparedWhileAGateIsClosedThatCanBeSeenBefore(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*decide.Facts)
		without bool
		says    string // empty if the growth begins
	}{
		"another plan":              {func(f *decide.Facts) { f.Lock, f.InForce = state.Known("p9"), "the plan p9 of kim goes on" }, true, "the plan p9 of kim goes on"},
		"a move of the site":        {func(f *decide.Facts) { f.Moves = state.Known("the move m1 of ada is announced") }, true, "the move m1 of ada is announced"},
		"an upgrade":                {func(f *decide.Facts) { f.Work = state.Known("waits for the upgrade: cp-1 at work") }, true, "waits for the upgrade"},
		"the API is away":           {func(f *decide.Facts) { f.Lock.Known = false }, true, "the API does not say"},
		"no backup, and none asked": {func(f *decide.Facts) { f.Backup = state.Known(time.Time{}) }, true, ""},
		"a full disk":               {func(f *decide.Facts) { f.Room = state.Known(false) }, true, "has no room"},
		"no release":                {func(f *decide.Facts) { f.Ships = state.Known(false) }, true, "has no current release"},
	} {
		g := newGrowthRun(t, func(_ int, g *growthRun) {
			put(t, g.store.PutPlan(decide.Plan{ID: g.r.orderID(t), Grows: true, New: decide.New{Name: "cp-2"}, Stage: decide.Whole}))
		})
		early := g.effects.early
		g.effects.early = func(ctx context.Context, now time.Time) decide.Facts {
			f := early(ctx, now)
			c.change(&f)
			return f
		}
		g.noBackup = c.without
		if c.says == "" {
			if err := g.run(t.Context()); err != nil || g.prepared != 1 {
				t.Errorf("%s: %v, prepared %d times", name, err, g.prepared)
			}
			continue
		}
		for what, run := range map[string]func(context.Context) error{"plan": g.plan, "apply": g.run} {
			err := run(t.Context())
			text := g.r.out.String()
			if err != nil {
				text += err.Error()
			}
			if exitOfReplace(err) != command.ExitRefused || g.prepared > 0 || !strings.Contains(text, c.says) || !strings.Contains(text, "nothing was changed") {
				t.Errorf("%s, %s: %v, prepared %d times", name, what, err, g.prepared)
			}
			if o, err := g.store.Order(); o != nil || err != nil {
				t.Errorf("%s, %s: there is an order: %v", name, what, err)
			}
		}
	}
}

func TestAGrowthTakesABackupBeforeItPreparesAnything(t *testing.T) {
	g := newGrowthRun(t, func(_ int, g *growthRun) {
		put(t, g.store.PutPlan(decide.Plan{ID: g.r.orderID(t), Grows: true, New: decide.New{Name: "cp-2"}, Stage: decide.Whole}))
	})
	early := g.effects.early
	g.effects.early = func(ctx context.Context, now time.Time) decide.Facts {
		f := early(ctx, now)
		f.Backup = state.Known(time.Time{})
		return f
	}
	g.r.backup = time.Time{}
	put(t, g.plan(t.Context()))
	if text := g.r.out.String(); g.r.taken > 0 || !strings.Contains(text, "backup   open: a backup is taken first: on cp-1, which carries the plan, there is no good backup") {
		t.Errorf("%d taken\n%s", g.r.taken, text)
	}
	prepare := g.effects.prepare
	g.effects.prepare = func(ctx context.Context, w widening, say func(string, ...any)) error {
		if g.r.taken != 1 {
			t.Errorf("%d backups were taken before", g.r.taken)
		}
		return prepare(ctx, w, say)
	}
	if err := g.run(t.Context()); err != nil || g.prepared != 1 {
		t.Errorf("%v, prepared %d times", err, g.prepared)
	}
}

func TestAGateThatClosesAfterThePreparationIsNotToldAsIfNothingWasChanged(t *testing.T) {
	g := newGrowthRun(t, func(_ int, g *growthRun) {
		put(t, g.store.PutDoing(replacement.Doing{Rule: "rest.refuse", Words: "no", Wish: g.r.orderID(t), Gates: []decide.Gate{{ID: "etcd", Words: "no leader", Way: "x"}}}))
	})
	err := g.run(t.Context())
	if exitOfReplace(err) != command.ExitRefused || g.prepared != 1 || strings.Contains(err.Error(), "nothing was changed") ||
		!strings.Contains(err.Error(), "this host is prepared as one of two and goes on as the only control plane; type the same command again:\n  etcd: no leader (type: x)") {
		t.Errorf("%v, prepared %d times", err, g.prepared)
	}
	// Typed again, the prepared host is judged by its agent alone.
	g.effects.here = func() (*site.Site, error) { return sitetest.New(t, sitetest.TwoDual), nil }
	g.effects.early = func(context.Context, time.Time) decide.Facts { t.Error("it is looked at early"); return decide.Facts{} }
	if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || g.prepared != 2 {
		t.Errorf("again: %v, prepared %d times", err, g.prepared)
	}
}

// named is what the test of a BMC finds that never reports the identity which its machine has of itself.
func named(dev state.FencingDevice, reports string) fence.Report {
	if dev.SystemID == reports {
		return fence.Report{Target: dev.Target, Identity: fence.IdentityNamed}
	}
	return fence.Report{Target: dev.Target, Identity: fence.IdentityDiffers, Problems: []string{"it reports nothing that can be compared: set systemID"}}
}

// nameSystems gives each BMC of a file of two control planes a systemID.
func nameSystems(t *testing.T, file string) {
	t.Helper()
	edit(t, file, "password: hush-1}", "password: hush-1, systemID: B1}")
	edit(t, file, "password: hush-2}", "password: hush-2, systemID: B2}")
}

func TestAHostGrowsWhoseBMCIsKnownByASystemIDAlone(t *testing.T) {
	g := newGrowthRun(t, func(_ int, g *growthRun) {
		put(t, g.store.PutPlan(decide.Plan{ID: g.r.orderID(t), Grows: true, New: decide.New{Name: "cp-2"}, Stage: decide.Whole}))
	})
	nameSystems(t, g.file)
	g.effects.test = func(_ context.Context, dev state.FencingDevice) fence.Report {
		return named(dev, map[string]string{"cp-1": "B1", "cp-2": "B2"}[dev.Target])
	}
	put(t, g.run(t.Context()))
	if o, err := g.store.Order(); err != nil || o.Device.SystemID != "B2" {
		t.Errorf("the order: %+v, %v", o, err)
	}
}

func TestAGrowthIsTakenBackOnlyWhileItHasChangedNothing(t *testing.T) {
	g := newGrowthRun(t, func(_ int, g *growthRun) {
		if o, _ := g.store.Order(); o.Wish.Abort {
			put(t, g.store.PutPlan(decide.Plan{ID: "p1", Grows: true, Survivor: "cp-1", New: decide.New{Name: "cp-2"}, Stage: decide.Aborted, Ended: "an administrator took it back"}))
		}
	})
	g.abort, g.file = true, ""
	put(t, g.store.PutPlan(decide.Plan{ID: "p1", Grows: true, New: decide.New{Name: "cp-2"}, Stage: decide.Planned}))
	put(t, g.run(t.Context()))
	if out := g.r.out.String(); out != "taken back: an administrator took it back; cp-1 stays prepared as one of two, and goes on as the only control plane\n" {
		t.Error(out)
	}
	for _, stage := range []decide.Stage{decide.Widening, decide.Waiting} {
		put(t, g.store.PutPlan(decide.Plan{ID: "p1", Grows: true, New: decide.New{Name: "cp-2"}, Stage: stage}))
		if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused {
			t.Errorf("%s: %v", stage, err)
		}
	}
}

// A site that has become one of two waits for a machine that may be broken, or whose BMC may.
func TestAGrowthThatHasBegunTakesInAnotherBMC(t *testing.T) {
	for stage, taken := range map[decide.Stage]bool{ //nolint:exhaustive // of the others, Planned prepares the host once more
		decide.Widening: true, decide.Waiting: true, decide.Joining: false,
	} {
		plan := decide.Plan{ID: "p1", Grows: true, New: decide.New{Name: "cp-2", Address: "192.168.7.12", BMC: "https://broken", UUID: "dead"}, Stage: stage, Accepts: decide.Accepts{NoBackup: true}}
		g := newGrowthRun(t, func(_ int, g *growthRun) {
			plan.Stage = decide.Whole
			put(t, g.store.PutPlan(plan))
		})
		put(t, g.store.PutPlan(plan))
		err := g.run(t.Context())
		o, unread := g.store.Order()
		if !taken {
			if exitOfReplace(err) != command.ExitRefused || o != nil {
				t.Errorf("%s: %v, %+v", stage, err, o)
			}
			continue
		}
		if err != nil || unread != nil || g.prepared > 0 {
			t.Fatalf("%s: %v, prepared %d times", stage, errors.Join(err, unread), g.prepared)
		}
		if w := o.Wish; w.ID != "p1" || !w.Grows || w.New.BMC != "https://10.99.0.112/redfish/v1/Systems/1" || w.New.UUID != "" || w.New.Address != "192.168.7.12" || !w.Accepts.NoBackup || o.Device.Password == "" {
			t.Errorf("%s: the order: %+v", stage, o)
		}
	}
}

func TestAGrowthThatHasBegunTakesInNoOtherHost(t *testing.T) {
	for sentence, change := range map[string]func(*growthRun){
		"another name":           func(g *growthRun) { edit(t, g.file, "hostname: cp-2", "hostname: cp-9") },
		"another address":        func(g *growthRun) { g.address = "192.168.7.19" },
		"a BMC of this host":     func(g *growthRun) { g.theirs = fence.IdentityMatches },
		"a BMC that is silent":   func(g *growthRun) { g.theirs = fence.IdentityUnknown },
		"three control planes":   func(g *growthRun) { edit(t, g.file, "replicas: 2", "replicas: 3") },
		"an own BMC of somebody": func(g *growthRun) { g.ours = fence.IdentityDiffers },
	} {
		g := newGrowthRun(t, func(int, *growthRun) { t.Errorf("%s: the command waits", sentence) })
		put(t, g.store.PutPlan(decide.Plan{ID: "p1", Grows: true, New: decide.New{Name: "cp-2", Address: "192.168.7.12"}, Stage: decide.Waiting}))
		change(g)
		err := g.run(t.Context())
		if o, _ := g.store.Order(); err == nil || o != nil || g.prepared > 0 {
			t.Errorf("%s: %v, %+v", sentence, err, o)
		}
	}
}

func TestAGrowthDoesNotDisturbAReplacement(t *testing.T) {
	g := newGrowthRun(t, func(int, *growthRun) { t.Error("the command waits") })
	put(t, g.store.PutPlan(decide.Plan{ID: "p1", Old: decide.Old{Name: "cp-2"}, New: decide.New{Name: "cp-2"}, Stage: decide.Retired}))
	if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || g.prepared > 0 {
		t.Error(err)
	}
}

func TestAPlanOfAGrowthChangesNothing(t *testing.T) {
	g := newGrowthRun(t, func(int, *growthRun) { t.Error("the command waits") })
	put(t, g.plan(t.Context()))
	if o, err := g.store.Order(); g.prepared > 0 || o != nil || err != nil || !strings.Contains(g.r.out.String(), "cp-2 becomes the second control plane") {
		t.Errorf("%v, %s", err, g.r.out.String())
	}
	g.effects.lone = func(*decide.Plan) (*site.Site, error) { return sitetest.New(t, sitetest.TwoDual), nil }
	if err := g.plan(t.Context()); err == nil || exitOfReplace(err) == command.ExitOK {
		t.Errorf("a site of two grows: %v", err)
	}
}

// TestAGrowthByAFileWithAKeyThatWasAppliedIsNotRefused, one with a key that was not is, and without
// the API nobody knows which of them it is.
func TestAGrowthByAFileWithAKeyThatWasAppliedIsNotRefused(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIFUBV9w8G5o3MXeMolrNnTBJb2BuuWW/gcjeZU1fg6r operator@example.com"
	g := newGrowthRun(t, func(int, *growthRun) { t.Error("the command waits") })
	text, err := os.ReadFile(g.file)
	put(t, err, os.WriteFile(g.file, append(text, "\nsshKey: "+key+"\n"...), 0o600))
	err = g.plan(t.Context())
	if err == nil || !strings.Contains(err.Error(), "holdfast config apply --install-config") {
		t.Errorf("nobody applied it: %v", err)
	}
	g.effects.said = func(_ context.Context, installed, _ *config.InstallConfig) (*config.InstallConfig, error) {
		now := *installed
		now.SSHKey = key
		return &now, nil
	}
	if err := g.plan(t.Context()); err != nil || !strings.Contains(g.r.out.String(), "cp-2 becomes the second control plane") {
		t.Errorf("it was applied: %v", err)
	}
	g.effects.said = func(context.Context, *config.InstallConfig, *config.InstallConfig) (*config.InstallConfig, error) {
		return nil, errors.New("no answer")
	}
	if err := g.run(t.Context()); err == nil || !strings.Contains(err.Error(), "sshKey") || g.prepared > 0 {
		t.Errorf("nobody knows: %v, prepared %d times", err, g.prepared)
	}
}

func TestASiteWhoseGrowthIsWholeIsRefusedAtOnce(t *testing.T) {
	root := t.TempDir()
	write := func(path string, s *site.Site) {
		t.Helper()
		data, err := s.Marshal()
		put(t, err, os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o700), os.WriteFile(filepath.Join(root, path), data, 0o600))
	}
	two := sitetest.New(t, sitetest.TwoDual).For(state.RoleBootstrap)
	from, to := strings.Index(sitetest.TwoDual, "controlPlane:"), strings.Index(sitetest.TwoDual, "networking:")
	one := sitetest.New(t, sitetest.TwoDual[:from]+"controlPlane: {replicas: 1}\n"+sitetest.TwoDual[to:]).For(state.RoleBootstrap)
	write(site.Path, two)
	write(replacement.LoneSitePath, one)
	plan := func(s decide.Stage) *decide.Plan { return &decide.Plan{Grows: true, Stage: s} }
	shrunk := &decide.Plan{Shrinks: true, Stage: decide.Whole} // the growth of a site that shrank before
	for _, last := range []*decide.Plan{nil, plan(decide.Planned), plan(decide.Aborted), shrunk} {
		if s, err := loneSiteOf(root, last); err != nil || s.Topology().ControlPlanes != 1 {
			t.Errorf("%+v: the run that was cut off does not go on: %v", last, err)
		}
	}
	if _, err := loneSiteOf(root, plan(decide.Whole)); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "this site has 2 control planes") {
		t.Error(err)
	}
	put(t, os.Remove(filepath.Join(root, replacement.LoneSitePath)))
	if _, err := loneSiteOf(root, nil); exitOfReplace(err) != command.ExitRefused {
		t.Error(err)
	}
}

// TestAGateOfAGrowthNamesOnlyFlagsThatTheCommandHas shuts each gate in the ways in which facts and
// wishes can.
func TestAGateOfAGrowthNamesOnlyFlagsThatTheCommandHas(t *testing.T) {
	onlyFlagsOfTopologyApply(t,
		[]decide.Facts{{}, {Host: "cp-1", Reached: state.Known(true)}, {Host: "cp-1", Reached: state.Known(true), Ours: state.Known(true)}},
		[]decide.Wish{{Grows: true}, {Grows: true, New: decide.New{Name: "cp-1", BMC: "https://bmc"}}})
}

// onlyFlagsOfTopologyApply checks the flags that closed gates name, of each wish with all facts.
func onlyFlagsOfTopologyApply(t *testing.T, facts []decide.Facts, wishes []decide.Wish) {
	t.Helper()
	cmd := newTopologyApply(Streams{})
	flag := regexp.MustCompile(`--[a-z-]+`)
	other := regexp.MustCompile(`holdfast backup now --host [^,]*`) // the flag is of another command
	seen := 0
	for _, w := range wishes {
		for _, f := range facts {
			for _, g := range decide.Closed(decide.GatesOf(f, w)) {
				if strings.Contains(g.Way, "etcdctl ") { // its flags are its own
					continue
				}
				for _, name := range flag.FindAllString(other.ReplaceAllString(g.Way, ""), -1) {
					seen++
					if cmd.Flags().Lookup(strings.TrimPrefix(name, "--")) == nil {
						t.Errorf("the gate %s names %s, which topology apply does not have: %s", g.ID, name, g.Way)
					}
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no gate names a flag")
	}
}

func TestAllMistakesOfATopologyCommandAreToldAtOnce(t *testing.T) {
	f := topologyFlags{address: "cp-2", ownUser: "ada", timeout: -time.Second, joinLife: time.Second}
	err := f.check(true)
	if _, usage := errors.AsType[*UsageError](err); !usage {
		t.Fatal(err)
	}
	for _, field := range []string{"--install-config", "--address", "--own-bmc-username", "--by", "--join-life", "--timeout"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named: %v", field, err)
		}
	}
}
