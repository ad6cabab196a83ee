package bmc

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func after(d time.Duration) time.Time { return t0.Add(d) }

func resetOf(t ResetType) Event { return Event{Kind: EventReset, Reset: t} }

func doneOf(e Effect, ok bool) Event { return Event{Kind: EventDone, Effect: e, OK: ok} }

func TestPowerFollowsRequests(t *testing.T) {
	slow := Behaviour{POST: 40 * time.Second, OffDelay: 5 * time.Second}
	off := State{Phase: PhaseOff}
	running := State{Phase: PhaseRunning}
	booting := State{Phase: PhasePOST, Due: after(time.Second)}
	closing := State{Phase: PhaseClosing, Due: after(5 * time.Second)}
	posting := State{Phase: PhasePOST, Due: after(40 * time.Second)}
	cases := []struct {
		name   string
		from   State
		event  Event
		b      Behaviour
		want   State
		effect Effect
		err    error
	}{
		{"On begins POST", off, resetOf(ResetOn), slow, posting, EffectNone, nil},
		{"ForceOn begins POST", off, resetOf(ResetForceOn), slow, posting, EffectNone, nil},
		{"the power button switches an off machine on", off, resetOf(ResetPushPowerButton), slow, posting, EffectNone, nil},
		{"On of a machine that is on is accepted", running, resetOf(ResetOn), slow, running, EffectNone, nil},
		{"On during POST does not begin POST again", booting, resetOf(ResetOn), slow, booting, EffectNone, nil},
		{"On of a machine that is on is a conflict by quirk", running, resetOf(ResetOn), Behaviour{ConflictWhenOn: true}, running, EffectNone, ErrAlreadyOn},
		{"ForceOff is accepted before it happens", running, resetOf(ResetForceOff), slow, closing, EffectNone, nil},
		{"ForceOff during POST drops the boot", booting, resetOf(ResetForceOff), slow, closing, EffectNone, nil},
		{"ForceOff within a power cycle keeps the machine off", State{Phase: PhaseResting, Due: after(time.Second)}, resetOf(ResetForceOff), slow, closing, EffectNone, nil},
		{"ForceOff of an off machine is accepted", off, resetOf(ResetForceOff), slow, off, EffectNone, nil},
		{"ForceOff of an off machine is a conflict by quirk", off, resetOf(ResetForceOff), Behaviour{ConflictWhenOff: true}, off, EffectNone, ErrAlreadyOff},
		{"GracefulShutdown of an off machine is a conflict by quirk", off, resetOf(ResetGracefulShutdown), Behaviour{ConflictWhenOff: true}, off, EffectNone, ErrAlreadyOff},
		{"a power-off that sticks is never due", running, resetOf(ResetForceOff), Behaviour{OffSticks: true}, State{Phase: PhaseClosing}, EffectNone, nil},
		{"PowerCycle goes off to come back", running, resetOf(ResetPowerCycle), slow, State{Phase: PhaseClosing, Due: after(5 * time.Second), Then: ThenCycle}, EffectNone, nil},
		{"PowerCycle of an off machine is a conflict", off, resetOf(ResetPowerCycle), slow, off, EffectNone, ErrAlreadyOff},
		{"ForceRestart goes off to come back", running, resetOf(ResetForceRestart), slow, State{Phase: PhaseClosing, Due: after(5 * time.Second), Then: ThenRestart}, EffectNone, nil},
		{"ForceRestart during POST begins POST again", booting, resetOf(ResetForceRestart), slow, posting, EffectNone, nil},
		{"ForceRestart of an off machine is a conflict", off, resetOf(ResetForceRestart), slow, off, EffectNone, ErrAlreadyOff},
		{"GracefulShutdown asks the host", running, resetOf(ResetGracefulShutdown), slow, running, EffectShutdown, nil},
		{"the power button asks a running host", running, resetOf(ResetPushPowerButton), slow, running, EffectShutdown, nil},
		{"GracefulShutdown during POST is not heard", booting, resetOf(ResetGracefulShutdown), slow, booting, EffectNone, nil},
		{"the power button during POST switches off", booting, resetOf(ResetPushPowerButton), slow, closing, EffectNone, nil},
		{"GracefulRestart asks the host, to come back", running, resetOf(ResetGracefulRestart), slow, State{Phase: PhaseRunning, Then: ThenRestart}, EffectShutdown, nil},
		{"GracefulShutdown overrides GracefulRestart", State{Phase: PhaseRunning, Then: ThenRestart}, resetOf(ResetGracefulShutdown), slow, running, EffectShutdown, nil},
		{"GracefulRestart of an off machine is a conflict", off, resetOf(ResetGracefulRestart), slow, off, EffectNone, ErrAlreadyOff},
		{"Nmi does nothing", running, resetOf(ResetNmi), slow, running, EffectNone, nil},
		{"On while going off is refused", closing, resetOf(ResetOn), slow, closing, EffectNone, ErrBusy},
		{"ForceOff while going off is accepted and begins nothing new", closing, resetOf(ResetForceOff), slow, closing, EffectNone, nil},
		{"ForceOff cancels the restart to come", State{Phase: PhaseCutting, Then: ThenRestart}, resetOf(ResetForceOff), slow, State{Phase: PhaseCutting}, EffectNone, nil},
		{"Nmi while going off is accepted", closing, resetOf(ResetNmi), slow, closing, EffectNone, nil},
		{"an unknown reset type is refused", running, resetOf("Explode"), slow, running, EffectNone, ErrUnknownReset},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, effect, err := Step(c.from, c.event, t0, c.b)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if effect != c.effect || !errors.Is(err, c.err) {
				t.Errorf("effect %q, error %v; want %q, %v", effect, err, c.effect, c.err)
			}
		})
	}
}

