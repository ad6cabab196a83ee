package kube

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// Names returns the names of the objects of a collection, given as a path such
// as /apis/apps/v1/namespaces/x/deployments.
func (c *Client) Names(ctx context.Context, collection string) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	data, err := raw(c.set.CoreV1().RESTClient().Get().AbsPath(collection).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Do(ctx))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", collection, err)
	}
	var list struct{ Items []metadata }
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("list %s: %w", collection, err)
	}
	out := map[string]bool{}
	for _, o := range list.Items {
		out[o.Metadata.Name] = true
	}
	return out, nil
}

// CreateObject creates an object, given as JSON, in a collection; it is no
// error if one of its name exists already.
func (c *Client) CreateObject(ctx context.Context, collection string, object []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := c.set.CoreV1().RESTClient().Post().AbsPath(collection).Param("fieldManager", fieldManager).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(object).Do(ctx).Error()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create an object in %s: %w", collection, err)
	}
	return nil
}

// ClusterRoleBindings is the path of their collection.
const ClusterRoleBindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"

// DeleteObject deletes the object at a path; it is no error if there is none.
func (c *Client) DeleteObject(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := c.set.CoreV1().RESTClient().Delete().AbsPath(path).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s: %w", path, err)
	}
	return nil
}

// raw returns the body of an answer. For a refusal it returns the server's own
// error; the library's Raw says only "unknown".
func raw(answer rest.Result) ([]byte, error) {
	if err := answer.Error(); err != nil {
		return nil, err
	}
	return answer.Raw()
}
