package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
)

// Living lists the objects of a living cluster, of whichever kinds it has.
type Living struct {
	objects   dynamic.Interface
	resources discovery.DiscoveryInterface
}

// NewLiving returns a Living. It does not connect yet.
func NewLiving(cfg *rest.Config) (*Living, error) {
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	resources, err := discovery.NewDiscoveryClientForConfig(cfg)
	return &Living{objects, resources}, err
}

// Resource is a resource that an API lists, in one version.
type Resource struct {
	schema.GroupVersionResource
	Kind       string
	Namespaced bool
}

// Resources returns the resources whose objects can be listed and made, in all their versions, the
// one that the API prefers first. silent names groups whose servers do not answer, with the reason.
func (l *Living) Resources() (out []Resource, silent map[string]error, err error) {
	groups, lists, err := l.resources.ServerGroupsAndResources()
	if failed, ok := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); ok {
		silent = map[string]error{}
		for group, why := range failed.Groups {
			silent[group.String()] = why
		}
	} else if err != nil {
		return nil, nil, fmt.Errorf("ask the API for its kinds: %w", err)
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, nil, fmt.Errorf("ask the API for its kinds: %w", err)
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "create") {
				out = append(out, Resource{version.WithResource(r.Name), r.Kind, r.Namespaced})
			}
		}
	}
	preferred := map[string]string{}
	for _, g := range groups {
		preferred[g.Name] = g.PreferredVersion.Version
	}
	slices.SortStableFunc(out, func(a, b Resource) int {
		return rankOf(a, preferred) - rankOf(b, preferred)
	})
	return out, silent, nil
}

func rankOf(r Resource, preferred map[string]string) int {
	if preferred[r.Group] == r.Version {
		return 0
	}
	return 1
}

// Each calls visit with each object of a resource, in a namespace or, if that is empty, in all. The
// error names no content of objects.
func (l *Living) Each(ctx context.Context, r Resource, namespace string, visit func(object map[string]any)) error {
	var of dynamic.ResourceInterface = l.objects.Resource(r.GroupVersionResource)
	if namespace != "" {
		of = l.objects.Resource(r.GroupVersionResource).Namespace(namespace)
	}
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		return of.List(ctx, o)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		object, ok := o.(*unstructured.Unstructured)
		if !ok {
			return errors.New("the API returned an object of another type")
		}
		visit(object.Object)
		return nil
	})
	if err != nil {
		return fmt.Errorf("list %s: %w", r.GroupResource(), err)
	}
	return nil
}
