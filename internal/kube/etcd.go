package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/holdfast/holdfast/internal/decide/handover"
)

// etcdObject is where the API has the one object about etcd.
const etcdObject = "/apis/operator.openshift.io/v1/etcds/cluster"

// EtcdConditions returns what the operator says of etcd, nothing where there
// is no such object.
func (c *Client) EtcdConditions(ctx context.Context) ([]handover.Condition, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	data, err := c.set.CoreV1().RESTClient().Get().AbsPath(etcdObject).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read etcd's object: %w", err)
	}
	return etcdConditions(data)
}

func etcdConditions(data []byte) ([]handover.Condition, error) {
	var object struct {
		Status struct {
			Conditions []struct {
				Type               string    `json:"type"`
				Status             string    `json:"status"`
				Reason             string    `json:"reason"`
				Message            string    `json:"message"`
				LastTransitionTime time.Time `json:"lastTransitionTime"`
			} `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("read etcd's object: %w", err)
	}
	var out []handover.Condition
	for _, c := range object.Status.Conditions {
		out = append(out, handover.Condition{
			Type: c.Type, Status: c.Status == "True", Reason: c.Reason, Message: c.Message, Changed: c.LastTransitionTime,
		})
	}
	return out, nil
}
