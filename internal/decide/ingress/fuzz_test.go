package ingress

import (
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// FuzzCertificate checks any pair of certificate and key that an administrator
// might give.
func FuzzCertificate(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"), []byte("-----BEGIN EC PARAMETERS-----\nAA==\n-----END EC PARAMETERS-----\n"))
	f.Add([]byte{}, []byte("-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"))
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, cert, key []byte) {
		given := map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key}
		w := CertificatesOf(Certificates{Name: "router-certs", Domain: "apps.example.com", Wanted: "mine", Given: given}, now)
		parsed, err := ParsePair(cert, key)
		if w.Copy && (err != nil || parsed == nil) {
			t.Errorf("what is no pair is served: %v", err)
		}
		if err != nil && w.Problem == "" {
			t.Errorf("nobody is told: %v", err)
		}
	})
}

// FuzzOverrides checks any content of unsupportedConfigOverrides, which the API
// does not validate.
func FuzzOverrides(f *testing.F) {
	for _, seed := range []string{`{"localWithFallback":"false"}`, `{"localWithFallback":true}`, `{"localWithFallback":null}`, `[]`, ``, `{"localWithFallback":"\""}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		ic := &operatorv1.IngressController{}
		ic.Spec.UnsupportedConfigOverrides = runtime.RawExtension{Raw: raw}
		on, err := overriddenFallback(ic)
		if err != nil && !on || localFallback(ic) && err != nil {
			t.Errorf("%q: %v, %v", raw, on, err)
		}
	})
}
