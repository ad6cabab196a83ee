package certificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/render/router"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// patience bounds each wait, on a machine with other work.
const patience = time.Minute

// cluster is a cluster without hosts, in which the controller runs with the
// operator's own rights.
type cluster struct {
	t     *testing.T
	admin client.Client
	r     *Reconciler
	said  *events.FakeRecorder
}

var install sync.Once

func newCluster(t *testing.T) *cluster {
	t.Helper()
	api := apitest.Need(t, server)
	parsed, err := config.Parse([]byte(sitetest.OneNone))
	must(t, err)
	files, err := manifests.Render(parsed, topology.Of(parsed))
	must(t, err)
	install.Do(func() { api.Install(t, files) })
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, rbacv1.AddToScheme, configv1.Install, operatorv1.Install,
	} {
		must(t, add(scheme))
	}
	c := &cluster{t: t, said: events.NewFakeRecorder(100)}
	c.admin, err = client.New(api.Config, client.Options{Scheme: scheme})
	must(t, err)
	cfg := rest.CopyConfig(api.Config)
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + operator.Namespace + ":" + operator.Name,
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	manager, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}:                {Namespaces: map[string]cache.Config{decide.CertificatesNamespace: {}}},
			&corev1.ConfigMap{}:             {Namespaces: map[string]cache.Config{decide.CertificatesNamespace: {}}},
			&corev1.Pod{}:                   {Namespaces: map[string]cache.Config{decide.OperandNamespace: {}}},
			&appsv1.Deployment{}:            {Namespaces: map[string]cache.Config{decide.OperandNamespace: {}}},
			&operatorv1.IngressController{}: {Namespaces: map[string]cache.Config{decide.Namespace: {}}},
		}},
	})
	must(t, err)
	c.r = &Reconciler{Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: c.said}
	must(t, c.r.SetUp(manager))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended: %v", err)
		}
	})
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) until(what string, is func() bool) {
	c.t.Helper()
	began := time.Now()
	for end := began.Add(patience); !is(); {
		if time.Now().After(end) {
			c.t.Fatalf("%s: not in %s", what, patience)
		}
		<-time.NewTimer(20 * time.Millisecond).C
	}
	c.t.Logf("%s after %s", what, time.Since(began).Round(time.Millisecond))
}

// create makes an object until the end of the test.
func (c *cluster) create(o client.Object) {
	c.t.Helper()
	must(c.t, c.admin.Create(c.t.Context(), o))
	c.t.Cleanup(func() { _ = c.admin.Delete(context.WithoutCancel(c.t.Context()), o) })
}

func (c *cluster) namespace(name string) {
	c.t.Helper()
	o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	must(c.t, client.IgnoreAlreadyExists(c.admin.Create(c.t.Context(), o)))
}

// pair returns a new certificate with its key, as a Secret's data.
func pair(t *testing.T) map[string][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"shop.example"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	secret, err := x509.MarshalECPrivateKey(key)
	must(t, err)
	return map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}),
	}
}

func secret(namespace, name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
}

func ingress(namespace, name, class string, secrets ...string) *networkingv1.Ingress {
	out := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	out.Spec.IngressClassName = &class
	out.Spec.DefaultBackend = &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80},
	}}
	for _, s := range secrets {
		out.Spec.TLS = append(out.Spec.TLS, networkingv1.IngressTLS{SecretName: s})
	}
	return out
}

// copied returns what a copy holds, by keys, or nil if there is none.
func (c *cluster) copied(name string) map[string][]byte {
	c.t.Helper()
	o := &corev1.Secret{}
	err := c.admin.Get(c.t.Context(), client.ObjectKey{Namespace: decide.CertificatesNamespace, Name: name}, o)
	must(c.t, client.IgnoreNotFound(err))
	if err != nil {
		return nil
	}
	return o.Data
}

func same(a, b map[string][]byte) bool {
	return maps.EqualFunc(a, b, func(x, y []byte) bool { return slices.Equal(x, y) })
}

// copies returns the names of all copies.
func (c *cluster) copies() string {
	c.t.Helper()
	var list corev1.SecretList
	must(c.t, c.admin.List(c.t.Context(), &list, client.InNamespace(decide.CertificatesNamespace)))
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}
	return strings.Join(out, " ")
}

