package kube

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnAccessIsWhatItSays(t *testing.T) {
	path := servers(t).Kubeconfig
	for name, c := range map[string]struct {
		access           Access
		host, serverName string
		qps              float32
	}{
		"the kubeconfig's server": {Access{Kubeconfig: path}, "https://127.0.0.1:1", "", -1},
		"another server":          {Access{Kubeconfig: path, Server: "https://10.0.0.5:6443"}, "https://10.0.0.5:6443", "", -1},
		"a name":                  {Access{Kubeconfig: path, Name: "api-int.example.test"}, "https://127.0.0.1:1", "api-int.example.test", -1},
		"a loop":                  {Access{Kubeconfig: path, Limit: LoopLimit}, "https://127.0.0.1:1", "", 0},
	} {
		cfg, err := c.access.Config()
		if err != nil || cfg.Host != c.host || cfg.ServerName != c.serverName || cfg.QPS != c.qps {
			t.Errorf("%s: %+v, %v", name, cfg, err)
		}
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for text, access := range map[string]Access{
		"read kubeconfig /nowhere/conf": {Kubeconfig: "/nowhere/conf"}, "give --kubeconfig": {},
		"address of the API": {Kubeconfig: path, Server: "https://[::1"},
	} {
		if _, err := access.Config(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestOpeningAnAccessHasDeadConnectionsNoticed(t *testing.T) {
	for _, name := range []string{silentVariable, answerVariable} {
		t.Setenv(name, "")
	}
	if _, err := (Access{Kubeconfig: servers(t).Kubeconfig}).Config(); err != nil {
		t.Fatal(err)
	}
	if silent, answer := os.Getenv(silentVariable), os.Getenv(answerVariable); silent != "3" || answer != "3" {
		t.Errorf("silent %q, answer %q", silent, answer)
	}
}

// TestALibraryOfOneServerReachesTheNextOne plays an operator on a host whose
// own API server does not run.
func TestALibraryOfOneServerReachesTheNextOne(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"cp-1"}}`))
	}))
	defer api.Close()
	cfg, err := servers(t, "http://127.0.0.1:1", api.URL).Config()
	if err != nil {
		t.Fatal(err)
	}
	c, err := newClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.set.CoreV1().Nodes().Get(t.Context(), "cp-1", metav1.GetOptions{}); err != nil || n.Name != "cp-1" {
		t.Errorf("%v, %v", n, err)
	}
	none := servers(t, "http://127.0.0.1:1")
	if _, err := none.connectAny(t.Context(), "tcp", "x:1"); err == nil {
		t.Error("nobody answers, and there is a connection")
	}
	if _, err := servers(t).Config(); err == nil {
		t.Error("no address is no error")
	}
}

func TestWhereABaseURLLeads(t *testing.T) {
	for text, want := range map[string]string{"https://10.0.0.5:6443": "10.0.0.5:6443", "https://[fd00::5]:6443": "[fd00::5]:6443", "https://x": "x:443"} {
		if got, err := hostPort(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

func TestCertificatesOfAKubeconfigAreThoseThatItHolds(t *testing.T) {
	// aGVsbG8= is "hello"
	got, err := ClientCertificates([]byte("apiVersion: v1\nkind: Config\nusers: [{name: a, user: {client-certificate-data: aGVsbG8=}}, {name: b, user: {client-certificate: /x}}]\n"))
	if err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	const secret = "not-for-eyes"
	if _, err := ClientCertificates([]byte("users: " + secret)); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
}

func TestTheSchemeKnowsWhatIsRead(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{"", "admissionregistration.k8s.io", "apps", "batch", "networking.k8s.io", "policy", "config.openshift.io", "etcd.openshift.io", "operator.openshift.io"} {
		if !scheme.IsGroupRegistered(group) {
			t.Errorf("no kind of group %q", group)
		}
	}
}
