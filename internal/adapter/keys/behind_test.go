package keys

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/netip"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
)

// TestC8AHostWhoseClockIsBehindTakesWhatHoldfastSigns: that of agents and of the operator, of the
// configuration server and of administrators.
func TestC8AHostWhoseClockIsBehindTakesWhatHoldfastSigns(t *testing.T) {
	made := time.Date(2026, 11, 27, 6, 0, 0, 0, time.UTC)
	id, err := Generate(made, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	later := made.Add(300 * 24 * time.Hour)
	client, err := Client(pkix.Name{CommonName: "a"}, id.KubernetesCA.Cert, id.KubernetesCA.Key, later)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := Administrator(id, later, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serving, err := Serving(&site.Site{Config: &config.InstallConfig{}, Identity: id}, []netip.Addr{netip.MustParseAddr("192.0.2.1")}, later)
	if err != nil {
		t.Fatal(err)
	}
	for what, from := range map[string]time.Time{
		"a client": leaf(t, client).NotBefore, "an administrator": leaf(t, admin.Cert).NotBefore, "the configuration server": leaf(t, encodePEM("CERTIFICATE", serving.Certificate[0])).NotBefore,
	} {
		if from.After(made) {
			t.Errorf("%s is valid from %s on", what, from)
		}
	}
}

func leaf(t *testing.T, text string) *x509.Certificate {
	t.Helper()
	cert, err := parseCertificate(text)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// TestHowLongAClientsCertificateServes: two thirds of a life, not if a clock that was ahead made it,
// and to the end if another one would not live longer.
func TestHowLongAClientsCertificateServes(t *testing.T) {
	made := time.Date(2026, 11, 27, 6, 0, 0, 0, time.UTC)
	id, err := Generate(made, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	end := leaf(t, id.KubernetesCA.Cert).NotAfter
	name := pkix.Name{CommonName: "a"}
	for sentence, c := range map[string]struct {
		signed, now time.Time
		serves      bool
	}{
		"at once":                        {made, made, true},
		"after a clock went back a bit":  {made.Add(time.Minute), made, true},
		"before two thirds are over":     {made, made.Add(79 * day), true},
		"afterwards":                     {made, made.Add(81 * day), false},
		"once it has ended":              {made, made.Add(121 * day), false},
		"made by a clock ahead":          {made.Add(365 * day), made, false},
		"made before its authority":      {made, made.Add(-2 * day), false},
		"its authority ends in ten days": {end.Add(-11 * day), end.Add(-10 * day), true},
		"its authority has ended":        {end.Add(-11 * day), end.Add(time.Hour), false},
	} {
		pair, err := Client(name, id.KubernetesCA.Cert, id.KubernetesCA.Key, c.signed)
		if err != nil {
			t.Fatal(err)
		}
		if got := ClientServes(pair, name, id.KubernetesCA.Cert, id.KubernetesCA.Key, c.now); got != c.serves {
			t.Errorf("%s: %v", sentence, got)
		}
	}
}
