package operator

import (
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast/holdfast/internal/operator/guards"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// addGuards adds the controller of the guards, which keep two control planes from
// being taken apart. It works in every cluster: in one without two control planes
// it removes leftover guards.
func addGuards(manager ctrl.Manager) error {
	controller := &guards.Reconciler{
		Client: manager.GetClient(), Events: manager.GetEventRecorder(render.Name), Now: time.Now,
	}
	if err := controller.SetUp(manager); err != nil {
		return fmt.Errorf("set up the controller of guards: %w", err)
	}
	return nil
}
