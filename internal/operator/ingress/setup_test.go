package ingress

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	render "github.com/holdfast/holdfast/internal/render/router"
)

// lookless is a manager whose look at the API's kinds ends with an error.
type lookless struct {
	ctrl.Manager
	meta.RESTMapper
	ends error
}

func (m lookless) GetRESTMapper() meta.RESTMapper { return m }

func (m lookless) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, m.ends
}

// TestAFailedLookAtTheKindsIsNoClusterWithoutThem: routers would no longer follow Gateways.
func TestAFailedLookAtTheKindsIsNoClusterWithoutThem(t *testing.T) {
	cut := errors.New("no answer")
	if lacks, err := lackingForGateways(lookless{ends: cut}); !errors.Is(err, cut) {
		t.Errorf("the cluster lacks %q, %v", lacks, err)
	}
	if err := (&Reconciler{}).SetUp(lookless{ends: cut}); !errors.Is(err, cut) {
		t.Errorf("it is set up, and ends with %v", err)
	}
	lacks, err := lackingForGateways(lookless{ends: &meta.NoKindMatchError{}})
	if err != nil || len(lacks) != len(render.GatewayKinds()) {
		t.Errorf("a cluster without the kinds lacks %q, %v", lacks, err)
	}
}
