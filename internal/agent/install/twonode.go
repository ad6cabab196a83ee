package install

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast/holdfast/internal/decide/installation"
	"github.com/holdfast/holdfast/internal/kube"
)

// waitTwoNode waits until the operator has both control planes set up so that
// either may be lost.
func (r *run) waitTwoNode(ctx context.Context) error {
	client, err := kube.Open(adminKubeconfig)
	if err != nil {
		return err
	}
	return r.poll(ctx, 500*time.Millisecond, func(ctx context.Context) (bool, string, error) {
		conditions, err := client.EtcdConditions(ctx)
		if err != nil {
			return false, "", err
		}
		is := installation.OfTwoNode(conditions)
		if is.Failing != "" {
			return false, "", errors.New(is.Failing)
		}
		return is.Done, is.Doing, nil
	})
}
