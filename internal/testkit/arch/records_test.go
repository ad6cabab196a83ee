package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// namesRecords lists the packages, besides the owner of the records, that name
// a file of the two-node protocol, each with its reason. None of them opens
// one.
var namesRecords = map[string]string{
	"internal/fence":                 "keeps what it learned, and its locks, beside the devices",
	"internal/report/observer":       "the data of etcd lie beside its record",
	"internal/report/bundle":         "collects them by commands, here or on another host",
	"internal/keeper":                "watches the proofs",
	"internal/agent/controlplane":    "watches the proofs",
	"internal/agent/pacemakerstatus": "watches the proofs",
	"internal/agent/incident":        "watches them, and says where a fact is from",
	"internal/agent/replace":         "looks whether the two hosts were set up",
	"internal/agent/twonode":         "tells a person",
	"internal/cli":                   "tells a person",
	"internal/decide/explain":        "tells a person",
	"internal/decide/confirm":        "tells a person",
	"internal/decide/wiping":         "a host that is wiped has none of them any more",
	"internal/install/readdress":     "gives them the addresses of another place, while nothing that reads them runs",
	"internal/install/installer":     "finds the accounts of BMCs among the files of a backup",
	"internal/model/backup":          "lists them among the files of a host that a backup holds",
}

// recordFiles returns the constants of state/files.go, by name.
func recordFiles(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../model/state/files.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, is := n.(*ast.ValueSpec); is {
			paths[v.Names[0].Name] = v.Values[0].(*ast.BasicLit).Value
		}
		return true
	})
	return paths
}

func TestOnePackageReadsAndWritesTheFilesOfTheTwoNodeProtocol(t *testing.T) {
	paths := recordFiles(t)
	if len(paths) < 8 {
		t.Fatalf("state/files.go names %d files", len(paths))
	}
	found := map[string]bool{}
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for constant, text := range paths {
				if rel != "internal/model/state" && says(file, text) {
					t.Errorf("%s/%s spells %s out: take state.%s", rel, name, text, constant)
				}
			}
			for _, call := range uses(file) {
				constant, _ := strings.CutPrefix(call, "internal/model/state.")
				form := slices.Contains([]string{"internal/model/state.EncodeEtcdRecord", "internal/model/state.DecodeEtcdRecord"}, call)
				if _, is := paths[constant]; rel == "internal/adapter/records" || (!is && !form) {
					continue
				}
				found[rel] = true
				if form || namesRecords[rel] == "" {
					t.Errorf("%s/%s names %s: go through internal/adapter/records", rel, name, call)
				}
			}
		}
	}
	for rel := range namesRecords {
		if !found[rel] {
			t.Errorf("%s names no file of the protocol any more: take it out of the table", rel)
		}
	}
}
