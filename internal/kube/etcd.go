package kube

import (
	"context"
	"encoding/json"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
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
	data, err := raw(c.set.CoreV1().RESTClient().Get().AbsPath(etcdObject).Do(ctx))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read etcd's object: %w", err)
	}
	return etcdConditions(data)
}

func etcdConditions(data []byte) ([]handover.Condition, error) {
	var object operatorv1.Etcd
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("read etcd's object: %w", err)
	}
	var out []handover.Condition
	for _, c := range object.Status.Conditions {
		out = append(out, handover.Of(c))
	}
	return out, nil
}
