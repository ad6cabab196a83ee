package people

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/page"
)

// TestNoUpgradeBeginsWhileAPlanChangesTheControlPlanes: review case L86.
func TestNoUpgradeBeginsWhileAPlanChangesTheControlPlanes(t *testing.T) {
	const plan = "the plan p1 of ada brings cp-2 as the second control plane"
	s := aSite()
	s.plan = plan
	u := s.read(t)
	_, err := u.Start(Start{Image: r2})
	no, ok := errors.AsType[*Refusal](err)
	if !ok || no.Unknown || !strings.Contains(no.Why, plan) {
		t.Errorf("it begins: %v", err)
	}
	if c := u.Check(r2); c.Worst() != Waits && c.Worst() != Person || !strings.Contains(c.Text(page.Style{}), plan) {
		t.Errorf("the gates do not tell of the plan: %s", c.Text(page.Style{}))
	}
	if _, err := s.underWay(1).read(t).Rollback(); err != nil {
		t.Errorf("an upgrade that has begun cannot go back: %v", err)
	}
}
