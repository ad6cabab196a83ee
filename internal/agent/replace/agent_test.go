package replace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// site is a world of values: two hosts of which one is off, and a cluster.
type site struct {
	cut      powercut.Cut
	done     map[replace.Act]bool
	log      []replace.Act
	key      string // the token of which Corosync's key was made
	token    string
	asks     bool
	pair     bool
	contact  bool
	lockedBy string
	copied   replace.Stage
}

var (
	noon     = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	inForce  = []byte(strings.Repeat("f", jointoken.MinKeyBytes)) // the key of join secrets when the plan begins
	newcomer = replace.Newcomer{Machine: state.Machine{UUID: "new"}, Address: "192.0.2.13"}
	order    = replacement.Order{
		Wish:   replace.Wish{ID: "p1", Old: "cp-2", New: replace.New{Name: "cp-2", BMC: "https://bmc"}, By: "ada", At: noon, Accepts: replace.Accepts{NoBackup: true}},
		Device: state.FencingDevice{Target: "cp-2", Address: "https://bmc", Username: "u", Password: "geheim"},
	}
)

func newSite() *site { return &site{done: make(map[replace.Act]bool)} }

func (s *site) look(_ context.Context, job Job) replace.Facts {
	s.pair = s.pair || s.done[replace.JoinRing] // the newcomer starts, and the keepers do the rest
	is := func(a replace.Act) state.Fact[bool] { return state.Known(s.done[a]) }
	ring, known := []string{"cp-1"}, []string{"cp-1"}
	if !s.done[replace.LeaveRing] || s.done[replace.JoinRing] {
		ring = append(ring, "cp-2")
	}
	if !s.done[replace.Forget] {
		known = append(known, "cp-2")
	}
	f := replace.Facts{
		Now: noon, Host: "cp-1", Peer: "cp-2", ControlPlanes: 2, PowerAt: noon, Power: state.Known(state.PowerOff),
		Record: state.Known(state.EtcdSole), Contact: state.Known(s.contact), Serves: state.Known(true), StandIn: state.Known(false),
		Voters: state.Known(1), Learner: state.Known(state.MemberID(0)), Answers: state.Known(false), Alive: state.Known(false),
		Ring: state.Known(ring), Known: state.Known(known), Key: state.Known(s.key != "" && s.key == job.Secrets.Token), Refused: state.Known(true),
		Retirement: state.Known(s.done[replace.Retire] && !s.done[replace.DropRetire]), Device: is(replace.PutDevice), Fences: is(replace.SetFencing),
		Room: state.Known(true), Ships: state.Known(true), Lock: state.Known(s.lockedBy), Copied: s.copied, OldNode: state.Known(replace.Node{There: !s.done[replace.DropNode], UID: "u"}),
		Pods: state.Known(0), Tombstone: is(replace.PutGrave), Given: is(replace.GiveName), Token: state.Known(s.token != "" && s.token == job.Secrets.Token), JoinKey: is(replace.ChangeJoin),
		Taken: state.Known(""), Named: is(replace.NameSite), OldDevice: state.Known(!s.done[replace.DropDevice]), Account: is(replace.PutDevice), Leftover: state.Known(false), Volumes: state.Known[[]string](nil), Work: state.Known(""), Moves: state.Known(""), Upgrade: state.Known(hold.Lost{}),
		Arch: state.Known(true), Reached: state.Known(true), Ours: state.Known(false), Matches: state.Known(true), Verified: state.Known(s.pair),
	}
	if s.asks {
		f.Asks, f.AskedAt = newcomer, noon
	}
	if s.pair {
		f.Contact, f.Record = state.Known(true), state.Known(state.EtcdPair)
	}
	return f
}

// world returns the effects, each of which may be cut.
func (s *site) world() World {
	do := make(map[replace.Act]func(context.Context, Job) error)
	for _, a := range []replace.Act{
		replace.CopyPlan, replace.SwitchOff, replace.ChangeKey, replace.PutToken, replace.ChangeJoin, replace.PutGrave, replace.DropPods, replace.DropNode,
		replace.DropSecret, replace.LeaveRing, replace.Forget, replace.Retire, replace.DropMember, replace.PutDevice, replace.DropRetire, replace.SetFencing, replace.JoinRing, replace.DropLock, replace.GiveName,
		replace.NameSite, replace.DropDevice,
	} {
		do[a] = func(_ context.Context, job Job) error {
			return s.cut.Effect(func() error {
				s.log = append(s.log, a)
				s.done[a] = true
				switch a { //nolint:exhaustive // the others are no acts of this place
				case replace.CopyPlan:
					s.lockedBy, s.copied = job.Plan.ID, job.Plan.Stage
				case replace.DropLock:
					s.lockedBy, s.copied = "", ""
				case replace.ChangeKey:
					s.key = job.Secrets.Token
				case replace.PutToken:
					s.token = job.Secrets.Token
				}
				return nil
			})
		}
	}
	return World{Look: s.look, Do: do, JoinKey: func(context.Context) ([]byte, error) {
		if s.done[replace.ChangeJoin] {
			return nil, errors.New("the key of join secrets is that of the plan already")
		}
		return inForce, nil
	}}
}

