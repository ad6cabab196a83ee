package bmc

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ResetType is a client's request to the power, spelled as in Redfish (DSP0268,
// Resource.ResetType).
type ResetType string

// The reset types that the simulator understands.
const (
	ResetOn               ResetType = "On"
	ResetForceOn          ResetType = "ForceOn"
	ResetForceOff         ResetType = "ForceOff"
	ResetGracefulShutdown ResetType = "GracefulShutdown"
	ResetForceRestart     ResetType = "ForceRestart"
	ResetGracefulRestart  ResetType = "GracefulRestart"
	ResetPowerCycle       ResetType = "PowerCycle"
	ResetPushPowerButton  ResetType = "PushPowerButton"
	// ResetNmi is accepted and does nothing: a container has no crash dump.
	ResetNmi ResetType = "Nmi"
)

// ResetTypes returns all reset types, in the order they are offered.
func ResetTypes() []ResetType {
	return []ResetType{
		ResetOn, ResetForceOn, ResetForceOff, ResetGracefulShutdown, ResetForceRestart,
		ResetGracefulRestart, ResetPowerCycle, ResetPushPowerButton, ResetNmi,
	}
}

// PowerState is the power as reported to a client, spelled as in Redfish.
type PowerState string

// The power states.
const (
	PowerOn     PowerState = "On"
	PowerOff    PowerState = "Off"
	PoweringOn  PowerState = "PoweringOn"
	PoweringOff PowerState = "PoweringOff"
)

// Phase is the state of the machine's power.
type Phase string

// The phases. The host can be alive only in PhaseStarting, PhaseRunning,
// PhaseClosing and PhaseCutting.
const (
	// PhaseOff: no power.
	PhaseOff Phase = "off"
	// PhaseResting: the moment without power within a power cycle.
	PhaseResting Phase = "resting"
	// PhasePOST: powered and in its self-test; the host boots at Due.
	PhasePOST Phase = "post"
	// PhaseStarting: the machine is being started.
	PhaseStarting Phase = "starting"
	// PhaseRunning: powered, with the host running.
	PhaseRunning Phase = "running"
	// PhaseClosing: a power-off is accepted and cuts the power at Due.
	PhaseClosing Phase = "closing"
	// PhaseCutting: the machine is being cut.
	PhaseCutting Phase = "cutting"
)

// Then tells what follows once the machine is without power.
type Then string

// The steps that may follow a loss of power: nothing, a restart that never
// shows Off, or a power cycle that shows Off for a moment.
const (
	ThenStayOff Then = ""
	ThenRestart Then = "restart"
	ThenCycle   Then = "cycle"
)

// State is the power of the machine as its controller sees it. The zero value
// is not valid; a machine begins as State{Phase: PhaseOff}.
type State struct {
	Phase Phase
	// Due is the end of PhaseResting, PhasePOST and PhaseClosing. Zero means
	// never: a power-off that sticks.
	Due  time.Time
	Then Then
}

// Behaviour holds the delays and the oddities of the hardware.
type Behaviour struct {
	// POST is the time that the firmware runs before the host boots; zero boots
	// at once.
	POST time.Duration
	// OffDelay is the time from the acceptance of a power-off to its effect.
	OffDelay time.Duration
	// OffSticks makes a power-off begin and never end.
	OffSticks bool
	// ConflictWhenOff and ConflictWhenOn refuse to switch a machine to the
	// state it is in already.
	ConflictWhenOff, ConflictWhenOn bool
}

// cyclePause is the time without power in a power cycle.
const cyclePause = time.Second

// EventKind names what happened to the power.
type EventKind string

// The events.
const (
	// EventReset is a client's request, of type Reset.
	EventReset EventKind = "reset"
	// EventTick reports that time has passed.
	EventTick EventKind = "tick"
	// EventSeen reports that the machine was found on or off (On).
	EventSeen EventKind = "seen"
	// EventDone reports the end of Effect, with its success (OK).
	EventDone EventKind = "done"
	// EventUnstick reports that power-offs no longer stick.
	EventUnstick EventKind = "unstick"
)

