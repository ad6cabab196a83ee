package machineconfig

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// docs/facts/life.md#configuration-of-hosts, L-M19: a host that failed is seen without a
// look at its log.
func TestTheStateOfAHostIsAMetric(t *testing.T) {
	w := withConfigs(t)
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(w.agent); err != nil {
		t.Fatal(err)
	}
	shown := func() (out []string) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				out = append(out, f.GetName())
				for _, l := range m.GetLabel() {
					out = append(out, l.GetValue())
				}
			}
		}
		return out
	}
	if got := shown(); len(got) != 0 {
		t.Errorf("before its first configuration: %q", got)
	}
	for _, step := range []struct{ wish, config, stage, state string }{{one, one, "settled", "Done"}, {bad, one, "failed", "Degraded"}} {
		w.wish(step.wish)
		w.settle(hour)
		if got := shown(); len(got) != 4 || got[0] != "holdfast_machine_config_state" || got[1] != step.config || got[2] != step.stage || got[3] != step.state {
			t.Errorf("given %s: %q", step.wish, got)
		}
	}
}
