package operator

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/standing"
	render "github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/report/dashboard"
)

// TestTheDashboardsAccountSeesTheClusterAndNothingElse uses the account that the
// installation gives the dashboard.
func TestTheDashboardsAccountSeesTheClusterAndNothingElse(t *testing.T) {
	c := newCluster(t)
	c.join("cp-1", "10.98.0.11")
	c.join("cp-2", "10.98.0.12")
	cfg := c.as(render.Dashboard)
	look, err := lookAt(cfg)
	must(t, err)
	v, err := look(t.Context())
	must(t, err)
	// A comparison of all objects of the cluster's own needs to read nearly all
	// of them: the page says that it does not compare.
	limits := "missing cluster objects were not checked: this account may not read kube-system/cluster-config-v1"
	if len(v.Hosts) < 2 || len(v.VIPs) == 0 || !v.Sources[0].Answered || strings.Join(v.Sources[0].Limits, "; ") != limits {
		t.Fatalf("%+v", v)
	}
	if v.Redundancy.Survives == standing.Yes {
		t.Error("two hosts that nobody set up survive nothing")
	}
	page := httptest.NewRecorder()
	dashboard.New(look).Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/", nil))
	if page.Code != http.StatusOK || !strings.Contains(page.Body.String(), "cp-2") {
		t.Errorf("%d %s", page.Code, page.Body)
	}
	scheme, err := newScheme()
	must(t, err)
	own, err := client.New(cfg, client.Options{Scheme: scheme})
	must(t, err)
	if err := own.List(t.Context(), &corev1.SecretList{}); err == nil {
		t.Error("it may read secrets")
	}
	if err := own.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "x"}}); err == nil {
		t.Error("it may write")
	}
}

// as returns access by an account of the operator's namespace.
func (c *cluster) as(account string) *rest.Config {
	c.t.Helper()
	token := &authenticationv1.TokenRequest{}
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: render.Namespace, Name: account}}
	must(c.t, c.admin.SubResource("token").Create(c.t.Context(), owner, token))
	cfg := rest.AnonymousClientConfig(c.api.Config)
	cfg.BearerToken = token.Status.Token
	return cfg
}
