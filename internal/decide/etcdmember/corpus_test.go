package etcdmember

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/state"
)

var update = flag.Bool("update-verdicts", false, "rewrite the verdicts of the corpus; a changed verdict needs an ADR in the same commit")

// incident is one file of the corpus: what a host saw, its source, and the verdict.
type incident struct {
	Source   string             `json:"source"`
	Says     string             `json:"says"`
	Snapshot state.EtcdSnapshot `json:"snapshot"`
	Verdict  state.EtcdVerdict  `json:"verdict"`
}

func TestTheCorpusKeepsItsVerdicts(t *testing.T) {
	paths, err := filepath.Glob("../../../test/corpus/etcd/*.json")
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var c incident
			d := json.NewDecoder(bytes.NewReader(b))
			d.DisallowUnknownFields()
			if err := d.Decode(&c); err != nil {
				t.Fatal(err)
			}
			got := Decide(c.Snapshot)
			if *update {
				c.Verdict = got
				writeIncident(t, path, c)
			}
			if diff := cmp.Diff(c.Verdict, got); diff != "" {
				t.Errorf("%s\n%s\n(-want +got)\n%s", c.Source, c.Says, diff)
			}
		})
	}
}

func writeIncident(t *testing.T, path string, c incident) {
	t.Helper()
	out, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(out, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
