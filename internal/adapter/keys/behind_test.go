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
	client, err := Client(pkix.Name{CommonName: "a"}, id.KubernetesCA.Cert, id.KubernetesCA.Key, ClientLifetime, later)
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
	const day, short = 24 * time.Hour, 10 * time.Minute
	end := leaf(t, id.KubernetesCA.Cert).NotAfter
	name := pkix.Name{CommonName: "a"}
	for sentence, c := range map[string]struct {
		signed, now time.Time
		// with is the site's period when it was made, wants that of now.
		with, wants time.Duration
		serves      bool
	}{
		"at once":                           {made, made, 0, 0, true},
		"after a clock went back a bit":     {made.Add(time.Minute), made, 0, 0, true},
		"before two thirds are over":        {made, made.Add(79 * day), 0, 0, true},
		"afterwards":                        {made, made.Add(81 * day), 0, 0, false},
		"once it has ended":                 {made, made.Add(121 * day), 0, 0, false},
		"made by a clock ahead":             {made.Add(365 * day), made, 0, 0, false},
		"made before its authority":         {made, made.Add(-2 * day), 0, 0, false},
		"its authority ends in ten days":    {end.Add(-11 * day), end.Add(-10 * day), 0, 0, true},
		"its authority has ended":           {end.Add(-11 * day), end.Add(time.Hour), 0, 0, false},
		"a period of a year shortens none":  {made, made.Add(79 * day), 365 * day, 365 * day, true},
		"short, at once":                    {made, made, short, short, true},
		"short, after a clock went back":    {made.Add(time.Minute), made, short, short, true},
		"short, before two thirds are over": {made, made.Add(6 * time.Minute), short, short, true},
		"short, afterwards":                 {made, made.Add(7 * time.Minute), short, short, false},
		"short, made by a clock ahead":      {made.Add(11 * time.Minute), made, short, short, false},
		"short, its authority ends":         {end.Add(-3 * time.Minute), end.Add(-time.Minute), short, short, true},
		"the period was shortened":          {made, made, 0, short, false},
		"shortened, of half an hour":        {made, made, 30 * time.Minute, short, false},
		"nobody knows the period any more":  {made, made, short, 0, false},
		"a period that no site may have":    {made, made.Add(79 * day), time.Second, time.Second, true},
	} {
		pair, err := Client(name, id.KubernetesCA.Cert, id.KubernetesCA.Key, ClientLife(c.with), c.signed)
		if err != nil {
			t.Fatal(err)
		}
		if got := ClientServes(pair, name, id.KubernetesCA.Cert, id.KubernetesCA.Key, ClientLife(c.wants), c.now); got != c.serves {
			t.Errorf("%s: %v", sentence, got)
		}
	}
}
