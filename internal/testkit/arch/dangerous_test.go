package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// dangerous lists the functions with which a host has another one switched off
// or declared off, votes in its name, drops a member, ends the wait for quorum,
// empties a data directory, or sets up and removes the cluster manager. Each
// names its allowed users: the steps of the two-node protocol start in one
// place, which passes them to internal/keeper/act.
var dangerous = map[string][]string{
	"internal/adapter/pacemaker.Fence":        {"internal/keeper"},
	"internal/adapter/pacemaker.FenceFrom":    {"internal/fence/rehearsal"}, // fencing verify --disruptive
	"internal/adapter/pacemaker.ConfirmDown":  {"internal/cli"},             // quorum confirm, by an administrator's confirmation
	"internal/adapter/pacemaker.GrantQuorum":  {"internal/keeper"},
	"internal/adapter/pacemaker.Destroy":      {"internal/agent/twonode"}, // the set-up, which first checks what exists, and the way back to one
	"internal/adapter/pacemaker.EditCIB":      {"internal/agent/twonode"},
	"internal/adapter/pacemaker.EditCorosync": {"internal/agent/twonode"},
	"internal/adapter/pacemaker.ApplyCIB":     {"internal/agent/twonode"},
	"internal/agent/carry.Administrator":      {"internal/agent/narrow", "internal/agent/replace", "internal/agent/widen"}, // a person wished the plan
	"internal/adapter/pacemaker.Reload":       {"internal/agent/replace", "internal/agent/twonode"},
	"internal/adapter/pacemaker.Forget":       {"internal/agent/replace"}, // with a proof of the same moment, or after that
	"internal/adapter/etcd.StartStandIn":      {"internal/keeper"},
	"internal/adapter/etcd.Empty":             {"internal/keeper"},
	"internal/adapter/etcd.SetAside":          {"internal/keeper"},
	"internal/adapter/etcd.DropAside":         {"internal/agent/space"},                                         // what a keeper set aside, once etcd serves without one
	"internal/fence.Run":                      {"cmd/fence-holdfast", "internal/agent/replace", "internal/cli"}, // a replacement and quorum confirm cut the power first
	"internal/adapter/pacemaker.Disable":      {"internal/agent/twonode"},                                       // etcd goes back to kubelet, without a peer
	"internal/adapter/pacemaker.Maintain":     {"internal/agent/twonode", "internal/agent/widen"},               // Pacemaker ends after it
	"internal/adapter/pacemaker.Manage":       {"internal/agent/twonode"},                                       // both etcd keepers have etcd
	"internal/adapter/redfish.Open":           {"internal/fence", "internal/lab"},                               // all power orders take its result
}

func TestWhatCannotBeUndoneIsDoneFromOnePlace(t *testing.T) {
	found := map[string][]string{}
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		for _, file := range parsed(t, p) {
			for _, call := range uses(file) {
				allowed, is := dangerous[call]
				if !is {
					continue
				}
				found[call] = append(found[call], rel)
				if !slices.Contains(allowed, rel) {
					t.Errorf("%s uses %s: steps of the two-node protocol go through internal/keeper/act", rel, call)
				}
			}
		}
	}
	for call, allowed := range dangerous {
		for _, rel := range allowed {
			if !slices.Contains(found[call], rel) {
				t.Errorf("%s does not use %s any more: take it out of the table", rel, call)
			}
		}
	}
}

func TestNoOtherNameOfAnImportHidesACall(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"plain":  {`import "github.com/holdfast/holdfast/internal/adapter/pacemaker"; var f = pacemaker.Fence`, "internal/adapter/pacemaker.Fence"},
		"alias":  {`import pm "github.com/holdfast/holdfast/internal/adapter/pacemaker"; func f() { pm.GrantQuorum(nil) }`, "internal/adapter/pacemaker.GrantQuorum"},
		"dot":    {`import . "github.com/holdfast/holdfast/internal/adapter/etcd"; func f() { Empty(nil) }`, "internal/adapter/etcd.*"},
		"nobody": {`import "fmt"; var pacemaker struct{ Fence int }; var f = fmt.Sprint(pacemaker.Fence)`, "fmt.Sprint"},
	} {
		if got := uses(source(t, c.text)); !slices.Contains(got, c.want) || name == "nobody" && len(got) != 1 {
			t.Errorf("%s: found %v, want %s", name, got, c.want)
		}
	}
	for _, p := range listPackages(t) {
		for _, file := range parsed(t, p) {
			for _, call := range uses(file) {
				if strings.HasSuffix(call, ".*") {
					t.Errorf("%s imports %s with a dot: what it uses of it cannot be seen", p.ImportPath, call)
				}
			}
		}
	}
}

// parsed returns the syntax trees of a package's files without tests.
func parsed(t *testing.T, p goPackage) map[string]*ast.File {
	t.Helper()
	out := map[string]*ast.File{}
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = file
	}
	return out
}

// source returns the syntax tree of a made-up file.
func source(t *testing.T, text string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "made-up.go", "package p\n"+text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// uses lists the names that a file uses of other packages, as folder.Name; an
// import with a dot hides the names, so it gives folder.*.
func uses(file *ast.File) []string {
	imports, out := map[string]string{}, map[string]bool{}
	for _, i := range file.Imports {
		full, _ := strconv.Unquote(i.Path.Value)
		name, folder := path.Base(full), strings.TrimPrefix(full, module)
		if i.Name != nil {
			name = i.Name.Name
		}
		if name == "." {
			out[folder+".*"] = true
		}
		imports[name] = folder
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && imports[x.Name] != "" {
				out[imports[x.Name]+"."+s.Sel.Name] = true
			}
		}
		return true
	})
	return slices.Sorted(maps.Keys(out))
}
