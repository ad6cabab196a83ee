package alerts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func all(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []rule }
	}
	if err := yaml.Unmarshal(rules, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) < 20 {
		t.Fatalf("%+v", file)
	}
	return file.Groups[0].Rules
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

func TestTheObjectHoldsTheSameRules(t *testing.T) {
	spec, ok := Object()["spec"].(map[string]any)
	if !ok || len(spec["groups"].([]any)) != 1 { //nolint:forcetypeassert // a test
		t.Errorf("%+v", Object())
	}
}
