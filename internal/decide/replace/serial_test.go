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
