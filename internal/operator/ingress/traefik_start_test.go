package ingress

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	render "github.com/holdfast/holdfast/internal/render/router"
)

// onPorts returns a router of IngressController x on three free ports.
func onPorts(t *testing.T) (r *router, ports []int32) {
	t.Helper()
	c := newCluster(t)
	findTraefik(t)
	ports = freePorts(t, 3)
	c.make("x", fmt.Sprintf(`{"domain":"x.example","replicas":1,"endpointPublishingStrategy":{"type":"HostNetwork","hostNetwork":{"httpPort":%d,"httpsPort":%d,"statsPort":%d}}}`,
		ports[0], ports[1], ports[2]))
	c.settle()
	return &router{t: t, c: c, name: "x"}, ports
}

// rendered returns the decision about the router on a cluster.
func (r *router) rendered(topology configv1.TopologyMode) *decide.Router {
	return decide.RouterOf(decide.Snapshot{
		Controller: r.c.controller(r.name), Gateways: true,
		Cluster: decide.Cluster{ControlPlane: topology, Infrastructure: topology, Placement: configv1.DefaultPlacementControlPlane},
	}, decide.Admission{Domain: "x.example", Strategy: r.c.controller(r.name).Status.EndpointPublishingStrategy})
}

// gate is a way to the API that is closed at first.
type gate struct {
	at   string
	open chan struct{}
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	g := &gate{at: "https://" + l.Addr().String(), open: make(chan struct{})}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go g.pass(t.Context(), conn, strings.TrimPrefix(to, "https://"))
		}
	}()
	return g
}

func (g *gate) pass(ctx context.Context, from net.Conn, address string) {
	defer func() { _ = from.Close() }()
	select {
	case <-g.open:
	case <-ctx.Done():
		return
	}
	to, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	go func() {
		_, _ = io.Copy(to, from) // it ends with the connection
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to) // the same
}

// TestARouterThatStartsDeniesNoHost: from the moment it opens its ports until it
// has read the cluster, it tells every client of every host to ask later. It then begins to serve without ever
// saying that a host does not exist.
func TestARouterThatStartsDeniesNoHost(t *testing.T) {
	r, ports := onPorts(t)
	r.c.route("mine", "openshift-x")
	g := newGate(t, r.c.api.Config.Host)
	r.endpoint = g.at
	r.start()
	paths := render.Traefik{}.Paths(r.rendered(configv1.HighlyAvailableTopologyMode))
	stats := func(path string) int { return r.answer("http", ports[2], "localhost", path, nil) }
	r.untilLooked("it lives", time.Millisecond, func() bool { // its ports are open for some milliseconds before
		for scheme, port := range map[string]int32{"http": ports[0], "https": ports[1]} {
			if code, header := r.ask(scheme, port, "mine.x.example", "/", nil); code != 0 && header.Get("Retry-After") != "1" {
				t.Errorf("%s: it says %d %v before it knows anything", scheme, code, header)
			}
		}
		return stats(paths.Alive) == http.StatusOK
	})
	roots := r.roots()
	for scheme, port := range map[string]int32{"http": ports[0], "https": ports[1]} {
		code, header := r.ask(scheme, port, "mine.x.example", "/", roots)
		if code != http.StatusServiceUnavailable || header.Get("Retry-After") != "1" {
			t.Errorf("%s: it says %d %v before it has read the cluster", scheme, code, header)
		}
	}
	if got := stats(paths.Started); got != http.StatusNotFound {
		t.Errorf("it says %d of its start before it has read the cluster", got)
	}
	close(g.open)
	codes := map[int]int{}
	r.until("it serves", func() bool {
		code, header := r.ask("http", ports[0], "mine.x.example", "/", nil)
		codes[code]++
		return code > 0 && header.Get("Retry-After") == ""
	})
	if codes[http.StatusNotFound] > 0 || codes[0] > 0 {
		t.Errorf("answers while it started: %v", codes)
	}
	r.until("it has read the cluster", func() bool { return stats(paths.Started) == http.StatusOK })
}

