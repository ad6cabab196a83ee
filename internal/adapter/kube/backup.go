package kube

import (
	"context"
	"encoding/json"
	"fmt"

	configv1alpha1 "github.com/openshift/api/config/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Backup returns the wish of a name for when backups are taken, nil if there is none. A
// site of an earlier release does not even have the kind.
func (c *Client) Backup(ctx context.Context, name string) (*configv1alpha1.Backup, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	data, err := raw(c.set.CoreV1().RESTClient().Get().AbsPath("/apis/config.openshift.io/v1alpha1/backups", name).SetHeader("Accept", "application/json").Do(ctx))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	out := &configv1alpha1.Backup{}
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		return nil, fmt.Errorf("get Backup %s: %w", name, err)
	}
	return out, nil
}
