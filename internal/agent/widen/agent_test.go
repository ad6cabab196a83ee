package widen

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

var (
	noon     = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	newcomer = replace.Newcomer{Machine: state.Machine{UUID: "new"}, Address: "192.0.2.13"}
	wish     = widen.Wish{ID: "p1", New: replace.New{Name: "cp-3", Address: "192.0.2.13"}, By: "ada", NoBackup: true, At: noon}
	names    = [2]string{"cp-1", "cp-2"}
)

// pair is a world of values: two hosts, a third one, and a cluster. What etcd keepers decide by
// themselves is told in short: they follow the plan's word at once.
type pair struct {
	cut     powercut.Cut
	roots   [2]string
	done    [2]map[widen.Act]bool
	log     []string
	learner state.MemberID
	voters  int
	lock    widen.Copy
	told    widen.Progress
	words   [2]state.EtcdThirdWord
	node    bool
	looks   [2]int
	late    bool // the third host has not started
	waits   bool // the etcd keepers do not let it vote yet
	off     int  // the host that has no power, -1 for none
	sole    int  // the one that went on alone
	burnt   bool // the third host votes, and is lost for good
}

func newPair(t *testing.T) *pair {
	p := &pair{roots: [2]string{t.TempDir(), t.TempDir()}, voters: 2, off: -1, sole: -1}
	for i := range p.done {
		p.done[i] = make(map[widen.Act]bool)
	}
	return p
}

func (p *pair) look(i int, job Job) widen.Facts {
	p.looks[i]++
	is := func(a widen.Act) state.Fact[bool] { return state.Known(p.done[i][a]) }
	record := state.EtcdPair
	if p.voters == 3 {
		record = state.EtcdMajority
	}
	voters, name := p.voters, "cp-3"
	if p.sole == i {
		record, voters = state.EtcdSole, 1
	}
	if p.late {
		name = ""
	}
	f := widen.Facts{
		Now: noon, Host: names[i], Peer: names[1-i], ControlPlanes: 2, Plan: job.Plan, Wish: job.Wish, Record: state.Known(record), PeerRecord: state.Known(record), Contact: state.Known(p.off < 0), Serves: state.Known(true),
		StandIn: state.Known(false), Voters: state.Known(voters), Learner: state.Known(p.learner), LearnerName: name, Behind: state.Known(uint64(0)), Word: state.Known(p.words[i]),
		PeerServes: state.Known(p.off < 0), ThirdServes: state.Known(!p.burnt), Silent: time.Hour, Asks: newcomer, AskedAt: noon, Arch: state.Known(true), Ready: state.Known(p.voters == 3 && !p.burnt), Pod: is(widen.PutPod), Boots: is(widen.KubeletBoot),
		Runs: state.Known(!p.done[i][widen.EndRing]), Paired: state.Known(!p.done[i][widen.EndPair]), Kubelets: is(widen.GivePod), Podmans: state.Known(!p.done[i][widen.StopEtcd]), Halted: is(widen.StopEtcd),
		Maintained: state.Known(p.done[0][widen.Maintain]), Dressed: is(widen.Dress), Target: state.Known(true), Room: state.Known(true), Ships: state.Known(true), Lock: state.Known(p.lock), Told: state.Known(p.told),
		Given: state.Known(p.node), Node: state.Known(p.node), Work: state.Known(""), Moves: state.Known(""),
	}
	if p.done[i][widen.EndPair] {
		f.Word = state.Known(state.EtcdThirdWord{})
	}
	return f
}

// keepers let the third member vote once both have the word that names it.
func (p *pair) keepers() {
	if !p.waits && p.learner != 0 && p.words[0].Member == p.learner && p.words[1] == p.words[0] {
		p.learner, p.voters = 0, 3
	}
}

