package kube

import (
	"context"
	"encoding/json"
	"fmt"

	operatorv1 "github.com/openshift/api/operator/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// etcdObject is the path of the single object about etcd.
const etcdObject = "/apis/operator.openshift.io/v1/etcds/cluster"

// Etcd returns the object about etcd, nil if there is none.
func (c *Client) Etcd(ctx context.Context) (*operatorv1.Etcd, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	data, err := raw(c.set.CoreV1().RESTClient().Get().AbsPath(etcdObject).Do(ctx))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read etcd's object: %w", err)
	}
	out := &operatorv1.Etcd{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("read etcd's object: %w", err)
	}
	return out, nil
}
