package metrics

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

var vip = netip.MustParseAddr("10.98.0.5")

func view(holds bool) state.NetworkView {
	v := state.NetworkView{
		Settings:  state.NetworkSettings{APIVIPs: []netip.Addr{vip}, IngressVIPs: []netip.Addr{netip.MustParseAddr("fd98::6")}},
		Addresses: []state.HostAddress{{Interface: "eth0", Prefix: netip.MustParsePrefix("10.98.0.11/24")}},
		Claims:    []state.VIPClaim{{VIP: vip, By: "02:00:00:00:00:99"}, {By: "10.98.0.200", RouterID: 77}},
		Forged:    []state.ForgedAdvert{{VIP: vip, As: netip.MustParseAddr("10.98.0.12"), By: "02:00:00:00:00:99", Excess: true}, {VIP: vip, As: netip.MustParseAddr("10.98.0.12"), By: "02:00:00:00:00:99"}},
		MayHold:   state.Known(true),
	}
	if holds {
		v.Addresses = append(v.Addresses, state.HostAddress{Interface: "eth0", Prefix: netip.PrefixFrom(vip, 32)})
	}
	return v
}

// agentOf is an agent that has run nothing yet.
func agentOf(v state.NetworkView) *network.Agent {
	return &network.Agent{Views: network.NewViewStore(v), Loops: loop.New(time.Now, slog.New(slog.DiscardHandler))}
}

// gather returns the metrics as lines, without Go's own.
func gather(t *testing.T, c *Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			out.WriteString(strings.TrimPrefix(f.GetName(), "holdfast_network_") + labels(m) + " ")
			out.WriteString(strings.TrimRight(strings.TrimRight(formatted(m), "0"), ".") + "\n")
		}
	}
	return out.String()
}

func labels(m *dto.Metric) string {
	var out []string
	for _, l := range m.GetLabel() {
		out = append(out, l.GetName()+"="+l.GetValue())
	}
	return "{" + strings.Join(out, ",") + "}"
}

func formatted(m *dto.Metric) string {
	v := m.GetGauge().GetValue() + m.GetCounter().GetValue()
	return time.Duration(v * float64(time.Second)).String()
}

func TestTheMetricsSayWhoHoldsAndWhoElseClaims(t *testing.T) {
	c := &Collector{Agent: agentOf(view(true))}
	got := gather(t, c)
	for _, want := range []string{
		"vip_held{kind=api,vip=10.98.0.5} 1s", "vip_held{kind=ingress,vip=fd98::6} 0s",
		"vip_claims{by=02:00:00:00:00:99,router_id=,vip=10.98.0.5} 1s", "vip_claims{by=10.98.0.200,router_id=77,vip=} 1s",
		"vip_may_hold{} 1s", "vip_forged_adverts{as=10.98.0.12,by=02:00:00:00:00:99,vip=10.98.0.5} 1s",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "local_api_ready") {
		t.Error("an unknown fact has a value")
	}
}

func TestMovesAreCountedFromTheAgentsStartOn(t *testing.T) {
	c := &Collector{Agent: agentOf(view(true))}
	empty := view(true)
	empty.Addresses = nil
	for _, v := range []state.NetworkView{empty, view(true), view(true), view(false), view(true), view(false)} {
		c.count(v)
	}
	if to := c.moves[vip]; to[true] != 1 || to[false] != 2 {
		t.Errorf("%v", to)
	}
	got := gather(t, c)
	for _, want := range []string{"vip_moves_total{to=held,vip=10.98.0.5} 1s", "vip_moves_total{to=released,vip=10.98.0.5} 2s"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// TestTheRecordedMetricsAreThoseThatAreServed keeps the metrics for the tests of
// alerts and of the dashboard in step with what a host serves: cp-1 holds the VIP
// of the API, cp-2 that of the ingress, until cp-2 is lost.
func TestTheRecordedMetricsAreThoseThatAreServed(t *testing.T) {
	ingress := netip.MustParseAddr("10.98.0.6")
	for _, m := range []struct {
		name, host string
		holds      []netip.Addr
		took       int
	}{
		{"healthy", "cp-1", []netip.Addr{vip}, 0},
		{"healthy", "cp-2", []netip.Addr{ingress}, 0},
		{"lost", "cp-1", []netip.Addr{vip, ingress}, 1},
		{"back", "cp-1", []netip.Addr{vip, ingress}, 1},
		{"back", "cp-2", nil, 0},
	} {
		v := state.NetworkView{
			Settings: state.NetworkSettings{APIVIPs: []netip.Addr{vip}, IngressVIPs: []netip.Addr{ingress}},
			MayHold:  state.Known(true), LocalAPI: state.Known(true),
			Nodes: state.Known([]state.Node{{Name: "cp-1"}, {Name: "cp-2"}}),
		}
		for _, held := range m.holds {
			v.Addresses = append(v.Addresses, state.HostAddress{Interface: "eth0", Prefix: netip.PrefixFrom(held, 32)})
		}
		c := &Collector{Agent: agentOf(v), moves: map[netip.Addr]map[bool]int{vip: {}, ingress: {true: m.took}}}
		registry := prometheus.NewPedanticRegistry()
		if err := registry.Register(c); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		golden.Check(t, filepath.Join("../../../../render/alerts/testdata/metrics", m.name, m.host+".network.prom"), w.Body.Bytes())
	}
}

// broken is a collector that fails each time.
type broken struct{}

var never = prometheus.NewDesc("holdfast_never", "A test.", nil, nil)

func (broken) Describe(out chan<- *prometheus.Desc) { out <- never }

func (broken) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.NewInvalidMetric(never, errors.New("it cannot be read"))
}

func TestOthersMetricsAreServedBesideAndABrokenOneTakesNoneAway(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	other := prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_other"})
	c := &Collector{Agent: agentOf(view(true))}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Serve(ctx, address, other, broken{}) }()
	text := ""
	for text == "" {
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
		if resp, err := http.Get("http://" + address + "/metrics"); err == nil {
			data, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%d, %v", resp.StatusCode, err)
			}
			text = string(data)
		}
	}
	for _, want := range []string{"holdfast_other 0", "holdfast_network_vip_held{", "go_goroutines "} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("%s is not served", want)
		}
	}
	if strings.Contains(text, "holdfast_never") {
		t.Error("what cannot be read has a value")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
