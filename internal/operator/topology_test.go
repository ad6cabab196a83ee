package operator

import (
	"context"
	"errors"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An operator that has the controllers of another kind of cluster does harm: one of two control
// planes would set hosts up that are none, and its rights are gone.
func TestAnOperatorEndsWhenTheNumberOfControlPlanesChanges(t *testing.T) {
	c := newCluster(t)
	start := func(twoNode bool) (ended chan error, stop func()) {
		manager, err := newManager(c.asOperator(), managing{health: "127.0.0.1:0", metrics: "0", twoNode: twoNode}, logOf(t))
		must(t, err)
		must(t, manager.Add(&topologyWatch{manager, twoNode}))
		ctx, cancel := context.WithCancel(t.Context())
		ended = make(chan error, 1)
		go func() { ended <- manager.Start(ctx) }()
		return ended, cancel
	}
	wait := func(ended chan error) error {
		t.Helper()
		select {
		case err := <-ended:
			return err
		case <-time.After(patience):
			t.Fatal("the operator goes on")
			return nil
		}
	}
	ended, _ := start(false)
	if err := wait(ended); !errors.Is(err, errTopology) {
		t.Errorf("with the controllers of one: %v", err)
	}

	ended, stop := start(true)
	select {
	case err := <-ended:
		t.Fatalf("with the controllers of two: %v", err)
	case <-time.After(3 * time.Second): // long enough to have seen the object
	}
	var infra configv1.Infrastructure
	must(t, c.admin.Get(t.Context(), client.ObjectKey{Name: clusterObject}, &infra))
	infra.Status.ControlPlaneTopology = ""
	if two := differs(&infra, true); two {
		t.Error("an unknown topology ends the operator")
	}
	stop()
	if err := wait(ended); err != nil {
		t.Errorf("it was stopped: %v", err)
	}
}
