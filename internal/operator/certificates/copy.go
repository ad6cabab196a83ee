package certificates

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
)

// key holds a copy's kind and name.
type key struct{ kind, name string }

// copies returns the copies that exist. What somebody else put beside them does
// not count.
func (r *Reconciler) copies(ctx context.Context) (map[key]client.Object, error) {
	out := map[key]client.Object{}
	in := client.InNamespace(decide.CertificatesNamespace)
	var secrets corev1.SecretList
	if err := r.Client.List(ctx, &secrets, in); err != nil {
		return nil, fmt.Errorf("list copies of Secrets: %w", err)
	}
	for i := range secrets.Items {
		if o := &secrets.Items[i]; o.Annotations[decide.AnnotationCopyOf] != "" {
			out[key{decide.KindSecret, o.Name}] = o
		}
	}
	var configMaps corev1.ConfigMapList
	if err := r.Client.List(ctx, &configMaps, in); err != nil {
		return nil, fmt.Errorf("list copies of ConfigMaps: %w", err)
	}
	for i := range configMaps.Items {
		if o := &configMaps.Items[i]; o.Annotations[decide.AnnotationCopyOf] != "" {
			out[key{decide.KindConfigMap, o.Name}] = o
		}
	}
	return out, nil
}

// keep makes a copy what its source is, and removes it from have, whose rest is
// deleted. If a source cannot be copied, its last good copy stays.
func (r *Reconciler) keep(ctx context.Context, n decide.Needed, have map[key]client.Object) (problem string, err error) {
	k := key{n.Kind, n.CopyName()}
	seen := &metav1.PartialObjectMetadata{}
	seen.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(n.Kind))
	at := client.ObjectKey{Namespace: n.Namespace, Name: n.Name}
	if err := r.Routes.Get(ctx, at, seen); err != nil {
		return "", gone(err, n)
	}
	present := have[k]
	delete(have, k)
	if present != nil && n.Stands(present.GetAnnotations(), contentOf(present), version(seen)) {
		return "", nil
	}
	source := empty(n.Kind)
	if err := r.Live.Get(ctx, at, source); err != nil {
		if present != nil && apierrors.IsNotFound(err) {
			have[k] = present
		}
		return "", gone(err, n)
	}
	content, problem := n.Content(contentOf(source))
	if problem != "" {
		return problem, nil
	}
	return "", r.write(ctx, n, present, n.Made(version(source), content), content)
}

// gone returns no error if a source does not exist: it may come.
func gone(err error, n decide.Needed) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("read %s: %w", n.Source, err)
}

// version identifies one version of an object, even among objects of the same
// name.
func version(o client.Object) string { return string(o.GetUID()) + " " + o.GetResourceVersion() }

func empty(kind string) client.Object {
	if kind == decide.KindConfigMap {
		return &corev1.ConfigMap{}
	}
	return &corev1.Secret{}
}

func contentOf(o client.Object) map[string][]byte {
	out := map[string][]byte{}
	switch o := o.(type) {
	case *corev1.Secret:
		maps.Copy(out, o.Data)
	case *corev1.ConfigMap:
		maps.Copy(out, o.BinaryData)
		for name, text := range o.Data {
			out[name] = []byte(text)
		}
	}
	return out
}

// write creates or changes a copy.
func (r *Reconciler) write(ctx context.Context, n decide.Needed, present client.Object, made map[string]string, content map[string][]byte) error {
	next := empty(n.Kind)
	if present != nil {
		copied, ok := present.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("copy %s: it is not an object", n.Source)
		}
		next = copied
	}
	next.SetNamespace(decide.CertificatesNamespace)
	next.SetName(n.CopyName())
	annotations := map[string]string{}
	maps.Copy(annotations, next.GetAnnotations())
	maps.Copy(annotations, made)
	next.SetAnnotations(annotations)
	switch o := next.(type) {
	case *corev1.Secret:
		o.Data = content
	case *corev1.ConfigMap:
		o.Data, o.BinaryData = map[string]string{}, nil
		for name, text := range content {
			o.Data[name] = string(text)
		}
	}
	write := r.Client.Update
	if present == nil {
		write = func(ctx context.Context, o client.Object, _ ...client.UpdateOption) error {
			return r.Client.Create(ctx, o)
		}
	}
	if err := write(ctx, next); err != nil {
		return fmt.Errorf("copy %s: %w", n.Source, err)
	}
	log.FromContext(ctx).Info("copied for routers", "source", n.String())
	return nil
}

// drop deletes a copy that no route names, or whose source is gone.
func (r *Reconciler) drop(ctx context.Context, o client.Object) error {
	uid := o.GetUID()
	err := r.Client.Delete(ctx, o, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the copy %s: %w", o.GetName(), err)
	}
	log.FromContext(ctx).Info("deleted a copy", "source", o.GetAnnotations()[decide.AnnotationCopyOf])
	return nil
}
