package vipobject

import (
	"context"
	"encoding/json"
	"net/netip"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/vips"
)

// OperatorName is the ClusterOperator that reports on virtual IPs.
const OperatorName = "network"

// Extension is the content of the ClusterOperator besides its conditions.
type Extension struct {
	vips.Rollout
	API     []netip.Addr `json:"api,omitempty"`
	Ingress []netip.Addr `json:"ingress,omitempty"`
	// Applied are the VIPs with which the last change was complete.
	Applied []netip.Addr `json:"complete,omitempty"`
}

// Text returns the extension in the form that the object stores.
func (e Extension) Text() []byte {
	data, err := json.Marshal(e)
	if err != nil {
		return nil // it has nothing that JSON cannot hold
	}
	return data
}

// Report is the content of the ClusterOperator.
type Report struct {
	// There is false if the object does not exist.
	There      bool
	Conditions []vips.Condition
	Extension  Extension
}

// ReadReport reads what a cluster reports about its virtual IPs.
func ReadReport(ctx context.Context, c client.Reader) (Report, error) {
	var op configv1.ClusterOperator
	err := c.Get(ctx, client.ObjectKey{Name: OperatorName}, &op)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return Report{}, nil // a cluster of an older release does not even have the kind
	}
	if err != nil {
		return Report{}, missing("the ClusterOperator "+OperatorName, err)
	}
	out := Report{There: true}
	for _, kind := range conditionTypes {
		for _, c := range op.Status.Conditions {
			if string(c.Type) == kind {
				out.Conditions = append(out.Conditions, vips.Condition{
					Type: kind, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Changed: c.LastTransitionTime.Time,
				})
			}
		}
	}
	_ = json.Unmarshal(op.Status.Extension.Raw, &out.Extension) // what another version wrote counts as empty
	return out, nil
}

// conditionTypes has the order in which vips.Conditions returns them.
var conditionTypes = []string{
	vips.ConditionAccepted, vips.ConditionProgressing, vips.ConditionApplied, vips.ConditionAvailable, vips.ConditionDegraded,
}
