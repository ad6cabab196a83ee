package alerts

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/agent/backup"
	"github.com/holdfast/holdfast/internal/agent/certificates"
	"github.com/holdfast/holdfast/internal/agent/leafcert"
	"github.com/holdfast/holdfast/internal/agent/machineconfig"
	"github.com/holdfast/holdfast/internal/agent/network/metrics"
	"github.com/holdfast/holdfast/internal/agent/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/agent/rotation"
	"github.com/holdfast/holdfast/internal/agent/space"
	"github.com/holdfast/holdfast/internal/decide/ports"
	pools "github.com/holdfast/holdfast/internal/operator/machineconfig"
	"github.com/holdfast/holdfast/internal/operator/upgrade"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// collectors returns those of a host, by the address at which they are served.
func collectors() map[string][]prometheus.Collector {
	return map[string][]prometheus.Collector{
		fmt.Sprintf("127.0.0.1:%d", render.MetricsPort): slices.Concat(upgrade.Collectors(), pools.Collectors()),
		metrics.Address: {
			pacemakerstatus.New(pacemakerstatus.Options{Log: slog.New(slog.DiscardHandler)}), &metrics.Collector{},
			certificates.Collector{},
			leafcert.New(leafcert.Options{}),
			machineconfig.New(machineconfig.Options{}), backup.New(backup.Options{}), space.New(space.Options{}), &rotation.Gauge{},
		},
	}
}

// described returns the metrics of a host with their labels, as its collectors
// describe them.
func described(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, served := range collectors() {
		maps.Copy(out, describedBy(t, served))
	}
	return out
}

func describedBy(t *testing.T, served []prometheus.Collector) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	form := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	for _, c := range served {
		descs := make(chan *prometheus.Desc)
		go func() { c.Describe(descs); close(descs) }()
		for d := range descs {
			m := form.FindStringSubmatch(d.String())
			if m == nil {
				t.Fatalf("a description is not understood: %s", d)
			}
			out[m[1]] = append(strings.Split(m[2], ","), "instance", "job")
		}
	}
	return out
}

// recorded returns all lines of the recorded metrics.
func recorded(t *testing.T) string {
	t.Helper()
	ofFailures, err := filepath.Glob("testdata/metrics/*/*.prom")
	if err != nil || len(ofFailures) < 10 {
		t.Fatalf("%v, %v", ofFailures, err)
	}
	ofYears, err := filepath.Glob("testdata/metrics/years/*/*.prom")
	if err != nil || len(ofYears) < 10 {
		t.Fatalf("%v, %v", ofYears, err)
	}
	var out strings.Builder
	for _, f := range slices.Concat(ofFailures, ofYears) {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(data)
	}
	return out.String()
}

var (
	// selected matches one of our metrics in an expression with its label
	// matchers; matched matches one label of those and its value.
	selected = regexp.MustCompile(`(holdfast_[a-z_]+)(?:\{([^}]*)\})?`)
	matched  = regexp.MustCompile(`([a-z_]+)(=~|!=|=)"([^"]*)"`)
	grouped  = regexp.MustCompile(`\b(?:by|on) \(([a-z_, ]*)\)`)
)

// askedFor fails if an expression uses a metric, a label or a condition that no
// host has.
func askedFor(t *testing.T, who, expr string) {
	t.Helper()
	names, lines := described(t), recorded(t)
	known := []string{""}
	if strings.Contains(expr, "ALERTS{") { // a metric of Prometheus itself
		known = append(known, "alertname", "severity", "host", "resource", "vip")
	}
	for _, m := range selected.FindAllStringSubmatch(expr, -1) {
		labels, there := names[m[1]]
		if !there {
			t.Errorf("%s asks for %s, which no collector describes", who, m[1])
			continue
		}
		known = append(known, labels...)
		for _, l := range matched.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labels, l[1]) {
				t.Errorf("%s asks %s for label %s, which it does not have", who, m[1], l[1])
			}
			for value := range strings.SplitSeq(l[3], "|") {
				if l[1] == "condition" && !strings.Contains(lines, `condition="`+value+`"`) {
					t.Errorf("%s asks for condition %s, which nobody has", who, value)
				}
			}
		}
	}
	for _, g := range grouped.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(g[1], ",") {
			if !slices.Contains(known, strings.TrimSpace(label)) {
				t.Errorf("%s groups by %s, which none of its metrics has", who, label)
			}
		}
	}
}

func TestEveryMetricOfEveryRuleIsDescribedByACollector(t *testing.T) {
	for _, r := range all(t) {
		if !strings.Contains(r.Expr, "holdfast_") {
			t.Errorf("%s asks for nothing of ours", r.Alert)
		}
		askedFor(t, r.Alert, r.Expr)
	}
	for _, name := range selected.FindAllStringSubmatch(recorded(t), -1) {
		if _, there := described(t)[name[1]]; !there {
			t.Errorf("%s was recorded and is described no more", name[1])
		}
	}
}

// TestTheRunbookCollectsFromEachPlaceThatRulesAskFor: a rule whose metric nobody collects never fires.
func TestTheRunbookCollectsFromEachPlaceThatRulesAskFor(t *testing.T) {
	page, err := os.ReadFile("../../../docs/runbook/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	intro, rest, _ := strings.Cut(string(page), "```\nscrape_configs:")
	everywhere := slices.ContainsFunc(ports.Table(), func(p ports.Port) bool {
		return metrics.Address == fmt.Sprintf("127.0.0.1:%d", p.First) && p.On == ports.Every
	})
	if collects := strings.Contains(intro, "DaemonSet on all hosts"); collects != everywhere {
		t.Errorf("every host has metrics of its own at %s: %t; the runbook collects from all: %t", metrics.Address, everywhere, collects)
	}
	example, _, _ := strings.Cut("scrape_configs:"+rest, "```")
	var config struct {
		Jobs []struct {
			Name    string `json:"job_name"`
			Targets []struct {
				Targets []string
				Labels  map[string]string
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.UnmarshalStrict([]byte(example), &config); err != nil {
		t.Fatal(err)
	}
	collected := map[string]string{} // by the labels, with which two targets hide each other
	for _, job := range config.Jobs {
		for _, s := range job.Targets {
			if len(s.Targets) != 1 || s.Labels["instance"] == "" || collected[job.Name] != "" {
				t.Errorf("targets of job %s are not told apart: %+v", job.Name, s)
			}
			collected[job.Name] = s.Targets[0]
		}
	}
	for address, served := range collectors() {
		names := describedBy(t, served)
		asks := slices.ContainsFunc(all(t), func(r rule) bool {
			return slices.ContainsFunc(selected.FindAllStringSubmatch(r.Expr, -1), func(m []string) bool { return names[m[1]] != nil })
		})
		if collects := slices.Contains(slices.Collect(maps.Values(collected)), address); asks != collects {
			t.Errorf("%s: rules ask for its metrics: %t; the runbook collects them: %t", address, asks, collects)
		}
	}
}
