package attack

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/lab/bmc"
	"github.com/holdfast/holdfast/internal/testkit/access"
)

// Forged packets must be well formed: everybody would refuse a frame that
// nobody understands.
func TestWhatIsForgedIsWellFormed(t *testing.T) {
	from, to, vip := netip.MustParseAddr("10.98.0.12"), netip.MustParseAddr("10.98.0.11"), netip.MustParseAddr("10.98.0.5")
	own := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	packet := advert(from, to, vip, 7, 255)
	f, ok := vrrp.ParseFrame(ethernet(broadcast, own, etherIPv4, packet))
	if !ok || !f.Advert || f.Priority != 255 || f.RouterID != 7 || f.Source != from || f.MAC != own.String() || !slices.Equal(f.Announces, []netip.Addr{vip}) {
		t.Errorf("the advert is %+v", f)
	}
	pseudo := append(append(from.AsSlice(), to.AsSlice()...), 0, protocolVRRP, 0, 12)
	if checksum(packet[:20]) != 0 || checksum(append(pseudo, packet[20:]...)) != 0 {
		t.Error("a checksum is wrong")
	}
	f, ok = vrrp.ParseFrame(claim(vip, own, Place{Address: to, MAC: "52:54:00:00:00:01"}))
	if !ok || f.Claims != vip || f.MAC != own.String() {
		t.Errorf("the claim is %+v", f)
	}
	inner := tunnelled(broadcast, own, ipv4(from, to, protocolUDP, udp(53, "hostile")))
	if len(inner) != 8+14+20+8+7 || inner[6] != flannelVNI {
		t.Errorf("the packet of the pod network is %x", inner)
	}
}

func TestSecretsOnADiskAreFound(t *testing.T) {
	cert, err := bmc.NewCertificate("x", []string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8(t, cert)})
	crt := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	text := base64.StdEncoding.EncodeToString
	token := "eyJhbGciOiJIUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"worker-1","role":"worker","aud":["holdfast-config"]}`)) + ".c2ln"
	for name, c := range map[string]struct {
		path, data, want string
	}{
		"kubelet's certificate":  {"/var/lib/kubelet/pki/kubelet-client-current.pem", string(crt) + string(key), "/var/lib/kubelet/pki/kubelet-client-current.pem"},
		"one in a kubeconfig":    {"/etc/kubernetes/x.conf", "client-certificate-data: " + text(crt) + "\nclient-key-data: " + text(key) + "\n", "/etc/kubernetes/x.conf"},
		"the token of a pointer": {"/usr/lib/holdfast/ignition.json", `{"value":"Bearer ` + token + `"}`, `token of worker-1 worker for ["holdfast-config"]`},
		"a bootstrap token":      {"/etc/kubernetes/bootstrap-kubelet.conf", "token: abcdef.0123456789abcdef\n", "bootstrap token abcdef"},
		"nothing":                {"/etc/passwd", "root:x:0:0\n", ""},
	} {
		got := ""
		for _, who := range identitiesIn(c.path, []byte(c.data)) {
			got += who.name
		}
		if got != c.want {
			t.Errorf("%s: found %q", name, got)
		}
	}
}

func pkcs8(t *testing.T, cert tls.Certificate) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestAnAttemptIsJudgedByWhatHadToHappen(t *testing.T) {
	for _, c := range []struct {
		expected Expectation
		got      string
		ok       bool
	}{
		{Refused, "refused", true},
		{Refused, answered, false},
		{Refused, failed, false}, // no server was asked
		{Closed, "closed", true},
		{Closed, answered, false},
		{Nothing, sent, true},
		{Nothing, failed, false},
		{Untold, "untold", true},
		{Untold, told, false},
		{Open, answered, true},
		{Open, "refused", true},
		{Open, failed, false},
	} {
		if got := (Line{Expected: c.expected, Got: c.got}).OK(); got != c.ok {
			t.Errorf("%s, %s: %t", c.expected, c.got, got)
		}
	}
}

// An answer with something that nobody on a worker may have differs from a
// refusal, and its text is stored.
func TestWhatIsAnsweredIsABreach(t *testing.T) {
	status := http.StatusOK
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte("hush"))
	}))
	defer s.Close()
	var out, loot bytes.Buffer
	a := &attacker{Config: Config{Loot: filepath.Join(t.TempDir(), "loot")}, out: json.NewEncoder(&out), loot: &loot}
	for _, c := range []struct {
		status int
		got    string
	}{{http.StatusOK, answered}, {http.StatusNotFound, answered}, {http.StatusUnauthorized, "refused"}, {http.StatusForbidden, "refused"}, {http.StatusConflict, "refused"}} {
		status = c.status
		a.request(t.Context(), newIdentity("x", "", nil), "somebody", s.URL, access.Attempt{Name: "x", Method: http.MethodGet, Path: "/"})
		var l Line
		if err := json.NewDecoder(&out).Decode(&l); err != nil || l.Got != c.got || l.Status != c.status {
			t.Errorf("%d: %+v, %v", c.status, l, err)
		}
	}
	if strings.Count(loot.String(), "hush") != 5 {
		t.Errorf("what was told is %q", loot.String())
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	a.request(over, newIdentity("x", "", nil), "somebody", s.URL, access.Attempt{Name: "x", Method: http.MethodGet, Path: "/"})
	if out.Len() != 0 {
		t.Errorf("an attempt after the end: %s", out.String())
	}
}
