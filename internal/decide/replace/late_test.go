package replace

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// joining is a world in which the newcomer was let in and has not entered yet.
func joining(sameName bool) world {
	w := start(sameName, false)
	w.stage, w.reloaded, w.keyFile, w.keyRuns, w.ringOld, w.cibOld, w.newcomers = Joining, true, true, true, false, false, true
	w.retirement, w.retiredNew, w.newPeer, w.token, w.join, w.grave, w.given, w.pods, w.node, w.lock = true, !sameName, !sameName, true, true, true, sameName, false, "none", true
	w.device, w.account, w.fences, w.named, w.oldDevice, w.leftover = true, true, true, true, false, false
	return w
}

func TestAnOrderToTakeBackARetiredHostIsAnsweredAndDropped(t *testing.T) {
	w := start(true, false)
	w.stage, w.lock, w.abort = Retired, true, true
	if d := Decide(w.facts()); d.Act != DropAbort || !strings.Contains(d.Words, "cp-2 is retired, so there is only the way forward: sudo holdfast host replace cp-2") {
		t.Errorf("%+v", d)
	}
	w.oldOn = true // nothing but the plan was changed: the old host takes it back
	if d := Decide(w.facts()); d.Rule != "alarm.came-back" {
		t.Errorf("%+v", d)
	}
}

// An order from before the newcomer was let in says nothing of the newcomer.
func TestANewcomerIsGivenUpOnlyByAnOrderThatIsYoungerThanItsAdmission(t *testing.T) {
	for sentence, c := range map[string]struct {
		at   time.Duration
		rule string
	}{
		"before":             {-time.Minute, "late"},
		"in the same moment": {0, "late"},
		"after it":           {time.Minute, "joining.lost"},
		"now, and it was let in by a clock that was ahead by years": {2 * time.Minute, "joining.lost"},
	} {
		f := joining(true).facts()
		f.Plan.Written = noon.Add(-2 * time.Minute)
		f.Wish = &Wish{ID: "p1", Abort: true, At: f.Plan.Written.Add(c.at)}
		if strings.Contains(sentence, "ahead") {
			f.Plan.Written = noon.AddDate(3, 0, 0)
		}
		if d := Decide(f); d.Rule != c.rule {
			t.Errorf("%s: %+v", sentence, d)
		}
	}
}

func TestAnotherMachineThanTheOneThatWasLetInIsNamedAndHoldsNothingUp(t *testing.T) {
	w := joining(true)
	w.stranger = true
	f := w.facts()
	d := Decide(f)
	for _, want := range []string{"192.0.2.15 (uuid=other", "192.0.2.13 (uuid=new"} {
		if d.Rule != "joining.other" || d.Act != Wait || !strings.Contains(d.Words, want) || !strings.Contains(d.Way, "sudo holdfast host replace cp-2 --abort") {
			t.Errorf("%+v", d)
		}
	}
	f.Wish = &Wish{ID: "p1", Abort: true, At: noon}
	if d := Decide(f); d.Rule != "joining.lost" {
		t.Errorf("nobody can end the plan while it asks: %+v", d)
	}
	w.retirement = false
	if d := Decide(w.facts()); d.Rule != "joining.alone" {
		t.Errorf("the keeper waits for a peer that was never listed: %+v", d)
	}
}

func TestTheMachineThatWasLetInMayAskAtAnotherAddress(t *testing.T) {
	w := joining(true)
	w.asks, w.moved = true, true
	f := w.facts()
	if d := Decide(f); d.Rule != "joining.moved" || d.Plan == nil || d.Plan.Newcomer != f.Asks || d.Plan.Stage != Joining {
		t.Errorf("%+v", d)
	}
	f.Plan.Written, f.Wish = noon.Add(-time.Hour), &Wish{ID: "p1", Abort: true, At: noon.Add(-time.Minute)}
	after := f
	after.Plan = Decide(f).Plan
	if d := Decide(after); after.Plan == nil || d.Rule == "late" {
		t.Errorf("the word that it is lost is dropped since it asked at another address: %+v", d)
	}
	f.Wish = nil
	f.Plan.Grows = true // etcd's configuration has the address
	if d := Decide(f); d.Rule != "joining.other" || d.Way != "give the machine the address 192.0.2.13 again" {
		t.Errorf("%+v", d)
	}
	w.ringNew, w.retirement = true, false                 // so has Corosync
	if d := Decide(w.facts()); d.Rule != "joining.ring" { // the list was written, and not loaded
		t.Errorf("%+v", d)
	}
	w.ringRuns, w.inside = true, true
	if d := Decide(w.facts()); d.Rule != "joining.other" || d.Way != "give the machine the address 192.0.2.13 again" {
		t.Errorf("%+v", d)
	}
}

func TestATombstoneThatSomebodyDeletesIsWrittenAgain(t *testing.T) {
	for sameName, want := range map[bool]Act{true: GiveName, false: PutGrave} {
		w := joining(sameName)
		w.grave, w.given = false, false
		if d := Decide(w.facts()); d.Act != want {
			t.Errorf("same name %t: %+v", sameName, d)
		}
	}
}

func TestAPlanThatIsTakenBackSaysWhetherTheOldHostIsOff(t *testing.T) {
	const on = "sudo fence_holdfast --action=on --plug=cp-2"
	w := start(true, false)
	w.lock, w.abort = true, true
	d := Decide(w.facts())
	if d.Plan == nil || !d.Plan.Off || !strings.Contains(d.Words, on) || !strings.Contains(d.Plan.Rests(), on) {
		t.Errorf("it is off: %+v", d)
	}
	w.oldOn = true
	f := w.facts()
	f.Contact = state.Known(false)
	if d := Decide(f); d.Plan == nil || d.Plan.Off || strings.Contains(d.Words, on) || !strings.Contains(d.Plan.Rests(), "nothing was changed at cp-2") {
		t.Errorf("it is on: %+v", d)
	}
}

// Of a key file that may be that of lost secrets nobody knows whether the old host still has it.
func TestAPlanWhoseSecretsWereMadeAgainIsNotTakenBack(t *testing.T) {
	w := start(true, false)
	w.stage, w.lock, w.oldOn = Retired, true, true
	f := w.facts()
	f.Plan.Remade = true
	if d := Decide(f); d.Rule != "alarm.half" {
		t.Errorf("%+v", d)
	}
}
