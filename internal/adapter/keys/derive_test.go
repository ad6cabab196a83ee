package keys

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

var (
	deriveRoot = bytes.Repeat([]byte{1}, 32)
	deriveSalt = bytes.Repeat([]byte{2}, 32)
)

// Two control planes derive the same files, and nothing else derives them.
func TestEqualInputsGiveEqualBytesAndOthersGiveOthers(t *testing.T) {
	now := time.Date(2026, 11, 23, 18, 0, 0, 0, time.UTC)
	id, err := Generate(now.Add(-time.Hour), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for what, in := range map[string]struct {
		root, salt []byte
		purpose    string
	}{
		"these": {deriveRoot, deriveSalt, "front-proxy-ca"}, "another root": {deriveSalt, deriveSalt, "front-proxy-ca"},
		"another salt": {deriveRoot, deriveRoot, "front-proxy-ca"}, "another purpose": {deriveRoot, deriveSalt, "service-account-key"},
	} {
		signer, err := DeriveSigner(in.root, in.salt, in.purpose)
		if err != nil {
			t.Fatal(err)
		}
		ca, err := DeriveCA(id.FrontProxyCA.Cert, in.root, in.salt, in.purpose, now)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DeriveSigner(in.root, in.salt, in.purpose)
		if err != nil || again != signer {
			t.Errorf("%s: the signer differs the second time: %v", what, err)
		}
		againCA, err := DeriveCA(id.FrontProxyCA.Cert, in.root, in.salt, in.purpose, now)
		if err != nil || againCA != ca {
			t.Errorf("%s: the CA differs the second time: %v", what, err)
		}
		for _, key := range []string{signer.Key, ca.Cert} {
			if other, known := seen[key]; known {
				t.Errorf("%s and %s are equal", what, other)
			}
			seen[key] = what
		}
		if _, err := tls.X509KeyPair([]byte(ca.Cert), []byte(ca.Key)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A CA that is derived signs what the old one signed, and differs from it by its
// subject.
func TestADerivedCASignsWhatTheOldOneSigned(t *testing.T) {
	now := time.Date(2026, 11, 23, 18, 0, 0, 0, time.UTC)
	id, err := Generate(now.Add(-time.Hour), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := DeriveCA(id.KubernetesCA.Cert, deriveRoot, deriveSalt, "kubernetes-ca", now)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := Renew(id.Admin.Cert, id.Admin.Key, id.KubernetesCA.Cert+ca.Cert, ca.Key, time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	publics, err := Publics(id.KubernetesCA.Cert + ca.Cert)
	if err != nil || len(publics) != 2 || publics[0].Block+publics[1].Block != id.KubernetesCA.Cert+ca.Cert {
		t.Fatalf("%+v %v", publics, err)
	}
	before, after := publics[0].Cert, publics[1].Cert
	if SignedBy(leaf, before) || !SignedBy(leaf, after) || !SignedBy(id.Admin.Cert, before) {
		t.Error("the leaf has another authority")
	}
	if bytes.Equal(before.RawSubject, after.RawSubject) || after.Subject.CommonName != "kubernetes" || after.KeyUsage != before.KeyUsage || !after.IsCA {
		t.Errorf("%s %v, was %s %v", after.Subject, after.KeyUsage, before.Subject, before.KeyUsage)
	}
	if !after.NotAfter.Equal(now.Add(authorityLifetime)) || after.NotBefore.After(now) {
		t.Errorf("it is valid from %s to %s", after.NotBefore, after.NotAfter)
	}
	own, err := KeyID(ca.Key)
	if err != nil || own != publics[1].ID || own == publics[0].ID {
		t.Errorf("its key has the ID %s, its certificate %s: %v", own, publics[1].ID, err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(after)
	parsed, err := parseCertificate(leaf)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parsed.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
}

func TestNothingIsDerivedFromTooLittle(t *testing.T) {
	for _, in := range [][2][]byte{{nil, deriveSalt}, {deriveRoot, nil}, {deriveRoot[:31], deriveSalt}} {
		if _, err := DeriveSigner(in[0], in[1], "x"); err == nil || !strings.Contains(err.Error(), "no root") {
			t.Errorf("%v", err)
		}
	}
}

func TestATextThatIsNotUnderstoodIsNoListOfKeys(t *testing.T) {
	pair, err := DeriveSigner(deriveRoot, deriveSalt, "x")
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"nothing": "", "words": "hush", "a private key": pair.Cert + pair.Key} {
		if got, err := Publics(text); err == nil {
			t.Errorf("%s: %v", what, got)
		}
	}
	if got, err := Publics(pair.Cert); err != nil || len(got) != 1 || got[0].Cert != nil {
		t.Errorf("%v %v", got, err)
	}
}