func (s *site) agent(root string) *Agent {
	return &Agent{
		World: s.world(), Random: bytes.NewReader(bytes.Repeat([]byte("r"), 1000)),
		Store: replacement.Store{Root: root, Write: func(path string, data []byte, mode fs.FileMode) error {
			return s.cut.Effect(func() error { return powercut.WriteFile(path, data, mode) })
		}},
	}
}

// play runs the agent until nothing changes, starting it anew after a cut.
func (s *site) play(t *testing.T, root string) {
	t.Helper()
	for range 5 {
		_, err := s.agent(root).Step(t.Context())
		if err == nil {
			return
		}
		if !errors.Is(err, powercut.Err) {
			t.Fatal(err)
		}
		s.cut = powercut.Cut{}
	}
	t.Fatal("it does not come to rest")
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func planOf(t *testing.T, root string) replace.Plan {
	t.Helper()
	p, err := replacement.Store{Root: root}.Plan()
	if err != nil || p == nil {
		t.Fatalf("%v, %v", p, err)
	}
	return *p
}

// whole plays one replacement with a cut at an effect, and returns how many there were.
func whole(t *testing.T, at int, after bool) int {
	t.Helper()
	s, root := newSite(), t.TempDir()
	files := s.agent(root).Store
	if err := errors.Join(files.PutOrder(order), files.Write(files.Path(replacement.LoneSitePath), []byte("of an earlier release"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s.cut = powercut.Cut{At: at, After: after}
	s.play(t, root)
	if p := planOf(t, root); p.Stage != replace.Retired {
		t.Fatalf("cut at %d: before the newcomer the plan is %s", at, p.Stage)
	}
	if s.copied != replace.Waiting {
		t.Fatalf("cut at %d: while a person installs the newcomer the cluster's copy is %s", at, s.copied)
	}
	if v, err := files.Secrets("p1"); err != nil || !bytes.Equal(v.FormerJoinKey, inForce) || len(v.JoinKey) == 0 {
		t.Fatalf("cut at %d: the old host's key of join secrets is not kept: %v", at, err)
	}
	count := s.cut.Effects
	s.asks = true
	s.play(t, root)
	if p := planOf(t, root); p.Stage != replace.Whole || s.lockedBy != "" || s.key != s.token || s.key == "" {
		t.Fatalf("cut at %d: %+v, lock %q, key %q, token %q", at, p, s.lockedBy, s.key, s.token)
	}
	for _, name := range []string{replacement.WishPath, replacement.SecretsPath, replacement.LoneSitePath} {
		if _, err := os.Stat((replacement.Store{Root: root}).Path(name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("cut at %d: %s is left, with its secrets: %v", at, name, err)
		}
	}
	return max(count, s.cut.Effects)
}

func TestAPlanComesToItsEndWhereverItIsCut(t *testing.T) {
	count := whole(t, 0, false)
	if count < 20 {
		t.Fatalf("only %d effects", count)
	}
	for at := 1; at <= count; at++ {
		for _, after := range []bool{false, true} {
			whole(t, at, after)
		}
	}
}

func TestTheOldHostIsOutBeforeTheNewcomerIsLetIn(t *testing.T) {
	s, root := newSite(), t.TempDir()
	if err := s.agent(root).Store.PutOrder(order); err != nil {
		t.Fatal(err)
	}
	s.asks = true
	s.play(t, root)
	place := make(map[replace.Act]int)
	for i, a := range s.log {
		if a != replace.CopyPlan || place[a] == 0 { // the copy is written again at each stage
			place[a] = i + 1
		}
	}
	for _, pair := range [][2]replace.Act{
		{replace.CopyPlan, replace.ChangeKey},
		{replace.ChangeKey, replace.LeaveRing},
		{replace.PutGrave, replace.DropNode},
		{replace.LeaveRing, replace.Forget},
		{replace.Forget, replace.Retire},
		{replace.Retire, replace.NameSite},
		{replace.NameSite, replace.PutDevice},
		{replace.Forget, replace.DropDevice},
		{replace.DropRetire, replace.JoinRing},
		{replace.SetFencing, replace.JoinRing},
		{replace.GiveName, replace.JoinRing},
		{replace.JoinRing, replace.DropLock},
	} {
		if place[pair[0]] == 0 || place[pair[1]] <= place[pair[0]] {
			t.Errorf("%s comes not before %s: %v", pair[0], pair[1], s.log)
		}
	}
}

func TestAPlanIsTakenBackWhileNothingWasChanged(t *testing.T) {
	s, root := newSite(), t.TempDir()
	a := s.agent(root)
	if err := a.Store.PutOrder(order); err != nil {
		t.Fatal(err)
	}
	s.cut = powercut.Cut{At: s.cut.Effects + 3} // right after the plan was written
	if _, err := a.Step(t.Context()); !errors.Is(err, powercut.Err) {
		t.Fatal(err)
	}
	s.cut, s.contact = powercut.Cut{}, true // the old host is back
	s.play(t, root)
	if p := planOf(t, root); p.Stage != replace.Aborted || !strings.Contains(p.Ended, "came back") || s.done[replace.ChangeKey] || s.lockedBy != "" {
		t.Errorf("%+v, %v", p, s.log)
	}
}

func TestARefusalNamesEveryClosedGate(t *testing.T) {
	s, root := newSite(), t.TempDir()
	a := s.agent(root)
	bad := order
	bad.Wish.Old, bad.Wish.Accepts.NoBackup = "cp-9", false
	if err := a.Store.PutOrder(bad); err != nil {
		t.Fatal(err)
	}
	s.play(t, root)
	d, err := a.Store.Doing()
	if err != nil || d == nil || len(replace.Closed(d.Gates)) != 2 || d.Act != replace.Wait {
		t.Errorf("%+v, %v", d, err)
	}
	if p, err := a.Store.Plan(); p != nil || err != nil {
		t.Errorf("a plan was begun: %+v, %v", p, err)
	}
}

func TestNoFileButTheTwoWithSecretsHasASecret(t *testing.T) {
	s, root := newSite(), t.TempDir()
	a := s.agent(root)
	if err := a.Store.PutOrder(order); err != nil {
		t.Fatal(err)
	}
	s.play(t, root)
	sec, err := a.Store.Secrets("p1")
	if err != nil || sec.Token == "" {
		t.Fatal(err)
	}
	for _, name := range []string{replacement.PlanPath, replacement.DoingPath} {
		for _, hidden := range []string{order.Device.Password, sec.Token} {
			if text := read(t, a.Store.Path(name)); strings.Contains(text, hidden) {
				t.Errorf("%s has a secret", name)
			}
		}
	}
}

func TestADamagedPlanIsNoneAndIsTold(t *testing.T) {
	s, root := newSite(), t.TempDir()
	a := s.agent(root)
	if err := a.Store.Write(a.Store.Path(replacement.PlanPath), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Step(t.Context()); err == nil || !strings.Contains(fmt.Sprint(err), replacement.PlanPath) {
		t.Error(err)
	}
	if len(s.log) > 0 {
		t.Error(s.log)
	}
}

// The command may write the next order while the agent still looks at what is left of the last one.
func TestAnOrderThatIsWrittenDuringALookStays(t *testing.T) {
	s, root := newSite(), t.TempDir()
	a := s.agent(root)
	stale, next := order, order
	stale.Wish.At, next.Wish.ID = noon.Add(-time.Hour), "p2"
	put := func(o replacement.Order) {
		t.Helper()
		if err := errors.Join(a.Store.PutOrder(o), a.Store.Write(a.Store.Path(replacement.TargetSitePath), []byte("of "+o.Wish.ID), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	put(stale)
	look := a.World.Look
	a.World.Look = func(ctx context.Context, job Job) replace.Facts {
		put(next)
		return look(ctx, job)
	}
	if _, err := a.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o, err := a.Store.Order(); err != nil || o == nil || o.Wish.ID != "p2" || !a.Store.HasTargetSite() {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestADeviceThatCannotBeWrittenSaysWhatIsMissing: the file of the newcomer or that of the order may
// have gone since the look.
func TestADeviceThatCannotBeWrittenSaysWhatIsMissing(t *testing.T) {
	asks := `{"machine":{"uuid":"new"},"address":"10.98.0.12"}`
	for name, c := range map[string]struct {
		request string
		change  func(*Job)
		want    string
	}{
		"no newcomer asks":    {"", func(*Job) {}, "the request of cp-2 to enter is gone"},
		"the request is torn": {"{torn", func(*Job) {}, replacement.NewcomerPath},
		"the order is gone":   {asks, func(job *Job) { job.Order = nil }, "sudo holdfast host replace cp-2 --bmc-address ADDRESS"},
		"the order of a site that grows is gone": {asks, func(job *Job) {
			job.Order, job.Plan.Grows, job.Plan.New.Address = nil, true, "10.98.0.12"
		}, "sudo holdfast topology apply --install-config FILE --address 10.98.0.12"},
	} {
		l, job := newLab(t)
		if c.request != "" {
			if err := powercut.WriteFile(l.path(replacement.NewcomerPath), []byte(c.request), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c.change(&job)
		if err := l.putDevice(t.Context(), job); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
