package account

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	clientcmd "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/state"
)

// signingCluster signs what is approved.
type signingCluster struct {
	t        *testing.T
	request  joining.Request
	life     time.Duration
	approved joining.Verdict
	binding  rbacv1.ClusterRoleBinding
	fail     map[string]error
	slow     bool // the controller manager does not run
}

func (c *signingCluster) CreateRequest(_ context.Context, r joining.Request, life time.Duration) error {
	c.request, c.life = r, life
	return c.fail["request"]
}

func (c *signingCluster) DecideRequest(_ context.Context, name string, v joining.Verdict) (bool, error) {
	if name != c.request.Name {
		c.t.Errorf("%s is decided about, not %s", name, c.request.Name)
	}
	c.approved = v
	return true, c.fail["approve"]
}

func (c *signingCluster) IssuedCertificate(context.Context, string) ([]byte, error) {
	if c.slow || c.approved.Action != joining.Approve {
		return nil, nil
	}
	block, _ := pem.Decode(c.request.PEM)
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: r.Subject, NotAfter: time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, template, &x509.Certificate{Subject: pkix.Name{CommonName: "kubernetes"}}, r.PublicKey, key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

func (c *signingCluster) CreateObject(_ context.Context, _ string, object []byte) error {
	if err := json.Unmarshal(object, &c.binding); err != nil {
		c.t.Error(err)
	}
	return c.fail["binding"]
}

func newAccount(t *testing.T) (Account, *signingCluster) {
	t.Helper()
	server := &rest.Config{Host: "https://10.98.0.5:6443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("authority"), ServerName: "api.example.com", KeyData: []byte("HUSH")}}
	return Account{Name: "alice", File: filepath.Join(t.TempDir(), "alice.kubeconfig"), Life: 7 * 24 * time.Hour, Server: server},
		&signingCluster{t: t, fail: map[string]error{}}
}

func TestAKubeconfigHasRightsThatCanBeTakenBackAlone(t *testing.T) {
	groups := map[string]bool{}
	for range 2 { // the same name again
		a, c := newAccount(t)
		told, err := a.Make(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(c.request.PEM)
		asked, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil || asked.Subject.CommonName != "holdfast:administrator:alice" || len(asked.Subject.Organization) != 1 {
			t.Fatalf("requested for %s, %v", asked.Subject, err)
		}
		group := asked.Subject.Organization[0]
		if groups[group] || !regexp.MustCompile(`^holdfast:administrators:alice-[0-9a-f]{8}$`).MatchString(group) {
			t.Errorf("its group is %s", group)
		}
		groups[group] = true
		if c.request.Signer != "kubernetes.io/kube-apiserver-client" || c.life != a.Life || c.approved.Reason != "HoldfastKubeconfig" {
			t.Errorf("%s for %s, approved as %+v", c.request.Signer, c.life, c.approved)
		}
		if c.binding.RoleRef.Name != "cluster-admin" || len(c.binding.Subjects) != 1 || c.binding.Subjects[0].Kind != "Group" || c.binding.Subjects[0].Name != group {
			t.Errorf("bound: %+v", c.binding)
		}
		if got := c.binding.Annotations[state.AnnotationExpires]; got != "2026-11-27T08:00:00Z" {
			t.Errorf("the binding says that it ends %q", got)
		}
		if !strings.Contains(told, "kubectl delete clusterrolebinding "+c.binding.Name+"\n") || !strings.Contains(told, "all rights until 2026-11-27T08:00:00Z") {
			t.Errorf("told: %s", told)
		}
		a.holds(t, group)
	}
}

// holds checks the file that was written.
func (a Account) holds(t *testing.T, group string) {
	t.Helper()
	info, err := os.Stat(a.File)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	text, err := os.ReadFile(a.File)
	if err != nil {
		t.Fatal(err)
	}
	var got clientcmd.Config
	if err := yaml.Unmarshal(text, &got); err != nil || strings.Contains(string(text), "SFVTSA") {
		t.Fatalf("%v, or the key of who made it: %s", err, text)
	}
	cluster := got.Clusters[0].Cluster
	if cluster.Server != "https://10.98.0.5:6443" || cluster.TLSServerName != "api.example.com" || string(cluster.CertificateAuthorityData) != "authority" {
		t.Errorf("it leads to %+v", cluster)
	}
	block, _ := pem.Decode(got.AuthInfos[0].AuthInfo.ClientCertificateData)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || cert.Subject.Organization[0] != group {
		t.Errorf("%v, %v", cert, err)
	}
	block, _ = pem.Decode(got.AuthInfos[0].AuthInfo.ClientKeyData)
	if key, err := x509.ParseECPrivateKey(block.Bytes); err != nil || !key.PublicKey.Equal(cert.PublicKey) {
		t.Errorf("the key is not that of the certificate: %v", err)
	}
}

func TestAKubeconfigThatFailsGivesNobodyRights(t *testing.T) {
	for _, step := range []string{"request", "approve", "binding"} {
		a, c := newAccount(t)
		c.fail[step] = errors.New("no route to host")
		if told, err := a.Make(t.Context(), c); err == nil || told != "" || !strings.Contains(err.Error(), "no route to host") {
			t.Errorf("%s: %q, %v", step, told, err)
		}
		if _, err := os.Lstat(a.File); err == nil {
			t.Errorf("%s: the file is there", step)
		}
		if bound := c.binding.Name != ""; bound != (step == "binding") {
			t.Errorf("%s: bound %t", step, bound)
		}
	}
	a, c := newAccount(t)
	a.Server = &rest.Config{Host: "https://10.98.0.5:6443", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	if _, err := a.Make(t.Context(), c); err == nil || !strings.Contains(err.Error(), "does not verify the API server") || c.request.Name != "" {
		t.Errorf("an API server that nobody verifies: %v, requested %q", err, c.request.Name)
	}
	synctest.Test(t, func(t *testing.T) {
		a, c := newAccount(t)
		c.slow = true
		if _, err := a.Make(t.Context(), c); err == nil || !strings.Contains(err.Error(), "has not signed the certificate after 30s") || c.binding.Name != "" {
			t.Errorf("no controller manager: %v, bound %q", err, c.binding.Name)
		}
	})
}