// TestAHostThatNobodyKnowsIsUnavailable also shows that a default backend or a
// Gateway's route is asked first.
func TestAHostThatNobodyKnowsIsUnavailable(t *testing.T) {
	r, ports := onPorts(t)
	r.c.route("mine", "openshift-x")
	r.c.gateway("shop.x.example", ports[0])
	r.start()
	roots := r.roots()
	// ours reports whether the router itself answers.
	ours := func(scheme string, port int32, name, path string) bool {
		code, header := r.ask(scheme, port, name, path, roots)
		return code == 0 || code == http.StatusServiceUnavailable && header.Get("Retry-After") == "1"
	}
	r.until("it serves an Ingress", func() bool { return !ours("http", ports[0], "mine.x.example", "/") })
	r.until("it serves a Gateway's route", func() bool { return !ours("http", ports[0], "shop.x.example", "/cart") })
	for scheme, port := range map[string]int32{"http": ports[0], "https": ports[1]} {
		for _, path := range []string{"/", "/any/path"} {
			if code, header := r.ask(scheme, port, "nobody.x.example", path, roots); code != http.StatusServiceUnavailable || header.Get("Retry-After") != "1" {
				t.Errorf("%s %s: a host that nobody knows: %d %v", scheme, path, code, header)
			}
		}
	}
	if !ours("http", ports[0], "shop.x.example", "/nowhere") {
		t.Error("a path that the Gateway's route does not name is answered by somebody")
	}
	// An administrator makes the backend for all other hosts, beside the routers.
	class := "openshift-x"
	all := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: decide.InternalName("x"), Port: networkingv1.ServiceBackendPort{Number: 80}}}
	r.c.create(&networkingv1.Ingress{ObjectMeta: objectMeta(decide.OperandNamespace, "rest"), Spec: networkingv1.IngressSpec{IngressClassName: &class, DefaultBackend: &all}})
	for scheme, port := range map[string]int32{"http": ports[0], "https": ports[1]} {
		r.until("the default backend answers by "+scheme, func() bool { return !ours(scheme, port, "nobody.x.example", "/") })
	}
}

// gateway makes a Gateway of the routers' class, with a route for one host.
func (c *cluster) gateway(name string, port int32) {
	c.t.Helper()
	of := func(kind string, spec map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		o.SetAPIVersion("gateway.networking.k8s.io/v1")
		o.SetKind(kind)
		o.SetNamespace("default")
		o.SetName("shop")
		return o
	}
	c.create(of("Gateway", map[string]any{
		"gatewayClassName": "openshift-x",
		"listeners":        []any{map[string]any{"name": "http", "port": int64(port), "protocol": "HTTP"}},
	}))
	c.create(of("HTTPRoute", map[string]any{
		"parentRefs": []any{map[string]any{"name": "shop"}}, "hostnames": []any{name},
		"rules": []any{map[string]any{
			"matches":     []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/cart"}}},
			"backendRefs": []any{map[string]any{"name": "kubernetes", "port": int64(443)}},
		}},
	}))
}

// TestALoneRouterKeepsNobodyWaitingForSilence: it accepts no new connections once
// it is told to leave, and is gone soon, even if clients keep connections on
// which they send nothing.
func TestALoneRouterKeepsNobodyWaitingForSilence(t *testing.T) {
	r, ports := onPorts(t)
	lone := r.rendered(configv1.SingleReplicaTopologyMode)
	r.args = render.Arguments(lone)
	r.start()
	r.until("it answers", func() bool { return r.answer("http", ports[0], "nobody.x.example", "/", nil) > 0 })
	for _, port := range ports {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		r.c.must(err)
		t.Cleanup(func() { _ = conn.Close() })
	}
	// It has accepted them once it has accepted one that came later.
	if r.answer("http", ports[0], "nobody.x.example", "/", nil) == 0 {
		t.Fatal("it does not answer")
	}
	began := time.Now()
	r.stop()
	r.until("it takes no new connections", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", ports[0]))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	closed := time.Since(began)
	err := <-r.ended
	r.ended <- err // for the end of the test
	took := time.Since(began)
	t.Logf("no new connections after %s, gone after %s", closed, took)
	// The time that it took with five seconds to finish.
	if lone.Drain.Accept != 0 || took >= 5*time.Second || closed >= took {
		t.Errorf("it took connections for %s and was gone after %s (%+v)", closed, took, lone.Drain)
	}
}