// Event is one thing that happened. The fields that its kind does not name
// are ignored.
type Event struct {
	Kind   EventKind
	Reset  ResetType
	On     bool
	Effect Effect
	OK     bool
}

// Effect is an action on the machine.
type Effect string

// The effects.
const (
	EffectNone     Effect = ""
	EffectOn       Effect = "power on"
	EffectOff      Effect = "power off"
	EffectShutdown Effect = "shut down"
)

// Errors of a refused reset. All but ErrUnknownReset are conflicts with the
// state of the machine.
var (
	ErrUnknownReset = errors.New("reset type is not supported")
	ErrAlreadyOff   = errors.New("the system is already powered off")
	ErrAlreadyOn    = errors.New("the system is already powered on")
	ErrBusy         = errors.New("a power operation is in progress")
)

// Step returns the state after an event, and the effect to carry out. An error
// refuses a reset and leaves the state unchanged.
func Step(s State, e Event, now time.Time, b Behaviour) (State, Effect, error) {
	switch e.Kind {
	case EventReset:
		return reset(s, e.Reset, now, b)
	case EventTick:
		next, effect := tick(s, now, b)
		return next, effect, nil
	case EventSeen:
		return seen(s, e.On, now, b), EffectNone, nil
	case EventDone:
		return done(s, e.Effect, e.OK, now, b), EffectNone, nil
	case EventUnstick:
		return unstick(s), EffectNone, nil
	}
	return s, EffectNone, fmt.Errorf("unknown event %q", e.Kind)
}

// Shown returns the power state that an honest controller reports.
func (s State) Shown() PowerState {
	switch s.Phase {
	case PhaseOff, PhaseResting:
		return PowerOff
	case PhaseClosing, PhaseCutting:
		if s.Then != ThenRestart {
			return PoweringOff
		}
	case PhasePOST, PhaseStarting, PhaseRunning:
	}
	return PowerOn
}

// due reports whether the state waits for a time that has come.
func (s State) due(now time.Time) bool {
	return !s.Due.IsZero() && !s.Due.After(now)
}

// watched reports whether the state waits for the host to go off by itself.
func (s State) watched() bool { return s.Phase == PhaseRunning && s.Then != ThenStayOff }

func (s State) off() bool { return s.Phase == PhaseOff }

func (s State) goingOff() bool { return s.Phase == PhaseClosing || s.Phase == PhaseCutting }

// unbooted reports whether the host cannot take a request yet.
func (s State) unbooted() bool { return s.Phase == PhasePOST || s.Phase == PhaseResting }

func reset(s State, t ResetType, now time.Time, b Behaviour) (State, Effect, error) {
	if !slices.Contains(ResetTypes(), t) {
		return s, EffectNone, fmt.Errorf("%w: %q", ErrUnknownReset, t)
	}
	if s.goingOff() {
		return resetWhileGoingOff(s, t)
	}
	switch t {
	case ResetOn, ResetForceOn:
		return switchOn(s, now, b)
	case ResetForceOff:
		return switchOff(s, ThenStayOff, now, b)
	case ResetPowerCycle:
		return switchOff(s, ThenCycle, now, b)
	case ResetForceRestart:
		return restart(s, now, b)
	case ResetGracefulShutdown:
		return askToEnd(s, ThenStayOff, b)
	case ResetGracefulRestart:
		return askToEnd(s, ThenRestart, b)
	case ResetPushPowerButton:
		return pushButton(s, now, b)
	case ResetNmi:
	}
	return s, EffectNone, nil
}

// resetWhileGoingOff lets a plain power-off cancel the restart that was to
// follow. It accepts ResetNmi without effect and refuses everything else.
func resetWhileGoingOff(s State, t ResetType) (State, Effect, error) {
	switch t {
	case ResetForceOff:
		s.Then = ThenStayOff
		return s, EffectNone, nil
	case ResetNmi:
		return s, EffectNone, nil
	default:
		return s, EffectNone, ErrBusy
	}
}

