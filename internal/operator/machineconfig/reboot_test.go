package machineconfig

import (
	"fmt"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestHostsAreToldWhoBootsThemBeforeTheyAreGivenAnything shows that a host never boots
// by itself where its pool leaves that to a person.
func TestHostsAreToldWhoBootsThemBeforeTheyAreGivenAnything(t *testing.T) {
	s := newSite(t)
	s.looks()
	says := func(name, want string) {
		t.Helper()
		if got := s.node(name).Annotations[rollout.Reboot]; got != want {
			t.Errorf("%s says %q, want %q", name, got, want)
		}
	}
	leave := func(pool string, value any) {
		t.Helper()
		s.patch(s.pool(pool), fmt.Sprintf(`{"metadata":{"annotations":{%q:%v}}}`, rollout.Reboot, value))
	}
	leave("worker", `"ByHand"`)
	s.writes.After = func(int) error {
		for _, name := range s.atWork() {
			if name == "w-1" || name == "w-2" {
				says(name, rollout.ByHand)
			}
		}
		return nil
	}
	s.settle()
	says("w-1", rollout.ByHand)
	says("w-2", rollout.ByHand)
	says("cp-1", "")
	s.join("w-3", state.LabelWorker)
	s.settle()
	says("w-3", rollout.ByHand)
	leave("worker", "null")
	s.settle()
	says("w-1", "")
	s.writes.Count = 0
	s.looks()
	if s.writes.Count > 0 {
		t.Errorf("%d writes at rest", s.writes.Count)
	}
}
