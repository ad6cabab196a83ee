package alerts

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// shown is a panel in the form that Grafana reads.
type shown struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []struct{ Expr, LegendFormat string }
}

// panels returns the panels of the file, read as Grafana does.
func panels(t *testing.T) []shown {
	t.Helper()
	var file struct {
		UID, Title string
		Panels     []shown
	}
	if err := json.Unmarshal(board(), &file); err != nil {
		t.Fatal(err)
	}
	if file.UID == "" || file.Title == "" || len(file.Panels) < 20 {
		t.Fatalf("%+v", file)
	}
	return file.Panels
}

func TestTheBoardIsTheFileThatIsShipped(t *testing.T) {
	golden.Check(t, "../../../../docs/dashboards/holdfast-two-node.json", board())
}

func TestPanelsOfTheBoardDoNotCoverEachOther(t *testing.T) {
	list := panels(t)
	for i, a := range list {
		if a.ID != i+1 || a.GridPos.X+a.GridPos.W > 24 || a.Title == "" {
			t.Errorf("%+v", a)
		}
		for _, b := range list[i+1:] {
			p, q := a.GridPos, b.GridPos
			if p.X < q.X+q.W && q.X < p.X+p.W && p.Y < q.Y+q.H && q.Y < p.Y+p.H {
				t.Errorf("%q lies on %q", a.Title, b.Title)
			}
		}
	}
}

// moments are the parts of the recorded story: ten minutes of a healthy site,
// ten without cp-2, ten with cp-2 again.
var moments = []string{"healthy", "lost", "back"}

// served returns the metrics that both hosts served at a moment, by series.
func served(t *testing.T, moment string) map[string]string {
	t.Helper()
	out := map[string]string{}
	files, err := filepath.Glob(filepath.Join("testdata/metrics", moment, "*.prom"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%s: %v, %v", moment, files, err)
	}
	for _, f := range files {
		host, _, _ := strings.Cut(filepath.Base(f), ".")
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if name == "#" {
				continue
			}
			name, labels, has := strings.Cut(strings.TrimSuffix(name, "}"), "{")
			if has {
				labels = "," + labels
			}
			out[name+`{instance="`+host+`"`+labels+`}`] = value
		}
	}
	return out
}

// series returns the recorded metrics as Prometheus would have collected them,
// with one sample per minute.
func series(t *testing.T) []map[string]string {
	t.Helper()
	values := map[string]string{}
	for i, moment := range moments {
		found := served(t, moment)
		for key := range found {
			if values[key] == "" && i > 0 {
				values[key] = fmt.Sprintf("_x%d ", 10*i)
			}
		}
		for key := range found {
			values[key] += found[key] + "x9 "
		}
		for key := range values {
			if _, there := found[key]; !there {
				values[key] += "stale _x9 "
			}
		}
	}
	var out []map[string]string
	for key, list := range values {
		out = append(out, map[string]string{"series": key, "values": strings.TrimSpace(list)})
	}
	return out
}

// answers returns what promtool's engine answers to each query in the middle of
// each moment. promtool prints only answers that differ from the expected ones,
// so the expected ones here are impossible.
func answers(t *testing.T, queries []string) map[string]string {
	t.Helper()
	never := []any{map[string]any{"labels": `{never="so"}`, "value": 0}}
	var asked []any
	for i := range moments {
		for _, q := range queries {
			asked = append(asked, map[string]any{"expr": q, "eval_time": fmt.Sprintf("%dm", 10*i+8), "exp_samples": never})
		}
	}
	file, err := yaml.Marshal(map[string]any{
		"rule_files": []string{"rules.yaml"}, "evaluation_interval": "30s",
		"tests": []any{map[string]any{"interval": "1m", "input_series": series(t), "promql_expr_test": asked}},
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"rules.yaml": rules, "board.yaml": file} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), promtool(t), "test", "rules", "board.yaml")
	cmd.Dir = dir
	said, err := cmd.CombinedOutput()
	out := map[string]string{}
	for _, m := range regexp.MustCompile(`expr: (".*"), time: (\S+),\n\s+exp: .*\n\s+got: (.*)\n`).FindAllStringSubmatch(string(said), -1) {
		var expr string
		if err := json.Unmarshal([]byte(m[1]), &expr); err != nil {
			t.Fatal(err)
		}
		out[expr+" "+m[2]] = m[3]
	}
	if len(out) != len(asked) || err == nil {
		t.Fatalf("%d answers to %d queries, %v:\n%s", len(out), len(asked), err, said)
	}
	return out
}

// TestEachQueryOfTheBoardAnswersFromRecordedMetrics plays the recorded story and
// prints what every panel shows: somebody reads that before approving it.
func TestEachQueryOfTheBoardAnswersFromRecordedMetrics(t *testing.T) {
	var queries []string
	for _, p := range panels(t) {
		for _, q := range p.Targets {
			queries = append(queries, q.Expr)
			askedFor(t, p.Title, q.Expr)
		}
	}
	got := answers(t, queries)
	var text strings.Builder
	for _, p := range panels(t) {
		if p.Type == "row" {
			fmt.Fprintf(&text, "# %s\n\n", p.Title)
			continue
		}
		fmt.Fprintf(&text, "%s (%s)\n", p.Title, p.Type)
		for _, q := range p.Targets {
			fmt.Fprintf(&text, "  %s\n", q.Expr)
			any := false
			for i, moment := range moments {
				a := got[fmt.Sprintf("%s %dm", q.Expr, 10*i+8)]
				fmt.Fprintf(&text, "    %-8s %s\n", moment, strings.ReplaceAll(a, "E+00", ""))
				any = any || a != "nil"
			}
			if !any && p.Title != "Claims by others" {
				t.Errorf("%s shows nothing, whatever happens: %s", p.Title, q.Expr)
			}
		}
		text.WriteString("\n")
	}
	golden.Check(t, "board.txt", []byte(text.String()))
}

func TestTheNameOfAValueUsesLabelsThatItsQueryKeeps(t *testing.T) {
	used := regexp.MustCompile(`\{\{(\w+)\}\}`)
	for _, p := range panels(t) {
		for _, q := range p.Targets {
			for _, label := range used.FindAllStringSubmatch(q.LegendFormat, -1) {
				kept := grouped.FindStringSubmatch(q.Expr)
				if kept == nil || !slices.Contains(strings.Split(strings.ReplaceAll(kept[1], " ", ""), ","), label[1]) {
					t.Errorf("%s: %q names a label that %s drops", p.Title, q.LegendFormat, q.Expr)
				}
			}
		}
	}
}
