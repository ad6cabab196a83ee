package access

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/guards"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// patience bounds each wait, on a machine with other work.
const patience = time.Minute

// cluster has two control planes and two workers, with all objects that an
// installation applies. The attacker is root on worker-1: he has the account of
// its kubelet, and with it a token of each account whose pod is bound there.
type cluster struct {
	t     *testing.T
	api   *apitest.API
	admin client.Client
	// kubelet is worker-1's own account.
	kubelet client.Client
}

var install sync.Once

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, api: apitest.Need(t, server)}
	install.Do(func() {
		files, err := installer.Objects(sitetest.New(t, sitetest.TwoDual))
		must(t, err)
		path := filepath.Join(t.TempDir(), "network.json")
		must(t, os.WriteFile(path, network(t, files), 0o600))
		c.api.Kubectl(t, "apply", "--server-side", "--filename", path)
		c.api.Install(t, files)
	})
	c.admin = c.client(c.api.Config)
	kubelet := rest.CopyConfig(c.api.Config)
	kubelet.Impersonate = rest.ImpersonationConfig{UserName: "system:node:worker-1", Groups: []string{"system:nodes", "system:authenticated"}}
	c.kubelet = c.client(kubelet)
	for _, name := range []string{"cp-1", "worker-1", "worker-2"} {
		c.node(name)
	}
	c.namespace("shop")
	c.secret("shop", "database")
	c.secret(metav1.NamespaceSystem, "bootstrap-token-abcdef")
	c.secret("openshift-etcd", "two-node-input-cp-1")
	c.secret(decide.CertificatesNamespace, "shop.tls")
	return c
}

// network returns the objects that an installation applies first, as one list.
// This API server has another range of addresses for Services.
func network(t *testing.T, files []state.File) []byte {
	t.Helper()
	var list []json.RawMessage
	for _, f := range files {
		if path.Dir(f.Path) != "network" {
			continue
		}
		for _, text := range documents(t, []state.File{f}) {
			if read[metav1.PartialObjectMetadata](t, text).Kind != "Service" {
				list = append(list, text)
			}
		}
	}
	out, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": list})
	must(t, err)
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) client(cfg *rest.Config) client.Client {
	c.t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme} {
		must(c.t, add(scheme))
	}
	out, err := client.New(cfg, client.Options{Scheme: scheme})
	must(c.t, err)
	return out
}

// node makes a Node with the fields that kubelet reports, and with many images.
func (c *cluster) node(name string) {
	c.t.Helper()
	labels := map[string]string{corev1.LabelHostname: name, "node-role.kubernetes.io/worker": ""}
	if strings.HasPrefix(name, "cp-") {
		labels = map[string]string{corev1.LabelHostname: name, state.LabelControlPlane: ""}
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{
		state.AnnotationMachine: "machine-of-" + name, "flannel.alpha.coreos.com/public-ip": "10.98.0.1",
	}}}
	must(c.t, c.admin.Create(c.t.Context(), n))
	c.t.Cleanup(func() { must(c.t, c.admin.Delete(context.WithoutCancel(c.t.Context()), n)) })
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.98.0.1"}, {Type: corev1.NodeHostName, Address: name}}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeDiskPressure, corev1.NodeMemoryPressure, corev1.NodePIDPressure} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()})
	}
	for i := range 50 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
			Names: []string{fmt.Sprintf("registry.example/%d@sha256:%064d", i, i), fmt.Sprintf("registry.example/%d:v1", i)}, SizeBytes: 1 << 30,
		})
	}
	must(c.t, c.admin.Status().Update(c.t.Context(), n))
}

func (c *cluster) namespace(name string) {
	c.t.Helper()
	must(c.t, client.IgnoreAlreadyExists(c.admin.Create(c.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})))
}

func (c *cluster) secret(namespace, name string) {
	c.t.Helper()
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"password": []byte("hush")}}
	must(c.t, client.IgnoreAlreadyExists(c.admin.Create(c.t.Context(), o)))
}

// boundPod returns a pod of an account on a host, with the volume for its token
// that every pod gets.
func boundPod(namespace, account, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account + "-on-" + node}, Spec: corev1.PodSpec{
		ServiceAccountName: account, NodeName: node, Containers: []corev1.Container{{Name: "x", Image: "x"}},
		Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
		}}}},
	}}
}

