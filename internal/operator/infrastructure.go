package operator

import (
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast/holdfast/internal/operator/infrastructure"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// addInfrastructure adds the controller of virtual IPs.
func addInfrastructure(manager ctrl.Manager) error {
	asker := infrastructure.Prober{Roots: infrastructure.RootsOf(manager.GetConfig())}
	controller := &infrastructure.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: manager.GetEventRecorder(render.Name),
		Answers: asker.Ask, Now: time.Now,
	}
	if err := controller.SetUp(manager); err != nil {
		return fmt.Errorf("set up the controller of virtual IPs: %w", err)
	}
	return nil
}
