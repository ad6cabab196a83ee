package state

import "testing"

func TestAMachineReadsBackAsItWasWritten(t *testing.T) {
	for _, m := range []Machine{{}, {UUID: "a-b"}, {Serial: "S 1"}, {UUID: "a-b", Serial: "HF 12=3"}} {
		if got, ok := ParseMachine(m.String()); !ok || got != m {
			t.Errorf("%+v became %+v, %t", m, got, ok)
		}
	}
	for _, s := range []string{"", "a-b", "serial=x", "uuid=x"} {
		if got, ok := ParseMachine(s); ok {
			t.Errorf("%q was read as %+v", s, got)
		}
	}
}
