package kube

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/state"
)

var aToken = joining.Token{
	ID: "abcdef", Host: "worker-1", Role: state.RoleWorker, By: "by-1", Rejoins: true,
	Expires: time.Date(2026, 11, 21, 8, 0, 0, 0, time.FixedZone("", 3600)),
}

func TestABootstrapTokenIsTheSecretThatKubernetesReads(t *testing.T) {
	set := fake.NewClientset()
	c := &Client{set: set}
	if err := c.CreateBootstrapToken(t.Context(), "abcdef.0123456789abcdef", aToken); err != nil {
		t.Fatal(err)
	}
	secret, err := set.CoreV1().Secrets("kube-system").Get(t.Context(), "bootstrap-token-abcdef", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for key, value := range secret.Data {
		got[key] = string(value)
	}
	want := map[string]string{
		"description": "made by holdfast-agent for worker-1", "token-id": "abcdef", "token-secret": "0123456789abcdef",
		"expiration": "2026-11-21T07:00:00Z", "usage-bootstrap-authentication": "true",
		"auth-extra-groups": "system:bootstrappers:holdfast:joining",
	}
	if diff := cmp.Diff(want, got); diff != "" || secret.Type != "bootstrap.kubernetes.io/token" {
		t.Errorf("type %s, %s", secret.Type, diff)
	}
	err = c.CreateBootstrapToken(t.Context(), "abcdef.0123456789abcdef", aToken)
	if err == nil || strings.Contains(err.Error(), "0123456789abcdef") {
		t.Errorf("a second time: %v", err)
	}
}

func TestOnlyTokensOfJoiningHostsAreRead(t *testing.T) {
	foreign := &corev1.Secret{ // as made by `kubeadm token create`
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-foreig"}, Type: tokenType,
	}
	pretender := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-preten", Labels: map[string]string{tokenLabel: "true"}},
		Type:       corev1.SecretTypeOpaque,
	}
	endless := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-endles", Labels: map[string]string{tokenLabel: "true"}},
		Type:       tokenType, Data: map[string][]byte{"expiration": []byte("soon")},
	}
	c := &Client{set: fake.NewClientset(foreign, pretender, endless)}
	if err := c.CreateBootstrapToken(t.Context(), "abcdef.0123456789abcdef", aToken); err != nil {
		t.Fatal(err)
	}
	got, err := c.BootstrapTokens(t.Context())
	want := []joining.Token{aToken, {ID: "endles"}}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

func TestATokenIsForOneRequest(t *testing.T) {
	c := &Client{set: fake.NewClientset()}
	if err := c.UseBootstrapToken(t.Context(), "abcdef", "csr-1"); err == nil {
		t.Error("a token that is not there was used")
	}
	if err := c.CreateBootstrapToken(t.Context(), "abcdef.0123456789abcdef", aToken); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		request string
		good    bool
	}{{"csr-1", true}, {"csr-1", true}, {"csr-2", false}} {
		if err := c.UseBootstrapToken(t.Context(), "abcdef", x.request); (err == nil) != x.good {
			t.Errorf("%s: %v", x.request, err)
		}
	}
	if got, err := c.BootstrapTokens(t.Context()); err != nil || got[0].UsedBy != "csr-1" {
		t.Errorf("%+v, %v", got, err)
	}
	for range 2 {
		if err := c.DeleteBootstrapToken(t.Context(), "abcdef"); err != nil {
			t.Error(err)
		}
	}
	if got, err := c.BootstrapTokens(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestARequestIsDecidedOnce(t *testing.T) {
	set := fake.NewClientset(&certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-1"},
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: joining.KubeletSigner, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}},
	})
	c := &Client{set: set}
	if did, err := c.DecideRequest(t.Context(), "csr-1", joining.Verdict{Action: joining.Deny, Reason: "Why", Message: "so"}); !did || err != nil {
		t.Errorf("%t, %v", did, err)
	}
	if did, err := c.DecideRequest(t.Context(), "csr-1", joining.Verdict{Action: joining.Approve}); did || err != nil {
		t.Errorf("a second time: %t, %v", did, err)
	}
	if _, err := c.DecideRequest(t.Context(), "csr-2", joining.Verdict{Action: joining.Approve}); err == nil {
		t.Error("one that is not there")
	}
	r, err := set.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "csr-1", metav1.GetOptions{})
	if err != nil || len(r.Status.Conditions) != 1 || r.Status.Conditions[0].Type != certificatesv1.CertificateDenied ||
		r.Status.Conditions[0].Reason != "Why" || r.Status.Conditions[0].Message != "so" {
		t.Errorf("%+v, %v", r.Status, err)
	}
	want := joining.Request{Name: "csr-1", Signer: joining.KubeletSigner, Usages: []string{"client auth"}, Decided: true}
	if diff := cmp.Diff(want, requestOf(r)); diff != "" {
		t.Error(diff)
	}
}
