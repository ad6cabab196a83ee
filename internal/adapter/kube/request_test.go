package kube

import (
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/holdfast/holdfast/internal/decide/joining"
)

func TestARequestIsMadeOnceAndNeverAnothersTaken(t *testing.T) {
	ctx, set := t.Context(), fake.NewClientset()
	c := &Client{set: set}
	mine := joining.Request{Name: "a", Signer: joining.KubeletSigner, PEM: []byte("mine"), Usages: joining.ClientUsages}
	for range 2 { // the second time it is there
		if err := c.CreateRequest(ctx, mine, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	got, err := set.CertificatesV1().CertificateSigningRequests().Get(ctx, "a", metav1.GetOptions{})
	if err != nil || got.Spec.SignerName != joining.KubeletSigner || len(got.Spec.Usages) != 2 || *got.Spec.ExpirationSeconds != 3600 {
		t.Errorf("%+v, %v", got.Spec, err)
	}
	for what, change := range map[string]func(*joining.Request){
		"content": func(r *joining.Request) { r.PEM = []byte("another's") },
		"usages":  func(r *joining.Request) { r.Usages = []string{"server auth"} },
		"signer":  func(r *joining.Request) { r.Signer = "another's" },
	} {
		other := mine
		change(&other)
		if err := c.CreateRequest(ctx, other, time.Hour); err == nil {
			t.Errorf("a request of another %s is taken for this one", what)
		}
	}
}

func TestTheCertificateOfARequestIsReadOnceItIsThere(t *testing.T) {
	of := func(name, certificate string, kinds ...certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequest {
		r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}
		r.Status.Certificate = []byte(certificate)
		for _, kind := range kinds {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind, Message: "the reason"})
		}
		return r
	}
	const approved = certificatesv1.CertificateApproved
	c := &Client{set: fake.NewClientset(of("new", ""), of("approved", "", approved), of("issued", "PEM", approved),
		of("failed", "", approved, certificatesv1.CertificateFailed), of("denied", "", certificatesv1.CertificateDenied))}
	for name, want := range map[string]string{"new": "", "approved": "", "issued": "PEM"} {
		if got, err := c.IssuedCertificate(t.Context(), name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{"failed": "the reason", "denied": "the reason", "missing": "missing"} {
		if _, err := c.IssuedCertificate(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALeaseSaysWhenItsNodeWasLastAlive(t *testing.T) {
	at := metav1.NewMicroTime(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC))
	lease := func(name string, at *metav1.MicroTime) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: NodeLeases, Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: at}}
	}
	c := &Client{set: fake.NewClientset(lease("worker-1", &at), lease("worker-2", nil))}
	for name, want := range map[string]time.Time{"worker-1": at.Time, "worker-2": {}, "worker-3": {}} {
		if got, err := c.NodeLastSeen(t.Context(), name); err != nil || !got.Equal(want) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}
