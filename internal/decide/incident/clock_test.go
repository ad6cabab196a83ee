package incident

import (
	"strings"
	"testing"
)

// A host that boots notes a membership when its agent begins to look, which was
// 1.1 s after it came about in the lab: no clock is ahead for that. One that is
// a minute ahead is.
func TestWhatIsNotedLateIsNoDifferenceOfClocks(t *testing.T) {
	for late, want := range map[string]bool{"28.1": false, "87": true} {
		text := strings.ReplaceAll(paired+takeOver+comesBack, "25 cp-2 etcd membership: [cp-2], ring 8, quorate false\n", "")
		text = strings.Replace(text, "27 cp-2 etcd membership: [cp-1 cp-2], ring 18", late+" cp-2 etcd membership: [cp-1 cp-2], ring 18", 1)
		list := Assemble(scenario(t, text))
		if len(list) == 0 {
			t.Fatal("no incident")
		}
		if notes := strings.Join(list[0].Notes, "\n"); strings.Contains(notes, "ahead of") != want {
			t.Errorf("noted at %s: %q", late, notes)
		}
	}
}