func TestPowerFollowsTimeAndTheMachine(t *testing.T) {
	b := Behaviour{POST: 40 * time.Second}
	tickNow := Event{Kind: EventTick}
	seenOn, seenOff := Event{Kind: EventSeen, On: true}, Event{Kind: EventSeen}
	posting := State{Phase: PhasePOST, Due: after(40 * time.Second)}
	cases := []struct {
		name   string
		from   State
		event  Event
		want   State
		effect Effect
	}{
		{"POST ends with the host's boot", State{Phase: PhasePOST, Due: t0}, tickNow, State{Phase: PhaseStarting}, EffectOn},
		{"POST does not end early", State{Phase: PhasePOST, Due: after(1)}, tickNow, State{Phase: PhasePOST, Due: after(1)}, EffectNone},
		{"the power is cut when it is due", State{Phase: PhaseClosing, Due: t0, Then: ThenCycle}, tickNow, State{Phase: PhaseCutting, Then: ThenCycle}, EffectOff},
		{"a power-off that sticks is not ended by time", State{Phase: PhaseClosing}, tickNow, State{Phase: PhaseClosing}, EffectNone},
		{"a power cycle ends in POST", State{Phase: PhaseResting, Due: t0}, tickNow, posting, EffectNone},
		{"time changes nothing in a machine that runs", State{Phase: PhaseRunning}, tickNow, State{Phase: PhaseRunning}, EffectNone},

		{"a started machine runs", State{Phase: PhaseStarting}, doneOf(EffectOn, true), State{Phase: PhaseRunning}, EffectNone},
		{"a machine that does not start is off", State{Phase: PhaseStarting}, doneOf(EffectOn, false), State{Phase: PhaseOff}, EffectNone},
		{"a restart asked for while starting is kept", State{Phase: PhaseStarting, Then: ThenRestart}, doneOf(EffectOn, true), State{Phase: PhaseRunning, Then: ThenRestart}, EffectNone},
		{"a start that ends after a power-off does not undo it", State{Phase: PhaseClosing, Due: after(1)}, doneOf(EffectOn, true), State{Phase: PhaseClosing, Due: after(1)}, EffectNone},
		{"a cut machine is off", State{Phase: PhaseCutting}, doneOf(EffectOff, true), State{Phase: PhaseOff}, EffectNone},
		{"a machine that was not cut still runs", State{Phase: PhaseCutting}, doneOf(EffectOff, false), State{Phase: PhaseRunning}, EffectNone},
		{"a restart goes on with POST", State{Phase: PhaseCutting, Then: ThenRestart}, doneOf(EffectOff, true), posting, EffectNone},
		{"a power cycle rests without power", State{Phase: PhaseCutting, Then: ThenCycle}, doneOf(EffectOff, true), State{Phase: PhaseResting, Due: after(cyclePause)}, EffectNone},
		{"the end of a soft request changes nothing", State{Phase: PhaseRunning}, doneOf(EffectShutdown, false), State{Phase: PhaseRunning}, EffectNone},

		{"a host that went off by itself is off", State{Phase: PhaseRunning}, seenOff, State{Phase: PhaseOff}, EffectNone},
		{"a host that went off to restart comes back", State{Phase: PhaseRunning, Then: ThenRestart}, seenOff, posting, EffectNone},
		{"a machine found running is on", State{Phase: PhaseOff}, seenOn, State{Phase: PhaseRunning}, EffectNone},
		{"a machine found running needs no boot", posting, seenOn, State{Phase: PhaseRunning}, EffectNone},
		{"a machine in POST is not yet alive, and on", posting, seenOff, posting, EffectNone},
		{"a look during a cut decides nothing", State{Phase: PhaseCutting}, seenOff, State{Phase: PhaseCutting}, EffectNone},
		{"a look during a start decides nothing", State{Phase: PhaseStarting}, seenOff, State{Phase: PhaseStarting}, EffectNone},

		{"a power-off that stuck is forgotten", State{Phase: PhaseClosing}, Event{Kind: EventUnstick}, State{Phase: PhaseRunning}, EffectNone},
		{"a slow power-off is not forgotten", State{Phase: PhaseClosing, Due: after(1)}, Event{Kind: EventUnstick}, State{Phase: PhaseClosing, Due: after(1)}, EffectNone},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, effect, err := Step(c.from, c.event, t0, b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" || effect != c.effect {
				t.Errorf("effect %q, want %q; state (-want +got):\n%s", effect, c.effect, diff)
			}
		})
	}
}

