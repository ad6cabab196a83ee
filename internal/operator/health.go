package operator

import (
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast/holdfast/internal/operator/health"
)

// addHealth adds the controller that judges the health of the hosts.
func addHealth(manager ctrl.Manager) error {
	controller := &health.Reconciler{Client: manager.GetClient(), Now: time.Now}
	if err := controller.SetUp(manager); err != nil {
		return fmt.Errorf("set up the controller of the hosts' health: %w", err)
	}
	return nil
}

// addAlerts adds what gives Prometheus' operator the alerts, on every site.
func addAlerts(manager ctrl.Manager, twoNode bool) error {
	return manager.Add(&health.Rules{Client: manager.GetClient(), TwoNode: twoNode})
}
