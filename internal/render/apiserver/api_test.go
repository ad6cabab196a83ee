package apiserver_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/apiserver"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

var api *apitest.API

func TestMain(m *testing.M) {
	os.Exit(apitest.MainWith(m, &api, apitest.Setup{Arguments: asRendered}))
}

// root is the root from which the keys of the tested server follow.
var root = apitest.Root

// asRendered returns the arguments of an API server as kubeadm gets them.
func asRendered(folder string) ([]string, error) {
	return apitest.AsRendered(folder, "../kubeadm/testdata/init-two-dual.yaml")
}

// client returns a client of the API as the named user, or as an administrator
// if the name is empty.
func client(t *testing.T, name string) *kubernetes.Clientset {
	t.Helper()
	config := rest.CopyConfig(apitest.Need(t, api).Config)
	if name != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// namespaceOf creates a namespace in which a tenant may edit.
func namespaceOf(t *testing.T, name, tenant string) {
	t.Helper()
	admin := client(t, "")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// A controller that does not run here would aggregate the role edit.
	may := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: tenant}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"*"},
	}}}
	if _, err := admin.RbacV1().Roles(name).Create(t.Context(), may, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bound := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: tenant}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: tenant},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: tenant}},
	}
	if _, err := admin.RbacV1().RoleBindings(name).Create(t.Context(), bound, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The authorizer learns of it a moment later.
	pods := client(t, tenant).CoreV1().Pods(name)
	until(t, tenant+" may do what was granted", func() bool {
		_, err := pods.List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
}

func harmless() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "one", Image: "one"}}},
	}
}

