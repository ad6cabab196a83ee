package keys_test

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

var now = sitetest.Created

const year = 365 * 24 * time.Hour

func generate(t *testing.T) site.Identity {
	t.Helper()
	id, err := keys.Generate(now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func parse(t *testing.T, p site.KeyPair) *x509.Certificate {
	t.Helper()
	c, err := p.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAuthoritiesSignAndLastTenYears(t *testing.T) {
	id := generate(t)
	for name, pair := range map[string]site.KeyPair{
		"kubernetes": id.KubernetesCA, "etcd-ca": id.EtcdCA, "front-proxy-ca": id.FrontProxyCA,
		"holdfast-config-server": id.ConfigCA,
	} {
		c := parse(t, pair)
		if c.Subject.CommonName != name || !c.IsCA || c.KeyUsage&x509.KeyUsageCertSign == 0 {
			t.Errorf("%s: named %s, authority %t, usage %b", name, c.Subject.CommonName, c.IsCA, c.KeyUsage)
		}
		if err := c.CheckSignatureFrom(c); err != nil {
			t.Errorf("%s does not sign itself: %v", name, err)
		}
		if want := now.Add(10 * year); !c.NotAfter.Equal(want) {
			t.Errorf("%s ends %s, want %s", name, c.NotAfter, want)
		}
		if _, err := tls.X509KeyPair([]byte(pair.Cert), []byte(pair.Key)); err != nil {
			t.Errorf("%s: certificate and key do not belong together: %v", name, err)
		}
	}
}

func TestTheAdministratorIsAClientOfTheClusterAuthorityForAYear(t *testing.T) {
	id := generate(t)
	c := parse(t, id.Admin)
	if c.Subject.CommonName != "kubernetes-admin" || !slices.Equal(c.Subject.Organization, []string{"holdfast:administrators"}) {
		t.Errorf("named %s", c.Subject)
	}
	if want := now.Add(year); !c.NotAfter.Equal(want) {
		t.Errorf("ends %s, want %s", c.NotAfter, want)
	}
	client := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	for name, test := range map[string]struct {
		authority site.KeyPair
		usage     []x509.ExtKeyUsage
		ok        bool
	}{
		"a client of the cluster":   {id.KubernetesCA, client, true},
		"no server":                 {id.KubernetesCA, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, false},
		"nobody to etcd":            {id.EtcdCA, client, false},
		"nobody to the join server": {id.ConfigCA, client, false},
	} {
		roots := x509.NewCertPool()
		roots.AddCert(parse(t, test.authority))
		_, err := c.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: test.usage})
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCertificatesAreGoodOnHostsWhoseClockIsBehind(t *testing.T) {
	id := generate(t)
	for _, pair := range []site.KeyPair{id.KubernetesCA, id.Admin} {
		if c := parse(t, pair); !c.NotBefore.Equal(now.Add(-time.Hour)) {
			t.Errorf("good from %s", c.NotBefore)
		}
	}
}

func TestTheServiceSignerIsAPublicAndAPrivateKey(t *testing.T) {
	id := generate(t)
	if !bytes.HasPrefix([]byte(id.ServiceSigner.Cert), []byte("-----BEGIN PUBLIC KEY-----")) ||
		!bytes.HasPrefix([]byte(id.ServiceSigner.Key), []byte("-----BEGIN EC PRIVATE KEY-----")) {
		t.Error("not a key pair in PEM")
	}
}

func TestTokensHaveTheFormTheirReadersWant(t *testing.T) {
	id := generate(t)
	token, err := keys.BootstrapToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ form, got string }{
		"bootstrap token (kubeadm)": {`^[a-z0-9]{6}\.[a-z0-9]{16}$`, token},
		"progress token":            {`^[a-z2-7]{32}$`, id.ProgressToken},
		"cluster ID (RFC 9562)":     {`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, id.ClusterID},
	} {
		if !regexp.MustCompile(c.form).MatchString(c.got) {
			t.Errorf("%s: %q", name, c.got)
		}
	}
	again, err := keys.JoinKey(rand.Reader)
	if err != nil || len(id.JoinKey) < jointoken.MinKeyBytes || len(again) < jointoken.MinKeyBytes || bytes.Equal(id.JoinKey, again) {
		t.Errorf("the join keys have %d and %d bytes, %v", len(id.JoinKey), len(again), err)
	}
}

func TestTwoSitesShareNothing(t *testing.T) {
	a, b := generate(t), generate(t)
	if a.ClusterID == b.ClusterID || bytes.Equal(a.JoinKey, b.JoinKey) ||
		a.KubernetesCA.Key == b.KubernetesCA.Key || a.ProgressToken == b.ProgressToken {
		t.Error("two identities share a secret")
	}
}

func TestLittleRandomnessIsAnError(t *testing.T) {
	for _, n := range []int{0, 16, 50} {
		if _, err := keys.Generate(now, bytes.NewReader(make([]byte, n))); err == nil {
			t.Errorf("an identity from %d bytes of randomness", n)
		}
	}
}

func TestTheConfigurationServersCertificateIsGoodForEveryWayToIt(t *testing.T) {
	s := sitetest.New(t, sitetest.TwoDual)
	s.Config.RendezvousIP = "10.98.0.11"
	own := []netip.Addr{netip.MustParseAddr("10.98.0.12"), netip.MustParseAddr("fd98::12")}
	at := now.Add(100 * 24 * time.Hour)
	made, err := keys.Serving(s, own, at)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(made.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parse(t, s.Identity.ConfigCA))
	for _, name := range []string{
		"api-int.shop.example.test", "api.shop.example.test", "10.98.0.5", "fd98::5", "10.98.0.12", "fd98::12", "10.98.0.11",
	} {
		if _, err := c.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"10.98.0.6", "shop.example.test", "localhost"} {
		if c.VerifyHostname(name) == nil {
			t.Errorf("good for %s", name)
		}
	}
	if _, err := c.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at.Add(keys.ServingLifetime + time.Second), DNSName: "10.98.0.5"}); err == nil {
		t.Error("good after its end")
	}
	if _, err := c.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
		t.Error("good as a client's certificate")
	}
}

func TestAWorkersCopyCannotMakeAServingCertificate(t *testing.T) {
	s := sitetest.New(t, sitetest.OneNone)
	own := s.For("worker")
	if _, err := keys.Serving(own, nil, now); err == nil {
		t.Error("it made one")
	}
	if own.Config.ControlPlaneReplicas() != 1 || own.Config.Networking.NetworkType != config.NetworkTypeFlannel {
		t.Error("the copy lacks what a worker needs")
	}
}

func TestARenewedCertificateIsTheSameButForItsEnd(t *testing.T) {
	id := generate(t)
	old := parse(t, id.Admin)
	later := now.Add(200 * 24 * time.Hour)
	other := generate(t)
	text, err := keys.Renew(id.Admin.Cert, id.Admin.Key, other.KubernetesCA.Cert+id.KubernetesCA.Cert, id.KubernetesCA.Key, 30*24*time.Hour, later)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair([]byte(text), []byte(id.Admin.Key)); err != nil {
		t.Errorf("its key is another one: %v", err)
	}
	c, ca := parse(t, site.KeyPair{Cert: text}), parse(t, id.KubernetesCA)
	if err := c.CheckSignatureFrom(ca); err != nil {
		t.Errorf("of the bundle, an authority without its key signed: %v", err)
	}
	if !bytes.Equal(c.RawSubject, old.RawSubject) || c.KeyUsage != old.KeyUsage || !slices.Equal(c.ExtKeyUsage, old.ExtKeyUsage) || c.SerialNumber.Cmp(old.SerialNumber) == 0 {
		t.Errorf("%v became %v", old, c)
	}
	if want := later.Add(30 * 24 * time.Hour); !c.NotAfter.Equal(want) || !c.NotBefore.Equal(ca.NotBefore) {
		t.Errorf("valid from %s to %s, want from %s to %s", c.NotBefore, c.NotAfter, ca.NotBefore, want)
	}
	if text, err = keys.Renew(id.Admin.Cert, id.Admin.Key, id.KubernetesCA.Cert, id.KubernetesCA.Key, 20*year, later); err != nil {
		t.Fatal(err)
	}
	if c := parse(t, site.KeyPair{Cert: text}); !c.NotAfter.Equal(ca.NotAfter) {
		t.Errorf("it outlives its authority: %s", c.NotAfter)
	}
	for name, broken := range map[string][4]string{
		"no certificate":                  {"", id.Admin.Key, id.KubernetesCA.Cert, id.KubernetesCA.Key},
		"no key":                          {id.Admin.Cert, "", id.KubernetesCA.Cert, id.KubernetesCA.Key},
		"no authority":                    {id.Admin.Cert, id.Admin.Key, "", id.KubernetesCA.Key},
		"the key of another one":          {id.Admin.Cert, id.Admin.Key, id.KubernetesCA.Cert, other.KubernetesCA.Key},
		"a key of the authority cut away": {id.Admin.Cert, id.Admin.Key, id.KubernetesCA.Cert, ""},
	} {
		if _, err := keys.Renew(broken[0], broken[1], broken[2], broken[3], year, later); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// docs/facts/life.md#certificates, L-C8, L-C11 and L-C25: the file of authorities may hold
// another one before ours, and the clock of the host may be ahead.
func TestACertificateForOtherAddressesIsOfTheAuthorityWithTheKeyAndOfItsDay(t *testing.T) {
	id, other := generate(t), generate(t)
	ahead, addresses := now.Add(2*year), []netip.Addr{netip.MustParseAddr("10.98.0.6"), netip.MustParseAddr("fd98::6")}
	text, err := keys.Reissue(id.Admin.Cert, id.Admin.Key, other.KubernetesCA.Cert+id.KubernetesCA.Cert, id.KubernetesCA.Key, addresses, year, ahead)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair([]byte(text), []byte(id.Admin.Key)); err != nil {
		t.Errorf("its key is another one: %v", err)
	}
	c, ca := parse(t, site.KeyPair{Cert: text}), parse(t, id.KubernetesCA)
	if err := c.CheckSignatureFrom(ca); err != nil {
		t.Errorf("an authority without its key signed: %v", err)
	}
	if got, err := keys.Addresses(text); err != nil || !slices.Equal(got, addresses) {
		t.Errorf("it is for %v, %v", got, err)
	}
	if !c.NotBefore.Equal(ca.NotBefore) || !c.NotAfter.Equal(ahead.Add(year)) {
		t.Errorf("valid from %s to %s", c.NotBefore, c.NotAfter)
	}
}

func TestAServingCertificateKeepsItsNames(t *testing.T) {
	id := generate(t)
	s := sitetest.New(t, sitetest.TwoDual)
	made, err := keys.Serving(s, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]})
	keyText := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	text, err := keys.Renew(string(cert), string(keyText), id.EtcdCA.Cert, id.EtcdCA.Key, year, now)
	if err != nil {
		t.Fatal(err)
	}
	c := parse(t, site.KeyPair{Cert: text})
	for _, name := range []string{"api-int.shop.example.test", "10.98.0.5", "fd98::5"} {
		if err := c.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}

func TestALeafIsReadWithItsKey(t *testing.T) {
	id := generate(t)
	admin := parse(t, id.Admin)
	got, err := keys.ReadLeaf(id.Admin.Cert, id.Admin.Key)
	if err != nil || !got.Matches || !got.From.Equal(admin.NotBefore) || !got.Ends.Equal(admin.NotAfter) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := keys.ReadLeaf(id.Admin.Cert, id.EtcdCA.Key); err != nil || got.Matches {
		t.Errorf("beside another key: %+v, %v", got, err)
	}
	for name, pair := range map[string][2]string{"an empty file": {"", id.Admin.Key}, "an empty key": {id.Admin.Cert, ""}} {
		if _, err := keys.ReadLeaf(pair[0], pair[1]); err == nil {
			t.Errorf("%s is read", name)
		}
	}
	ca, err := keys.Signer(generate(t).EtcdCA.Cert+id.EtcdCA.Cert, id.EtcdCA.Key)
	if err != nil || !ca.Equal(parse(t, id.EtcdCA)) {
		t.Errorf("%v, %v", ca, err)
	}
}
