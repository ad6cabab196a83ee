package witness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netns"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/network/metrics"
	"github.com/holdfast/holdfast/internal/render/alerts"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
	"github.com/holdfast/holdfast/internal/testkit/porttest"
)

// Root returns the path of a running host's files on the machine:
// /proc/PID/root.
type Root func(ctx context.Context, host string) (string, error)

// Every host is scraped and every alert evaluated each second.
const every = time.Second

// Prometheus is a real Prometheus that scrapes both hosts' agents.
type Prometheus struct {
	hosts []string
	root  Root
	front net.Listener
	http  *http.Server
	end   context.CancelFunc
	ended sync.WaitGroup
	dir   string
	base  string
	began time.Time

	mu   sync.Mutex
	cost []Cost
}

// Cost is the processor time that a host's agent had used, in one boot, at a
// moment.
type Cost struct {
	At   time.Time
	Host string
	Root string // identifies the boot
	CPU  time.Duration
}

// Program returns the path at which hack/promtool installs Prometheus.
func Program() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "holdfast", "promtool", "prometheus")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no Prometheus to evaluate alerts (run hack/promtool): %w", err)
	}
	return path, nil
}

// StartPrometheus starts a Prometheus that scrapes the hosts, and returns once
// it has scraped each.
func StartPrometheus(ctx context.Context, hosts []string, root Root) (*Prometheus, error) {
	program, err := Program()
	if err != nil {
		return nil, err
	}
	p := &Prometheus{hosts: hosts, root: root, began: time.Now()}
	if p.dir, err = os.MkdirTemp("", "holdfast-prometheus-"); err != nil {
		return nil, err
	}
	if p.front, err = net.Listen("tcp", "127.0.0.1:0"); err != nil { //nolint:noctx // it listens for as long as the test runs
		return nil, err
	}
	p.http = &http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: every}
	go func() { _ = p.http.Serve(p.front) }()
	port, err := porttest.Take()
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	p.base = "http://" + address
	if err := p.configure(); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	command := host.Command(program, "--config.file="+filepath.Join(p.dir, "prometheus.json"),
		"--storage.tsdb.path="+filepath.Join(p.dir, "data"), "--web.listen-address="+address, "--log.level=error")
	command.Env = []string{"GOMAXPROCS=1"}
	run, end := context.WithCancel(context.WithoutCancel(ctx))
	p.end = end
	p.ended.Go(func() { _, _ = host.Run(run, command) }) // ready notices if it fails
	if err := p.ready(ctx); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// configure writes the configuration as JSON, which is valid YAML.
func (p *Prometheus) configure() error {
	var targets []any
	for _, h := range p.hosts {
		targets = append(targets, map[string]any{
			"targets": []string{p.front.Addr().String()},
			"labels":  map[string]string{"__metrics_path__": "/" + h, "instance": h},
		})
	}
	config, err := json.Marshal(map[string]any{
		"global":         map[string]string{"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
		"rule_files":     []string{filepath.Join(p.dir, "rules.yaml")},
		"scrape_configs": []any{map[string]any{"job_name": "holdfast-agent", "static_configs": targets}},
	})
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(p.dir, "rules.yaml"), alerts.File(), 0o600),
		os.WriteFile(filepath.Join(p.dir, "prometheus.json"), config, 0o600),
	)
}

// ready waits until both hosts were scraped and the rules evaluated.
func (p *Prometheus) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("Prometheus does not get to know both hosts"))
	defer cancel()
	for {
		if list, err := p.query(ctx, "max_over_time(up[1m]) == 1"); err == nil && len(list) == len(p.hosts) {
			_ = host.Sleep(ctx, 2*every)
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_ = host.Sleep(ctx, tryAgain) // the loop checks the context itself
	}
}

// Stop ends Prometheus and removes its files.
func (p *Prometheus) Stop() error {
	if p.end != nil {
		p.end()
	}
	p.ended.Wait()
	return errors.Join(p.http.Close(), os.RemoveAll(p.dir))
}

// serve forwards a request to the agent of the host that the path names, within
// that host, because the agent listens only there.
func (p *Prometheus) serve(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	root, err := p.root(r.Context(), name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	p.noteCost(name, root)
	client := &http.Client{Timeout: every, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return dialWithin(ctx, filepath.Join(filepath.Dir(root), "ns", "net"), network, address)
		},
	}}
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+metrics.Address+"/metrics", nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	answer, err := client.Do(request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body) // Prometheus reports a truncated answer
}

// dialWithin connects from within a network namespace.
func dialWithin(ctx context.Context, namespace, network, address string) (conn net.Conn, err error) {
	ns, err := netns.GetFromPath(namespace)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ns.Close() }()
	err = netnstest.Do(ns, func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// noteCost records the processor time of the agent's control group.
func (p *Prometheus) noteCost(name, root string) {
	const group = "system.slice/holdfast-agent.service/cpu.stat"
	data, err := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", group))
	if err != nil { // if the machine has both kinds of control groups
		data, err = os.ReadFile(filepath.Join(root, "sys/fs/cgroup/unified", group))
	}
	if err != nil {
		return // it is starting or ending
	}
	if used, ok := usage(string(data)); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cost = append(p.cost, Cost{time.Now(), name, root, used})
	}
}

// usage returns the processor time in a control group's cpu.stat.
func usage(stat string) (time.Duration, bool) {
	for line := range strings.Lines(stat) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && key == "usage_usec" {
			return time.Duration(n) * time.Microsecond, true
		}
	}
	return 0, false
}

// Costs returns the costs recorded so far.
func (p *Prometheus) Costs() []Cost {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Cost(nil), p.cost...)
}

// series is one series of an answer.
type series struct {
	Metric map[string]string `json:"metric"`
	Values [][2]any          `json:"values"`
}

func (p *Prometheus) query(ctx context.Context, expr string) ([]series, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/api/v1/query?query="+url.QueryEscape(expr), nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	var out struct {
		Error string `json:"error"`
		Data  struct {
			Result []series `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&out); err != nil {
		return nil, err
	}
	if out.Error != "" {
		return nil, errors.New(out.Error)
	}
	return out.Data.Result, nil
}

// Alerts returns the alerts that were pending or firing since the start.
func (p *Prometheus) Alerts(ctx context.Context) ([]Alert, error) {
	list, err := p.query(ctx, fmt.Sprintf("ALERTS[%ds]", int(time.Since(p.began).Seconds())+1))
	if err != nil {
		return nil, fmt.Errorf("ask Prometheus for alerts: %w", err)
	}
	return times(list), nil
}
