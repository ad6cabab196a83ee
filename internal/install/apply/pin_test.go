package apply

import (
	"crypto/rand"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/model/ignition"
)

// A pointer contains a secret: a server with a certificate of just any authority
// that the host trusts must not get it (docs/attacks.md, F18).
func TestAuthoritiesThatAreNamedAloneCount(t *testing.T) {
	server, hits := serve(t, map[string]answer{
		"/worker": {body: fileConfig("/a", "hi")},
	})
	inSystem := func() (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		pool.AddCert(server.Certificate())
		return pool, nil
	}
	other, err := keys.Generate(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pointer := func(ca string) string {
		data, err := ignition.Pointer(server.URL+"/worker", ca, "s3cret")
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, c := range []struct {
		name, config, want string
		hits               int
	}{
		{"none is named, the host trusts the server", pointTo("merge", server.URL+"/worker", "", ""), "", 1},
		{"the server's own is named", pointer(caOf(server)), "", 1},
		{"another's is named, the host trusts the server", pointer(other.ConfigCA.Cert), "only the authorities in ignition.security.tls.certificateAuthorities count", 0},
		{"what is fetched points on", pointTo("merge", ignition.DataURL([]byte(pointTo("replace", server.URL+"/worker", "", ""))), other.ConfigCA.Cert, ""), "only the authorities", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			clear(hits)
			f := testFetcher(time.Second)
			f.system = inSystem
			files, err := resolve(t, f, c.config)
			switch {
			case c.want == "" && (err != nil || files["/a"] != "hi"):
				t.Errorf("%v, %v", files, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret")):
				t.Errorf("got %v", err)
			}
			if hits["/worker"] != c.hits {
				t.Errorf("the server was told the secret %d times", hits["/worker"])
			}
		})
	}
}
