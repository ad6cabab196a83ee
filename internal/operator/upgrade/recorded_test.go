package upgrade

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// TestTheRecordedMetricsAreThoseThatAreServed keeps the metrics for the test of the dashboard in
// step with what the operator serves while hosts go to another release, and while the site
// could still go back.
func TestTheRecordedMetricsAreThoseThatAreServed(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.begins()
	for _, m := range []struct {
		name string
		is   func() bool
	}{
		{"upgrades", func() bool { return len(w.atWork()) > 0 }},
		{"proves", func() bool { return strings.Contains(w.condition("Progressing"), string(cluster.Proving)) }},
	} {
		w.until(m.name, m.is)
		must(t, w.look())
		dir := filepath.Join("../../../render/alerts/testdata/metrics/years", m.name)
		golden.Check(t, filepath.Join(dir, "cp-1.operator.prom"), served(t))
		golden.Check(t, filepath.Join(dir, "recorded-at"), fmt.Appendln(nil, w.now.Unix()))
	}
}

// served returns the metrics as Prometheus gets them.
func served(t *testing.T) []byte {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Collectors()...)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.Bytes()
}
