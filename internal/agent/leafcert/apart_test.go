package leafcert

import (
	"crypto/x509"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestC2HostsThatWakeDaysApartAfterFourteenMonthsTrustEachOther: each renews by itself while no API
// answers, and takes the certificates of the other one, of which it has never seen any, by the
// authority alone.
func TestC2HostsThatWakeDaysApartAfterFourteenMonthsTrustEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id, api := identity(t), newAPI("cp-1", "cp-2")
		time.Sleep(3 * leafcert.Life)
		api.err = errors.New("connection refused")
		var hosts []*controlPlane
		for _, name := range []string{"cp-1", "cp-2"} {
			h := newControlPlane(t, id, api, name, 2, leafcert.Life)
			h.age(leafcert.Life, 60*24*time.Hour)
			hosts = append(hosts, h)
		}
		for i, h := range hosts {
			time.Sleep(time.Duration(i) * 3 * 24 * time.Hour)
			if _, err := h.step(t.Context()); err != nil {
				t.Fatalf("%s: %v", h.Node, err)
			}
			h.valid()
		}
		hosts[0].valid()
		for i, h := range hosts {
			roots := x509.NewCertPool()
			if !roots.AppendCertsFromPEM([]byte(h.read(state.EtcdPKIDir + "/ca.crt"))) {
				t.Fatal("no authority")
			}
			for _, l := range hosts[1-i].leaves() {
				if l.Authority != state.EtcdPKIDir+"/ca" {
					continue
				}
				cert, _ := hosts[1-i].present(l)
				if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: time.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
					t.Errorf("%s does not take %s of the other one: %v", h.Node, l.Path, err)
				}
			}
		}
	})
}
