package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/encryption"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/outofservice"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/report/incident"
)

// notOfAgents maps methods of the client to their callers. The agent of a control
// plane does not call these by its own account.
var notOfAgents = map[string]string{
	"CreateObject": "the administrator, of the agent's making", "AddRules": "the same",
	"SetAnnotations": "kubelet's account", "Etcd": "the installation", "PodLogs": "a person",
	"SwapSecretKey": "a person", "SwapConfigMapKey": "a person", "SwapConfigMap": "a person", "TokenSecrets": "a person", "ConfigMapsNamed": "a person",
	"PodsOn": "the administrator, for a replacement", "Place": "the same", "DeletePodsOn": "the same", "DeleteNode": "the same", "DeleteSecret": "the same",
	"Lock": "the same", "SetLocked": "the same", "Unlock": "the same", "Volumes": "the same",
	"Retire":      "the administrator, for a removal or a replacement",
	"RestartPods": "the administrator, for a move to other addresses",
	"Version":     "kubelet's account, for the facts of an upgrade", "Bringer": "the administrator, of the unit that brings a part of a release",
}

// recorder leads to the API by the agent's account and records the requests.
type recorder struct {
	kubeconfig, url string
	mu              sync.Mutex
	asked           []*request.RequestInfo
}

func record(t *testing.T, conf string) *recorder {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", conf)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	out := &recorder{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	infos := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := infos.NewRequestInfo(r)
		if err != nil {
			t.Errorf("%s: %v", r.URL, err)
			return
		}
		out.mu.Lock()
		out.asked = append(out.asked, info)
		out.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	out.url = front.URL
	text := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"x","cluster":{"server":"` + front.URL + `"}}],"contexts":[{"name":"x","context":{"cluster":"x"}}],"current-context":"x"}`
	if err := os.WriteFile(out.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTheAgentMayWhatItDoesAndNothingElse makes each of the agent's requests by
// its account. It fails for a missing right, and for a right that nothing needs.
func TestTheAgentMayWhatItDoesAndNothingElse(t *testing.T) {
	c := newJoiningCluster(t)
	c.kinds("backups", "pacemakerclusters", "machineconfigs", "machineconfigpools")
	c.apply(`{"apiVersion":"etcd.openshift.io/v1","kind":"PacemakerCluster","metadata":{"name":"cluster"}}`)
	through := record(t, agentsFile(t, c))
	client, err := kube.Open(through.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the agent's rights count", func() error { _, err := client.Nodes(t.Context()); return err })

	calls := c.requests()
	methods := reflect.TypeFor[*kube.Client]()
	for m := range methods.Methods() {
		_, agents := calls[m.Name]
		if _, others := notOfAgents[m.Name]; agents == others {
			t.Errorf("kube.Client.%s: say here how the agent calls it, or who else does", m.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		ctx, stop := context.WithTimeout(t.Context(), soon)
		if err := calls[name](ctx, client); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		stop()
	}
	askAnother(t, through)
	for _, unused := range unused(t, c, through) {
		t.Errorf("agents may %s, and no request of theirs needs it", unused)
	}
}

// kinds adds kinds of Holdfast's to the API.
func (c *joiningCluster) kinds(names ...string) {
	c.t.Helper()
	for _, name := range names {
		crd, err := filepath.Abs("../../render/manifests/crds/" + name + ".yaml")
		if err != nil {
			c.t.Fatal(err)
		}
		c.api.Kubectl(c.t, "apply", "--server-side", "--filename", crd)
		c.api.Kubectl(c.t, "wait", "--for=condition=Established", "--timeout=60s", "--filename", crd)
	}
}

// apply writes an object, or its status where a flag says so.
func (c *joiningCluster) apply(object string, flags ...string) {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "object.json")
	if err := os.WriteFile(path, []byte(object), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.api.Kubectl(c.t, append([]string{"apply", "--server-side", "--force-conflicts", "--filename", path}, flags...)...)
}

// agentsFile returns the kubeconfig of the cluster's agent.
func agentsFile(t *testing.T, c *joiningCluster) string {
	t.Helper()
	keeper := keeperOf(t, c.api, "cp-1")
	if err := c.agent.identify(t.Context(), keeper); err != nil {
		t.Fatal(err)
	}
	return keeper.Root + state.AgentKubeconfig
}

// askAnother makes the client look for a server that answers: the first does not.
func askAnother(t *testing.T, through *recorder) {
	t.Helper()
	servers := &kube.Servers{Kubeconfig: through.kubeconfig, Addresses: func() []string { return []string{"http://127.0.0.1:1", through.url} }}
	err := servers.Try(t.Context(), func(ctx context.Context, client *kube.Client) error { _, err := client.Nodes(ctx); return err })
	if err != nil {
		t.Error(err)
	}
}

// requests returns the agent's requests by the client's method.
func (c *joiningCluster) requests() map[string]func(context.Context, *kube.Client) error {
	const node = "worker-8"
	c.node(node, true)
	c.t.Cleanup(func() {
		for _, name := range []string{node, "cp-9"} {
			_ = c.admin.CoreV1().Nodes().Delete(context.WithoutCancel(c.t.Context()), name, metav1.DeleteOptions{})
		}
	})
	at := time.Now()
	asked := c.ask(c.api.WithToken(c.tokenFor("worker-9", state.RoleWorker).Token), fmt.Sprintf("rights-%d", at.UnixNano()), "system:node:worker-9", "system:nodes")
	return map[string]func(context.Context, *kube.Client) error{
		"Nodes": func(ctx context.Context, k *kube.Client) error { _, err := k.Nodes(ctx); return err },
		"AddLabels": func(ctx context.Context, k *kube.Client) error {
			return k.AddLabels(ctx, node, []string{state.LabelControlPlane})
		},
		"AddTaint": func(ctx context.Context, k *kube.Client) error {
			return k.AddTaint(ctx, node, kubeadm.ControlPlaneTaint)
		},
		"Annotate": func(ctx context.Context, k *kube.Client) error {
			return k.Annotate(ctx, node, state.AnnotationMachine, "x")
		},
		"Node":    func(ctx context.Context, k *kube.Client) error { _, err := k.Node(ctx, node); return err },
		"Retired": func(ctx context.Context, k *kube.Client) error { _, err := k.Retired(ctx, "worker-7"); return err },
		"GiveAgain": func(ctx context.Context, k *kube.Client) error {
			entry, err := retired.Host{Name: "worker-7", When: at}.Marshal()
			if err != nil {
				return err
			}
			text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q},"data":{"worker-7":%q}}`, retired.ConfigMap, retired.Namespace, entry)
			c.apply(text) //nolint:contextcheck // kubectl has the test's
			return k.GiveAgain(ctx, "worker-7", at)
		},
		"CreateNode": func(ctx context.Context, k *kube.Client) error { // with labels that kubelet may not set
			return k.CreateNode(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-9", Labels: map[string]string{state.LabelControlPlane: ""}}})
		},
		"PatchNode": func(ctx context.Context, k *kube.Client) error {
			of := services{k}
			n, err := of.NodeService(ctx, node)
			if err != nil {
				return err
			}
			return of.PatchNode(ctx, node, outofservice.Patch(n, outofservice.Verdict{Action: outofservice.Add, Mark: "cp-1 2026-11-20T08:50:00Z"}))
		},
		"MarkUnready": func(ctx context.Context, k *kube.Client) error { return k.MarkUnready(ctx, node, "x", at) },
		"WatchNodes": func(ctx context.Context, k *kube.Client) error {
			ctx, stop := context.WithCancel(ctx)
			return canceled(k.WatchNodes(ctx, func([]*corev1.Node) { stop() }))
		},
		"Pods": func(ctx context.Context, k *kube.Client) error { _, err := k.Pods(ctx); return err },
		"EachPod": func(ctx context.Context, k *kube.Client) error {
			_, err := k.EachPod(ctx, func(*corev1.Pod) {})
			return err
		},
		"NodeLeaseAnnotation": func(ctx context.Context, k *kube.Client) error {
			_, err := k.NodeLeaseAnnotation(ctx, decide.OutsideAnnotation)
			return err
		},
		"CreateEvent": func(ctx context.Context, k *kube.Client) error {
			return k.CreateEvent(ctx, &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("x.%d", at.UnixNano())},
				InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: node}, Type: corev1.EventTypeNormal, Reason: "X",
			})
		},
		"PacemakerCluster": func(ctx context.Context, k *kube.Client) error { _, err := k.PacemakerCluster(ctx); return err },
		"WritePacemakerStatus": func(ctx context.Context, k *kube.Client) error {
			o, err := k.PacemakerCluster(ctx)
			if err != nil {
				return err
			}
			_, err = k.WritePacemakerStatus(ctx, o.ResourceVersion, json.RawMessage(`{"lastUpdated":"2026-11-22T10:00:00Z"}`))
			if err != nil && !apierrors.IsInvalid(err) { // the API let the request in
				return err
			}
			return nil
		},
		"ConfigMap": func(ctx context.Context, k *kube.Client) error {
			_, err := k.ConfigMap(ctx, encryption.WishNamespace, encryption.WishName)
			return err
		},
		"ConfigMaps": func(ctx context.Context, k *kube.Client) error {
			_, err := k.ConfigMaps(ctx, incident.Namespace, incident.Label)
			return err
		},
		"PutConfigMap": func(ctx context.Context, k *kube.Client) error {
			var errs []error
			for _, text := range []string{"made", "changed"} {
				for _, host := range fencedHosts(c) {
					errs = append(errs, k.PutConfigMap(ctx, incident.Namespace, incident.ConfigMap(host), nil, map[string]string{"x": text}))
				}
			}
			return errors.Join(errs...)
		},
		"PutSecret": func(ctx context.Context, k *kube.Client) error {
			var errs []error
			for range 2 {
				for _, host := range fencedHosts(c) {
					errs = append(errs, k.PutSecret(ctx, fence.SecretNamespace, fence.SecretPrefix+host, map[string][]byte{"password": []byte("hush")}))
				}
			}
			return errors.Join(errs...)
		},
		"Secret": func(ctx context.Context, k *kube.Client) error {
			_, err := k.Secret(ctx, jointoken.KeyNamespace, jointoken.KeySecret)
			_, backups := k.Secret(ctx, backup.SecretNamespace, backup.SecretName)
			return errors.Join(err, backups)
		},
		"Backup": func(ctx context.Context, k *kube.Client) error {
			_, err := k.Backup(ctx, backup.ObjectName)
			return err
		},
		"BootstrapTokens": func(ctx context.Context, k *kube.Client) error { _, err := k.BootstrapTokens(ctx); return err },
		"CreateBootstrapToken": func(ctx context.Context, k *kube.Client) error {
			return k.CreateBootstrapToken(ctx, "makeit.0123456789abcdef", joining.Token{Host: "x", Expires: at.Add(time.Hour)})
		},
		"UseBootstrapToken": func(ctx context.Context, k *kube.Client) error {
			return errors.Join(
				k.CreateBootstrapToken(ctx, "useone.0123456789abcdef", joining.Token{Host: "x", Expires: at.Add(time.Hour)}),
				k.UseBootstrapToken(ctx, "useone", "x"), k.DeleteBootstrapToken(ctx, "useone"))
		},
		"DeleteBootstrapToken": func(ctx context.Context, k *kube.Client) error {
			return errors.Join(k.DeleteBootstrapToken(ctx, "nobody"), k.DeleteBootstrapToken(ctx, "makeit"))
		},
		"Requests": func(ctx context.Context, k *kube.Client) error {
			_, err := k.Requests(ctx, joining.ServingSigner)
			return err
		},
		"FollowRequests": func(ctx context.Context, k *kube.Client) error {
			ctx, stop := context.WithCancel(ctx)
			return canceled(k.FollowRequests(ctx, joining.KubeletSigner, func([]joining.Request) { stop() }))
		},
		"DecideRequest": func(ctx context.Context, k *kube.Client) error {
			did, err := k.DecideRequest(ctx, asked.name, joining.Verdict{Action: joining.Approve, Reason: "X", Message: "x"})
			if !did && err == nil {
				err = errors.New("somebody else did")
			}
			return err
		},
		"CreateRequest": func(ctx context.Context, k *kube.Client) error {
			r, err := c.admin.CertificatesV1().CertificateSigningRequests().Get(ctx, asked.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			again := joining.Request{Name: asked.name + "-again", Signer: joining.KubeletSigner, PEM: r.Spec.Request, Usages: joining.ClientUsages}
			return k.CreateRequest(ctx, again, 0)
		},
		"IssuedCertificate": func(ctx context.Context, k *kube.Client) error {
			_, err := k.IssuedCertificate(ctx, asked.name)
			return err
		},
		"NodeLastSeen":     func(ctx context.Context, k *kube.Client) error { _, err := k.NodeLastSeen(ctx, node); return err },
		"LoadedEncryption": func(ctx context.Context, k *kube.Client) error { _, err := k.LoadedEncryption(ctx); return err },
		"VerifyingKeys":    func(ctx context.Context, k *kube.Client) error { _, err := k.VerifyingKeys(ctx); return err },
		"APIReady":         func(ctx context.Context, k *kube.Client) error { return k.APIReady(ctx) },
		"Names": func(ctx context.Context, k *kube.Client) error {
			own, err := ownObjects(c.agent.Site)
			errs := []error{err}
			for _, o := range own {
				_, err := k.Names(ctx, o.collection)
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
		"Rules": func(ctx context.Context, k *kube.Client) error {
			own, err := ownObjects(c.agent.Site)
			errs := []error{err}
			for _, o := range own {
				if o.name == manifests.AgentsName {
					errs = append(errs, c.agent.complete(ctx, k, o))
				}
			}
			return errors.Join(errs...)
		},
		"MachineConfig": func(ctx context.Context, k *kube.Client) error {
			return absent(k.MachineConfig(ctx, "rendered-worker-x"))
		},
		"MachineConfigPool": func(ctx context.Context, k *kube.Client) error {
			return errors.Join(absent(k.MachineConfigPool(ctx, rollout.Master)), absent(k.MachineConfigPool(ctx, rollout.Worker)))
		},
		"DeleteObject": func(ctx context.Context, k *kube.Client) error { return c.agent.removeAutoApproval(ctx, k) },
	}
}

// absent drops an error that only says that there is no such object: the API let the
// request in.
func absent(_ any, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// canceled drops an error that only says that the watch was ended.
func canceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// fencedHosts returns the control planes that the configuration names.
func fencedHosts(c *joiningCluster) []string {
	var out []string
	for _, cred := range c.agent.Site.Config.ControlPlane.Fencing.Credentials {
		out = append(out, cred.HostName)
	}
	return out
}

// unused returns the rights that agents have and no request needed. The right to
// approve at a signer shows in no request of its own: the API server checks it at
// an approval.
func unused(t *testing.T, c *joiningCluster, through *recorder) []string {
	t.Helper()
	own, err := ownObjects(c.agent.Site)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range own {
		var role rbacv1.Role
		if err := json.Unmarshal(o.data, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			if o.name != manifests.AgentsName || slices.Contains(rule.Verbs, "approve") {
				continue
			}
			for _, right := range rights(rule) {
				if !slices.ContainsFunc(through.asked, func(i *request.RequestInfo) bool { return right.needed(role.Namespace, i) }) {
					out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s", role.Namespace, right)))
				}
			}
		}
	}
	return out
}

// right is the smallest part of a rule.
type right struct{ verb, group, resource, name, path string }

func (r right) String() string {
	return strings.Join([]string{r.verb, r.group, r.resource, r.name, r.path}, " ")
}

func rights(rule rbacv1.PolicyRule) []right {
	var out []right
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, verb := range rule.Verbs {
		for _, path := range rule.NonResourceURLs {
			out = append(out, right{verb: verb, path: path})
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					out = append(out, right{verb: verb, group: group, resource: resource, name: name})
				}
			}
		}
	}
	return out
}

func (r right) needed(namespace string, i *request.RequestInfo) bool {
	if !i.IsResourceRequest {
		return r.path == i.Path && r.verb == i.Verb
	}
	resource := strings.TrimSuffix(i.Resource+"/"+i.Subresource, "/")
	return r.verb == i.Verb && r.group == i.APIGroup && r.resource == resource && (r.name == "" || r.name == i.Name) &&
		(namespace == "" || namespace == i.Namespace)
}
