package operator

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast/holdfast/internal/operator/infrastructure"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// addInfrastructure adds the controller of virtual IPs.
func addInfrastructure(manager ctrl.Manager) error {
	access, err := rest.TLSConfigFor(manager.GetConfig())
	if err != nil {
		return fmt.Errorf("authorities of the API: %w", err)
	}
	asker := infrastructure.Prober{}
	if access != nil {
		asker.Roots = access.RootCAs
	}
	controller := &infrastructure.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: manager.GetEventRecorder(render.Name),
		Answers: asker.Ask, Now: time.Now,
	}
	if err := controller.SetUp(manager); err != nil {
		return fmt.Errorf("set up the controller of virtual IPs: %w", err)
	}
	return nil
}