func TestOnlyAMachineWithoutPowerIsShownOff(t *testing.T) {
	for phase, want := range map[Phase]PowerState{
		PhaseOff: PowerOff, PhaseResting: PowerOff, PhasePOST: PowerOn, PhaseStarting: PowerOn,
		PhaseRunning: PowerOn, PhaseClosing: PoweringOff, PhaseCutting: PoweringOff,
	} {
		if got := (State{Phase: phase}).Shown(); got != want {
			t.Errorf("phase %s shows %s, want %s", phase, got, want)
		}
	}
	for _, phase := range []Phase{PhaseClosing, PhaseCutting} {
		if got := (State{Phase: phase, Then: ThenRestart}).Shown(); got != PowerOn {
			t.Errorf("a restart in phase %s shows %s, want On", phase, got)
		}
	}
}

// TestNoSequenceShowsOffOfALiveMachine walks all sequences of six events.
// Beside each it tracks the true state of a machine that obeys.
func TestNoSequenceShowsOffOfALiveMachine(t *testing.T) {
	b := Behaviour{}
	type node struct {
		s       State
		alive   bool
		pending Effect
	}
	var walk func(n node, depth int)
	seenStates := map[node]int{}
	walk = func(n node, depth int) {
		if left, ok := seenStates[n]; ok && left >= depth {
			return
		}
		seenStates[n] = depth
		if n.s.Shown() == PowerOff && n.alive {
			t.Fatalf("%+v shows Off while the machine lives", n.s)
		}
		if depth == 0 {
			return
		}
		events := []Event{{Kind: EventTick}, {Kind: EventUnstick}}
		for _, r := range ResetTypes() {
			events = append(events, resetOf(r))
		}
		if n.pending == EffectNone {
			events = append(events, Event{Kind: EventSeen, On: n.alive})
		}
		for _, e := range events {
			next, effect, err := Step(n.s, e, t0, b)
			if err != nil {
				continue
			}
			m := node{s: next, alive: n.alive, pending: n.pending}
			if effect != EffectNone {
				if n.pending != EffectNone {
					continue // the queue runs one effect at a time: it ends first
				}
				m.pending = effect
			}
			walk(m, depth-1)
		}
		if n.pending == EffectNone {
			return
		}
		m := node{alive: n.alive}
		switch n.pending {
		case EffectOn:
			m.alive = true
		case EffectOff, EffectShutdown:
			m.alive = false
		case EffectNone:
		}
		m.s, _, _ = Step(n.s, doneOf(n.pending, true), t0, b)
		walk(m, depth-1)
	}
	walk(node{s: State{Phase: PhaseOff}}, 8)
	walk(node{s: State{Phase: PhaseRunning}, alive: true}, 8)
	if len(seenStates) < 20 {
		t.Fatalf("walked only %d states", len(seenStates))
	}
}
