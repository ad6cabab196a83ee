package upgrade

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/render/router"
)

// Where the router and the shop's pod of a test serve.
const (
	routerAt = "10.98.0.11:80"
	shopAt   = "10.128.0.9:8080"
)

// ask is what servers of a world answer.
func (w *world) ask(server, host, path string) int {
	if status, is := w.askNetwork(server); is {
		return status
	}
	d, err := w.router()
	must(w.t, err)
	switch {
	case host+path != "shop.example/till" && host+path != "two.example/till" || server != routerAt && server != shopAt:
		w.t.Errorf("%s is asked for %s%s", server, host, path)
	case server == routerAt && w.denies && imageOf(&d.Spec.Template) == release(newImage).Images[payload.ImageRouter]:
		return http.StatusNotFound
	}
	return http.StatusOK
}

// shop has two Ingresses lead to a pod, through a router that is ready, one of them by a Service of
// two ports. What tells nothing is beside it: an Ingress of another class, one without a host, a
// Service of two ports that nobody can read.
func (w *world) shop() {
	w.t.Helper()
	one, two := shopIngress("shop", ingress.ClassName("default"), "shop.example"), shopIngress("two", ingress.ClassName("default"), "two.example")
	hidden := shopIngress("hidden", ingress.ClassName("default"), "hidden.example")
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two"}}
	service.Spec.Ports = []corev1.ServicePort{{Name: "9090", Port: 9090}, {Name: "8080", Port: 80}}
	must(w.t, w.admin.Create(w.t.Context(), service))
	for _, i := range []*networkingv1.Ingress{one, two, hidden, shopIngress("other", "nginx", "other.example"), shopIngress("all", ingress.ClassName("default"), "")} {
		must(w.t, w.admin.Create(w.t.Context(), i))
	}
	for service, ports := range map[string][]int32{"shop": {8080}, "two": {9090, 8080}, "hidden": {8080, 9090}} {
		s := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.128.0.8"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}, {Addresses: []string{"10.128.0.9"}}},
		}
		for _, p := range ports {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new(strconv.Itoa(int(p))), Port: &p})
		}
		must(w.t, w.admin.Create(w.t.Context(), s))
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ingress.OperandNamespace, Name: "router-1", Labels: ingress.PodLabels("default")}}
	p.Spec.Containers = []corev1.Container{{Name: "router", Image: "traefik", Ports: []corev1.ContainerPort{{Name: router.PortHTTP, ContainerPort: 80}}}}
	must(w.t, w.admin.Create(w.t.Context(), p))
	p.Status = corev1.PodStatus{PodIP: "10.98.0.11", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	must(w.t, w.admin.Status().Update(w.t.Context(), p))
}

func shopIngress(name, class, host string) *networkingv1.Ingress {
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	i.Spec.IngressClassName = &class
	path := networkingv1.HTTPIngressPath{Path: "/till", PathType: new(networkingv1.PathTypePrefix)}
	path.Backend.Service = &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: 80}}
	i.Spec.Rules = []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}}}}}
	return i
}

// TestRoutersThatDenyEveryHostTakeThePartsBack: they are ready, by all that Kubernetes says.
func TestRoutersThatDenyEveryHostTakeThePartsBack(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.shop()
	w.denies = true
	w.begins()
	w.writes = writesKilled(w)
	want := "True Paused the parts went back: the pods of operator did not all run within 6m00s: routers of default: router-1 answers 404 for shop.example, whose own pod answers 200. All hosts run the new release."
	w.until("it is told", func() bool { return strings.HasPrefix(w.condition("Failing"), want) })
	for range 30 {
		if err := w.round(); err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
	}
	if r := w.record(); r.NoWayBack || !w.everywhere(newImage) {
		t.Errorf("%+v", r)
	}
	w.wish(oldImage)
	w.until("it is back", func() bool { return !w.record().Started && w.everywhere(oldImage) })
}

// TestRoutersThatLeadAreLeftAlone with the same site.
func TestRoutersThatLeadAreLeftAlone(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.shop()
	w.begins()
	w.until("it soaks", func() bool { return w.record().Healthy > 0 })
}

// TestRoutesThatCannotBeReadStopNothing, and no router is blamed while they are unknown: it may lead
// what they name.
func TestRoutesThatCannotBeReadStopNothing(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.shop()
	w.denies, w.mute = true, true
	w.begins()
	w.until("it soaks", func() bool { return w.record().Healthy > 0 })
	w.wish(oldImage)
	w.until("it is back", func() bool { return !w.record().Started && w.everywhere(oldImage) })
}

func TestAServerIsAskedForAHostAndNoRedirectIsFollowed(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Host != "shop.example" {
			out.WriteHeader(http.StatusNotFound)
			return
		}
		http.Redirect(out, r, "https://shop.example"+r.URL.Path, http.StatusMovedPermanently)
	}))
	defer s.Close()
	at := strings.TrimPrefix(s.URL, "http://")
	for host, want := range map[string]int{"shop.example": http.StatusMovedPermanently, "other.example": http.StatusNotFound, "no host": 0} {
		if got := AskHTTP(t.Context(), at, host, "/till"); got != want {
			t.Errorf("%s: %d, want %d", host, got, want)
		}
	}
	if got := AskHTTP(t.Context(), "127.0.0.1:1", "shop.example", "/"); got != 0 {
		t.Errorf("nobody is there: %d", got)
	}
}
