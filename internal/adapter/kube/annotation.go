package kube

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Annotate sets an annotation of a node and replaces its old value.
func (c *Client) Annotate(ctx context.Context, node, name, value string) error {
	return c.SetAnnotations(ctx, node, map[string]*string{name: &value})
}

// SetAnnotations sets several annotations of a node in one request, and removes
// those whose value is nil. All others stay.
func (c *Client) SetAnnotations(ctx context.Context, node string, values map[string]*string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}})
	if err != nil {
		return err
	}
	if _, err := c.set.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("annotate node %s: %w", node, err)
	}
	return nil
}
