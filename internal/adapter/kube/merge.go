package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Fields returns all fields of an object, nil if it is not there.
func (b *Bringer) Fields(ctx context.Context, r state.ObjectRef) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	path, err := b.path(ctx, r)
	var data []byte
	if err == nil {
		data, err = raw(b.set.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx))
	}
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	var out map[string]any
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", r, err)
	}
	return out, nil
}

// Merge writes some fields of an object, or of its status, that was read as fields. written
// is false if somebody else has changed the object since: then nothing was written.
func (b *Bringer) Merge(ctx context.Context, r state.ObjectRef, status bool, fields, patch map[string]any) (written bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body := maps.Clone(patch)
	if meta, ok := fields["metadata"].(map[string]any); ok {
		changed, _ := body["metadata"].(map[string]any)
		changed = maps.Clone(changed)
		if changed == nil {
			changed = map[string]any{}
		}
		changed["resourceVersion"] = meta["resourceVersion"]
		body["metadata"] = changed
	}
	data, err := json.Marshal(body)
	if err != nil {
		return false, err
	}
	path, err := b.path(ctx, r)
	if err == nil {
		if status {
			path += "/status"
		}
		err = b.set.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(path).Param("fieldManager", InstallManager).Body(data).Do(ctx).Error()
	}
	if apierrors.IsConflict(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("change %s: %w", r, err)
	}
	return true, nil
}
