package leafcert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/metric"
	"github.com/holdfast/holdfast/internal/agent/certificates"
	account "github.com/holdfast/holdfast/internal/agent/identity"
	"github.com/holdfast/holdfast/internal/agent/operatorkey"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/operator"
)

// told returns what a host exports of its certificates: when each ends, and from when on it is late.
func (h *controlPlane) told() (ends, late map[string]float64) {
	h.t.Helper()
	if _, err := h.gather(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	for _, c := range []prometheus.Collector{certificates.Collector{Root: h.root}, h.Keeper} {
		if err := registry.Register(c); err != nil {
			h.t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	by := map[string]map[string]float64{}
	for _, f := range families {
		by[f.GetName()] = map[string]float64{}
		for _, m := range f.GetMetric() {
			by[f.GetName()][m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	return by["holdfast_certificate_not_after_timestamp_seconds"], by["holdfast_certificate_renewal_late_timestamp_seconds"]
}

// TestEachCertificateThatAnAgentRenewsIsLateFromSomeTimeOn: of all whose ends are told. Otherwise no alert
// says that one was not renewed.
func TestEachCertificateThatAnAgentRenewsIsLateFromSomeTimeOn(t *testing.T) {
	pairs := []string{state.AgentPair, filepath.Join(operator.EtcdFolder, operator.EtcdPair)}
	for _, life := range []time.Duration{leafcert.Life, time.Hour} {
		h := newControlPlane(t, identity(t), nil, "cp-1", 1, life)
		if _, err := (account.Keeper{Root: h.root, Host: "cp-1", Server: "https://10.98.0.5:6443", Period: life, Now: time.Now}).Keep(); err != nil {
			t.Fatal(err)
		}
		if _, err := (operatorkey.Keeper{Root: h.root, Owner: os.Geteuid(), Period: life, Now: time.Now}).Keep(); err != nil {
			t.Fatal(err)
		}
		ends, late := h.told()
		if renewed := len(h.leaves()) + len(pairs); len(late) != renewed || len(ends) < renewed {
			t.Errorf("%d ends are told, %d are late some time; %d are renewed", len(ends), len(late), renewed)
		}
		for file, end := range ends {
			authority := strings.HasSuffix(file, "ca.crt") // nobody renews one
			if at, is := late[file]; is == authority || is && at >= end {
				t.Errorf("%s ends at %.0f and is late from %.0f on, told: %t", file, end, at, is)
			}
		}
		for _, file := range pairs {
			if left := ends[file] - late[file]; left != (keys.ClientLife(life) / 6).Seconds() {
				t.Errorf("%s is late with %.0f s left", file, left)
			}
			h.put(file, strings.Repeat("\x00", 100), 0o600)
			info, err := os.Stat(h.root + file)
			if err != nil {
				t.Fatal(err)
			}
			if _, late := h.told(); late[file] != metric.Seconds(info.ModTime()) {
				t.Errorf("%s is damaged, and late from %.0f on", file, late[file])
			}
		}
	}
}
