package narrow

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/carry"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

var (
	noon  = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	gone  = replace.Old{Name: "cp-3", Address: "192.0.2.13", UID: "u3", Machine: state.Machine{UUID: "m3", Serial: "S3"}}
	wish  = narrow.Wish{ID: "p1", Old: gone, Third: 7, By: "ada", Accepts: narrow.Accepts{NoBackup: true}, At: noon}
	names = [2]string{"cp-1", "cp-2"}
)

// side is one of the two hosts that stay.
type side struct {
	prepared, dressed, ring, word, asked, podmans, ordered, paired bool
	record                                                         state.EtcdState
}

// trio is a world of values: three hosts and a cluster. What etcd keepers and Pacemaker decide by
// themselves is told in short.
type trio struct {
	cut                         powercut.Cut
	roots                       [2]string
	hosts                       [2]side
	log                         []string
	member, node, leaves, plain bool
	accounts                    bool // the cluster has those of the BMCs
	setUp, maintained           bool
	third                       bool // the host that goes has power
	lock                        narrow.Copy
	told                        narrow.Progress
	looks                       [2]int
	off                         int // the host that has no power, -1 for none
}

func newTrio(t *testing.T) *trio {
	p := &trio{roots: [2]string{t.TempDir(), t.TempDir()}, member: true, node: true, plain: true, third: true, off: -1}
	for i := range p.hosts {
		p.hosts[i].record = state.EtcdNone
	}
	return p
}

func (p *trio) look(i int, job Job) narrow.Facts {
	p.looks[i]++
	h := p.hosts[i]
	voters := 2
	if p.member {
		voters = 3
	}
	other := p.off != 1-i
	ring := state.Known(h.ring)
	// The host that carries the plan answers for the cluster's objects: they are those of two, or not.
	objects := i == 0 || job.Plan != nil && job.Plan.Taken == names[i]
	f := narrow.Facts{
		Now: noon, Host: names[i], Peer: names[1-i], ControlPlanes: 3, Plan: job.Plan, Wish: job.Wish, Record: state.Known(h.record), Contact: state.Known(other && h.ring && p.hosts[1-i].ring),
		Serves: state.Known(true), StandIn: state.Known(false), Voters: state.Known(voters), Listed: state.Known(p.member), Learner: state.Known(state.MemberID(0)), Asked: state.Known(h.asked),
		PeerHere: state.Known(other), ThirdHere: state.Known(p.third && p.member), Kubelets: state.Known(!h.podmans), Podmans: state.Known(h.podmans), Boots: state.Known(!h.ordered), Runs: ring,
		Paired: state.Known(h.paired), Room: state.Known(true), Ships: state.Known(true), Prepared: state.Known(h.prepared), Tested: state.Known(true), Dressed: state.Known(h.dressed),
		Plain: state.Known(!h.dressed && (!objects || p.plain)), Ring: ring, Target: state.Known(true), Lock: state.Known(p.lock), Told: state.Known(p.told), Work: state.Known(""), Moves: state.Known(""), Node: state.Known(p.node),
		Leaves: state.Known(p.leaves), Empty: state.Known(p.leaves), Volumes: state.Known[[]string](nil), Left: state.Known(p.accounts), Answers: state.Known(p.third && p.member),
	}
	if h.ring {
		f.SetUp, f.Maintained = state.Known(p.setUp), state.Known(p.maintained)
	}
	if h.word {
		f.Word = state.Known(narrow.Plan{ID: "p1", Old: gone, Third: 7, Stage: narrow.Pairing}.Word())
	} else {
		f.Word = state.Known(state.EtcdThirdWord{})
	}
	return f
}

// keepers write their records once they were asked, and one of a pair goes on alone.
func (p *trio) keepers() {
	for i := range p.hosts {
		h := &p.hosts[i]
		switch {
		case i == p.off || !h.asked:
		case h.word && h.record == state.EtcdNone && p.member:
			h.record = state.EtcdMajority
		case h.record == state.EtcdMajority && !p.member && p.off < 0:
			h.record = state.EtcdPair
		case h.record == state.EtcdPair && p.off == 1-i:
			h.record = state.EtcdSole
		}
	}
}

