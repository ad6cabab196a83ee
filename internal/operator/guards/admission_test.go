package guards

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/model/retired"
)

// nodeOn is a Node as the kubelet of a machine makes it.
func nodeOn(name, machine string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.NodeInfo.MachineID = machine
	return n
}

// kubeletOf returns the API by the account of a kubelet. The guard alone is tried here,
// so the account has every right.
func (s *site) kubeletOf(ctx context.Context, name string) client.Client {
	s.t.Helper()
	return s.as(ctx, "system:node:"+name, "system:nodes")
}

// as returns the API by an account with every right.
func (s *site) as(ctx context.Context, user string, groups ...string) client.Client {
	s.t.Helper()
	scheme := newScheme(s.t)
	must(s.t, rbacv1.AddToScheme(scheme))
	must(s.t, certificatesv1.AddToScheme(scheme))
	admin, err := client.New(s.api.Config, client.Options{Scheme: scheme})
	must(s.t, err)
	all := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "of-this-test-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	must(s.t, admin.Create(ctx, all))
	as := rest.CopyConfig(s.api.Config)
	as.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := client.New(as, client.Options{Scheme: scheme})
	must(s.t, err)
	return c
}

// certificateRequest is a kubelet's request for another certificate.
func certificateRequest(t *testing.T, node string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
	}, key)
	must(t, err)
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature},
		},
	}
}

// lists writes the entry of a host, and waits until an API server judges by it.
func (s *site) lists(ctx context.Context, h retired.Host) {
	s.t.Helper()
	value, err := h.Marshal()
	must(s.t, err)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: retired.Namespace, Name: retired.ConfigMap}, Data: map[string]string{h.Name: value}}
	if err := s.admin.Create(ctx, cm); apierrors.IsAlreadyExists(err) {
		must(s.t, s.admin.Update(ctx, cm))
	} else {
		must(s.t, err)
	}
}

// comesTo tries something until its result is the wanted one: an API server learns of
// guards and lists within a moment.
func (s *site) comesTo(sentence string, refused bool, try func() error) {
	s.t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
		if err = try(); (err != nil) == refused {
			if refused && !strings.Contains(err.Error(), "holdfast-retired-hosts") {
				s.t.Fatalf("%s: refused by something else: %v", sentence, err)
			}
			return
		}
	}
	s.t.Fatalf("%s: %v", sentence, err)
}

// The guard is deleted for good and made again in between: an API server must know the
// names from the guard alone (adr 0085).
func TestAHostThatWasTakenOutStaysOutUntilItsNameIsGivenAgain(t *testing.T) {
	k, ctx := newKeeper(t), t.Context()
	s := k.site
	stop := k.manage()
	defer func() { stop() }()
	const name = "taken-out"
	kubelet := s.kubeletOf(ctx, name)
	dry := func(n *corev1.Node) func() error {
		return func() error { return kubelet.Create(ctx, n.DeepCopy(), client.DryRunAll) }
	}
	s.comesTo("without a list it makes its Node", false, dry(nodeOn(name, "old")))
	h := retired.Host{Name: name, Machine: "old", When: time.Now(), Why: `"again": never`}
	ask := func(as client.Client, node string) func() error {
		return func() error { return as.Create(ctx, certificateRequest(t, node), client.DryRunAll) }
	}
	s.comesTo("without a list it gets certificates", false, ask(kubelet, name))
	s.lists(ctx, h)
	s.comesTo("a host that was taken out does not make its Node again", true, dry(nodeOn(name, "old")))
	s.comesTo("nor does it renew its certificate", true, ask(kubelet, name))
	s.comesTo("a host that is given its name asks with a bootstrap token", false, ask(s.as(ctx, "system:bootstrap:abcdef"), name))
	s.comesTo("a kubelet of another name gets certificates", false, ask(s.kubeletOf(ctx, name+"-2"), name+"-2"))
	stop()
	stop = func() {}
	s.clearGuards()
	s.comesTo("the guard was deleted", false, dry(nodeOn(name, "old")))
	stop = k.manage()
	s.comesTo("the guard is back, and the host is out", true, dry(nodeOn(name, "old")))
	s.comesTo("an administrator may", false, func() error { return s.admin.Create(ctx, nodeOn(name, "old"), client.DryRunAll) })

	h.Again = time.Now()
	s.lists(ctx, h)
	s.comesTo("the host with the name given again gets certificates", false, ask(kubelet, name))
	s.comesTo("the name was given again", false, func() error { return kubelet.Create(ctx, nodeOn(name, "new")) })
	status := func(machine string) func() error {
		return func() error {
			n := &corev1.Node{}
			if err := s.admin.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
				return err
			}
			n.Status.NodeInfo.MachineID = machine
			return kubelet.Status().Update(ctx, n, client.DryRunAll)
		}
	}
	s.comesTo("the new host reports", false, status("new"))
	s.comesTo("the old host does not speak for the new one", true, status("old"))
	must(t, s.admin.Delete(ctx, nodeOn(name, "")))
	must(t, s.admin.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: retired.Namespace, Name: retired.ConfigMap}}))
}
