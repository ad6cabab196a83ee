package install

import (
	"context"
	"slices"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAControlPlaneStandsAfterItsStep(t *testing.T) {
	for _, role := range []state.Role{state.RoleBootstrap, state.RoleMaster, state.RoleWorker} {
		r, _ := newRun(t, role)
		stood := false
		for _, s := range r.steps() {
			made := slices.Contains(controlPlaneSteps, s.name)
			if err := r.persist(t.Context(), step{name: s.name, do: func(context.Context) error { return nil }}); err != nil {
				t.Fatal(err)
			}
			if stood = stood || made; controlPlaneStands(r.done) != stood {
				t.Errorf("%s after %q: %t", role, s.name, !stood)
			}
		}
		if stood != role.ControlPlane() {
			t.Errorf("%s: %t", role, stood)
		}
	}
}