// stolen returns a client with the token of an account.
func (c *cluster) stolen(namespace, account string) client.Client {
	c.t.Helper()
	return c.with(c.tokenOf(namespace, account))
}

// tokenOf returns a token of an account whose pod is bound to worker-1. It is
// requested by the kubelet of that host, as is the token that lies there.
func (c *cluster) tokenOf(namespace, account string) string {
	c.t.Helper()
	ctx := c.t.Context()
	pod := boundPod(namespace, account, "worker-1")
	must(c.t, c.admin.Create(ctx, pod))
	c.t.Cleanup(func() {
		must(c.t, c.admin.Delete(context.WithoutCancel(ctx), pod, client.GracePeriodSeconds(0)))
	})
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	var err error
	c.until("kubelet is given the token", func() bool { // its authorizer notices the pod after a moment
		err = c.kubelet.SubResource("token").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}, request)
		return err == nil
	}, func() string { return err.Error() })
	return request.Status.Token
}

func (c *cluster) with(token string) client.Client {
	c.t.Helper()
	return c.client(&rest.Config{Host: c.api.Config.Host, TLSClientConfig: c.api.Config.TLSClientConfig, BearerToken: token})
}

func (c *cluster) until(what string, is func() bool, otherwise func() string) {
	c.t.Helper()
	for end := time.Now().Add(patience); !is(); {
		if time.Now().After(end) {
			c.t.Fatalf("%s: not in %s: %s", what, patience, otherwise())
		}
		<-time.NewTimer(50 * time.Millisecond).C
	}
}

// refused reports whether the API server refused, because of a right or a
// guard.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) }

// TestRootOnAWorkerReadsNoSecretButWhatItServes repeats the attack of a
// reviewer, with the same token (docs/attacks.md, F1).
func TestRootOnAWorkerReadsNoSecretButWhatItServes(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	for _, account := range []string{routers, flannel, dns} {
		namespace, name, _ := strings.Cut(account, ":")
		thief := c.stolen(namespace, name)
		for _, s := range secrets() {
			if err := thief.Get(ctx, s, &corev1.Secret{}); !refused(err) {
				t.Errorf("%s reads Secret %s: %v", account, s, err)
			}
			if err := thief.List(ctx, &corev1.SecretList{}, client.InNamespace(s.Namespace)); !refused(err) {
				t.Errorf("%s lists Secrets of %s: %v", account, s.Namespace, err)
			}
			if err := thief.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(s.Namespace)); !refused(err) {
				t.Errorf("%s lists ConfigMaps of %s: %v", account, s.Namespace, err)
			}
		}
		if err := thief.List(ctx, &corev1.SecretList{}); !refused(err) {
			t.Errorf("%s lists all Secrets: %v", account, err)
		}
		var list corev1.SecretList
		err := thief.List(ctx, &list, client.InNamespace(decide.CertificatesNamespace))
		if served := err == nil && len(list.Items) == 1; served != (account == routers) {
			t.Errorf("%s finds %d copies: %v", account, len(list.Items), err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-etcd", Name: "evil"}, Spec: corev1.PodSpec{
			NodeName: "cp-1", Containers: []corev1.Container{{Name: "x", Image: "x"}},
		}}
		if err := thief.Create(ctx, pod); !refused(err) {
			t.Errorf("%s makes a pod on a control plane: %v", account, err)
		}
	}
	if err := c.kubelet.Get(ctx, types.NamespacedName{Namespace: "openshift-etcd", Name: "fencing-credentials-cp-1"}, &corev1.Secret{}); !refused(err) {
		t.Errorf("kubelet reads the account of a BMC: %v", err)
	}
	c.tokenOfAnotherHost()
}

