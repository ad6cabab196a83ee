package replace

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAMachineWithoutASerialNumberIsSaidToBeGoneByItsUUID. With one only that counts.
func TestAMachineWithoutASerialNumberIsSaidToBeGoneByItsUUID(t *testing.T) {
	for sentence, c := range map[string]struct {
		typed   string
		machine state.Machine
		want    string // part of the reason, empty for none
	}{
		"its serial number":           {"S3", state.Machine{UUID: "m3", Serial: "S3"}, ""},
		"another serial number":       {"S4", state.Machine{UUID: "m3", Serial: "S3"}, "S4 is not the serial number of cp-3"},
		"its UUID, though it has one": {"m3", state.Machine{UUID: "m3", Serial: "S3"}, "m3 is not the serial number"},
		"its UUID":                    {"M3", state.Machine{UUID: "m3"}, ""},
		"another UUID":                {"m4", state.Machine{UUID: "m3"}, "cp-3 has no serial number, and m4 is not its UUID"},
		"neither is known":            {"S3", state.Machine{}, "is not known"},
	} {
		if why := MachineProblem(c.typed, c.machine, "cp-3"); (why == "") != (c.want == "") || !strings.Contains(why, c.want) {
			t.Errorf("%s: %q", sentence, why)
		}
	}
}

// TestTheGateOfAMachineWithoutASerialNumberOpensByItsUUID.
func TestTheGateOfAMachineWithoutASerialNumberOpensByItsUUID(t *testing.T) {
	f, w := Facts{Silent: true, OldMachine: state.Machine{UUID: "m3"}}, Wish{Old: "cp-2"}
	if g := f.gateOff(w); g.Open || !strings.HasSuffix(g.Words, "type its UUID, since it has no serial number") {
		t.Errorf("%+v", g)
	}
	w.Accepts.Gone = "m3"
	if g := f.gateOff(w); !g.Open {
		t.Errorf("%+v", g)
	}
}

// TestAMachineWithoutASerialNumberIsRetiredByItsUUID plays a replacement whose old BMC is silent until
// nothing of the old host is left.
func TestAMachineWithoutASerialNumberIsRetiredByItsUUID(t *testing.T) {
	play := func(typed string) (proof, last string) {
		w := start(true, true)
		for range 100 {
			f := w.facts()
			f.Plan.Old.Machine, f.OldMachine, f.Plan.Accepts.Gone = state.Machine{UUID: "m2"}, state.Machine{UUID: "m2"}, typed
			d := Decide(f)
			if d.Act == Wait {
				return proof, d.Rule
			}
			if d.Plan != nil && d.Plan.Stage == Retired {
				proof = d.Plan.Proof
			}
			all := w.acted(t, d)
			w = all[len(all)-1]
		}
		return proof, "no end"
	}
	if proof, last := play("M2"); proof != "ada said that the machine with the UUID M2 is off, and its BMC is silent" || last != "newcomer.install" {
		t.Errorf("ends at %s, proof %q", last, proof)
	}
	if proof, last := play("m9"); proof != "" || last != "gates" {
		t.Errorf("the UUID of another machine: ends at %s, proof %q", last, proof)
	}
}