// TestRoutersAreGivenWhatIsNamedWhileItIsNamed plays the life of a certificate in
// a namespace that is made while the operator runs.
func TestRoutersAreGivenWhatIsNamedWhileItIsNamed(t *testing.T) {
	c := newCluster(t)
	c.until("the operator has looked", c.r.Copied)
	c.namespace("shop")
	first, second := pair(t), pair(t)
	first["password"] = []byte("hush")
	tls := secret("shop", "tls", first)
	c.create(tls)
	c.create(secret("shop", "database", map[string][]byte{"password": []byte("hush")}))
	c.create(ingress("shop", "foreign", "nginx", "tls"))
	if got := c.copies(); got != "" {
		t.Errorf("nobody named %s", got)
	}
	web := ingress("shop", "web", "openshift-default", "tls", "later", "database")
	c.create(web)
	delete(first, "password")
	c.until("a named certificate is copied", func() bool { return same(c.copied("shop.tls"), first) })

	c.create(secret("shop", "later", second))
	c.until("so is one that comes later", func() bool { return same(c.copied("shop.later"), second) })
	if got := c.copies(); got != "shop.later shop.tls" {
		t.Errorf("copied: %s", got)
	}
	c.until("a password is told to be none", func() bool {
		for len(c.said.Events) > 0 {
			if said := <-c.said.Events; strings.Contains(said, "CertificateNotServed Secret shop/database: tls.crt holds no certificate") {
				return true
			}
		}
		return false
	})

	tls.Data = pair(t)
	must(t, c.admin.Update(t.Context(), tls))
	c.until("a renewed one", func() bool { return same(c.copied("shop.tls"), tls.Data) })
	good := tls.Data
	tls.Data = map[string][]byte{corev1.TLSCertKey: []byte("?"), corev1.TLSPrivateKeyKey: []byte("?")}
	must(t, c.admin.Update(t.Context(), tls))
	c.until("a bad one is told", func() bool {
		return len(c.said.Events) > 0 && strings.Contains(<-c.said.Events, "Secret shop/tls: tls.crt holds no certificate")
	})
	if !same(c.copied("shop.tls"), good) {
		t.Error("a bad certificate took the place of a good one")
	}

	o := secret(decide.CertificatesNamespace, "shop.later", nil)
	must(t, c.admin.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"tls.key":"aHVzaA=="}}`))))
	c.until("somebody's change is undone", func() bool { return same(c.copied("shop.later"), second) })
	must(t, c.admin.Delete(t.Context(), o))
	c.until("and his deletion", func() bool { return same(c.copied("shop.later"), second) })
	theirs := secret(decide.CertificatesNamespace, "somebodys", nil)
	c.create(theirs)

	must(t, c.admin.Delete(t.Context(), tls))
	c.until("a certificate that is gone is no longer served", func() bool { return c.copied("shop.tls") == nil })
	must(t, c.admin.Delete(t.Context(), web))
	c.until("nor one that nobody names any more", func() bool { return c.copies() == "somebodys" })
}

// TestWhatIsTheClustersIsNeverCopied shows that, although somebody may make
// Ingresses there.
func TestWhatIsTheClustersIsNeverCopied(t *testing.T) {
	c := newCluster(t)
	for _, namespace := range []string{operator.Namespace, metav1.NamespaceSystem, "openshift-config", decide.CertificatesNamespace} {
		c.create(secret(namespace, "key", pair(t)))
		c.create(ingress(namespace, "web", "openshift-default", "key"))
	}
	c.namespace("shop")
	c.create(secret("shop", "key", pair(t)))
	c.create(ingress("shop", "web", "openshift-default", "key"))
	c.until("that of a tenant is copied", func() bool { return c.copied("shop.key") != nil })
	told := map[string]bool{}
	c.until("four are refused", func() bool {
		for len(c.said.Events) > 0 {
			told[<-c.said.Events] = true
		}
		return len(told) == 4
	})
	if got := c.copies(); got != "key shop.key" { // the first one is both source and copy
		t.Errorf("copied: %s (%v)", got, told)
	}
}

func TestGatewaysAndTheirAuthoritiesAreGivenToo(t *testing.T) {
	c := newCluster(t)
	of := func(kind, version, name string, spec string) {
		o := &unstructured.Unstructured{}
		must(t, o.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":"gateway.networking.k8s.io/%s","kind":%q,"metadata":{"namespace":"edge","name":%q},"spec":%s}`, version, kind, name, spec)))
		if kind == "ReferenceGrant" {
			o.SetNamespace("shop")
		}
		c.create(o)
	}
	for _, n := range []string{"edge", "shop"} {
		c.namespace(n)
	}
	c.create(secret("edge", "own", pair(t)))
	c.create(secret("shop", "lent", pair(t)))
	c.create(secret("shop", "kept", pair(t)))
	c.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "edge", Name: "authorities"}, Data: map[string]string{"ca.crt": "CA", "more": "x"}})
	of("ReferenceGrant", "v1beta1", "lend", `{"from":[{"group":"gateway.networking.k8s.io","kind":"Gateway","namespace":"edge"}],"to":[{"group":"","kind":"Secret","name":"lent"}]}`)
	of("Gateway", "v1", "web", `{"gatewayClassName":"openshift-default","listeners":[{"name":"a","port":443,"protocol":"HTTPS","tls":{"certificateRefs":[`+
		`{"name":"own"},{"name":"lent","namespace":"shop"},{"name":"kept","namespace":"shop"}]}}]}`)
	of("BackendTLSPolicy", "v1", "backend", `{"targetRefs":[{"group":"","kind":"Service","name":"web"}],"validation":{"hostname":"web","caCertificateRefs":[{"group":"","kind":"ConfigMap","name":"authorities"}]}}`)
	c.until("both are copied", func() bool { return c.copies() == "edge.own shop.lent" })
	o := &corev1.ConfigMap{}
	c.until("and the authorities", func() bool {
		err := c.admin.Get(t.Context(), client.ObjectKey{Namespace: decide.CertificatesNamespace, Name: "edge.authorities"}, o)
		return err == nil && maps.Equal(o.Data, map[string]string{"ca.crt": "CA"})
	})
}

