package controlplane

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/admission"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/builttest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// joiningCluster is a cluster as `kubeadm init` leaves it, with its agent.
type joiningCluster struct {
	t     *testing.T
	api   *apitest.API
	admin kubernetes.Interface
	agent *Agent
	give  *admission.Issuer
	log   *syncLog
}

// syncLog is a log that several goroutines write.
type syncLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *syncLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *syncLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newJoiningCluster(t *testing.T) *joiningCluster {
	t.Helper()
	c := &joiningCluster{t: t, api: apitest.Need(t, server), log: &syncLog{}}
	s := sitetest.New(t, sitetest.TwoDual)
	s.Role = state.RoleMaster
	c.agent = New(Options{Site: s, Log: slog.New(slog.NewTextHandler(c.log, nil)), Now: time.Now})
	c.agent.admin = func() (*kube.Client, error) { return kube.Open(c.api.Kubeconfig()) }
	keeper := keeperOf(t, c.api, "cp-1")
	c.agent.open = func() (*kube.Client, error) { return openBy(keeper.Root+state.AgentKubeconfig, "") }
	if err := c.agent.identify(t.Context(), keeper); err != nil {
		t.Fatal(err)
	}
	c.give = c.agent.giver()
	c.give.Key.Stands, c.give.Key.Path = func() bool { return true }, filepath.Join(t.TempDir(), "join-key")
	c.admin = c.as(c.api.Config)
	c.kubeadmInit(s)
	return c
}

// kubeadmInit runs the phases of kubeadm init that say who may join.
func (c *joiningCluster) kubeadmInit(s *site.Site) {
	c.t.Helper()
	conf, err := kubeadm.Init(s, state.HostFacts{NodeName: "cp-1", Addresses: s.Config.APIVIPs()}, false)
	if err != nil {
		c.t.Fatal(err)
	}
	path := filepath.Join(c.t.TempDir(), "init.yaml")
	if err := os.WriteFile(path, conf, 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.node("cp-1", true, state.LabelControlPlane)
	for _, phase := range [][]string{{"upload-config", "kubeadm"}, {"upload-config", "kubelet"}, {"addon", "kube-proxy"}, {"bootstrap-token"}} {
		args := append(append([]string{"init", "phase"}, phase...), "--config", path, "--kubeconfig", c.api.Kubeconfig())
		if _, err := host.Run(c.t.Context(), host.Command(builttest.Program(c.t, "kubeadm"), args...)); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *joiningCluster) as(config *rest.Config) kubernetes.Interface {
	c.t.Helper()
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.t.Fatal(err)
	}
	return set
}

// node makes a Node, ready or not, in place of one from an earlier test.
func (c *joiningCluster) node(name string, ready bool, labels ...string) {
	c.t.Helper()
	nodes := c.admin.CoreV1().Nodes()
	if err := nodes.Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		c.t.Fatal(err)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, l := range labels {
		n.Labels[l] = ""
	}
	if _, err := nodes.Create(c.t.Context(), n, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	if ready {
		c.ready(name)
	}
}

func (c *joiningCluster) ready(name string) {
	c.t.Helper()
	n, err := c.admin.CoreV1().Nodes().Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := c.admin.CoreV1().Nodes().UpdateStatus(c.t.Context(), n, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// tokenFor returns the token that the configuration server gives to a host.
func (c *joiningCluster) tokenFor(name string, role state.Role) configserver.Secret {
	c.t.Helper()
	token, err := c.give.Bootstrap(c.t.Context(), jointoken.Claims{Purpose: jointoken.Host, Role: role, Host: name, ID: "by-" + name}, configserver.JoinRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	return token
}

// certificate is a request for a certificate, and its key.
type certificate struct {
	name string
	key  []byte
}

// ask requests a client certificate as a kubelet does. It repeats that for a
// while, because the API server knows a token only a moment after it was made.
func (c *joiningCluster) ask(as *rest.Config, name, cn string, groups ...string) certificate {
	c.t.Helper()
	cert, err := c.tryAsk(as, name, cn, groups...)
	for end := time.Now().Add(soon); apierrors.IsUnauthorized(err) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		cert, err = c.tryAsk(as, name, cn, groups...)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return cert
}

func (c *joiningCluster) tryAsk(as *rest.Config, name, cn string, groups ...string) (certificate, error) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: cn, Organization: groups}}, crypto.Signer(key))
	if err != nil {
		c.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = c.as(as).CertificatesV1().CertificateSigningRequests().Create(c.t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	return certificate{name, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})}, err
}

// decided waits until a request is decided, and returns the decision and its
// reason.
func (c *joiningCluster) decided(cert certificate, limit time.Duration) (certificatesv1.RequestConditionType, string) {
	c.t.Helper()
	ctx, stop := context.WithTimeout(c.t.Context(), limit)
	defer stop()
	for {
		r, err := c.admin.CertificatesV1().CertificateSigningRequests().Get(c.t.Context(), cert.name, metav1.GetOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
		if len(r.Status.Conditions) > 0 {
			return r.Status.Conditions[0].Type, r.Status.Conditions[0].Reason
		}
		if host.Sleep(ctx, 50*time.Millisecond) != nil {
			return "", ""
		}
	}
}

// issued waits for the certificate itself.
func (c *joiningCluster) issued(cert certificate) *rest.Config {
	c.t.Helper()
	ctx, stop := context.WithTimeout(c.t.Context(), time.Minute)
	defer stop()
	for {
		r, err := c.admin.CertificatesV1().CertificateSigningRequests().Get(c.t.Context(), cert.name, metav1.GetOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
		if len(r.Status.Certificate) > 0 {
			return c.api.WithCertificate(r.Status.Certificate, cert.key)
		}
		if host.Sleep(ctx, 50*time.Millisecond) != nil {
			c.t.Fatalf("%s has no certificate: %+v", cert.name, r.Status)
		}
	}
}

// runAgent lets the agent decide about requests until the test ends.
func (c *joiningCluster) runAgent() {
	c.t.Helper()
	client, err := c.agent.open()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.agent.removeAutoApproval(c.t.Context(), client); err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(c.t.Context())
	var running sync.WaitGroup
	approve, requests := c.agent.approval(func() (*kube.Client, error) { return client, nil })
	loops := loop.New(time.Now, c.agent.Log)
	serve, servings := c.agent.servingTask(func() (*kube.Client, error) { return client, nil })
	running.Go(func() { loops.Run(ctx, approve, serve) })
	running.Go(func() { loops.Watch(ctx, requests) })
	running.Go(func() { loops.Watch(ctx, servings) })
	c.t.Cleanup(func() {
		stop()
		running.Wait()
		if c.t.Failed() {
			c.t.Log(c.log.String())
		}
	})
}

// soon bounds what takes a moment, on a machine with other work.
const soon = time.Minute

// kubeadmToken makes a token as `kubeadm token create` does.
func (c *joiningCluster) kubeadmToken(token string) {
	c.t.Helper()
	id, secret, _ := strings.Cut(token, ".")
	_, err := c.admin.CoreV1().Secrets("kube-system").Create(c.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id}, Type: "bootstrap.kubernetes.io/token",
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
			"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
		},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
}
