// Package network_test applies the manifests of network/ to a real API server
// with its controllers. It checks what pods share, and what users are told.
package network_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/clusterdns"
	"github.com/holdfast/holdfast/internal/render/flannel"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

var server *apitest.API

func TestMain(m *testing.M) {
	os.Exit(apitest.Main(m, &server, "daemonset-controller", "endpointslice-controller"))
}

// settled bounds the work of controllers, on a machine with other work.
const settled = time.Minute

// installed applies a file as an installation does.
func installed(t *testing.T, render func(*testing.T) (state.File, error)) *apitest.API {
	t.Helper()
	api := apitest.Need(t, server)
	file, err := render(t)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := host.WriteFiles(dir, []state.File{file}); err != nil {
		t.Fatal(err)
	}
	api.Kubectl(t, "apply", "--server-side", "--force-conflicts", "--field-manager=holdfast-install", "--filename", filepath.Join(dir, file.Path))
	return api
}

func open(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually repeats the check until it passes.
func eventually(t *testing.T, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settled)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if host.Sleep(ctx, 50*time.Millisecond) != nil {
			t.Fatal(err)
		}
	}
}

// Two pods of a Deployment once ran on one host. Here the real controllers must
// place one on each host, and send the queries of a host's pods only to that
// host's pod.
func TestEachHostsPodsAreSentToTheNameServerOfTheirOwnHost(t *testing.T) {
	api := installed(t, func(t *testing.T) (state.File, error) {
		site := sitetest.New(t, strings.Replace(sitetest.TwoDual, "172.30.0.0/16", "10.0.0.0/24", 1))
		return clusterdns.Manifests(site)
	})
	c := open(t, api.Config)
	nodes := []string{"cp-1", "cp-2", "worker-1"}
	for i, name := range nodes {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
		if i < 2 {
			n.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
		} else {
			n.Spec.Taints = []corev1.Taint{{Key: "somebodys.example/own", Value: "yes", Effect: corev1.TaintEffectNoExecute}}
		}
		must(t, c.Create(t.Context(), n))
	}
	on := map[string]string{} // the address of each host's pod
	eventually(t, func(ctx context.Context) error { return run(ctx, c, on, len(nodes)) })

	var service corev1.Service
	must(t, c.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "kube-dns"}, &service))
	if service.Spec.ClusterIP != "10.0.0.10" {
		t.Errorf("the Service has %s", service.Spec.ClusterIP)
	}
	eventually(t, func(ctx context.Context) error { return hinted(ctx, c, on) })
}

// run acts as the scheduler, and as the kubelet of each host: a pod that has a
// place runs and is ready.
func run(ctx context.Context, c client.Client, on map[string]string, want int) error {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace("kube-system"), client.MatchingLabels{"k8s-app": "kube-dns"}); err != nil {
		return err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		node := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
		if p.Spec.NodeName == "" {
			bind := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
			if err := c.SubResource("binding").Create(ctx, p, bind); err != nil {
				return err
			}
			continue
		}
		if _, done := on[node]; done {
			continue
		}
		address := fmt.Sprintf("10.128.%d.2", len(on))
		p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if err := c.Status().Update(ctx, p); err != nil {
			return err
		}
		on[node] = address
	}
	if len(on) != want {
		return fmt.Errorf("name servers run on %v, want %d hosts", on, want)
	}
	return nil
}

// hinted expects that each address is given to the pods of its own host and to
// no others.
func hinted(ctx context.Context, c client.Client, on map[string]string) error {
	var slices discoveryv1.EndpointSliceList
	if err := c.List(ctx, &slices, client.InNamespace("kube-system"), client.MatchingLabels{discoveryv1.LabelServiceName: "kube-dns"}); err != nil {
		return err
	}
	seen := map[string]string{}
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			if e.Hints == nil || len(e.Hints.ForNodes) != 1 {
				return fmt.Errorf("%s on %s is for everybody: %+v", e.Addresses, *e.NodeName, e.Hints)
			}
			seen[e.Hints.ForNodes[0].Name] = e.Addresses[0]
		}
	}
	if fmt.Sprint(seen) != fmt.Sprint(on) {
		return fmt.Errorf("pods are sent to %v, and name servers run at %v", seen, on)
	}
	return nil
}

// heard collects the warnings of an API server.
type heard struct {
	mu   sync.Mutex
	list []string
}

func (h *heard) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list = append(h.list, text)
}

func (h *heard) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.list, "\n")
}

// A deny-all policy was once accepted, and the pod could still be reached
// (docs/facts/findings.md#lab, K3, docs/attacks.md, F14).
func TestANetworkPolicyThatNobodyEnforcesIsRefused(t *testing.T) {
	const words = "nothing in this cluster enforces a NetworkPolicy"
	in := func(namespace, name string) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	api := apitest.Need(t, server)
	c := open(t, api.Config)
	for _, n := range []string{"known", "openshift-ingress"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n}}
		if n == "known" {
			ns.Labels = map[string]string{"holdfast.io/network-policies": "unenforced"}
		}
		must(t, c.Create(t.Context(), ns))
	}
	before := in("default", "from-before")
	must(t, c.Create(t.Context(), before))
	installed(t, func(t *testing.T) (state.File, error) { return flannel.Manifests(sitetest.New(t, sitetest.TwoDual)) })
	told := func(ctx context.Context, do func(context.Context, client.Client) error) (string, error) {
		cfg, warnings := rest.CopyConfig(api.Config), &heard{}
		cfg.WarningHandler = warnings
		c, err := client.New(cfg, client.Options{})
		if err == nil {
			err = do(ctx, c)
		}
		return warnings.all(), err
	}
	made := func(o client.Object) string {
		got, err := told(t.Context(), func(ctx context.Context, c client.Client) error { return c.Create(ctx, o) })
		must(t, err)
		return got
	}
	n := 0
	// A policy takes effect a moment after it was made, and the two do so at
	// different moments.
	eventually(t, func(ctx context.Context) error {
		n++
		err := c.Create(ctx, in("default", fmt.Sprintf("deny-all-%d", n)))
		if err == nil || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "label it holdfast.io/network-policies=unenforced") {
			return fmt.Errorf("it is not refused: %w", err)
		}
		return nil
	})
	eventually(t, func(ctx context.Context) error {
		n++
		got, err := told(ctx, func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, in("known", fmt.Sprintf("deny-all-%d", n)))
		})
		if err == nil && !strings.Contains(got, words) {
			err = fmt.Errorf("where somebody knows, it is made without a warning: %q", got)
		}
		return err
	})
	eventually(t, func(ctx context.Context) error {
		n++
		before.Labels = map[string]string{"turn": fmt.Sprint(n)}
		got, err := told(ctx, func(ctx context.Context, c client.Client) error { return c.Update(ctx, before) })
		if err == nil && !strings.Contains(got, words) {
			err = fmt.Errorf("one that was there is changed without a warning: %q", got)
		}
		return err
	})
	must(t, c.Delete(t.Context(), before))
	if got := made(in("openshift-ingress", "router-default")); got != "" {
		t.Errorf("the operator is told of its own: %q", got)
	}
	if got := made(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}); got != "" {
		t.Errorf("other objects are spoken of: %q", got)
	}
	for _, name := range []string{flannel.RefusalName, flannel.RefusalName + "-unenforced"} {
		must(t, c.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		must(t, c.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	eventually(t, func(ctx context.Context) error { return c.Create(ctx, in("default", "enforced")) })
}