func switchOn(s State, now time.Time, b Behaviour) (State, Effect, error) {
	if s.off() {
		return post(now, b), EffectNone, nil
	}
	if b.ConflictWhenOn {
		return s, EffectNone, ErrAlreadyOn
	}
	return s, EffectNone, nil
}

func switchOff(s State, then Then, now time.Time, b Behaviour) (State, Effect, error) {
	if s.off() {
		return alreadyOff(s, then, b)
	}
	next := State{Phase: PhaseClosing, Due: now.Add(b.OffDelay), Then: then}
	if b.OffSticks {
		next.Due = time.Time{}
	}
	return next, EffectNone, nil
}

// alreadyOff answers a power-off of a machine that is off. If a restart should
// follow, it is a conflict on all hardware.
func alreadyOff(s State, then Then, b Behaviour) (State, Effect, error) {
	if b.ConflictWhenOff || then != ThenStayOff {
		return s, EffectNone, ErrAlreadyOff
	}
	return s, EffectNone, nil
}

// restart begins again at POST. A machine that has not booted does that by
// itself, a running one after its power was cut.
func restart(s State, now time.Time, b Behaviour) (State, Effect, error) {
	if s.unbooted() {
		return post(now, b), EffectNone, nil
	}
	return switchOff(s, ThenRestart, now, b)
}

// askToEnd requests a soft end, which only a running host can notice.
func askToEnd(s State, then Then, b Behaviour) (State, Effect, error) {
	switch {
	case s.off():
		return alreadyOff(s, then, b)
	case s.unbooted():
		return s, EffectNone, nil
	}
	s.Then = then
	return s, EffectShutdown, nil
}

func pushButton(s State, now time.Time, b Behaviour) (State, Effect, error) {
	switch {
	case s.off():
		return post(now, b), EffectNone, nil
	case s.unbooted():
		return switchOff(s, ThenStayOff, now, b)
	}
	return askToEnd(s, ThenStayOff, b)
}

func post(now time.Time, b Behaviour) State {
	return State{Phase: PhasePOST, Due: now.Add(b.POST)}
}

func tick(s State, now time.Time, b Behaviour) (State, Effect) {
	if !s.due(now) {
		return s, EffectNone
	}
	switch s.Phase {
	case PhaseResting:
		return post(now, b), EffectNone
	case PhasePOST:
		return State{Phase: PhaseStarting}, EffectOn
	case PhaseClosing:
		return State{Phase: PhaseCutting, Then: s.Then}, EffectOff
	case PhaseOff, PhaseStarting, PhaseRunning, PhaseCutting:
	}
	return s, EffectNone
}

// seen brings the state in line with the machine while no effect is pending: a
// host can go off by itself, and the lab can start or cut it.
func seen(s State, on bool, now time.Time, b Behaviour) State {
	switch {
	case s.Phase == PhaseRunning && !on:
		return afterOff(s.Then, now, b)
	case on && (s.off() || s.unbooted()):
		return State{Phase: PhaseRunning}
	}
	return s
}

// done handles the end of an effect. A machine that could not be cut still
// runs; one that could not be started is off.
func done(s State, e Effect, ok bool, now time.Time, b Behaviour) State {
	switch {
	case e == EffectOff && s.Phase == PhaseCutting && ok:
		return afterOff(s.Then, now, b)
	case e == EffectOff && s.Phase == PhaseCutting:
		return State{Phase: PhaseRunning}
	case e == EffectOn && s.Phase == PhaseStarting && ok:
		return State{Phase: PhaseRunning, Then: s.Then}
	case e == EffectOn && s.Phase == PhaseStarting:
		return State{Phase: PhaseOff}
	}
	return s
}

func afterOff(then Then, now time.Time, b Behaviour) State {
	switch then {
	case ThenRestart:
		return post(now, b)
	case ThenCycle:
		return State{Phase: PhaseResting, Due: now.Add(cyclePause)}
	case ThenStayOff:
	}
	return State{Phase: PhaseOff}
}

// unstick drops a power-off that stuck; the machine was never cut.
func unstick(s State) State {
	if s.Phase == PhaseClosing && s.Due.IsZero() {
		return State{Phase: PhaseRunning}
	}
	return s
}
