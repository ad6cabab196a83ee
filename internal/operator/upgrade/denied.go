package upgrade

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/render/router"
)

// askedHosts is for how many hosts a router is asked, and askLimit the time for all answers.
const (
	askedHosts = 5
	askLimit   = 2 * time.Second
)

// routed is a host of an Ingress and a pod to which it leads.
type routed struct{ host, path, pod string }

// denied says which router of an IngressController denies hosts that their own pods serve; empty
// if none is known to.
func (r *Reconciler) denied(ctx context.Context, name string, ingresses []networkingv1.Ingress) (string, error) {
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(ingress.OperandNamespace), client.MatchingLabels(ingress.PodLabels(name))); err != nil {
		return "", fmt.Errorf("list routers of %s: %w", name, err)
	}
	list, err := r.routedBy(ctx, name, ingresses)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var all sync.WaitGroup
	own := make([]int, len(list))
	for i, one := range list {
		all.Go(func() { own[i] = r.Ask(ctx, one.pod, one.host, one.path) })
	}
	asked := make([]parts.Asked, len(list)*len(pods.Items))
	for i := range pods.Items {
		at := serves(&pods.Items[i])
		for j, one := range list {
			if a := &asked[i*len(list)+j]; at != "" {
				a.Router, a.Host = pods.Items[i].Name, one.host
				all.Go(func() { a.Status = r.Ask(ctx, at, one.host, one.path) })
			}
		}
	}
	all.Wait()
	for i := range asked {
		asked[i].Own = own[i%len(list)]
	}
	return parts.Denied(slices.DeleteFunc(asked, func(a parts.Asked) bool { return a.Router == "" })), nil
}

// serves returns where a router that is ready serves plain HTTP; empty for another one.
func serves(p *corev1.Pod) string {
	ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	if !ready || p.DeletionTimestamp != nil || p.Status.PodIP == "" || len(p.Spec.Containers) == 0 {
		return ""
	}
	for _, port := range p.Spec.Containers[0].Ports {
		if port.Name == router.PortHTTP {
			return net.JoinHostPort(p.Status.PodIP, strconv.Itoa(int(port.ContainerPort)))
		}
	}
	return ""
}

// routedBy returns some hosts of the Ingresses of an IngressController, each with a ready pod.
func (r *Reconciler) routedBy(ctx context.Context, name string, ingresses []networkingv1.Ingress) ([]routed, error) {
	items := slices.DeleteFunc(slices.Clone(ingresses), func(i networkingv1.Ingress) bool {
		return i.Spec.IngressClassName == nil || *i.Spec.IngressClassName != ingress.ClassName(name)
	})
	slices.SortFunc(items, func(a, b networkingv1.Ingress) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	var out []routed
	for i := range items {
		host, path, service := leadsTo(&items[i])
		if service == "" || len(out) == askedHosts {
			continue
		}
		var slicesOf discoveryv1.EndpointSliceList
		if err := r.Live.List(ctx, &slicesOf, client.InNamespace(items[i].Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
			return nil, fmt.Errorf("list the pods of Service %s/%s: %w", items[i].Namespace, service, err)
		}
		if pod := podOf(slicesOf.Items); pod != "" {
			out = append(out, routed{host, path, pod})
		}
	}
	return out, nil
}

// leadsTo returns the first host of an Ingress that leads to a Service; empty if none does.
func leadsTo(i *networkingv1.Ingress) (host, path, service string) {
	for _, rule := range i.Spec.Rules {
		if rule.Host == "" || strings.HasPrefix(rule.Host, "*") || rule.HTTP == nil {
			continue
		}
		for _, p := range rule.HTTP.Paths {
			if p.Backend.Service != nil {
				return rule.Host, cmp.Or(p.Path, "/"), p.Backend.Service.Name
			}
		}
	}
	return "", "", ""
}

// podOf returns where a pod of a Service serves. A Service of several ports does not tell which
// of them is that of the Ingress, and is left out.
func podOf(list []discoveryv1.EndpointSlice) string {
	for _, s := range list {
		if len(s.Ports) != 1 || s.Ports[0].Port == nil {
			continue
		}
		for _, e := range s.Endpoints {
			if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				return net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*s.Ports[0].Port)))
			}
		}
	}
	return ""
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
