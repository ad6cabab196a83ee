package upgrade

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
	unit "github.com/holdfast/holdfast/internal/render/host"
)

// parachuteAlone lets the parachute run for a time, while the agent does not.
func (w *world) parachuteAlone(limit time.Duration) {
	w.t.Helper()
	delete(w.daemons, "agent")
	for end := w.now.Add(limit); w.now.Before(end); w.now = w.now.Add(15 * time.Second) {
		if w.armed != "" {
			w.expect(w.run())
		}
	}
}

// The agent of the new release never runs, and its servers do.
func TestTheOnlyHostHearsAPersonWhoGoesBackAlthoughItsAgentNeverRuns(t *testing.T) {
	w := newWorld(t)
	w.kind, w.peer, w.broken = parachute.Alone, state.Known(false), "agent"
	w.process()
	w.turn(parachute.Go)
	w.until(parachute.Started)
	w.parachuteAlone(20 * time.Minute)
	if w.current != newOne {
		t.Fatalf("it serves alone, and went back: %+v", w.journal())
	}
	w.turn(parachute.GoBack)
	w.parachuteAlone(2 * time.Minute)
	if j := w.journal(); w.current != oldOne || j.Why != "an administrator goes back" || j.Failed {
		t.Errorf("%+v, it has %s", j, w.current)
	}
}

// Whoever hangs while it gathers facts keeps nobody from the journal, and decides by no old facts.
func TestFactsAreGatheredWithoutTheLock(t *testing.T) {
	w := newWorld(t)
	h, looks := w.effects(), 0
	facts := func(_ context.Context, j parachute.Journal) (parachute.Facts, error) {
		unlock, err := h.Journal.Lock()
		if err != nil {
			t.Fatal(err)
		}
		unlock()
		if looks++; looks == 1 { // another program decides
			if err := h.Journal.Write(parachute.Journal{Upgrade: "u2", Step: parachute.Accepted}, 1); err != nil {
				t.Fatal(err)
			}
		}
		return parachute.Facts{Running: w.current, Daemons: true}, nil
	}
	all := func(parachute.Journal, parachute.Action) bool { return true }
	if j, _, err := h.decide(t.Context(), w.clock, facts, all); err != nil || looks != 2 || j.Upgrade != "u2" {
		t.Errorf("%+v after %d looks: %v", j, looks, err)
	}
	moves := func(context.Context, parachute.Journal) (parachute.Facts, error) {
		return parachute.Facts{Running: newOne, Daemons: true}, nil
	}
	if _, _, err := h.decide(t.Context(), w.clock, moves, all); !errors.Is(err, ErrBusy) {
		t.Errorf("the switch leads elsewhere again and again: %v", err)
	}
}

// A program that gathers while the host switches does not take the switch for a clock that went back.
func TestASwitchWhileFactsAreGatheredIsNoClockThatWentBack(t *testing.T) {
	w := newWorld(t)
	h, looks := w.effects(), 0
	facts := func(context.Context, parachute.Journal) (parachute.Facts, error) {
		w.now = w.now.Add(10 * time.Second)
		if looks++; looks == 1 { // the agent switches
			switched := parachute.Journal{Upgrade: "u2", From: oldOne, To: newOne, Boot: "b", Step: parachute.Switched, Since: w.now, Switched: w.now, Deadline: w.now.Add(5 * time.Minute)}
			if err := h.Journal.Write(switched, 1); err != nil {
				t.Fatal(err)
			}
			w.link(newOne)
		}
		w.now = w.now.Add(10 * time.Second)
		return parachute.Facts{Kind: parachute.OfTwo, Running: w.current, Previous: oldOne, Boot: "b", Up: time.Hour, Daemons: true}, nil
	}
	j, a, err := h.decide(t.Context(), w.clock, facts, back)
	if err != nil || looks != 2 || j.Step != parachute.Switched || a.Act != parachute.Rest {
		t.Errorf("%+v at %s after %d looks: %v", a, j.Step, looks, err)
	}
}

