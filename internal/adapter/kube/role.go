package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Rules returns the rules of the role at a path.
func (c *Client) Rules(ctx context.Context, path string) ([]rbacv1.PolicyRule, error) {
	role, err := c.role(ctx, path)
	return role.Rules, err
}

// role reads a ClusterRole, or a Role in the form of one.
func (c *Client) role(ctx context.Context, path string) (role rbacv1.ClusterRole, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	data, err := raw(c.set.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx))
	if err == nil {
		err = json.Unmarshal(data, &role)
	}
	if err != nil {
		return role, fmt.Errorf("read %s: %w", path, err)
	}
	return role, nil
}

// AddRules adds rules to the role at a path. It returns an error if somebody
// else changed the role meanwhile.
func (c *Client) AddRules(ctx context.Context, path string, rules []rbacv1.PolicyRule) error {
	role, err := c.role(ctx, path)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": role.ResourceVersion}, // the list is written as a whole
		"rules":    slices.Concat(role.Rules, rules),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err = c.set.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(path).Param("fieldManager", fieldManager).
		SetHeader("Accept", "application/json").Body(patch).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("add rules to %s: %w", path, err)
	}
	return nil
}