// secrets returns the Secrets that no worker may read.
func secrets() []types.NamespacedName {
	return []types.NamespacedName{
		{Namespace: "openshift-etcd", Name: "fencing-credentials-cp-1"},
		{Namespace: "openshift-etcd", Name: "two-node-input-cp-1"},
		{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abcdef"},
		{Namespace: "shop", Name: "database"},
		{Namespace: "openshift-config", Name: "pull-secret"},
		{Namespace: decide.Namespace, Name: decide.AuthoritySecret},
		{Namespace: decide.OperandNamespace, Name: decide.CertificateName(decide.DefaultName)},
	}
}

// tokenOfAnotherHost requests the token of an account whose pod runs elsewhere.
func (c *cluster) tokenOfAnotherHost() {
	c.t.Helper()
	pod := boundPod("openshift-etcd", "holdfast-operator", "cp-1")
	must(c.t, c.admin.Create(c.t.Context(), pod))
	defer func() {
		must(c.t, c.admin.Delete(context.WithoutCancel(c.t.Context()), pod, client.GracePeriodSeconds(0)))
	}()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-etcd", Name: "holdfast-operator"}}
	if err := c.kubelet.SubResource("token").Create(c.t.Context(), account, request); !refused(err) {
		c.t.Errorf("kubelet of worker-1 is given the operator's token: %v", err)
	}
}

// TestNoAccountOnAWorkerMayByTheAPIServersOwnJudgement checks that the
// authorizer agrees with what the rendered rights say by themselves.
func TestNoAccountOnAWorkerMayByTheAPIServersOwnJudgement(t *testing.T) {
	c := newCluster(t)
	var namespaces corev1.NamespaceList
	must(t, c.admin.List(t.Context(), &namespaces))
	subjects := rightsOf(t, sitetest.TwoDual).subjects()
	asked := 0
	for _, subject := range subjects {
		review := authorizationv1.SubjectAccessReviewSpec{User: "system:node:worker-1", Groups: []string{"system:nodes", "system:authenticated"}}
		if subject != hosts {
			namespace, _, _ := strings.Cut(subject, ":")
			review = authorizationv1.SubjectAccessReviewSpec{
				User:   "system:serviceaccount:" + subject,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			}
		}
		may := func(a authorizationv1.ResourceAttributes) bool {
			t.Helper()
			asked++
			o := &authorizationv1.SubjectAccessReview{Spec: review}
			o.Spec.ResourceAttributes = &a
			must(t, c.admin.Create(t.Context(), o))
			return o.Status.Allowed
		}
		for _, n := range append(namespaces.Items, corev1.Namespace{}) {
			for _, verb := range []string{"get", "list", "watch"} {
				for _, resource := range []string{"secrets", "configmaps"} {
					want := subject == routers && n.Name == decide.CertificatesNamespace
					got := may(authorizationv1.ResourceAttributes{Namespace: n.Name, Verb: verb, Resource: resource})
					if got != want {
						t.Errorf("%s may %s %s in %q: %t", subject, verb, resource, n.Name, got)
					}
				}
			}
		}
		for _, a := range ways() {
			// Kubelet has rights over objects of its own host, to which
			// NodeRestriction limits it.
			if own := subject == hosts && a.kubelets; may(a.ResourceAttributes) && !own {
				t.Errorf("%s may %s %s.%s/%s in %q", subject, a.Verb, a.Resource, a.Group, a.Subresource, a.Namespace)
			}
		}
	}
	t.Logf("%d questions about %v", asked, subjects)
}

type way struct {
	authorizationv1.ResourceAttributes
	kubelets bool
}

// ways returns the requests that lead from a worker to a control plane.
func ways() []way {
	of := func(verb, group, resource string) authorizationv1.ResourceAttributes {
		resource, sub, _ := strings.Cut(resource, "/")
		return authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Subresource: sub, Namespace: "openshift-etcd"}
	}
	var out []way
	for _, verb := range []string{"create", "update", "patch", "delete"} {
		out = append(out,
			way{of(verb, "", "nodes"), true}, way{of(verb, "", "pods"), true},
			way{of(verb, "", "secrets"), false}, way{of(verb, "", "serviceaccounts"), false},
			way{of(verb, "batch", "jobs"), false}, way{of(verb, "apps", "daemonsets"), false}, way{of(verb, "apps", "deployments"), false},
			way{of(verb, "rbac.authorization.k8s.io", "rolebindings"), false}, way{of(verb, "rbac.authorization.k8s.io", "clusterroles"), false},
			way{of(verb, "admissionregistration.k8s.io", "validatingadmissionpolicybindings"), false},
			way{of(verb, "config.openshift.io", "infrastructures"), false}, way{of(verb, "config.openshift.io", "infrastructures/status"), false},
			way{of(verb, "operator.openshift.io", "etcds"), false}, way{of(verb, "etcd.openshift.io", "pacemakerclusters/status"), false},
		)
	}
	return append(out,
		way{of("create", "", "pods/exec"), false}, way{of("create", "", "pods/attach"), false}, way{of("patch", "", "pods/ephemeralcontainers"), false},
		way{of("create", "", "serviceaccounts/token"), true}, way{of("impersonate", "", "users"), false}, way{of("impersonate", "", "serviceaccounts"), false},
		way{of("update", "certificates.k8s.io", "certificatesigningrequests/approval"), false},
		way{of("approve", "certificates.k8s.io", "signers"), false},
		way{of("bind", "rbac.authorization.k8s.io", "clusterroles"), false}, way{of("escalate", "rbac.authorization.k8s.io", "clusterroles"), false},
		way{of("get", "", "nodes/proxy"), false}, way{of("create", "", "nodes/proxy"), false},
	)
}

