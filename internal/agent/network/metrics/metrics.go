// Package metrics exports to Prometheus how the network of a host is doing, above
// all who holds a VIP.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast/holdfast/internal/adapter/metric"
	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Address is the address of the agent's metrics, for collectors on this host
// only.
const Address = "127.0.0.1:29446"

// Collector makes metrics of the view and of the reconcilers when it is asked.
type Collector struct {
	Agent *network.Agent

	mu    sync.Mutex
	held  map[netip.Addr]bool
	moves map[netip.Addr]map[bool]int
}

var (
	held      = describe("vip_held", "1 where this host holds the virtual IP.", "vip", "kind")
	moves     = describe("vip_moves_total", "How often this host took (to=held) or gave up (to=released) the virtual IP since the agent started.", "vip", "to")
	claimed   = describe("vip_claims", "1 for each machine that also answers for a held virtual IP, or sends adverts about one with this cluster's VRRP router id.", "vip", "router_id", "by")
	forged    = describe("vip_forged_adverts", "1 for each hardware address that sends VRRP adverts in the name of a host that did not send them.", "vip", "as", "by")
	mayHold   = describe("vip_may_hold", "0 while this host must hold no virtual IP, for lack of quorum; absent while that is unknown.")
	nodes     = describe("nodes", "Nodes of the cluster as this host knows them.")
	stale     = describe("nodes_stale", "1 while the nodes are those of an earlier run.")
	backends  = describe("api_backends", "API servers by whether the load balancer on this host sends requests to them.", "live")
	redirect  = describe("api_redirected", "1 while the API's virtual IPs lead to the load balancer.")
	localAPI  = describe("local_api_ready", "1 while this host's own API server is ready.")
	localDNS  = describe("local_dns_answers", "1 while this host's own name server answers.")
	upstreams = describe("dns_upstreams", "The site's name servers.")
	runs      = describe("piece_runs_total", "Runs of a reconciler.", "piece")
	failing   = describe("piece_failures", "Consecutive failed runs of a reconciler until now.", "piece")
	took      = describe("piece_last_run_seconds", "Duration of a reconciler's last run.", "piece")
	changed   = describe("piece_last_change_timestamp_seconds", "When a reconciler last changed something.", "piece")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return metric.Describe("network_"+name, help, labels...)
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		held, moves, claimed, forged, mayHold, nodes, stale, backends, redirect, localAPI, localDNS, upstreams, runs, failing, took, changed,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	out := metric.Send(to)
	view := c.Agent.Views.View()
	c.vips(view, out)
	out.Gauge(nodes, float64(len(view.Nodes.Value)))
	out.Gauge(stale, metric.Bool(view.Stale))
	out.Gauge(redirect, metric.Bool(view.Redirected))
	out.Gauge(upstreams, float64(len(view.Upstreams)))
	out.Fact(mayHold, view.MayHold)
	out.Fact(localAPI, view.LocalAPI)
	out.Fact(localDNS, view.LocalDNS)
	if view.Balancer.Known {
		live := view.Balancer.Value.Live()
		out.Gauge(backends, float64(live), "true")
		out.Gauge(backends, float64(len(view.Balancer.Value.Backends)-live), "false")
	}
	for _, s := range c.Agent.States() {
		out.Counter(runs, float64(s.Runs), s.Name)
		out.Gauge(failing, float64(s.Failures), s.Name)
		out.Gauge(took, s.Took.Seconds(), s.Name)
		out.Time(changed, s.ChangedAt, s.Name)
	}
}

func (c *Collector) vips(view state.NetworkView, out metric.Send) {
	now := heldNow(view)
	for _, k := range []struct {
		name string
		vips []netip.Addr
	}{{"api", view.Settings.APIVIPs}, {"ingress", view.Settings.IngressVIPs}} {
		for _, vip := range k.vips {
			out.Gauge(held, metric.Bool(now[vip]), vip.String(), k.name)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for vip, to := range c.moves {
		out.Counter(moves, float64(to[true]), vip.String(), "held")
		out.Counter(moves, float64(to[false]), vip.String(), "released")
	}
	for _, claim := range view.Claims {
		vip, id := "", ""
		if claim.VIP.IsValid() {
			vip = claim.VIP.String()
		}
		if claim.RouterID != 0 {
			id = strconv.Itoa(int(claim.RouterID))
		}
		out.Gauge(claimed, 1, vip, id, claim.By)
	}
	for key := range forgers(view.Forged) {
		out.Gauge(forged, 1, key.VIP.String(), key.As.String(), key.By)
	}
}

// forgers returns the forged adverts, each sender once however it forges.
func forgers(list []state.ForgedAdvert) map[state.ForgedAdvert]bool {
	out := map[state.ForgedAdvert]bool{}
	for _, f := range list {
		f.Excess = false
		out[f] = true
	}
	return out
}

func heldNow(view state.NetworkView) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for _, vip := range network.HeldVIPs(view) {
		out[vip] = true
	}
	return out
}

// Follow counts the moves of virtual IPs until the context ends.
func (c *Collector) Follow(ctx context.Context) error {
	changed := c.Agent.Views.Follow()
	for {
		c.count(c.Agent.Views.View())
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// count counts the VIPs that are held now and were not, and the other way round.
// Those that are held at the agent's start were taken before.
func (c *Collector) count(view state.NetworkView) {
	now := heldNow(view)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moves == nil {
		c.moves = map[netip.Addr]map[bool]int{}
	}
	for _, vip := range view.Settings.VIPs() {
		if c.moves[vip] == nil {
			c.moves[vip] = map[bool]int{}
		}
		if c.held != nil && c.held[vip] != now[vip] {
			c.moves[vip][now[vip]]++
		}
	}
	if len(view.Addresses) > 0 {
		c.held = now
	}
}

// Serve serves the metrics, and those of others, at an address until the context
// ends. A collector that fails loses its own metrics and no others.
func (c *Collector) Serve(ctx context.Context, address string, others ...prometheus.Collector) error {
	registry := prometheus.NewRegistry()
	for _, m := range append([]prometheus.Collector{
		c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}, others...) {
		if err := registry.Register(m); err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}