func (p *pair) world(i int) World {
	do := make(map[widen.Act]func(context.Context, Job) error)
	for _, a := range []widen.Act{
		widen.CopyPlan, widen.DropLock, widen.Tell, widen.PutWord, widen.DropWord, widen.GiveName, widen.AddLearner, widen.DropLearner, widen.DropVoter, widen.DropNew, widen.KubeletBoot,
		widen.Maintain, widen.PutPod, widen.StopEtcd, widen.GivePod, widen.EndRing, widen.EndPair, widen.Dress,
	} {
		do[a] = func(ctx context.Context, job Job) error {
			return p.cut.Effect(func() error {
				p.log = append(p.log, names[i]+" "+string(a))
				p.done[i][a] = true
				switch a { //nolint:exhaustive // the others are remembered, and nothing else
				case widen.CopyPlan:
					p.lock = widen.Copy{ID: job.Plan.ID, Plan: *job.Plan}
				case widen.DropLock:
					p.lock, p.told = widen.Copy{}, widen.Progress{}
				case widen.Tell:
					p.told = p.look(i, job).Progress()
				case widen.PutWord:
					p.words[i] = job.Plan.Word()
				case widen.DropWord:
					p.words[i] = state.EtcdThirdWord{}
				case widen.GiveName:
					p.node = true
				case widen.AddLearner:
					p.learner = 7
				case widen.DropLearner:
					p.learner = 0
				case widen.DropVoter:
					p.voters = 2
				case widen.DropNew:
					p.node = false
				}
				return nil
			})
		}
	}
	return World{Look: func(_ context.Context, job Job) widen.Facts { return p.look(i, job) }, Do: do}
}

func (p *pair) store(i int) replacement.Store {
	return replacement.Store{Root: p.roots[i], Write: func(path string, data []byte, mode fs.FileMode) error {
		return p.cut.Effect(func() error { return powercut.WriteFile(path, data, mode) })
	}}
}

func (p *pair) agent(i int) *Agent {
	return &Agent{World: p.world(i), Store: p.store(i), Now: func() time.Time { return noon }, news: carry.News{Annotation: Annotation}, kick: loop.NewKick()}
}

// play has both agents take turns until they rest. After a cut the agent of that host begins anew.
func (p *pair) play(t *testing.T, stop func() bool) {
	t.Helper()
	agents := [2]*Agent{p.agent(0), p.agent(1)}
	for range 60 {
		for i := range agents {
			if p.lock.ID != "" {
				agents[i].Nodes([]state.Node{{Name: "cp-1", Annotations: map[string]string{Annotation: p.lock.ID}}})
			}
			if i == p.off {
				continue
			}
			_, err := agents[i].Step(t.Context())
			switch {
			case errors.Is(err, powercut.Err):
				p.cut, agents[i] = powercut.Cut{}, p.agent(i)
			case err != nil:
				t.Fatal(err)
			}
			p.keepers()
		}
		if stop() {
			return
		}
	}
	t.Fatalf("it does not come to rest: %v", p.log)
}

