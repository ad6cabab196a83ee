package leafcert

import (
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestADamagedFileIsLate since it was seen, so that the alert tells of it: nobody renews what cannot be read.
func TestADamagedFileIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newControlPlane(t, identity(t), nil, "cp-1", 1, time.Hour)
		const crt, conf, keyless = "/etc/kubernetes/pki/apiserver.crt", "/etc/kubernetes/scheduler.conf", "/etc/kubernetes/pki/front-proxy-client.crt"
		h.put(crt, "garbage", 0o644)
		h.put(conf, "garbage: [", 0o600)
		if err := os.Remove(h.root + "/etc/kubernetes/pki/front-proxy-client.key"); err != nil {
			t.Fatal(err)
		}
		seen := time.Now()
		for range 2 {
			if _, err := h.step(t.Context()); err == nil {
				t.Error("the log says nothing")
			}
			for _, path := range []string{crt, conf, keyless} {
				if at := h.late.all()[path]; !at.Equal(seen) {
					t.Errorf("%s is late since %s, and it was seen at %s", path, at, seen)
				}
			}
			time.Sleep(time.Minute)
		}
	})
}
