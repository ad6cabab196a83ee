package machineconfig

import (
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestM7AHostThatSomebodyCordonsBetweenTheReadAndTheGiftIsNotGivenAnything: a person cordons it right
// before each write of the operator, one after the other, up to the gift itself.
func TestM7AHostThatSomebodyCordonsBetweenTheReadAndTheGiftIsNotGivenAnything(t *testing.T) {
	s := newSite(t)
	s.settle()
	for k := 1; ; k++ {
		s.apply(motd("50-a", "worker", fmt.Sprint(k)))
		s.writes.Count = 0
		cordoned, given := false, false
		s.writes.Before = func(n int) error {
			if n == k {
				given = slices.Contains(s.atWork(), "w-1")
				cordoned = true
				s.patch(s.node("w-1"), `{"spec":{"unschedulable":true}}`)
			}
			return nil
		}
		for range 6 {
			if err := s.look(); err != nil && !apierrors.IsConflict(err) {
				t.Fatal(err)
			}
			s.now = s.now.Add(10 * time.Second)
			if at := s.atWork(); cordoned && !given && len(at) > 0 {
				t.Fatalf("w-1 was cordoned before write %d, and at work are %v", k, at)
			}
		}
		s.writes.Before = nil
		s.patch(s.node("w-1"), `{"spec":{"unschedulable":null}}`)
		if got := s.settle(); len(s.atWork()) > 0 {
			t.Errorf("write %d: the order is %v, and at work are %v", k, got, s.atWork())
		}
		if given || !cordoned {
			if k < 3 {
				t.Errorf("only %d writes came before the gift", k-1)
			}
			return
		}
	}
}