// An agent that hangs with the lock is ended minutes after the deadline, and not before.
func TestAnAgentThatHangsWithTheJournalIsEnded(t *testing.T) {
	w := newWorld(t)
	w.bad = "kubelet"
	w.turn(parachute.Go)
	w.until(parachute.Proving)
	unlock, err := w.effects().Journal.Lock()
	if err != nil {
		t.Fatal(err)
	}
	p := w.parachute()
	stop := p.StopAgent
	p.StopAgent = func(ctx context.Context) error {
		unlock()
		return stop(ctx)
	}
	w.now = w.now.Add(time.Minute)
	if said, err := p.Run(t.Context()); err != nil || said != ErrBusy.Error() || slices.Contains(w.acts, "stop agent") {
		t.Fatalf("%q, %v, after %v", said, err, w.acts)
	}
	w.now = w.now.Add(10 * time.Minute)
	said, err := p.Run(t.Context())
	if err != nil || w.current != oldOne || !strings.HasPrefix(said, "the agent has kept the journal") {
		t.Errorf("%q, %v, it has %s", said, err, w.current)
	}
}

// A peer that lost its power has its time once it is back, and its release is not to blame.
func TestAHostWhosePeerIsAwayIsNotSaidToHaveFailed(t *testing.T) {
	w := newWorld(t)
	w.bad = "etcd"
	w.turn(parachute.Go)
	w.until(parachute.Started)
	w.apart = true
	for range 40 { // two minutes
		w.tick(false)
	}
	if w.current != newOne {
		t.Fatalf("it does not wait: %+v", w.journal())
	}
	w.apart, w.bad = false, ""
	w.rests(false)
	if w.current != newOne {
		t.Errorf("%+v", w.journal())
	}
}

// A process that is left over of a release is no agent.
func TestTheAgentIsTheProcessOfItsUnit(t *testing.T) {
	m, _, _ := onDisk(t, parachute.Worker)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	said := strconv.Itoa(os.Getpid())
	m.systemd = func(context.Context, ...string) ([]byte, error) { return []byte(said + "\n"), nil }
	if is, err := m.main(t.Context(), unit.AgentUnit, exe); !is || err != nil {
		t.Errorf("%v %v", is, err)
	}
	said = "0"
	if is, err := m.main(t.Context(), unit.AgentUnit, exe); is || err != nil {
		t.Errorf("no process: %v %v", is, err)
	}
	other := filepath.Join(t.TempDir(), "other")
	putFile(t, other, "")
	said = strconv.Itoa(os.Getpid())
	if is, err := m.main(t.Context(), unit.AgentUnit, other); is || err != nil {
		t.Errorf("another file: %v %v", is, err)
	}
}

// A parachute whose text a later release would write otherwise counts as long as it leads to the old
// release. One of which the removal has begun does not.
func TestAParachuteOfOtherTextIsKept(t *testing.T) {
	m, _, _ := onDisk(t, parachute.Alone)
	if m.kept(oldOne) {
		t.Error("nothing was armed")
	}
	if _, err := m.arm(t.Context(), oldOne, newOne); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(m.root, unit.UnitDir, unit.ParachuteUnit)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	putFile(t, path, string(text)+"# another text\n")
	if !m.kept(oldOne) || m.kept(newOne) {
		t.Errorf("kept: old %v, new %v", m.kept(oldOne), m.kept(newOne))
	}
	if err := remove(filepath.Join(m.root, unit.UnitDir, unit.SwitchUnit)); err != nil {
		t.Fatal(err)
	}
	if m.kept(oldOne) {
		t.Error("its removal has begun")
	}
}

// The parachute of the old release is its own: the agent of the new one starts it as it is.
func TestAReturnDoesNotWriteTheParachuteAnew(t *testing.T) {
	w := newWorld(t)
	w.bad = "kubelet"
	w.turn(parachute.Go)
	w.until(parachute.Proving)
	w.acts, w.otherText = nil, true
	w.rests(false)
	if w.current != oldOne || slices.Contains(w.acts, "arm") {
		t.Errorf("it has %s, after %v", w.current, w.acts)
	}
}
