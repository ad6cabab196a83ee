package alerts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
func (b board) panels(t *testing.T) []shown {
	t.Helper()
	var file struct {
		UID, Title string
		Panels     []shown
	}
	if err := json.Unmarshal(b.file(), &file); err != nil {
		t.Fatal(err)
	}
	if file.UID == "" || file.Title == "" || len(file.Panels) < 15 {
		t.Fatalf("%+v", file)
	}
	return file.Panels
}

func TestBoardsAreTheFilesThatAreShipped(t *testing.T) {
	for _, b := range boards() {
		golden.Check(t, "../../../../docs/dashboards/"+b.uid+".json", b.file())
	}
}

func TestPanelsOfABoardDoNotCoverEachOther(t *testing.T) {
	for _, board := range boards() {
		list := board.panels(t)
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
}

// asked is when queries are evaluated in the i-th moment, in minutes of the story.
func asked(i int) int { return 10*i + 8 }

// served returns the metrics that hosts served at the i-th moment, by series.
func (b board) served(t *testing.T, i int) map[string]string {
	t.Helper()
	out := map[string]string{}
	dir := filepath.Join("testdata/metrics", b.recorded, b.moments[i])
	files, err := filepath.Glob(filepath.Join(dir, "*.prom"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", dir, files, err)
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
			if strings.HasSuffix(name, "_timestamp_seconds") || strings.HasSuffix(name, "_since_seconds") {
				value = moved(t, dir, value, 60*asked(i))
			}
			out[name+`{instance="`+host+`"`+labels+`}`] = value
		}
	}
	return out
}

// moved returns a point in time of a recording as one of the story, in which the recording
// was made after this many seconds. Recordings that do not say when they were made have
// points of the story already.
func moved(t *testing.T, dir, value string, to int) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "recorded-at"))
	if errors.Is(err, fs.ErrNotExist) {
		return value
	}
	at, wrong := strconv.ParseFloat(strings.TrimSpace(string(data)), 64)
	point, alsoWrong := strconv.ParseFloat(value, 64)
	if err := errors.Join(err, wrong, alsoWrong); err != nil {
		t.Fatal(err)
	}
	return strconv.FormatFloat(math.Round(point-at)+float64(to), 'f', -1, 64)
}

// series returns the recorded metrics as Prometheus would have collected them,
// with one sample per minute.
func (b board) series(t *testing.T) []map[string]string {
	t.Helper()
	values := map[string]string{}
	for i := range b.moments {
		found := b.served(t, i)
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
func (b board) answers(t *testing.T, queries []string) map[string]string {
	t.Helper()
	never := []any{map[string]any{"labels": `{never="so"}`, "value": 0}}
	var all []any
	for i := range b.moments {
		for _, q := range queries {
			all = append(all, map[string]any{"expr": q, "eval_time": fmt.Sprintf("%dm", asked(i)), "exp_samples": never})
		}
	}
	file, err := yaml.Marshal(map[string]any{
		"rule_files": []string{"rules.yaml"}, "evaluation_interval": "30s",
		"tests": []any{map[string]any{"interval": "1m", "input_series": b.series(t), "promql_expr_test": all}},
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
	if len(out) != len(all) || err == nil {
		t.Fatalf("%d answers to %d queries, %v:\n%s", len(out), len(all), err, said)
	}
	return out
}

// TestEachQueryOfABoardAnswersFromRecordedMetrics plays the recorded story and
// prints what every panel shows: somebody reads that before approving it.
func TestEachQueryOfABoardAnswersFromRecordedMetrics(t *testing.T) {
	for _, b := range boards() {
		t.Run(b.uid, func(t *testing.T) { golden.Check(t, b.uid+".txt", []byte(b.plays(t))) })
	}
}

// plays returns what each panel of a board shows at each recorded moment.
func (b board) plays(t *testing.T) string {
	t.Helper()
	var queries []string
	for _, r := range b.rows {
		for _, p := range r.panels {
			for _, q := range p.queries {
				queries = append(queries, q.expr)
				askedFor(t, p.title, q.expr)
			}
		}
	}
	got := b.answers(t, queries)
	var text strings.Builder
	for _, r := range b.rows {
		fmt.Fprintf(&text, "# %s\n\n", r.title)
		for _, p := range r.panels {
			fmt.Fprintf(&text, "%s (%s)\n", p.title, p.kind)
			for _, q := range p.queries {
				fmt.Fprintf(&text, "  %s\n", q.expr)
				some := false
				for i, moment := range b.moments {
					a := got[fmt.Sprintf("%s %dm", q.expr, asked(i))]
					fmt.Fprintf(&text, "    %-10s %s\n", moment, strings.ReplaceAll(a, "E+00", ""))
					some = some || a != "nil"
				}
				if some == p.rare {
					t.Errorf("%s: rare is %t, and it shows something: %t: %s", p.title, p.rare, some, q.expr)
				}
			}
			text.WriteString("\n")
		}
	}
	return text.String()
}

func TestTheNameOfAValueUsesLabelsThatItsQueryKeeps(t *testing.T) {
	used := regexp.MustCompile(`\{\{(\w+)\}\}`)
	for _, b := range boards() {
		for _, p := range b.panels(t) {
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
}
