package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/joining"
)

// bySigner selects the requests to a signer.
func bySigner(signer string) string { return "spec.signerName=" + signer }

// Requests returns all requests to a signer.
func (c *Client) Requests(ctx context.Context, signer string) ([]joining.Request, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.set.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{FieldSelector: bySigner(signer)})
	if err != nil {
		return nil, fmt.Errorf("list certificate requests: %w", err)
	}
	var out []joining.Request
	for i := range list.Items {
		out = append(out, requestOf(&list.Items[i]))
	}
	return out, nil
}

// FollowRequests calls changed with all requests to a signer, after each change of
// one of them, and every 30 s. It returns when the context ends. Calls do not
// overlap.
func (c *Client) FollowRequests(ctx context.Context, signer string, changed func([]joining.Request)) error {
	factory := informers.NewSharedInformerFactoryWithOptions(c.set, resync, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = bySigner(signer)
	}))
	return inform(ctx, factory, factory.Certificates().V1().CertificateSigningRequests().Informer(), func(items []any) {
		var out []joining.Request
		for _, item := range items {
			if r, ok := item.(*certificatesv1.CertificateSigningRequest); ok {
				out = append(out, requestOf(r))
			}
		}
		changed(out)
	})
}

func requestOf(r *certificatesv1.CertificateSigningRequest) joining.Request {
	out := joining.Request{
		Name: r.Name, Signer: r.Spec.SignerName, User: r.Spec.Username, Groups: r.Spec.Groups, PEM: r.Spec.Request,
		Decided: len(r.Status.Conditions) > 0 || len(r.Status.Certificate) > 0,
	}
	for _, u := range r.Spec.Usages {
		out.Usages = append(out.Usages, string(u))
	}
	return out
}

// DecideRequest approves or denies a request with a reason, and reports whether
// it did. It does not change a request that was decided meanwhile.
func (c *Client) DecideRequest(ctx context.Context, name string, v joining.Verdict) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	requests := c.set.CertificatesV1().CertificateSigningRequests()
	r, err := requests.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("get certificate request %s: %w", name, err)
	}
	if requestOf(r).Decided {
		return false, nil
	}
	kind := certificatesv1.CertificateDenied
	if v.Action == joining.Approve {
		kind = certificatesv1.CertificateApproved
	}
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: v.Reason, Message: v.Message,
	})
	if _, err := requests.UpdateApproval(ctx, name, r, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
		return false, fmt.Errorf("%s certificate request %s: %w", v.Action, name, err)
	}
	return true, nil
}

// CreateRequest requests a certificate that is valid for life, or for as long as
// the signer chooses if that is zero. A request of this name that exists must be
// the same.
func (c *Client) CreateRequest(ctx context.Context, r joining.Request, life time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	want := certificatesv1.CertificateSigningRequestSpec{Request: r.PEM, SignerName: r.Signer}
	for _, u := range r.Usages {
		want.Usages = append(want.Usages, certificatesv1.KeyUsage(u))
	}
	if life > 0 {
		seconds := int32(life / time.Second) //nolint:gosec // 68 years fit
		want.ExpirationSeconds = &seconds
	}
	requests := c.set.CertificatesV1().CertificateSigningRequests()
	_, err := requests.Create(ctx, &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: want},
		metav1.CreateOptions{FieldManager: fieldManager})
	if err == nil {
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create certificate request %s: %w", r.Name, err)
	}
	have, err := requests.Get(ctx, r.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get certificate request %s: %w", r.Name, err)
	}
	if !bytes.Equal(have.Spec.Request, want.Request) || have.Spec.SignerName != want.SignerName || !slices.Equal(have.Spec.Usages, want.Usages) {
		return fmt.Errorf("create certificate request %s: there is another one of this name", r.Name)
	}
	return nil
}

// IssuedCertificate returns the certificate that a request got, in PEM form, nil
// if it has none yet.
func (c *Client) IssuedCertificate(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := c.set.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get certificate request %s: %w", name, err)
	}
	for _, cond := range r.Status.Conditions {
		if cond.Type == certificatesv1.CertificateDenied || cond.Type == certificatesv1.CertificateFailed {
			return nil, fmt.Errorf("certificate request %s: %s: %s", name, cond.Type, cond.Message)
		}
	}
	return r.Status.Certificate, nil
}

// ErrNotSigned says that the controller manager has not signed a certificate in
// time.
var ErrNotSigned = errors.New("the controller manager has not signed it yet")

// signPause is how often AwaitCertificate asks.
const signPause = 200 * time.Millisecond

// AwaitCertificate waits until an approved request has its certificate, and returns
// that in PEM form. issued is Client.IssuedCertificate. The error is ErrNotSigned
// where the limit is over.
func AwaitCertificate(ctx context.Context, issued func(context.Context, string) ([]byte, error), name string, limit time.Duration) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	for {
		certificate, err := issued(ctx, name)
		if err != nil || len(certificate) > 0 {
			return certificate, err
		}
		if host.Sleep(ctx, signPause) != nil {
			return nil, ErrNotSigned
		}
	}
}