func (p *trio) do(i int, a narrow.Act, job Job) {
	h := &p.hosts[i]
	switch a { //nolint:exhaustive // the others are no acts of this place
	case narrow.CopyPlan:
		p.lock, p.accounts = narrow.Copy{ID: job.Plan.ID, Plan: *job.Plan}, p.accounts || job.Plan.Stage == narrow.Preparing
	case narrow.DropLock:
		p.lock, p.accounts, p.told = narrow.Copy{}, false, narrow.Progress{}
	case narrow.Tell:
		p.told = p.look(i, job).Progress()
	case narrow.Prepare:
		h.prepared, h.paired = true, true
	case narrow.Dress:
		h.dressed, p.plain = true, p.plain && i == 1
	case narrow.Undress:
		h.dressed, p.plain = false, p.plain || i == 0 || job.Plan.Taken == names[i]
	case narrow.PutWord:
		h.word = true
	case narrow.DropWord:
		h.word = false
	case narrow.EnterRing:
		h.ring = true
	case narrow.SetUp:
		p.setUp, p.maintained = true, true
	case narrow.Maintain:
		p.maintained = true
	case narrow.AskStart:
		h.asked = true
	case narrow.EndRing:
		h.ring = false
	case narrow.EndPair:
		h.prepared, h.paired, h.word, h.asked, h.record = false, false, false, false, state.EtcdNone
	case narrow.TakeEtcd:
		h.podmans = true
	case narrow.Manage:
		p.maintained = false
	case narrow.Order:
		h.ordered = true
	case narrow.AskEmpty:
		p.leaves = true
	case narrow.Leave:
		p.member = false
	case narrow.DropOld:
		p.node = false
	}
}

func acts() []narrow.Act {
	return []narrow.Act{
		narrow.CopyPlan, narrow.DropLock, narrow.Tell, narrow.Prepare, narrow.Dress, narrow.Undress, narrow.PutWord, narrow.DropWord, narrow.EnterRing, narrow.SetUp, narrow.AskStart, narrow.Maintain,
		narrow.EndRing, narrow.EndPair, narrow.TakeEtcd, narrow.Manage, narrow.Order, narrow.AskEmpty, narrow.Leave, narrow.DropOld,
	}
}

func (p *trio) world(i int) World {
	do := make(map[narrow.Act]func(context.Context, Job) error)
	for _, a := range acts() {
		do[a] = func(_ context.Context, job Job) error {
			return p.cut.Effect(func() error {
				p.log = append(p.log, names[i]+" "+string(a))
				p.do(i, a, job)
				return nil
			})
		}
	}
	return World{Look: func(_ context.Context, job Job) narrow.Facts { return p.look(i, job) }, Do: do}
}

func (p *trio) store(i int) replacement.Store {
	return replacement.Store{Root: p.roots[i], Write: func(path string, data []byte, mode fs.FileMode) error {
		return p.cut.Effect(func() error { return powercut.WriteFile(path, data, mode) })
	}}
}

func (p *trio) agent(i int) *Agent {
	return &Agent{World: p.world(i), Store: p.store(i), Now: func() time.Time { return noon }, news: carry.News{Annotation: Annotation}, kick: loop.NewKick()}
}

