package replace

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// halfKeyed is a plan that was cut off after Corosync had loaded its new key and before that was
// written down.
func halfKeyed() world {
	w := start(true, false)
	w.stage, w.lock, w.keyFile, w.keyRuns = Retired, true, true, true
	return w
}

func TestAnOldHostThatIsSwitchedOnWhileTheKeyIsChangedIsSwitchedOff(t *testing.T) {
	w := halfKeyed()
	if d := Decide(w.facts()); d.Rule != "retired.key" {
		t.Errorf("it is off: %+v", d)
	}
	w.oldOn = true // it hears nobody, and the key is changed again only if it is off
	if d := Decide(w.facts()); d.Rule != "retired.off" || d.Act != SwitchOff {
		t.Errorf("it is on: %+v", d)
	}
}

func TestAnOldHostIsSwitchedOffAsLongAsItsNodeOrItsPodsAreThere(t *testing.T) {
	w := halfKeyed()
	w.reloaded, w.ringOld, w.cibOld, w.retirement, w.grave, w.token, w.join, w.oldOn = true, false, false, true, true, true, true, true
	for what, n := range map[string]world{
		"its Node": func() world { n := w; return n }(),
		"its pods": func() world { n := w; n.node = "none"; return n }(),
	} {
		if d := Decide(n.facts()); d.Rule != "retired.off" {
			t.Errorf("%s: %+v", what, d)
		}
	}
	w.node, w.pods = "none", false
	if d := Decide(w.facts()); d.Act == SwitchOff {
		t.Errorf("nothing of it is left, and it finds out by itself that it is out: %+v", d)
	}
}

func TestANewMachineThatIsOnTooEarlyAtTheOldAddressIsNamed(t *testing.T) {
	w := halfKeyed()
	w.asks = true
	f := w.facts()
	f.Plan.Old.Address, f.Answers = machine.Address, state.Known(true)
	if d := Decide(f); d.Rule != "retired.early" || !strings.Contains(d.Way, "switch the new machine off") {
		t.Errorf("%+v", d)
	}
	f.AskedAt = noon.Add(-asking - 1)
	if d := Decide(f); d.Rule == "retired.early" {
		t.Errorf("it is off again: %+v", d)
	}
	f.AskedAt, f.Plan.Old.Address = noon, "192.0.2.99"
	if d := Decide(f); d.Rule == "retired.early" {
		t.Errorf("it has another address, so the old host answers: %+v", d)
	}
	f.Plan.Old.Address, f.Plan.Stage = machine.Address, Planned
	if g := f.gateSilent(wished(f)); g.Open || !strings.Contains(g.Way, "switch the new machine off") {
		t.Errorf("%+v", g)
	}
}

// entering is a plan whose newcomer waits to be let in.
func entering() world {
	w := start(true, false)
	w.stage, w.lock, w.keyFile, w.keyRuns, w.reloaded, w.ringOld, w.cibOld, w.pods, w.node = Joining, true, true, true, true, false, false, false, "none"
	w.retirement, w.grave, w.token, w.join, w.account, w.device, w.newcomers, w.asks = true, true, true, true, true, true, true, true
	return w
}

// Without the word that there is no peer etcd of a lone host starts only with its peer. So nothing
// may be between that and the peer that needs the API.
func TestTheWordThatThereIsNoPeerGoesRightBeforeThePeerIsListed(t *testing.T) {
	w := entering()
	steps := []struct {
		rule  string
		after func(*world)
	}{
		{"joining.name", func(w *world) { w.given = true }},
		{"joining.fencing", func(w *world) { w.fences = true }},
		{"joining.peer", func(w *world) { w.retirement = false }},
		{"joining.ring", func(w *world) { w.etcd = false }}, // a power cut: the API is away
		{"joining.alone", func(w *world) { w.etcd, w.asks = true, false }},
		{"joining.alone", func(w *world) { w.retirement, w.asks = true, true }},
		{"joining.peer", nil},
	}
	for i, s := range steps {
		if d := Decide(w.facts()); d.Rule != s.rule {
			t.Fatalf("step %d: %+v, want %s", i, d, s.rule)
		}
		if s.after != nil {
			s.after(&w)
		}
	}
	w.given = false // by an earlier release the word went first
	if d := Decide(w.facts()); d.Rule != "joining.name" {
		t.Errorf("the name is not given: %+v", d)
	}
}
