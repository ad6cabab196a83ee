package redfish

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// rsaCertificate returns a self-signed certificate as old controllers make it,
// on request with a negative serial number.
func rsaCertificate(t *testing.T, negative bool) tls.Certificate {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0x7ead), Subject: pkix.Name{CommonName: "iLO"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), SignatureAlgorithm: x509.SHA256WithRSA,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if negative {
		der = below(t, der, key)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// below makes the serial number of a certificate negative, which the library
// does not do, and signs it again.
func below(t *testing.T, der []byte, key *rsa.PrivateKey) []byte {
	t.Helper()
	var c struct {
		TBS       asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	if _, err := asn1.Unmarshal(der, &c); err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(c.TBS.FullBytes), "\x02\x02\x7e\xad") // an integer of two bytes
	if at < 0 {
		t.Fatal("no serial number")
	}
	c.TBS.FullBytes[at+2] = 0xfe
	sum := sha256.Sum256(c.TBS.FullBytes)
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, 5 /* crypto.SHA256 */, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	c.Signature = asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}
	out, err := asn1.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// oldController runs a controller with this TLS configuration.
func oldController(t *testing.T, c *tls.Config) Endpoint {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Replace(whole, "%", "", 1))
	}))
	srv.TLS, srv.Config.ErrorLog = c, nil
	srv.StartTLS()
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	return Endpoint{
		Address: addressOf(u.Host, systemsPath+"/1"), Username: testUser, Password: testPassword,
		Timeout: 5 * time.Second,
	}
}

// TestOldEncryptionIsUsedWhereAPersonAllowsItAndNowhereElse plays what iLO4,
// iDRAC7 and HDM support.
func TestOldEncryptionIsUsedWhereAPersonAllowsItAndNowhereElse(t *testing.T) {
	for name, c := range map[string]*tls.Config{
		"RSA key exchange, GCM": {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_256_GCM_SHA384}},
		"RSA key exchange, CBC": {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}},
		"TLS 1.1":               {MinVersion: tls.VersionTLS11, MaxVersion: tls.VersionTLS11},
		"TLS 1.0, 3DES":         {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10, CipherSuites: []uint16{tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA}},
	} {
		c.Certificates = []tls.Certificate{rsaCertificate(t, false)}
		e := oldController(t, c)
		e = pinnedNow(t, e)
		_, err := Open(t.Context(), e)
		if ReasonOf(err) != TLS || !strings.Contains(err.Error(), "tls: Legacy") {
			t.Errorf("%s, without leave: %v", name, err)
		}
		e.LegacyTLS = true
		open(t, e)
		e.Fingerprint = strings.Repeat("00", 32)
		if _, err := Open(t.Context(), e); ReasonOf(err) != Pin {
			t.Errorf("%s: leave for old TLS is none for another certificate: %v", name, err)
		}
	}
}

func TestAStackThatHangsUpIsSaidToBeOld(t *testing.T) {
	e := oldController(t, &tls.Config{
		Certificates:       []tls.Certificate{rsaCertificate(t, false)},
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) { return nil, h.Conn.Close() },
	})
	if _, err := Open(t.Context(), e); ReasonOf(err) != TLS || !strings.Contains(err.Error(), "aborts the TLS handshake") {
		t.Error(err)
	}
}

func TestACertificateWithANegativeNumberIsTakenWhereItIsPinned(t *testing.T) {
	e := oldController(t, &tls.Config{Certificates: []tls.Certificate{rsaCertificate(t, true)}})
	if _, err := ShownBy(t.Context(), e); err != nil {
		t.Error(err)
	}
	open(t, pinnedNow(t, e))
	if _, err := Open(t.Context(), e); ReasonOf(err) != Certificate || !strings.Contains(err.Error(), "holdfast fencing pin NODE") {
		t.Errorf("an authority that nobody knows: %v", err)
	}
}

// TestEveryProgramTakesNegativeNumbers: the setting belongs to the program, and
// go.mod sets it, so that no program is forgotten.
func TestEveryProgramTakesNegativeNumbers(t *testing.T) {
	module, err := os.ReadFile("../../../go.mod")
	if err != nil || !strings.Contains(string(module), "\ngodebug x509negativeserial=1\n") {
		t.Errorf("go.mod does not set it: %v", err)
	}
}
