package incident

import (
	"slices"
	"strings"
	"testing"
)

// A booting host notes a membership only when its agent begins to look: 1.1 s
// after it formed in the lab, and as late on a busy host that had noted one
// before. That makes no clock ahead, and changes no time. A clock that is a
// minute ahead is noted.
func TestWhatIsNotedLateIsNoDifferenceOfClocks(t *testing.T) {
	for late, want := range map[string]bool{"28.1": false, "87": true} {
		const alone = "25 cp-2 sees cp-2, ring 8, no quorum\n"
		for _, before := range []string{alone, ""} {
			text := strings.ReplaceAll(paired+takeOver+comesBack, alone, before)
			text = strings.Replace(text, "27 cp-2 sees cp-1 cp-2, ring 18", late+" cp-2 sees cp-1 cp-2, ring 18", 1)
			list := Assemble(scenario(t, text))
			if len(list) == 0 {
				t.Fatal("no incident")
			}
			if notes := strings.Join(list[0].Notes, "\n"); strings.Contains(notes, "ahead of") != want {
				t.Errorf("noted at %s after %q: %q", late, before, notes)
			}
			voter := slices.IndexFunc(list[0].Timeline, func(s Step) bool { return strings.Contains(s.Text, "says voter") })
			if at := list[0].Timeline[voter].At.Sub(began).Seconds(); at != 30.2 && !want {
				t.Errorf("noted at %s after %q: a voter at %.1f s, not 30.2", late, before, at)
			}
		}
	}
}
