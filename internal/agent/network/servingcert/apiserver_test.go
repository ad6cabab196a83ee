package servingcert

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// api is a real kube-apiserver, or nil if there is none.
var api *apitest.API

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, &api)) }

// TestARealAPIServerTakesTheNewCertificateWithoutARestart proves what the
// reconciler relies on: kube-apiserver follows the file.
func TestARealAPIServerTakesTheNewCertificateWithoutARestart(t *testing.T) {
	apitest.Need(t, api)
	dir := api.Certificates
	pki(t, dir, "10.98.0.11", "127.0.0.1", "10.98.0.5") // replaces the one that it started with
	p, c := newPiece(t, dir, strings.TrimPrefix(api.Config.Host, "https://"))
	before, err := p.shown(t.Context())
	for end := time.Now().Add(2 * time.Minute); err == nil && len(before) != 3 && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
		before, err = p.shown(t.Context())
	}
	if err != nil || len(before) != 3 {
		t.Fatalf("the test's own certificate is not shown but one for %v, %v", before, err)
	}
	v := view("10.98.0.5")
	reconcile(t, p, v)
	for _, vips := range []string{"10.98.0.5 fd98::7", "10.98.0.5", "10.98.0.5 fd98::5"} {
		c.now = c.now.Add(time.Hour)
		began := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		if _, err := p.Reconcile(ctx, view(strings.Fields(vips)...)); err != nil {
			t.Error(err)
		}
		stop()
		t.Logf("a certificate for %s is shown after %s", vips, time.Since(began).Round(time.Millisecond))
		if got, want := shown(t, p), "10.98.0.11 127.0.0.1 "+vips; got != want {
			t.Errorf("it shows %s, want %s", got, want)
		}
	}
}
