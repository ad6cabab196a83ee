package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast/holdfast/internal/model/state"
)

// InstallManager is the name under which an installation and an upgrade own the fields
// of the objects that they bring.
const InstallManager = "holdfast-install"

// Bringer applies whole objects of any kind, as `kubectl apply --server-side` does, and
// owns what it has applied.
type Bringer struct {
	set kubernetes.Interface
	// kinds has what the API said of a version of a group.
	kinds map[string][]metav1.APIResource
}

// Bringer returns one. It is for one goroutine.
func (c *Client) Bringer() *Bringer {
	return &Bringer{set: c.set, kinds: map[string][]metav1.APIResource{}}
}

// Apply makes an object what a document says, field by field, also against others. Fields
// that the document does not have any more, and that nobody else owns, go away.
func (b *Bringer) Apply(ctx context.Context, r state.ObjectRef, document []byte) error {
	return b.apply(ctx, r, document, true)
}

// Offer is Apply, unless somebody else has changed one of the fields: then the object stays
// as it is, and left is true.
func (b *Bringer) Offer(ctx context.Context, r state.ObjectRef, document []byte) (left bool, err error) {
	err = b.apply(ctx, r, document, false)
	if apierrors.IsConflict(err) {
		return true, nil
	}
	return false, err
}

func (b *Bringer) apply(ctx context.Context, r state.ObjectRef, document []byte, force bool) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	path, err := b.path(ctx, r)
	if err == nil {
		err = b.set.CoreV1().RESTClient().Patch(types.ApplyYAMLPatchType).AbsPath(path).
			Param("fieldManager", InstallManager).Param("force", strconv.FormatBool(force)).Body(document).Do(ctx).Error()
	}
	if err != nil {
		return fmt.Errorf("apply %s: %w", r, err)
	}
	return nil
}

// found is what Bringer reads of an object.
type found struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// get returns nil if there is no such object, or no such kind.
func (b *Bringer) get(ctx context.Context, r state.ObjectRef) (*found, string, error) {
	path, err := b.path(ctx, r)
	if apierrors.IsNotFound(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	data, err := raw(b.set.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx))
	if apierrors.IsNotFound(err) {
		return nil, path, nil
	}
	var out found
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	return &out, path, err
}

// Exists reports whether there is such an object.
func (b *Bringer) Exists(ctx context.Context, r state.ObjectRef) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	o, _, err := b.get(ctx, r)
	if err != nil {
		return false, fmt.Errorf("get %s: %w", r, err)
	}
	return o != nil, nil
}

// Established reports whether the API serves the kind that a CustomResourceDefinition
// defines.
func (b *Bringer) Established(ctx context.Context, r state.ObjectRef) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	o, _, err := b.get(ctx, r)
	if err != nil || o == nil {
		return false, err
	}
	clear(b.kinds) // what it defines was not there before
	return slices.ContainsFunc(o.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == "Established" && c.Status == metav1.ConditionTrue
	}), nil
}

// Delete deletes an object that InstallManager has applied, and reports whether it did.
// One that somebody else has made since, under the same name, stays. An object that is no
// more than a name has no fields for anybody to own.
func (b *Bringer) Delete(ctx context.Context, r state.ObjectRef) (bool, error) {
	return b.remove(ctx, r, func(o *found) bool {
		return len(o.ManagedFields) == 0 || slices.ContainsFunc(o.ManagedFields, ofInstall)
	})
}

// Remove deletes an object, whoever has made it. An object that is not there is no error.
func (b *Bringer) Remove(ctx context.Context, r state.ObjectRef) error {
	_, err := b.remove(ctx, r, func(*found) bool { return true })
	return err
}

func (b *Bringer) remove(ctx context.Context, r state.ObjectRef, may func(*found) bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	o, path, err := b.get(ctx, r)
	if err == nil && (o == nil || !may(o)) {
		return false, nil
	}
	if err == nil {
		var body []byte
		if body, err = json.Marshal(metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &o.UID}, PropagationPolicy: new(metav1.DeletePropagationBackground)}); err != nil {
			return false, err
		}
		err = b.set.CoreV1().RESTClient().Delete().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("delete %s: %w", r, err)
	}
	return err == nil, nil
}

func ofInstall(f metav1.ManagedFieldsEntry) bool {
	return f.Manager == InstallManager && f.Operation == metav1.ManagedFieldsOperationApply
}

