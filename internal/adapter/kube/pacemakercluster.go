package kube

import (
	"context"
	"encoding/json"
	"fmt"

	etcdv1 "github.com/openshift/api/etcd/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pacemakerObject is the path of the single object about Pacemaker.
const pacemakerObject = "/apis/etcd.openshift.io/v1/pacemakerclusters/cluster"

// PacemakerCluster returns the object about Pacemaker, nil if there is none.
func (c *Client) PacemakerCluster(ctx context.Context) (*etcdv1.PacemakerCluster, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	data, err := raw(c.set.CoreV1().RESTClient().Get().AbsPath(pacemakerObject).SetHeader("Accept", "application/json").Do(ctx))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read PacemakerCluster: %w", err)
	}
	out := &etcdv1.PacemakerCluster{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, fmt.Errorf("read PacemakerCluster: %w", err)
	}
	return out, nil
}

// WritePacemakerStatus replaces fields of the status if the object still has
// the given version, and returns its new version. The status is JSON, so that
// its empty lists are written.
func (c *Client) WritePacemakerStatus(ctx context.Context, version string, status json.RawMessage) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]string{"resourceVersion": version}, "status": status})
	if err != nil {
		return "", err
	}
	data, err := raw(c.set.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(pacemakerObject, "status").
		Param("fieldManager", fieldManager).SetHeader("Accept", "application/json").Body(patch).Do(ctx))
	if err != nil {
		return "", fmt.Errorf("write the status of PacemakerCluster: %w", err)
	}
	var now metadata
	if err := json.Unmarshal(data, &now); err != nil {
		return "", fmt.Errorf("write the status of PacemakerCluster: %w", err)
	}
	return now.Metadata.ResourceVersion, nil
}

// CreateEvent creates an event; it is no error if one of its name exists
// already.
func (c *Client) CreateEvent(ctx context.Context, e *corev1.Event) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := c.set.CoreV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create event %s: %w", e.Name, err)
	}
	return nil
}