// untilGuarded waits until the API server applies the guard, which takes a
// moment after it was made.
func (c *cluster) untilGuarded(thief client.Client) {
	c.t.Helper()
	var err error
	c.until("the guard counts", func() bool {
		err = patchStatus(c.t, thief, "worker-2", `{"metadata":{"annotations":{"flannel.alpha.coreos.com/probe":null}}}`)
		return refused(err)
	}, func() string { return fmt.Sprint(err) })
}

func patchStatus(t *testing.T, who client.Client, node, body string) error {
	return who.SubResource("status").Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
		client.RawPatch(types.StrategicMergePatchType, []byte(body)))
}

// TestThePodNetworksTokenChangesItsOwnNodeAndOfThatWhatFlannelSays makes each
// attack of docs/attacks.md, F2, and further ones, with the same token.
func TestThePodNetworksTokenChangesItsOwnNodeAndOfThatWhatFlannelSays(t *testing.T) {
	c := newCluster(t)
	thief := c.stolen("kube-flannel", "flannel")
	c.untilGuarded(thief)
	const unavailable = `{"status":{"conditions":[{"type":"NetworkUnavailable","status":"False","reason":"FlannelIsUp","message":"up"}]}}`
	lease := `{"metadata":{"annotations":{"flannel.alpha.coreos.com/backend-data":"{\"VNI\":1}","flannel.alpha.coreos.com/backend-type":"vxlan",` +
		`"flannel.alpha.coreos.com/kube-subnet-manager":"true","flannel.alpha.coreos.com/public-ip":"10.98.0.7"}}}`
	for _, tt := range []struct{ name, node, body, why string }{
		{"its lease", "worker-1", lease, ""},
		{"its lease without an address", "worker-1", `{"metadata":{"annotations":{"flannel.alpha.coreos.com/public-ip":null}}}`, ""},
		{"that its network is up", "worker-1", unavailable, ""},
		{"the same once more", "worker-1", unavailable, ""},

		{"a lease of another host", "worker-2", lease, "this is not the node of its token"},
		{"the network of a control plane", "cp-1", unavailable, "this is not the node of its token"},
		{"a control plane's label away", "cp-1", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":null}}}`, "this is not the node of its token"},
		{"another machine for a control plane", "cp-1", `{"metadata":{"annotations":{"holdfast.io/machine":"evil"}}}`, "this is not the node of its token"},
		{"another address for a control plane", "cp-1", `{"status":{"addresses":[{"type":"InternalIP","address":"10.9.9.9"}]}}`, "this is not the node of its token"},
		{"a control plane that is not ready", "cp-1", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, "this is not the node of its token"},

		{"itself a control plane", "worker-1", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":"","node-role.kubernetes.io/master":""}}}`, "labels, owners and finalizers"},
		{"no worker", "worker-1", `{"metadata":{"labels":{"node-role.kubernetes.io/worker":null}}}`, "labels, owners and finalizers"},
		{"an owner that is gone", "worker-1", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"x","uid":"x"}]}}`, "labels, owners and finalizers"},
		{"a finalizer", "worker-1", `{"metadata":{"finalizers":["evil.example/stay"]}}`, "labels, owners and finalizers"},
		{"another machine", "worker-1", `{"metadata":{"annotations":{"holdfast.io/machine":"evil"}}}`, "only annotations of flannel.alpha.coreos.com"},
		{"no machine", "worker-1", `{"metadata":{"annotations":{"holdfast.io/machine":null}}}`, "only annotations of flannel.alpha.coreos.com"},
		{"virtual IPs that it does not have", "worker-1", `{"metadata":{"annotations":{"holdfast.io/vips-applied":"x"}}}`, "only annotations of flannel.alpha.coreos.com"},
		{"a name that begins like its own", "worker-1", `{"metadata":{"annotations":{"flannel.alpha.coreos.com.evil.example/x":"x"}}}`, "only annotations of flannel.alpha.coreos.com"},
		{"another address", "worker-1", `{"status":{"addresses":[{"type":"InternalIP","address":"10.9.9.9"}]}}`, "addresses"},
		{"more memory", "worker-1", `{"status":{"capacity":{"memory":"1Ti"}}}`, "addresses"},
		{"another kubelet", "worker-1", `{"status":{"nodeInfo":{"kubeletVersion":"v9"}}}`, "addresses"},
		{"itself not ready", "worker-1", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, "conditions only NetworkUnavailable"},
		{"a condition of somebody's", "worker-1", `{"status":{"conditions":[{"type":"Evil","status":"True"}]}}`, "conditions only NetworkUnavailable"},
		{"no pressure", "worker-1", `{"status":{"conditions":[{"$patch":"delete","type":"DiskPressure"}]}}`, "conditions only NetworkUnavailable"},
	} {
		err := patchStatus(t, thief, tt.node, tt.body)
		switch {
		case tt.why == "" && err != nil:
			t.Errorf("%s is refused: %v", tt.name, err)
		case tt.why != "" && (!refused(err) || !strings.Contains(err.Error(), tt.why)):
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if err := thief.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}); !refused(err) {
		t.Errorf("it deletes a node: %v", err)
	}
	homeless := c.with(strings.TrimSpace(c.api.Kubectl(t, "-n", "kube-flannel", "create", "token", "flannel")))
	if err := patchStatus(t, homeless, "worker-1", lease); !refused(err) {
		t.Errorf("a token that is of no pod says something of a node: %v", err)
	}
}

// TestTheGuardOfThePodNetworkIsInNobodysWay checks that kubelet and
// administrators can change nodes as before, and that flannel can without the
// guard.
func TestTheGuardOfThePodNetworkIsInNobodysWay(t *testing.T) {
	c := newCluster(t)
	thief := c.stolen("kube-flannel", "flannel")
	c.untilGuarded(thief)
	for who, attempt := range map[string]error{
		"kubelet's own status": patchStatus(t, c.kubelet, "worker-1", `{"status":{"conditions":[{"type":"Ready","status":"Unknown"}],"addresses":[{"type":"InternalIP","address":"10.98.0.8"}]}}`),
		"an administrator":     patchStatus(t, c.admin, "cp-1", `{"metadata":{"annotations":{"x":"y"}},"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`),
		"an administrator's label": c.admin.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}},
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"rack":"7"}}}`))),
	} {
		if attempt != nil {
			t.Errorf("%s: %v", who, attempt)
		}
	}
	if err := patchStatus(t, c.kubelet, "worker-2", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`); !refused(err) {
		t.Errorf("kubelet of another host: %v", err)
	}
	g := guards.PodNetwork()
	warnings := c.api.Kubectl(t, "get", "validatingadmissionpolicy", g.Name(), "--output", "jsonpath={.status.typeChecking.expressionWarnings}")
	if warnings != "" {
		t.Errorf("the API server warns of its expressions: %s", warnings)
	}
	c.api.Kubectl(t, "delete", "validatingadmissionpolicybinding", g.Name())
	t.Cleanup(func() { install = sync.Once{} })
	var err error
	c.until("flannel works without it", func() bool {
		err = patchStatus(t, thief, "worker-1", `{"metadata":{"annotations":{"flannel.alpha.coreos.com/backend-type":"vxlan"}}}`)
		return err == nil
	}, func() string { return fmt.Sprint(err) })
}
