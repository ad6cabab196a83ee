package certificates

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
)

// manager is one whose look at the API's kinds ends with an error.
type manager struct {
	ctrl.Manager
	meta.RESTMapper
	ends error
}

func (m manager) GetRESTMapper() meta.RESTMapper { return m }

func (m manager) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, m.ends
}

// TestCopiesForGatewaysStayWhereTheLookAtTheKindsFails: without a Gateway all of them would be deleted.
func TestCopiesForGatewaysStayWhereTheLookAtTheKindsFails(t *testing.T) {
	cut := errors.New("no answer")
	if err := (&Reconciler{}).SetUp(manager{ends: cut}); !errors.Is(err, cut) {
		t.Errorf("it is set up, and ends with %v", err)
	}
	got, err := known(manager{ends: &meta.NoKindMatchError{}})
	if err != nil || got != (kinds{}) {
		t.Errorf("a cluster without the kinds has %+v, %v", got, err)
	}
}
