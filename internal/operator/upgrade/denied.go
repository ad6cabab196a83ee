package upgrade

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/render/router"
)

// askLimit is the time for all answers of servers.
const askLimit = 2 * time.Second

// routed is where a router leads, and a pod behind it.
type routed struct {
	parts.Led
	pod string
}

// routes are the objects by which routers lead.
type routes struct {
	ingresses []networkingv1.Ingress
	gateways  []parts.Gateway
	http      []parts.HTTPRoute
}

// routes reads them. What is not there, or not for this account, is none. whole is false if some of
// them are unknown: a router that denies the hosts of all others may lead those.
func (r *Reconciler) routes(ctx context.Context) (out routes, whole bool, err error) {
	var list networkingv1.IngressList
	if _, err = known(0, r.Live.List(ctx, &list), "list Ingresses"); err != nil {
		return out, false, err
	}
	out.ingresses = list.Items
	var gateways, http bool
	out.gateways, gateways = listed[parts.Gateway](ctx, r.Live, "Gateway")
	out.http, http = listed[parts.HTTPRoute](ctx, r.Live, "HTTPRoute")
	return out, gateways && http, nil
}

// listed reads the objects of a kind of the Gateway API. One that cannot be read is left out. Without
// an answer they are unknown, and that is no reason to stop: a site brings these kinds itself, and a
// webhook of theirs may be away.
func listed[T any](ctx context.Context, api client.Reader, kind string) (out []T, is bool) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: ingress.GatewayGroup, Version: "v1", Kind: kind + "List"})
	err := api.List(ctx, list)
	if apierrors.IsNotFound(err) || err != nil && unreadable(err) {
		return nil, true // this site has no Gateways
	}
	if err != nil {
		return nil, false
	}
	for i := range list.Items {
		var one T
		if runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &one) == nil {
			out = append(out, one)
		}
	}
	return out, true
}

// denied says which router of an IngressController denies hosts that their own pods serve; empty
// if none is known to.
func (r *Reconciler) denied(ctx context.Context, name string, of routes) (string, error) {
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(ingress.OperandNamespace), client.MatchingLabels(ingress.PodLabels(name))); err != nil {
		return "", fmt.Errorf("list routers of %s: %w", name, err)
	}
	list, err := r.routedBy(ctx, name, of)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var all sync.WaitGroup
	own := make([]int, len(list))
	for i, one := range list {
		all.Go(func() { own[i] = r.Ask(ctx, one.pod, one.Host, one.Path) })
	}
	asked := make([]parts.Asked, len(list)*len(pods.Items))
	for i := range pods.Items {
		at := parts.RouterAt(&pods.Items[i], router.PortHTTP)
		for j, one := range list {
			if a := &asked[i*len(list)+j]; at != "" {
				a.Router, a.Host = pods.Items[i].Name, one.Host
				all.Go(func() { a.Status = r.Ask(ctx, at, one.Host, one.Path) })
			}
		}
	}
	all.Wait()
	for i := range asked {
		asked[i].Own = own[i%len(list)]
	}
	return parts.Denied(slices.DeleteFunc(asked, func(a parts.Asked) bool { return a.Router == "" })), nil
}

// routedBy returns where the routers of an IngressController lead, each with a ready pod.
func (r *Reconciler) routedBy(ctx context.Context, name string, of routes) ([]routed, error) {
	class := ingress.ClassName(name)
	var out []routed
	for _, led := range append(parts.LedByIngresses(of.ingresses, class), parts.LedByRoutes(of.http, of.gateways, class)...) {
		var slicesOf discoveryv1.EndpointSliceList
		if err := r.Live.List(ctx, &slicesOf, client.InNamespace(led.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: led.Service}); err != nil {
			return nil, fmt.Errorf("list the pods of Service %s/%s: %w", led.Namespace, led.Service, err)
		}
		service := &corev1.Service{}
		switch err := r.Live.Get(ctx, client.ObjectKey{Namespace: led.Namespace, Name: led.Service}, service); {
		case apierrors.IsNotFound(err) || err != nil && unreadable(err):
			service = nil
		case err != nil:
			return nil, fmt.Errorf("read Service %s/%s: %w", led.Namespace, led.Service, err)
		}
		if pod := parts.PodBehind(led, service, slicesOf.Items); pod != "" {
			out = append(out, routed{led, pod})
		}
	}
	return out, nil
}

// AskHTTP asks a server for a path of a host over plain HTTP, and returns the status of its
// answer, 0 without one. It follows no redirect.
func AskHTTP(ctx context.Context, server, host, path string) int {
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server)
	}
	c := http.Client{
		Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+path, nil)
	if err != nil {
		return 0
	}
	req.Header.Set("User-Agent", "holdfast-operator")
	resp, err := c.Do(req)
	if err != nil {
		return 0
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 1<<16)
	_ = resp.Body.Close()
	return resp.StatusCode
}