// path returns the path of an object. The error is NotFound if the API does not serve its
// kind.
func (b *Bringer) path(ctx context.Context, r state.ObjectRef) (string, error) {
	root := "/apis/" + r.APIVersion
	if !strings.Contains(r.APIVersion, "/") {
		root = "/api/" + r.APIVersion
	}
	kinds, known := b.kinds[r.APIVersion]
	if !known {
		data, err := raw(b.set.CoreV1().RESTClient().Get().AbsPath(root).SetHeader("Accept", "application/json").Do(ctx))
		if err != nil {
			return "", err
		}
		var list metav1.APIResourceList
		if err := json.Unmarshal(data, &list); err != nil {
			return "", err
		}
		kinds = list.APIResources
		b.kinds[r.APIVersion] = kinds
	}
	for _, k := range kinds {
		switch {
		case k.Kind != r.Kind || strings.Contains(k.Name, "/"):
		case k.Namespaced:
			return root + "/namespaces/" + url.PathEscape(r.Namespace) + "/" + k.Name + "/" + url.PathEscape(r.Name), nil
		default:
			return root + "/" + k.Name + "/" + url.PathEscape(r.Name), nil
		}
	}
	delete(b.kinds, r.APIVersion) // it may come
	return "", &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: 404, Message: "the API does not serve " + r.APIVersion + " " + r.Kind,
	}}
}

// SetImage gives a container of a DaemonSet another image, and reports whether it had to.
// A DaemonSet that is not there needs none.
func (b *Bringer) SetImage(ctx context.Context, namespace, name, container, image string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	sets := b.set.AppsV1().DaemonSets(namespace)
	have, err := sets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err == nil {
		at := slices.IndexFunc(have.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return c.Name == container })
		if at < 0 {
			return false, fmt.Errorf("DaemonSet %s/%s has no container %s", namespace, name, container)
		}
		if have.Spec.Template.Spec.Containers[at].Image == image {
			return false, nil
		}
		// Only the image is sent: a later API may have fields that this program does not know.
		var patch []byte
		if patch, err = json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": have.ResourceVersion},
			"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []map[string]string{{"name": container, "image": image}}}}},
		}); err != nil {
			return false, err
		}
		_, err = sets.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: InstallManager})
	}
	if err != nil {
		return false, fmt.Errorf("give DaemonSet %s/%s the image %s: %w", namespace, name, image, err)
	}
	return true, nil
}

// Mark is a ConfigMap as it was read: a write holds only if nobody has written it since.
type Mark struct {
	Data map[string]string
	at   *corev1.ConfigMap
}

// Mark reads a ConfigMap. One that is not there has no data.
func (b *Bringer) Mark(ctx context.Context, namespace, name string) (Mark, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	got, err := b.set.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Mark{at: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}}, nil
	}
	if err != nil {
		return Mark{}, fmt.Errorf("get ConfigMap %s/%s: %w", namespace, name, err)
	}
	return Mark{Data: got.Data, at: got}, nil
}

// PutMark replaces the data of a ConfigMap that was read, and returns it as it is then.
func (b *Bringer) PutMark(ctx context.Context, m Mark, data map[string]string) (Mark, error) {
	if maps.Equal(m.Data, data) {
		return m, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	next, all := m.at.DeepCopy(), b.set.CoreV1().ConfigMaps(m.at.Namespace)
	next.Data = data
	var err error
	if next.ResourceVersion == "" {
		next, err = all.Create(ctx, next, metav1.CreateOptions{FieldManager: InstallManager})
	} else {
		next, err = all.Update(ctx, next, metav1.UpdateOptions{FieldManager: InstallManager})
	}
	if err != nil {
		return m, fmt.Errorf("write ConfigMap %s/%s: %w", m.at.Namespace, m.at.Name, err)
	}
	return Mark{Data: next.Data, at: next}, nil
}

// Unchanged returns an error if somebody else has written a ConfigMap since.
func (b *Bringer) Unchanged(ctx context.Context, m Mark) error {
	now, err := b.Mark(ctx, m.at.Namespace, m.at.Name)
	if err == nil && now.at.ResourceVersion != m.at.ResourceVersion {
		err = fmt.Errorf("somebody else has written ConfigMap %s/%s meanwhile", m.at.Namespace, m.at.Name)
	}
	return err
}