// docs/attacks.md, F6: everybody who could create a pod was root on a control
// plane.
func TestATenantsPodCannotHaveItsHost(t *testing.T) {
	namespaceOf(t, "shop", "tenant")
	pods := client(t, "tenant").CoreV1().Pods("shop")
	if _, err := pods.Create(t.Context(), harmless(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatalf("a harmless pod: %v", err)
	}
	for name, change := range map[string]func(*corev1.Pod){
		"privileged": func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		},
		"the host's processes": func(p *corev1.Pod) { p.Spec.HostPID = true },
		"the host's network":   func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		"the host's files": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "root", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		},
		"all of it, on a control plane": func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.HostPID, p.Spec.HostNetwork = "cp-2", true, true
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
			p.Spec.Volumes = []corev1.Volume{{Name: "root", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		},
	} {
		p := harmless()
		change(p)
		_, err := pods.Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `violates PodSecurity "baseline:latest"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOurOwnPodsAreAdmitted(t *testing.T) {
	admin := client(t, "")
	for _, name := range apiserver.Exempt() {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := admin.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	for _, p := range ours(t) {
		one := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-", Labels: p.meta.Labels}, Spec: p.spec}
		one.Spec.Priority = nil // it follows from the class
		_, err := admin.CoreV1().Pods(p.meta.Namespace).Create(t.Context(), one, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Errorf("%s: %s/%s: %v", p.from, p.meta.Namespace, p.meta.Name, err)
		}
	}
}

// With an external address, a tenant's Service took the packets for a virtual IP
// on every host.
func TestATenantsServiceTakesNoAddress(t *testing.T) {
	services := client(t, "").CoreV1().Services("default")
	taker := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "taker-"},
		Spec:       corev1.ServiceSpec{ExternalIPs: []string{"10.98.0.5"}, Ports: []corev1.ServicePort{{Port: 6443}}},
	}
	_, err := services.Create(t.Context(), taker, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "external IPs") {
		t.Errorf("it is made: %v", err)
	}
	taker.Spec.ExternalIPs = nil
	if _, err := services.Create(t.Context(), taker, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
}

// An administrator lifts the default for a namespace by its label.
func TestALabelLiftsTheDefaultForItsNamespace(t *testing.T) {
	admin := client(t, "")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "storage", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"},
	}}
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p := harmless()
	p.Spec.HostNetwork = true
	if _, err := admin.CoreV1().Pods("storage").Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
}

// stored returns the contents of etcd below a prefix.
func stored(t *testing.T, prefix string) []byte {
	t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{apitest.Need(t, api).Etcd}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = etcd.Close() }() // the test is over
	got, err := etcd.Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) != 1 {
		t.Fatalf("%d keys below %s", len(got.Kvs), prefix)
	}
	return got.Kvs[0].Value
}

// docs/attacks.md, F10: the accounts of BMCs were in clear text in etcd, in every
// copy of its data and in every snapshot.
func TestASecretCannotBeReadInEtcd(t *testing.T) {
	secrets := client(t, "").CoreV1().Secrets("default")
	const password = "hush-hush-of-the-BMC"
	if _, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "account"}, StringData: map[string]string{"password": password},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	closed(t, stored(t, "/registry/secrets/default/account"), password)
	got, err := secrets.Get(t.Context(), "account", metav1.GetOptions{})
	if err != nil || string(got.Data["password"]) != password {
		t.Errorf("the API gives %q: %v", got.Data["password"], err)
	}
}

func closed(t *testing.T, value []byte, secret string) {
	t.Helper()
	if !bytes.HasPrefix(value, []byte("k8s:enc:secretbox:v1:holdfast-1:")) {
		t.Errorf("it begins %.40q", value)
	}
	for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
		if bytes.Contains(value, []byte(form)) {
			t.Errorf("etcd has %q", form)
		}
	}
}

// A proxy's password is in an object of another kind.
func TestAProxysPasswordCannotBeReadInEtcd(t *testing.T) {
	a := apitest.Need(t, api)
	s := sitetest.New(t, sitetest.OneNone)
	files, err := manifests.Render(s.Config, s.Topology())
	if err != nil {
		t.Fatal(err)
	}
	var proxies []state.File
	for _, f := range files {
		if bytes.Contains(f.Data, []byte("name: proxies.config.openshift.io\n")) {
			proxies = append(proxies, f)
		}
	}
	if len(proxies) != 1 {
		t.Fatalf("the kind is in %d files", len(proxies))
	}
	dir := t.TempDir()
	object := "apiVersion: config.openshift.io/v1\nkind: Proxy\nmetadata: {name: cluster}\nspec: {httpProxy: \"http://me:hush-proxy@proxy.example.test:3128\"}\n"
	if _, err := host.WriteFiles(dir, []state.File{{Path: "kind.yaml", Data: proxies[0].Data}, {Path: "object.yaml", Data: []byte(object)}}); err != nil {
		t.Fatal(err)
	}
	a.Kubectl(t, "apply", "--server-side", "--filename", filepath.Join(dir, "kind.yaml"))
	a.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "--filename", filepath.Join(dir, "kind.yaml"))
	a.Kubectl(t, "apply", "--server-side", "--filename", filepath.Join(dir, "object.yaml"))
	closed(t, stored(t, "/registry/config.openshift.io/proxies/cluster"), "hush-proxy")
}

// An administrator of system:masters stays one until his certificate ends (F22).
func TestAnAdministratorIsOneForAsLongAsABindingSaysSo(t *testing.T) {
	a := apitest.Need(t, api)
	s := sitetest.New(t, sitetest.OneNone)
	files, err := manifests.Render(s.Config, s.Topology())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := s.Identity.Admin.Parse()
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(a.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: certificate.Subject.CommonName, Groups: append(certificate.Subject.Organization, "system:authenticated"),
	}
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	may := func() error {
		_, err := admin.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := may(); !apierrors.IsForbidden(err) {
		t.Errorf("nothing is bound: %v", err)
	}
	dir := t.TempDir()
	if _, err := host.WriteFiles(dir, files); err != nil {
		t.Fatal(err)
	}
	a.Kubectl(t, "apply", "--server-side", "--filename", filepath.Join(dir, manifests.Objects, "10-administrators.yaml"))
	until(t, "he is an administrator", func() bool { return may() == nil })
	a.Kubectl(t, "delete", "clusterrolebinding", manifests.Administrators)
	until(t, "he is none any more", func() bool { return apierrors.IsForbidden(may()) })
}

// until waits for something that a server does asynchronously.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for !done() {
		if err := host.Sleep(ctx, 50*time.Millisecond); err != nil {
			t.Fatalf("it never came that %s", what)
		}
	}
}

// lines returns the records of the audit log, once one of them fits. The server
// writes the log asynchronously.
func lines(t *testing.T, fits func(auditv1.Event) bool) (text []byte, found auditv1.Event) {
	t.Helper()
	path := filepath.Join(apitest.Need(t, api).Folder, apiserver.AuditPath)
	until(t, "such a line is there", func() bool {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			found = auditv1.Event{}
			if json.Unmarshal(line, &found) == nil && fits(found) {
				return true
			}
		}
		return false
	})
	return text, found
}

func TestARefusedRequestLeavesALineAndNoLineHasASecret(t *testing.T) {
	const password = "hush-in-the-audit-log"
	secrets := client(t, "").CoreV1().Secrets("default")
	if _, err := secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "recorded"}, StringData: map[string]string{"password": password},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := client(t, "").CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account(t), &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client(t, "").AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client(t, "worker-1").CoreV1().Secrets("default").Get(t.Context(), "recorded", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("a stranger: %v", err)
	}
	text, e := lines(t, func(e auditv1.Event) bool {
		return e.ImpersonatedUser != nil && e.ImpersonatedUser.Username == "worker-1" && e.ObjectRef != nil && e.ObjectRef.Name == "recorded"
	})
	if e.ResponseStatus.Code != http.StatusForbidden || e.Verb != "get" || e.ObjectRef.Resource != "secrets" || len(e.SourceIPs) == 0 {
		t.Errorf("the line is %+v", e)
	}
	for _, hush := range []string{password, base64.StdEncoding.EncodeToString([]byte(password)), token.Status.Token} {
		if bytes.Contains(text, []byte(hush)) {
			t.Errorf("the log has %q", hush)
		}
	}
}

func account(t *testing.T) string {
	t.Helper()
	const name = "recorded"
	made := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client(t, "").CoreV1().ServiceAccounts("default").Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestWhoChangesRightsIsRecordedWithWhatTheyBecome(t *testing.T) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "recorded"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"deletecollection"},
	}}}
	if _, err := client(t, "").RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, e := lines(t, func(e auditv1.Event) bool {
		return e.ObjectRef != nil && e.ObjectRef.Resource == "clusterroles" && e.ObjectRef.Name == "recorded"
	})
	if e.Level != auditv1.LevelRequestResponse || e.RequestObject == nil || !strings.Contains(string(e.RequestObject.Raw), "deletecollection") {
		t.Errorf("the line is %+v", e)
	}
}

func TestOnlyRootReadsTheAuditLog(t *testing.T) {
	if _, err := client(t, "").CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	lines(t, func(e auditv1.Event) bool { return e.ObjectRef != nil && e.ObjectRef.Resource == "nodes" })
	info, err := os.Stat(filepath.Join(api.Folder, apiserver.AuditPath))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v: %v", info.Mode(), err)
	}
}

// A client without a name gets the API's health and the data that a joining host
// checks. Any other request leaves a line in the log.
func TestWhoHasNoNameIsAnsweredNothingElse(t *testing.T) {
	at := apitest.Need(t, api).Config.Host
	https := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for path, want := range map[string]int{
		"/readyz": http.StatusOK, "/livez": http.StatusOK, "/healthz": http.StatusOK, "/readyz?exclude=etcd": http.StatusOK,
		// No role here allows reading it; kubeadm binds one.
		"/api/v1/namespaces/kube-public/configmaps/cluster-info?timeout=10s": http.StatusForbidden,
		"/api/v1/namespaces/kube-public/configmaps":                          http.StatusUnauthorized,
		"/api/v1/nodes": http.StatusUnauthorized, "/api/v1/secrets": http.StatusUnauthorized,
		"/version": http.StatusUnauthorized, "/api": http.StatusUnauthorized, "/metrics": http.StatusUnauthorized,
		"/debug/pprof/": http.StatusUnauthorized,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := https.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close() // it was read to its end
		if answer.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, answer.Status, want)
		}
	}
	lines(t, func(e auditv1.Event) bool {
		return e.RequestURI == "/api/v1/secrets" && e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusUnauthorized
	})
}