func (p *pair) plan(t *testing.T, i int) *widen.Plan {
	t.Helper()
	plan, err := p.store(i).WidenPlan()
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func (p *pair) over(t *testing.T) bool {
	a, b := p.plan(t, 0), p.plan(t, 1)
	return a != nil && a.Stage.Over() && p.lock.ID == "" && (b == nil || b.Stage.Over())
}

func TestBothHostsCarryThePlanToItsEndThoughOneIsCutAnywhere(t *testing.T) {
	for _, after := range []bool{false, true} {
		for at := 0; ; at++ {
			p := newPair(t)
			if err := p.store(0).PutWidenWish(wish); err != nil {
				t.Fatal(err)
			}
			p.cut = powercut.Cut{At: at, After: after}
			p.play(t, func() bool { return p.over(t) })
			a, b := p.plan(t, 0), p.plan(t, 1)
			if a.Stage != widen.Whole || b == nil || b.Stage != widen.Whole || p.voters != 3 || a.Third != 7 || a.Newcomer != newcomer {
				t.Fatalf("cut %d: %+v, %+v: %v", at, a, b, p.log)
			}
			for i := range names {
				for _, act := range []widen.Act{widen.PutPod, widen.StopEtcd, widen.GivePod, widen.EndRing, widen.EndPair, widen.Dress} {
					if !p.done[i][act] {
						t.Errorf("cut %d: %s did not %s", at, names[i], act)
					}
				}
			}
			for _, act := range []widen.Act{widen.Maintain, widen.AddLearner, widen.CopyPlan} {
				if p.done[1][act] {
					t.Errorf("cut %d: cp-2 does the work of cp-1: %s", at, act)
				}
			}
			if at > 0 && p.cut.At == at { // the run ended before the cut
				if at < 40 {
					t.Fatalf("only %d effects", at)
				}
				break
			}
		}
	}
}

func TestAPlanIsTakenBackOnBothHosts(t *testing.T) {
	p := newPair(t)
	p.late = true
	if err := p.store(0).PutWidenWish(wish); err != nil {
		t.Fatal(err)
	}
	p.play(t, func() bool { return p.learner != 0 })
	abort := wish
	abort.Abort = true
	if err := p.store(0).PutWidenWish(abort); err != nil {
		t.Fatal(err)
	}
	p.play(t, func() bool { return p.over(t) && p.words == [2]state.EtcdThirdWord{} })
	if a := p.plan(t, 0); a.Stage != widen.Aborted || p.learner != 0 || p.node {
		t.Errorf("%+v: %v", a, p.log)
	}
	if w, err := p.store(0).WidenWish(); w != nil || err != nil {
		t.Errorf("the wish is left: %+v, %v", w, err)
	}
}

// lose takes the power from a host at a stage of its plan's copy; the other one goes on alone.
func (p *pair) lose(t *testing.T, i int, at widen.Stage) {
	t.Helper()
	p.waits, p.late = true, at != widen.LettingIn
	if err := p.store(0).PutWidenWish(wish); err != nil {
		t.Fatal(err)
	}
	p.play(t, func() bool { return p.learner != 0 })
	if at == widen.TakingBack {
		abort := wish
		abort.Abort = true
		if err := p.store(0).PutWidenWish(abort); err != nil {
			t.Fatal(err)
		}
	}
	p.play(t, func() bool { b := p.plan(t, 1); return b != nil && b.Stage == at })
	if at != widen.TakingBack && (p.learner == 0 || !p.node) {
		t.Fatalf("nothing is left to take back: %v", p.log)
	}
	p.off, p.sole, p.log = i, 1-i, nil
}

// ended reports whether a host has ended the plan, and nothing of the third one is left in the cluster.
func (p *pair) ended(t *testing.T, i int) bool {
	h := p.plan(t, i)
	return h != nil && h.Stage == widen.Aborted && p.lock.ID == "" && p.learner == 0 && !p.node && p.words[i] == state.EtcdThirdWord{}
}

// TestASurvivorOfEitherHostTakesThePlanBackThoughItIsCutAnywhere loses either host for a while, in every
// stage in which two vote. The survivor ends the plan and deletes the lock, though it is cut at any of
// its effects. The other one comes back, finds no such plan, ends its own, and writes nothing again.
func TestASurvivorOfEitherHostTakesThePlanBackThoughItIsCutAnywhere(t *testing.T) {
	for lost := range names {
		for _, stage := range []widen.Stage{widen.Coming, widen.LettingIn, widen.TakingBack} {
			for _, after := range []bool{false, true} {
				for at := 0; ; at++ {
					p := newPair(t)
					p.lose(t, lost, stage)
					p.cut = powercut.Cut{At: at, After: after}
					p.play(t, func() bool { return p.ended(t, 1-lost) })
					done := p.cut.At == at
					p.cut, p.off, p.sole = powercut.Cut{}, -1, -1
					log := len(p.log)
					p.play(t, func() bool { return p.ended(t, lost) && p.ended(t, 1-lost) })
					for _, did := range p.log[log:] {
						if !strings.HasSuffix(did, string(widen.DropWord)) {
							t.Errorf("%s lost in %s, cut %d: after it came back %s", names[lost], stage, at, did)
						}
					}
					if at > 0 && done { // the run ended before the cut
						if at < 4 {
							t.Fatalf("only %d effects: %v", at, p.log)
						}
						break
					}
				}
			}
		}
	}
}

// TestAHostThatComesBackInTheMiddleTakesThePlanBackWithTheOther: the survivor has told the cluster that
// the plan is taken back, and is one of a pair again before it has ended it.
func TestAHostThatComesBackInTheMiddleTakesThePlanBackWithTheOther(t *testing.T) {
	p := newPair(t)
	p.lose(t, 0, widen.Coming)
	agent := p.agent(1)
	copies := agent.World.Do[widen.CopyPlan]
	agent.World.Do[widen.CopyPlan] = func(ctx context.Context, job Job) error {
		return errors.Join(copies(ctx, job), powercut.Err)
	}
	if _, err := agent.Step(t.Context()); !errors.Is(err, powercut.Err) || p.lock.Plan.Stage != widen.TakingBack || p.lock.Plan.Alone != "cp-2" {
		t.Fatalf("%v, %+v", err, p.lock)
	}
	p.off, p.sole = -1, -1
	p.play(t, func() bool { return p.ended(t, 0) && p.ended(t, 1) })
	if a := p.plan(t, 0); a.Ended != "cp-2 went on alone" {
		t.Errorf("%+v", a)
	}
}

// TestAPlanThatWasTakenForEndedIsNewsOnceANodeNamesItAgain: the host that carries it was off while it
// had changed nothing yet, and goes on.
func TestAPlanThatWasTakenForEndedIsNewsOnceANodeNamesItAgain(t *testing.T) {
	p := newPair(t)
	a := p.agent(1)
	over := widen.Plan{Format: widen.Format, ID: "p1", Widens: true, Survivor: names[0], Peer: names[1], New: wish.New, Stage: widen.Aborted}
	if err := a.Store.PutWidenPlan(over); err != nil {
		t.Fatal(err)
	}
	step := func(want int) {
		t.Helper()
		if _, err := a.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p.looks[1] != want {
			t.Errorf("%d looks, want %d", p.looks[1], want)
		}
	}
	step(1)
	step(1)
	again := over
	again.Stage = widen.Coming
	p.lock = widen.Copy{ID: "p1", Plan: again}
	a.Nodes([]state.Node{{Name: "cp-1", Annotations: map[string]string{Annotation: "p1"}}})
	if _, err := a.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b := p.plan(t, 1); b.Stage != widen.Coming {
		t.Errorf("%+v", b)
	}
}

// TestNobodyLooksWhileNobodyWidens: two files are read, and nothing else.
func TestNobodyLooksWhileNobodyWidens(t *testing.T) {
	p := newPair(t)
	a := p.agent(1)
	step := func() {
		t.Helper()
		if _, err := a.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	step()
	a.Nodes([]state.Node{{Name: "cp-1"}})
	step()
	if p.looks[1] != 0 {
		t.Errorf("%d looks", p.looks[1])
	}
	// A Node names a plan that the cluster does not have: it is believed for a while.
	now := noon
	a.Now = func() time.Time { return now }
	a.Nodes([]state.Node{{Name: "cp-1", Annotations: map[string]string{Annotation: "p1"}}})
	step()
	if p.looks[1] != 1 {
		t.Errorf("%d looks", p.looks[1])
	}
	now = now.Add(time.Minute)
	step()
	step()
	if p.looks[1] != 2 {
		t.Errorf("%d looks", p.looks[1])
	}
}

func TestAWishWithAClosedGateIsToldWithAllItsGates(t *testing.T) {
	p := newPair(t)
	a := p.agent(0)
	p.voters = 1
	if err := a.Store.PutWidenWish(wish); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	doing, err := a.Store.WidenDoing()
	if err != nil || doing == nil || doing.Rule != "rest.refuse" || doing.Wish != "p1" || len(replace.Closed(doing.Gates)) != 1 || p.plan(t, 0) != nil {
		t.Errorf("%+v, %v", doing, err)
	}
}

func TestAnActThatFailsIsToldAndAFileThatIsTornIsNoPlan(t *testing.T) {
	p := newPair(t)
	a := p.agent(0)
	a.World.Do[widen.CopyPlan] = func(context.Context, Job) error { return errors.New("no route") }
	if err := a.Store.PutWidenWish(wish); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Step(t.Context()); err == nil || !strings.Contains(err.Error(), "bring cp-3 as the third control plane: copy-plan: no route") {
		t.Error(err)
	}
	if doing, err := a.Store.WidenDoing(); err != nil || !strings.Contains(doing.Problem, "no route") {
		t.Errorf("%+v, %v", doing, err)
	}
	if err := os.WriteFile(a.Store.Path(replacement.WidenPlanPath), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Step(t.Context()); err == nil || !strings.Contains(err.Error(), replacement.WidenPlanPath) {
		t.Error(err)
	}
	if !a.Store.Busy() {
		t.Error("a plan that cannot be read is taken for none")
	}
}
