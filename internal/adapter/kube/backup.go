package kube

import (
	"context"
	"encoding/json"
	"fmt"

	configv1alpha1 "github.com/openshift/api/config/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Backup returns the Backup of a name, nil if there is none or if the API does not have the
// kind, as on a site of an earlier release.
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