// play has both agents take turns. After a cut the agent of that host begins anew.
func (p *trio) play(t *testing.T, stop func() bool) {
	t.Helper()
	agents := [2]*Agent{p.agent(0), p.agent(1)}
	for range 80 {
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

func (p *trio) plan(t *testing.T, i int) *narrow.Plan {
	t.Helper()
	plan, err := p.store(i).NarrowPlan()
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func (p *trio) over(t *testing.T) bool {
	a, b := p.plan(t, 0), p.plan(t, 1)
	return a != nil && a.Stage.Over() && p.lock.ID == "" && (b == nil || b.Stage.Over())
}

func (p *trio) at(t *testing.T, i int, s narrow.Stage) func() bool {
	return func() bool { a := p.plan(t, i); return a != nil && a.Stage == s }
}

func TestBothHostsThatStayCarryThePlanToItsEndThoughOneIsCutAnywhere(t *testing.T) {
	for _, after := range []bool{false, true} {
		for at := 0; ; at++ {
			p := newTrio(t)
			if err := p.store(0).PutNarrowWish(wish); err != nil {
				t.Fatal(err)
			}
			p.cut = powercut.Cut{At: at, After: after}
			p.play(t, func() bool { return p.over(t) })
			a, b := p.plan(t, 0), p.plan(t, 1)
			if a.Stage != narrow.Whole || b == nil || b.Stage != narrow.Whole || p.member || p.node || p.plain || p.maintained {
				t.Fatalf("cut %d: %+v, %+v, %+v: %v", at, a, b, p.hosts, p.log)
			}
			for i, h := range p.hosts {
				if want := (side{prepared: true, dressed: true, ring: true, asked: true, podmans: true, ordered: true, paired: true, record: state.EtcdPair}); h != want {
					t.Errorf("cut %d: %s is %+v", at, names[i], h)
				}
			}
			for _, act := range []narrow.Act{narrow.SetUp, narrow.Manage, narrow.Leave, narrow.CopyPlan, narrow.DropOld} {
				if slices.Contains(p.log, "cp-2 "+string(act)) {
					t.Errorf("cut %d: cp-2 does the work of cp-1: %s", at, act)
				}
			}
			// Of three members only one is down at a time, and the carrier goes second.
			if first, second := slices.Index(p.log, "cp-2 take-etcd"), slices.Index(p.log, "cp-1 take-etcd"); first < 0 || second < first {
				t.Errorf("cut %d: %v", at, p.log)
			}
			if at > 0 && p.cut.At == at { // the run ended before the cut
				if at < 45 {
					t.Fatalf("only %d effects", at)
				}
				break
			}
		}
	}
}

func TestAPlanForTwoIsTakenBackFromEachStageThoughAHostIsCutAnywhere(t *testing.T) {
	for _, stage := range []narrow.Stage{narrow.Preparing, narrow.Dressing, narrow.Pairing} {
		for at := 0; ; at++ {
			p := newTrio(t)
			if err := p.store(0).PutNarrowWish(wish); err != nil {
				t.Fatal(err)
			}
			p.play(t, p.at(t, 1, stage)) // what the other host has done by then
			abort := wish
			abort.Abort = true
			if err := p.store(0).PutNarrowWish(abort); err != nil {
				t.Fatal(err)
			}
			p.cut = powercut.Cut{At: at, After: at%2 == 0}
			p.play(t, func() bool { return p.over(t) })
			if a, b := p.plan(t, 0), p.plan(t, 1); a.Stage == narrow.Whole { // it was handed over in the same moment
				t.Fatalf("%s, cut %d: %+v", stage, at, a)
			} else if a.Stage != narrow.Aborted || b == nil || b.Stage != narrow.Aborted || !p.plain || !p.member || !p.node {
				t.Fatalf("%s, cut %d: %+v, %+v: %v", stage, at, a, b, p.log)
			}
			for i, h := range p.hosts {
				if h != (side{record: state.EtcdNone}) {
					t.Errorf("%s, cut %d: left on %s: %+v", stage, at, names[i], h)
				}
			}
			if at > 0 && p.cut.At == at {
				break
			}
		}
	}
}

// TestASurvivorEndsThePlanByWhichTheThirdHostWent loses the host that carries the plan for good, once the
// two are a pair.
func TestASurvivorEndsThePlanByWhichTheThirdHostWent(t *testing.T) {
	for _, after := range []bool{false, true} {
		for at := 0; ; at++ {
			p := newTrio(t)
			if err := p.store(0).PutNarrowWish(wish); err != nil {
				t.Fatal(err)
			}
			p.play(t, func() bool {
				return !p.member && p.hosts[0].record == state.EtcdPair && p.hosts[1].record == state.EtcdPair
			})
			p.off = 0
			p.cut = powercut.Cut{At: at, After: after}
			p.play(t, func() bool { b := p.plan(t, 1); return b.Stage == narrow.Whole && p.lock.ID == "" })
			if p.node {
				t.Errorf("cut %d: cp-3 still has a Node", at)
			}
			done := p.cut.At == at
			// The host that was off comes back.
			p.off, p.cut = -1, powercut.Cut{}
			p.hosts[0].record, p.hosts[1].record = state.EtcdPair, state.EtcdPair
			p.play(t, func() bool { return p.over(t) })
			if a := p.plan(t, 0); a.Stage != narrow.Whole {
				t.Errorf("cut %d: %+v", at, a)
			}
			if at > 0 && done {
				break
			}
		}
	}
}

func TestAHostThatGoesAndIsLostForGoodIsNotWaitedForOnceSomebodySaysSo(t *testing.T) {
	p := newTrio(t)
	if err := p.store(0).PutNarrowWish(wish); err != nil {
		t.Fatal(err)
	}
	p.play(t, p.at(t, 1, narrow.Pairing))
	p.third = false
	agents := [2]*Agent{p.agent(0), p.agent(1)}
	for range 10 {
		for _, a := range agents {
			if _, err := a.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.keepers()
		}
	}
	if a := p.plan(t, 0); a.Stage != narrow.Pairing || p.hosts[0].podmans || p.hosts[1].podmans {
		t.Fatalf("etcd moves while a member is lost: %+v", a)
	}
	said := wish
	said.Accepts.Gone = true
	if err := p.store(0).PutNarrowWish(said); err != nil {
		t.Fatal(err)
	}
	p.play(t, func() bool { return p.over(t) })
	if a, b := p.plan(t, 0), p.plan(t, 1); a.Stage != narrow.Whole || !b.Accepts.Gone || p.leaves {
		t.Errorf("%+v, %+v: %v", a, b, p.log)
	}
}

// TestNobodyLooksWhileNobodyNarrows: two files are read, and nothing else.
func TestNobodyLooksWhileNobodyNarrows(t *testing.T) {
	p := newTrio(t)
	a := p.agent(1)
	for range 2 {
		if _, err := a.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.Nodes([]state.Node{{Name: "cp-1"}})
	}
	if p.looks[1] != 0 {
		t.Errorf("%d looks", p.looks[1])
	}
}

func TestAWishForTwoWithAClosedGateIsToldWithAllItsGates(t *testing.T) {
	p := newTrio(t)
	a := p.agent(0)
	p.third = false
	if err := a.Store.PutNarrowWish(wish); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	doing, err := a.Store.NarrowDoing()
	if err != nil || doing == nil || doing.Rule != "rest.refuse" || doing.Wish != "p1" || p.plan(t, 0) != nil {
		t.Fatalf("%+v, %v", doing, err)
	}
	if shut := replace.Closed(doing.Gates); len(shut) != 1 || shut[0].ID != "serve" {
		t.Errorf("%+v", shut)
	}
}

func TestAnActForTwoThatFailsIsToldAndATornFileIsNoPlan(t *testing.T) {
	p := newTrio(t)
	a := p.agent(0)
	a.World.Do[narrow.CopyPlan] = func(context.Context, Job) error { return errors.New("no route") }
	if err := a.Store.PutNarrowWish(wish); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Step(t.Context()); err == nil || !strings.Contains(err.Error(), "go on with two control planes without cp-3: copy-plan: no route") {
		t.Error(err)
	}
	if doing, err := a.Store.NarrowDoing(); err != nil || !strings.Contains(doing.Problem, "no route") {
		t.Errorf("%+v, %v", doing, err)
	}
	if err := os.WriteFile(a.Store.Path(replacement.NarrowPlanPath), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Step(t.Context()); err == nil || !strings.Contains(err.Error(), replacement.NarrowPlanPath) {
		t.Error(err)
	}
	if !a.Store.Busy() {
		t.Error("a plan that cannot be read is taken for none")
	}
}

// TestTheAccountsOfBMCsGoWithThePlan: what it takes to take a plan back stays until that is done.
func TestTheAccountsOfBMCsGoWithThePlan(t *testing.T) {
	for sentence, c := range map[string]struct {
		stage narrow.Stage
		trace replacement.NarrowTrace
		left  bool
	}{
		"whole":                             {narrow.Whole, replacement.NarrowTrace{Began: true, Equipped: true, Dressing: true}, false},
		"taken back":                        {narrow.Aborted, replacement.NarrowTrace{}, false},
		"taken back, and something is left": {narrow.Aborted, replacement.NarrowTrace{Began: true}, true},
	} {
		p := newTrio(t)
		a := p.agent(0)
		for _, err := range []error{
			a.Store.PutNarrowPlan(narrow.Plan{Format: narrow.Format, ID: "p1", Survivor: names[0], Peer: names[1], Old: gone, Stage: c.stage}),
			a.Store.PutNarrowTrace(c.trace), os.WriteFile(a.Store.Path(replacement.NarrowTargetPath), []byte("{}"), 0o600),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(a.Store.Path(replacement.NarrowTargetPath)); (err == nil) != c.left {
			t.Errorf("%s: %v", sentence, err)
		}
	}
}

// The command may write the next wish, and the accounts for it, while the agent still looks at the end of
// the last plan.
func TestAWishForTwoThatIsWrittenDuringALookStays(t *testing.T) {
	p := newTrio(t)
	a := p.agent(0)
	if err := a.Store.PutNarrowPlan(narrow.Plan{Format: narrow.Format, ID: "p1", Survivor: names[0], Peer: names[1], Old: gone, Stage: narrow.Aborted}); err != nil {
		t.Fatal(err)
	}
	look := a.World.Look
	a.World.Look = func(ctx context.Context, job Job) narrow.Facts {
		if err := errors.Join(a.Store.PutNarrowWish(narrow.Wish{ID: "p2", Old: gone, At: noon}), os.WriteFile(a.Store.Path(replacement.NarrowTargetPath), []byte("{}"), 0o600)); err != nil {
			t.Fatal(err)
		}
		a.World.Look = look
		return look(ctx, job)
	}
	round, err := a.look(t.Context())
	if err != nil || round == nil || round.Rest == nil {
		t.Fatalf("%+v, %v", round, err)
	}
	if err := round.Rest(); err != nil {
		t.Fatal(err)
	}
	if w, err := a.Store.NarrowWish(); err != nil || w == nil || w.ID != "p2" {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := os.Stat(a.Store.Path(replacement.NarrowTargetPath)); err != nil {
		t.Error(err)
	}
}
