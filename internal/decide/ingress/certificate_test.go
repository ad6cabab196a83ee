package ingress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// issued is a certificate with its key.
type issued struct {
	data map[string][]byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue makes a certificate that is valid from the given time. Without an
// issuer it makes an authority.
func issue(t *testing.T, from time.Time, life time.Duration, issuer *issued, names ...string) *issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotBefore: from, NotAfter: from.Add(life), DNSNames: names,
		IsCA: issuer == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	parent, signer := template, key
	if issuer != nil {
		parent, signer = issuer.cert, issuer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &issued{cert: cert, key: key, data: map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}),
	}}
}

func joined(a, next map[string][]byte) map[string][]byte {
	return map[string][]byte{
		corev1.TLSCertKey: a[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: a[corev1.TLSPrivateKeyKey],
		NextCert: next[corev1.TLSCertKey], NextKey: next[corev1.TLSPrivateKeyKey],
	}
}

func part(life time.Duration, percent int) time.Duration { return life * time.Duration(percent) / 100 }

// TestHardCase16_CertificatesAreRenewedInTimeAndBadOnesAreNotServed has one
// sentence for each case.
func TestHardCase16_CertificatesAreRenewedInTimeAndBadOnesAreNotServed(t *testing.T) {
	ca := issue(t, day, AuthorityLifetime, nil)
	other := issue(t, day, AuthorityLifetime, nil)
	leaf := issue(t, day, LeafLifetime, ca, "*.apps.example")
	good := issue(t, day, LeafLifetime, other, "*.apps.example")
	bare := issue(t, day, LeafLifetime, other)
	elsewhere := issue(t, day, LeafLifetime, other, "*.other.example")
	mixed := map[string][]byte{corev1.TLSCertKey: good.data[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: bare.data[corev1.TLSPrivateKeyKey]}
	// These exist if a cluster was off from before 60 % to 85 % of the
	// authority's life.
	late := issue(t, day.Add(part(AuthorityLifetime, 85)), AuthorityLifetime, nil)
	short := issue(t, day, part(AuthorityLifetime, 70), nil)
	ahead := issue(t, day.Add(AuthorityLifetime-time.Hour), AuthorityLifetime, nil)
	new75 := issue(t, day.Add(part(AuthorityLifetime, 75)), LeafLifetime, ca, "*.apps.example")
	after := map[string][]byte{
		corev1.TLSCertKey: other.data[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: other.data[corev1.TLSPrivateKeyKey], PreviousCert: ca.data[corev1.TLSCertKey],
	}
	tests := []struct {
		sentence string
		c        Certificates
		after    time.Duration
		want     string
	}{
		{"at first there is nothing", Certificates{}, 0, "authority leaf"},
		{"an authority that nobody can read is replaced", Certificates{Authority: map[string][]byte{corev1.TLSCertKey: []byte("x")}}, 0, "authority leaf"},
		{"nothing is done while both are good", Certificates{Authority: ca.data, Served: leaf.data}, 0, ""},
		{"not at 79 % of a certificate's life", Certificates{Authority: ca.data, Served: leaf.data}, part(LeafLifetime, 79), ""},
		{"at 80 % it is renewed", Certificates{Authority: ca.data, Served: leaf.data}, part(LeafLifetime, 81), "leaf"},
		{"one that has ended too", Certificates{Authority: ca.data, Served: leaf.data}, LeafLifetime + time.Hour, "leaf"},
		{"one of another authority is replaced", Certificates{Authority: other.data, Served: leaf.data}, 0, "leaf"},
		{"one of another domain is replaced", Certificates{Authority: ca.data, Served: issue(t, day, LeafLifetime, ca, "*.old.example").data}, 0, "leaf"},
		{"the next authority is announced at 60 %", Certificates{Authority: ca.data, Served: issue(t, day.Add(part(AuthorityLifetime, 55)), LeafLifetime, ca, "*.apps.example").data}, part(AuthorityLifetime, 61), "next"},
		{"once, not again and again", Certificates{Authority: joined(ca.data, other.data), Served: issue(t, day.Add(part(AuthorityLifetime, 55)), LeafLifetime, ca, "*.apps.example").data}, part(AuthorityLifetime, 61), ""},
		{"it signs from 80 % on", Certificates{Authority: joined(ca.data, other.data), Served: issue(t, day.Add(part(AuthorityLifetime, 75)), LeafLifetime, ca, "*.apps.example").data}, part(AuthorityLifetime, 81), "promote leaf"},
		{"not where it was announced a moment ago", Certificates{Authority: joined(ca.data, late.data), Served: new75.data}, part(AuthorityLifetime, 86), ""},
		{"but before the present one ends", Certificates{Authority: joined(ca.data, late.data), Served: new75.data}, part(AuthorityLifetime, 93), "promote leaf"},
		{"and at once where that has ended", Certificates{Authority: joined(ca.data, late.data), Served: new75.data}, part(AuthorityLifetime, 101), "promote leaf"},
		{"a next one that has ended is none", Certificates{Authority: joined(ca.data, short.data), Served: new75.data}, part(AuthorityLifetime, 81), "next"},
		{"an authority from a later day is told of, and not thrown away by a clock that is behind", Certificates{Authority: ahead.data, Served: issue(t, day, LeafLifetime, ahead, "*.apps.example").data}, 0, "warning:the authority of the default certificate is valid only from " + ahead.cert.NotBefore.Format(time.RFC3339) + " on, and clients refuse it before: compare the clocks"},
		{"also with a certificate that is made just now", Certificates{Authority: ahead.data, Served: leaf.data}, 0, "leaf warning:the authority of the default certificate is valid only from "},
		{"not where a person's certificate is served", Certificates{Authority: ahead.data, Served: good.data, Wanted: "mine", Given: good.data}, 0, ""},
		{"in its time it is as any other one", Certificates{Authority: ahead.data, Served: issue(t, ahead.cert.NotBefore, LeafLifetime, ahead, "*.apps.example").data}, AuthorityLifetime, ""},
		{"neither helps", Certificates{Authority: joined(ca.data, short.data), Served: new75.data}, part(AuthorityLifetime, 101), "authority leaf"},
		{"a person's certificate is served", Certificates{Authority: ca.data, Served: leaf.data, Wanted: "mine", Given: good.data}, 0, "copy"},
		{"and left in peace", Certificates{Authority: ca.data, Served: good.data, Wanted: "mine", Given: good.data}, 0, ""},
		{"one that is not there yet keeps what is served", Certificates{Authority: ca.data, Served: leaf.data, Wanted: "mine"}, 0, "problem:it does not exist yet"},
		{"routers start without it", Certificates{Authority: ca.data, Wanted: "mine"}, 0, "leaf problem:it does not exist yet"},
		{"one that is no certificate is not served", Certificates{Authority: ca.data, Served: good.data, Wanted: "mine", Given: map[string][]byte{corev1.TLSCertKey: []byte("junk")}}, 0, "problem:tls.crt holds no certificate in PEM"},
		{"one with another's key is not served", Certificates{Authority: ca.data, Served: leaf.data, Wanted: "mine", Given: mixed}, 0, "problem:certificate and key do not belong together"},
		{"one that has ended is not served", Certificates{Authority: ca.data, Served: leaf.data, Wanted: "mine", Given: good.data}, LeafLifetime + 24*time.Hour, "leaf problem:its certificate expired on"},
		{"our own is renewed while a person's is missing", Certificates{Authority: ca.data, Served: leaf.data, Wanted: "mine"}, part(LeafLifetime, 81), "leaf problem:it does not exist yet"},
		{"and while his is junk", Certificates{Authority: ca.data, Served: leaf.data, Wanted: "mine", Given: map[string][]byte{corev1.TLSCertKey: []byte("junk")}}, part(LeafLifetime, 81), "leaf problem:tls.crt holds no"},
		{"and after its authority", Certificates{Authority: after, Served: leaf.data, Wanted: "mine"}, 0, "leaf problem:it does not exist yet"},
		{"a person's that is served stays while his Secret is missing", Certificates{Authority: ca.data, Served: good.data, Wanted: "mine"}, part(LeafLifetime, 99), "problem:it does not exist yet"},
		{"until it ends", Certificates{Authority: ca.data, Served: good.data, Wanted: "mine"}, LeafLifetime + time.Hour, "leaf problem:it does not exist yet"},
		{"one without names is served, with a warning", Certificates{Authority: ca.data, Served: leaf.data, Wanted: "mine", Given: bare.data}, 0, "copy warning:the default certificate has no subject alternative name"},
		{"one for other names too", Certificates{Authority: ca.data, Served: leaf.data, Wanted: "mine", Given: elsewhere.data}, 0, "copy warning:the default certificate is not valid for *.apps.example"},
		{"a person may keep the routers' own Secret", Certificates{Authority: ca.data, Served: good.data, Wanted: "router-certs-x", Given: good.data}, 0, ""},
		{"without a wish again, our own comes back", Certificates{Authority: ca.data, Served: good.data}, 0, "leaf"},
	}
	for _, tt := range tests {
		tt.c.Name, tt.c.Domain = "router-certs-x", "apps.example"
		got := words(CertificatesOf(tt.c, day.Add(tt.after)))
		if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", tt.sentence, got, tt.want)
		}
	}
}

func words(w CertificateWork) string {
	var out []string
	for _, step := range []struct {
		name string
		done bool
	}{
		{"authority", w.NewAuthority}, {"next", w.NewNext}, {"promote", w.Promote}, {"copy", w.Copy}, {"leaf", w.NewLeaf},
	} {
		if step.done {
			out = append(out, step.name)
		}
	}
	if w.Problem != "" {
		out = append(out, "problem:"+strings.TrimPrefix(w.Problem, "Secret openshift-ingress/mine: "))
	}
	if w.Warning != "" {
		out = append(out, "warning:"+w.Warning)
	}
	return strings.Join(out, " ")
}

func TestHardCase16_NoErrorShowsAKey(t *testing.T) {
	a, b := issue(t, day, LeafLifetime, nil), issue(t, day, LeafLifetime, nil)
	for name, key := range map[string][]byte{"another's": b.data[corev1.TLSPrivateKeyKey], "none": []byte("s3cr3t"), "locked": pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("s3cr3t")})} {
		_, err := ParsePair(a.data[corev1.TLSCertKey], key)
		if err == nil || strings.Contains(err.Error(), "s3cr3t") || strings.Contains(fmt.Sprint(err), string(key)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
