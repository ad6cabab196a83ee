package installer_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

const year = 365 * 24 * time.Hour

// administrator returns the client certificate in a kubeconfig.
func administrator(t *testing.T, text string) *x509.Certificate {
	t.Helper()
	c, err := clientcmd.Load([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	user := c.AuthInfos[c.Contexts[c.CurrentContext].AuthInfo]
	pair, err := tls.X509KeyPair(user.ClientCertificateData, user.ClientKeyData)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func TestFilesThatAreMadeAnewBringAKubeconfigThatLasts(t *testing.T) {
	for _, test := range []struct {
		name  string
		after time.Duration
		ends  time.Duration
	}{
		{"with two thirds of its life left it is the same", year / 3, year},
		{"in the last third there is another", year - 100*24*time.Hour, 2*year - 100*24*time.Hour},
		{"after its end too", year + 35*24*time.Hour, 2*year + 35*24*time.Hour},
		{"none outlives its authority", 10*year - 50*24*time.Hour, 10 * year},
	} {
		d := newDirectory(t, sitetest.TwoDual)
		d.must(d.IgnitionConfigs)
		first := administrator(t, d.read(installer.Kubeconfig))
		d.now = sitetest.Created.Add(test.after)
		d.must(d.IgnitionConfigs)
		got := administrator(t, d.read(installer.Kubeconfig))
		if want := sitetest.Created.Add(test.ends); !got.NotAfter.Equal(want) {
			t.Errorf("%s: ends %s, want %s", test.name, got.NotAfter, want)
		}
		if got.Subject.String() != first.Subject.String() {
			t.Errorf("%s: from %s to %s", test.name, first.Subject, got.Subject)
		}
		if again := d.must(d.IgnitionConfigs); len(again) != 0 {
			t.Errorf("%s: a second run wrote %v", test.name, again)
		}
	}
}

func TestAKubeconfigIsMadeForAClusterThatStands(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.must(d.IgnitionConfigs)
	before := d.files()
	first := administrator(t, before[installer.Kubeconfig])
	d.now = sitetest.Created.Add(400 * 24 * time.Hour)
	path, until, err := d.Kubeconfig()
	if err != nil || path != d.Dir+"/"+installer.Kubeconfig || !until.Equal(d.now.Add(year)) {
		t.Fatalf("%s until %s, %v", path, until, err)
	}
	made := d.files()
	got := administrator(t, made[installer.Kubeconfig])
	s, err := d.Made()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(s.Identity.KubernetesCA.Cert))
	client := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := got.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: d.now, KeyUsages: client}); err != nil {
		t.Error(err)
	}
	if string(got.RawSubjectPublicKeyInfo) == string(first.RawSubjectPublicKeyInfo) {
		t.Error("it has the key of the one before")
	}
	for path, text := range made {
		if text != before[path] && path != installer.Kubeconfig && path != installer.StateFile {
			t.Errorf("%s changed", path)
		}
	}
	d.must(d.IgnitionConfigs)
	if d.read(installer.Kubeconfig) != made[installer.Kubeconfig] {
		t.Error("the next files bring another one")
	}
	if _, _, err := newDirectory(t, sitetest.TwoDual).Kubeconfig(); err == nil {
		t.Error("a directory without a cluster")
	}
}