func TestTheRightOfFormerRoutersGoesWithTheLastOfThem(t *testing.T) {
	c := newCluster(t)
	named := metav1.ObjectMeta{Name: router.FormerAccess}
	role := &rbacv1.ClusterRole{ObjectMeta: named, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: router.FormerAccess}}
	there := func() int {
		n := 0
		for _, o := range []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
			if c.admin.Get(t.Context(), client.ObjectKeyFromObject(role), o) == nil {
				n++
			}
		}
		return n
	}
	meta := metav1.ObjectMeta{
		Namespace: decide.OperandNamespace, Name: "router-x",
		Labels: map[string]string{decide.LabelOwner: "x", decide.LabelDeployment: "x"},
	}
	spec := corev1.PodSpec{NodeName: "w-1", Containers: []corev1.Container{{Name: "router", Image: "x"}}}
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: *spec.DeepCopy()},
	}}
	pod := &corev1.Pod{ObjectMeta: meta, Spec: spec}
	c.create(pod)
	c.create(deployment)
	c.create(role)
	c.create(binding)
	look := func() {
		t.Helper()
		_, err := c.r.Reconcile(t.Context(), ctrl.Request{})
		must(t, err)
	}
	c.until("the operator sees the routers", func() bool {
		needed, err := c.r.formerRouters(t.Context())
		return err == nil && needed
	})
	if look(); there() != 2 {
		t.Fatal("routers that are served lost their right")
	}
	deployment.Spec.Template.Spec.Containers[0].Env = router.Traefik{}.Container(&decide.Router{Strategy: &operatorv1.EndpointPublishingStrategy{}}).Env
	must(t, c.admin.Update(t.Context(), deployment))
	if look(); there() != 2 {
		t.Fatal("the last router of an earlier release lost its right while it is replaced")
	}
	must(t, c.admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	c.until("the right is gone", func() bool { look(); return there() == 0 })
}
