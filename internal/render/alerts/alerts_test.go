package alerts

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/agent/pacemakerstatus"
)

type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// byGroup returns the rules by the name of their group.
func byGroup(t *testing.T) map[string][]rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	if err := yaml.Unmarshal(rules, &file); err != nil {
		t.Fatal(err)
	}
	out := map[string][]rule{}
	for _, g := range file.Groups {
		out[g.Name] = g.Rules
	}
	if len(file.Groups) != 2 || len(out[Name]) < 20 || len(out[SiteName]) < 20 {
		t.Fatalf("%+v", file)
	}
	return out
}

func all(t *testing.T) []rule {
	t.Helper()
	groups := byGroup(t)
	return slices.Concat(groups[Name], groups[SiteName])
}

// promtool returns the path of Prometheus' own tester: the machine's, or the
// one that hack/promtool installed.
func promtool(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("promtool"); err == nil {
		return path
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cache, "holdfast", "promtool", "promtool")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if os.Getenv("HOLDFAST_REQUIRE_TOOLS") == "1" {
		t.Fatal("promtool is missing: run hack/promtool once")
	}
	t.Skip("NOT TESTED: this needs promtool (run hack/promtool once)")
	return ""
}

func TestPromtoolAgreesWhenAlertsFire(t *testing.T) {
	tool := promtool(t)
	dir := t.TempDir()
	tests, err := os.ReadFile("testdata/rules.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"rules.yaml": rules, "rules.test.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules.test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func TestEachAlertHasItsPlaceInTheRunbook(t *testing.T) {
	page, err := os.ReadFile("../../../docs/runbook/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all(t) {
		anchor := strings.TrimPrefix(r.Annotations["runbook_url"], "docs/runbook/alerts.md#")
		if anchor != strings.ToLower(r.Alert) || !strings.Contains(string(page), "\n## "+r.Alert+"\n") {
			t.Errorf("%s: %q leads nowhere", r.Alert, r.Annotations["runbook_url"])
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
		if r.For == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s is not whole: %+v", r.Alert, r)
		}
	}
	// Steps of two-node read JSON with the accounts of BMCs, which nobody types.
	if steps := regexp.MustCompile(`holdfast-agent two-node (auth|fencing|setup|manifest|hand-over|finish)`).FindAllString(string(page), -1); len(steps) > 0 {
		t.Errorf("the page has a person type %q", steps)
	}
}

// TestTheObjectsHoldEachRuleOnce: one object has the rules of every site, the other one
// those of two control planes.
func TestTheObjectsHoldEachRuleOnce(t *testing.T) {
	names := map[string]int{}
	for name, o := range map[string]map[string]any{Name: Object(), SiteName: SiteObject()} {
		var got struct {
			Metadata struct{ Name string }
			Spec     struct {
				Groups []struct {
					Name  string
					Rules []rule
				}
			}
		}
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if got.Metadata.Name != name || len(got.Spec.Groups) != 1 || got.Spec.Groups[0].Name != name {
			t.Fatalf("%s: %s", name, text)
		}
		if !reflect.DeepEqual(got.Spec.Groups[0].Rules, byGroup(t)[name]) {
			t.Errorf("%s has other rules than the file", name)
		}
		for _, r := range got.Spec.Groups[0].Rules {
			names[r.Alert]++
		}
	}
	for _, r := range all(t) {
		if names[r.Alert] != 1 {
			t.Errorf("%s is there %d times", r.Alert, names[r.Alert])
		}
	}
}

// TestRulesOfEverySiteAskForNothingOfPacemaker: a site of one or three control planes has
// no such metric. Every rule of two control planes asks for one, so that no other rule is
// kept from those sites.
func TestRulesOfEverySiteAskForNothingOfPacemaker(t *testing.T) {
	pacemaker := describedBy(t, []prometheus.Collector{pacemakerstatus.New(pacemakerstatus.Options{Log: slog.New(slog.DiscardHandler)})})
	for name, list := range byGroup(t) {
		for _, r := range list {
			asks := slices.ContainsFunc(selected.FindAllStringSubmatch(r.Expr, -1), func(m []string) bool { return pacemaker[m[1]] != nil })
			if asks != (name == Name) {
				t.Errorf("%s is in %s; it asks for a metric of Pacemaker: %t", r.Alert, name, asks)
			}
		}
	}
}
