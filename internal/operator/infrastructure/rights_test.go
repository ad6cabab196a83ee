package infrastructure

import (
	"errors"
	"net/http"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube/vipobject"
)

// The API's own rules refuse these before the operator sees them; the operator's
// rules hold for the rest.
func TestTheAPIRefusesWhatItsOwnRulesForbid(t *testing.T) {
	s := newSite(t)
	for what, text := range map[string]string{
		"an IPv4 address in IPv6 form": `{"spec":{"platformSpec":{"baremetal":{"apiServerInternalIPs":["10.98.0.5","::ffff:10.98.0.7"]}}}}`,
		"no address":                   `{"spec":{"platformSpec":{"baremetal":{"apiServerInternalIPs":["x"]}}}}`,
		"two of one family":            `{"spec":{"platformSpec":{"baremetal":{"apiServerInternalIPs":["10.98.0.5","10.98.0.7"]}}}}`,
		"three":                        `{"spec":{"platformSpec":{"baremetal":{"apiServerInternalIPs":["10.98.0.5","fd98::5","fd98::7"]}}}}`,
		"the list taken away":          `{"spec":{"platformSpec":{"baremetal":{"apiServerInternalIPs":null}}}}`,
	} {
		err := s.admin.Patch(t.Context(), s.infra(), client.RawPatch(types.MergePatchType, []byte(text)))
		if status := apierrors.APIStatus(nil); !errors.As(err, &status) || status.Status().Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestTheOperatorHasNoMoreRightsThanItUses(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	for what, err := range map[string]error{
		"delete the Infrastructure object": s.own.Delete(ctx, s.infra()),
		"delete a node":                    s.own.Delete(ctx, s.node("cp-1")),
		"delete the ClusterOperator":       s.own.Delete(ctx, &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: vipobject.OperatorName}}),
		"replace the Network object":       s.own.Update(ctx, &configv1.Network{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("it may %s: %v", what, err)
		}
	}
	s.now = s.now.Add(time.Hour)
	s.settle()
}
