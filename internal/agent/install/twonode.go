package install

import (
	"context"
	"errors"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/installation"
)

// waitTwoNode waits until the operator has set up both control planes so that
// either may be lost.
func (r *run) waitTwoNode(ctx context.Context) error {
	client, err := kube.Open(adminKubeconfig)
	if err != nil {
		return err
	}
	return r.poll(ctx, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		etcd, err := client.Etcd(ctx)
		if err != nil {
			return false, "", err
		}
		is := installation.OfTwoNode(conditionsOf(etcd))
		if is.Failing != "" {
			return false, "", errors.New(is.Failing)
		}
		return is.Done, is.Doing, nil
	})
}

// conditionsOf returns the operator's conditions of etcd, or none if there is no
// such object yet.
func conditionsOf(etcd *operatorv1.Etcd) []handover.Condition {
	if etcd == nil {
		return nil
	}
	var out []handover.Condition
	for _, c := range etcd.Status.Conditions {
		out = append(out, handover.Of(c))
	}
	return out
}
