// Package arch holds the rules of the source tree as tests: which packages
// decide, which have effects, and who may import whom.
package arch

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/payload"
)

const module = "github.com/holdfast/holdfast/"

// layer is one line of the table in docs/ARCHITECTURE.md.
type layer int

const (
	pure   layer = iota // takes data, returns data
	effect              // an adapter of one outer thing, or a reader or writer of hosts
	loop                // composes the others
	lab                 // the test bed, its hardware simulators and what only tests import
	binary              // wiring
)

// layers names the layer of every package. A package below a listed one belongs
// to the same layer unless it is listed itself. A new package must be added
// here, which is the moment to decide where it belongs.
var layers = map[string]layer{
	"internal/model/state":          pure,
	"internal/model/secret":         pure,
	"internal/model/netaddr":        pure,
	"internal/model/bmc":            pure,
	"internal/model/viprule":        pure,
	"internal/model/etcdpod":        pure,
	"internal/model/corosync":       pure,
	"internal/model/crmmon":         pure,
	"internal/model/config":         pure,
	"internal/model/backup":         pure,
	"internal/model/topology":       pure,
	"internal/install/plan":         pure,
	"internal/render":               pure,
	"internal/decide":               pure,
	"internal/model/payload":        pure,
	"internal/model/site":           pure,
	"internal/model/ignition":       pure,
	"internal/model/jointoken":      pure,
	"internal/model/retired":        pure,
	"internal/model/workload":       pure,
	"internal/adapter/eviction":     effect,
	"internal/adapter/host":         effect,
	"internal/adapter/hostconfig":   effect,
	"internal/adapter/updates":      effect,
	"internal/adapter/records":      effect,
	"internal/adapter/replacement":  effect,
	"internal/pace":                 effect,
	"internal/adapter/eventlog":     effect,
	"internal/adapter/backup":       effect,
	"internal/adapter/clock":        effect,
	"internal/adapter/keys":         effect,
	"internal/adapter/kube":         effect,
	"internal/adapter/labprogram":   effect,
	"internal/adapter/redfish":      effect,
	"internal/adapter/resolver":     effect,
	"internal/adapter/etcd":         effect,
	"internal/keeper/keeperclient":  effect,
	"internal/adapter/podman":       effect,
	"internal/adapter/pacemaker":    effect,
	"internal/adapter/mdns":         effect,
	"internal/adapter/metric":       effect,
	"internal/adapter/keepalived":   effect,
	"internal/adapter/nic":          effect,
	"internal/adapter/observe":      effect,
	"internal/install/apply":        effect,
	"internal/install/dualstack":    effect,
	"internal/install/grow":         effect,
	"internal/install/readdress":    effect,
	"internal/install/release":      effect,
	"internal/install/restore":      effect,
	"internal/report/explain":       effect,
	"internal/report/incident":      effect,
	"internal/report/bundle":        loop,
	"internal/adapter/haproxy":      effect,
	"internal/adapter/redirect":     effect,
	"internal/adapter/movedpeer":    effect,
	"internal/adapter/nftable":      effect,
	"internal/adapter/nftwatch":     effect,
	"internal/adapter/firewall":     effect,
	"internal/adapter/probe":        effect,
	"internal/keeper/act":           effect,
	"internal/keeper/ocf":           loop,
	"internal/keeper":               loop,
	"internal/cli":                  loop,
	"internal/cli/command":          loop,
	"internal/cli/place":            loop,
	"internal/agent":                loop,
	"internal/install/configserver": loop,
	"internal/report/doctor":        loop,
	"internal/report/observer":      loop,
	"internal/report/ownplace":      loop,
	"internal/install/installer":    loop,
	"internal/report/status":        loop,
	"internal/report/dashboard":     loop,
	"internal/operator":             loop,
	"internal/fence":                loop,
	"internal/lab":                  lab,
	"internal/testkit/access":       lab,
	"internal/testkit/apitest":      lab,
	"internal/testkit/builttest":    lab,
	"internal/testkit/cis":          lab,
	"internal/testkit/arch":         lab,
	"internal/testkit/sim":          lab,
	"internal/testkit/etcdtest":     lab,
	"internal/testkit/golden":       lab,
	"internal/testkit/sitetest":     lab,
	"internal/testkit/netnstest":    lab,
	"internal/testkit/porttest":     lab,
	"internal/testkit/explore":      lab,
	"internal/testkit/plantest":     lab,
	"internal/testkit/powercut":     lab,
	"internal/testkit/sshdtest":     lab,
	"cmd":                           binary,
	"test":                          lab,
	"hack/mutate":                   lab,
	"hack/payload":                  lab,
	"hack/bad-release":              lab,
}

// generators are programs of the generate step; they belong to no layer.
var generators = []string{"internal/render/manifests/gen"}

// pureOrder is the order in which data flows through pure packages: each
// imports only packages that stand before it.
var pureOrder = []string{
	"internal/model/state", "internal/model/secret", "internal/model/netaddr", "internal/model/bmc", "internal/model/corosync", "internal/model/crmmon", "internal/model/etcdpod", "internal/model/jointoken", "internal/model/retired", "internal/model/workload", "internal/model/viprule", "internal/model/config", "internal/model/backup", "internal/model/topology", "internal/model/payload",
	"internal/model/ignition", "internal/model/site", "internal/decide", "internal/render", "internal/install/plan",
}

// forbiddenInPure lists the direct imports, with all packages below them, that
// would let a decision reach outside. Each has the alternative.
var forbiddenInPure = map[string]string{
	"os":                     "take the data",
	"net":                    "use net/netip",
	"syscall":                "take the data",
	"golang.org/x/sys":       "take the data",
	"github.com/vishvananda": "take the data",
	"context":                "nothing here blocks",
	"sync":                   "no goroutines",
	"log":                    "return evidence",
	"math/rand":              "deterministic",
	"crypto/rand":            "deterministic",
	"crypto/tls":             "take the data",
	"k8s.io/client-go":       "it would reach the API",
}

// allowedInPure lists the exceptions from forbiddenInPure: values and their
// forms.
var allowedInPure = []string{"net/netip", "net/url", "k8s.io/client-go/tools/clientcmd/api"}

// clock lists the functions of package time that read the time or wait.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// onlyImporter names packages that have exactly one adapter.
var onlyImporter = map[string][]string{
	"os/exec":                             {"internal/adapter/host", "internal/testkit/etcdtest"},
	"github.com/stmcginnis/gofish":        {"internal/adapter/redfish"},
	"github.com/minio/minio-go/v7":        {"internal/adapter/backup/target"},
	"github.com/pkg/sftp":                 {"internal/adapter/backup/target"},
	"go.etcd.io/etcd/api/v3/etcdserverpb": {"internal/adapter/etcd"},
	"k8s.io/client-go/kubernetes":         {"internal/adapter/kube"},
	// kube.Access opens a kubeconfig. The test bed and its tests have their own
	// code for that.
	"k8s.io/client-go/tools/clientcmd": {"internal/adapter/kube", "internal/lab", "internal/testkit/apitest", "test/labsite"},
	"encoding/xml": { // one package reads crm_mon, one the CIB; the others write
		"internal/model/crmmon", "internal/decide/twonode", "internal/fence", "internal/decide/podmanetcd", "test/conformance",
	},
}

// decisionsInAdapter lists the decisions whose values the adapter of
// Kubernetes' API reads and writes, each with its reason. For every other
// decision, its user reads the needed fields from Kubernetes' own type.
var decisionsInAdapter = map[string]string{
	"internal/decide/joining": "a token and a request are whole objects, whose form is known here alone",
	"internal/decide/vips":    "vipobject is the form of what the operator and a person's command say about virtual IPs",
}

func TestTheAdapterOfTheAPIImportsNoDecision(t *testing.T) {
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		if !within(rel, "internal/adapter/kube") {
			continue
		}
		for _, imported := range p.Imports {
			to := strings.TrimPrefix(imported, module)
			if within(to, "internal/decide") && decisionsInAdapter[to] == "" {
				t.Errorf("%s imports %s: return Kubernetes' own type, and let the user read it", rel, to)
			}
		}
	}
}

type goPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps=false", "-json=ImportPath,Dir,GoFiles,Imports,Deps", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

// layerOf returns the layer of the nearest listed folder.
func layerOf(importPath string) (layer, bool) {
	for dir := strings.TrimPrefix(importPath, module); dir != "."; dir = path.Dir(dir) {
		if l, ok := layers[dir]; ok {
			return l, true
		}
	}
	return 0, false
}

func TestEveryPackageHasALayer(t *testing.T) {
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		if _, ok := layerOf(p.ImportPath); !ok && !slices.Contains(generators, rel) {
			t.Errorf("%s is in no layer: add it to internal/testkit/arch and docs/ARCHITECTURE.md", rel)
		}
	}
}

// within reports whether an import path is that of a folder or lies below it.
func within(importPath, folder string) bool {
	return importPath == folder || strings.HasPrefix(importPath, folder+"/")
}

// purePackages lists the packages that decide.
func purePackages(t *testing.T) []goPackage {
	t.Helper()
	return slices.DeleteFunc(listPackages(t), func(p goPackage) bool {
		l, ok := layerOf(p.ImportPath)
		return !ok || l != pure || slices.Contains(generators, strings.TrimPrefix(p.ImportPath, module))
	})
}

// reaches returns what a pure package should do instead of an import, or
// nothing if the import is allowed.
func reaches(imported string) string {
	if slices.ContainsFunc(allowedInPure, func(folder string) bool { return within(imported, folder) }) {
		return ""
	}
	for folder, instead := range forbiddenInPure {
		if within(imported, folder) {
			return instead
		}
	}
	return ""
}

func TestPurePackagesReachNothingOutside(t *testing.T) {
	for _, p := range purePackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		for _, imported := range p.Imports {
			if instead := reaches(imported); instead != "" {
				t.Errorf("%s imports %s: %s", rel, imported, instead)
			}
		}
		for _, dep := range p.Deps {
			if l, ok := layerOf(dep); strings.HasPrefix(dep, module) && (!ok || l != pure) {
				t.Errorf("%s depends on %s, which is not pure", rel, strings.TrimPrefix(dep, module))
			}
		}
	}
}

func TestTheCheckOfImportsNoticesWhatReachesOutside(t *testing.T) {
	for imported, bad := range map[string]bool{
		"os": true, "os/user": true, "net": true, "net/http": true, "net/netip": false, "net/url": false, "sync/atomic": true,
		"log/slog": true, "math/rand/v2": true, "math/bits": false, "osmosis": false, "time": false,
		"k8s.io/client-go/rest": true, "k8s.io/client-go/tools/clientcmd/api/v1": false,
	} {
		if got := reaches(imported) != ""; got != bad {
			t.Errorf("%s: forbidden is %v, want %v", imported, got, bad)
		}
	}
}

func TestPurePackagesDoNotAskTheClock(t *testing.T) {
	for _, p := range purePackages(t) {
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, function := range clockCalls(file) {
				t.Errorf("%s/%s uses time.%s: take the time as an argument", strings.TrimPrefix(p.ImportPath, module), name, function)
			}
		}
	}
}

// clockCalls lists the functions of the clock that a file uses.
func clockCalls(file *ast.File) []string {
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(clock, s.Sel.Name) {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
				found = append(found, s.Sel.Name)
			}
		}
		return true
	})
	return found
}

func TestTheCheckOfTheClockNoticesIt(t *testing.T) {
	const text = `package p
import "time"
var asked = time.Now
func f(now time.Time) time.Duration { return time.Until(now.Add(time.Second)) }`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := clockCalls(file); !slices.Equal(got, []string{"Now", "Until"}) {
		t.Errorf("found %v", got)
	}
}

// rank returns a pure package's place in pureOrder, -1 if it has none.
func rank(importPath string) int {
	return slices.IndexFunc(pureOrder, func(folder string) bool { return within(strings.TrimPrefix(importPath, module), folder) })
}

func TestDataFlowsOneWayAmongPurePackages(t *testing.T) {
	for _, p := range purePackages(t) {
		from := rank(p.ImportPath)
		if from < 0 {
			t.Errorf("%s has no place in pureOrder", p.ImportPath)
		}
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, module) && rank(imported) > from {
				t.Errorf("%s imports %s, which comes after it", strings.TrimPrefix(p.ImportPath, module), strings.TrimPrefix(imported, module))
			}
		}
	}
}

// rows holds the first words of the layers' rows in docs/ARCHITECTURE.md.
var rows = map[layer]string{
	pure: "| pure |", effect: "| effects |", loop: "| loops |", lab: "| lab |", binary: "| binaries |",
}

func TestTheDocumentNamesEveryPackageInItsLayer(t *testing.T) {
	text, err := os.ReadFile("../../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for folder, l := range layers {
		i := strings.Index(string(text), rows[l])
		if i < 0 {
			t.Fatalf("the table has no row %q", rows[l])
		}
		row, _, _ := strings.Cut(string(text)[i:], "\n")
		name := strings.TrimPrefix(folder, "internal/")
		if !strings.Contains(row, "`"+name+"`") && !strings.Contains(row, "`"+name+"/*`") {
			t.Errorf("%s is not in the row %q of docs/ARCHITECTURE.md", name, rows[l])
		}
	}
}

func TestImportsNeverGoAgainstTheFlow(t *testing.T) {
	for _, p := range listPackages(t) {
		from, _ := layerOf(p.ImportPath)
		for _, imported := range p.Imports {
			to, ok := layerOf(imported)
			if !strings.HasPrefix(imported, module) || !ok {
				continue
			}
			if to > from {
				t.Errorf("%s imports %s, which lies above it", strings.TrimPrefix(p.ImportPath, module), strings.TrimPrefix(imported, module))
			}
		}
	}
}

// labProgram is the only program that contains the test bed.
const labProgram = "cmd/holdfast-lab"

func TestOneProgramAloneHoldsTheTestBed(t *testing.T) {
	found := 0
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		if !within(rel, "cmd") {
			continue
		}
		for _, dep := range p.Deps {
			l, ok := layerOf(dep)
			if !strings.HasPrefix(dep, module) || !ok || l != lab {
				continue
			}
			if found++; rel != labProgram {
				t.Errorf("%s holds %s: the test bed belongs into %s, which is asked through internal/adapter/labprogram", rel, strings.TrimPrefix(dep, module), labProgram)
			}
		}
	}
	if found == 0 {
		t.Errorf("%s holds nothing of the test bed: is it somewhere else?", labProgram)
	}
}

// templates are the packages with which a program can call any method by its
// name. The linker then keeps every method of every type: holdfast had 108 MB
// with them and 61 without, both with symbols.
var templates = []string{"text/template", "html/template"}

// templateFree lists the programs that execute no template. cobra may import
// the packages: it executes a template only for a command that has its own help
// template.
var templateFree = []string{"cmd/holdfast", labProgram, "cmd/holdfast-operator", "cmd/podman-etcd", "cmd/fence-holdfast"}

func TestProgramsThatAreToBeSmallExecuteNoTemplate(t *testing.T) {
	for _, program := range templateFree {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", payload.OwnTag,
			"-f", `{{.ImportPath}} {{join .Imports " "}}`, module+program).Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		for line := range strings.Lines(string(out)) {
			words := strings.Fields(line)
			from, imports := words[0], words[1:]
			if from == "github.com/spf13/cobra" || from == "html/template" {
				continue
			}
			for _, bad := range templates {
				if slices.Contains(imports, bad) {
					t.Errorf("%s imports %s, and %s is to be small: render it another way", from, bad, program)
				}
			}
		}
	}
	makefile, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(makefile), "-tags "+payload.OwnTag+" ") {
		t.Errorf("the Makefile builds without the tag %s", payload.OwnTag)
	}
}

func TestOuterThingsHaveOneAdapter(t *testing.T) {
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		for _, imported := range p.Imports {
			if allowed, ok := onlyImporter[imported]; ok && !slices.Contains(allowed, rel) && !slices.Contains(generators, rel) {
				t.Errorf("%s imports %s: only %s may", rel, imported, strings.Join(allowed, ", "))
			}
		}
	}
}

// roomsOfOneProgram lists the folders that belong to one program, each with its
// allowed importers. Code that another program needs belongs in a foundation.
var roomsOfOneProgram = map[string][]string{
	"internal/agent": {
		"cmd/holdfast-agent", "internal/agent",
		"internal/keeper/ocf", // podman-etcd runs the etcd keeper
		"internal/lab", "test",
	},
	"internal/operator": {"cmd/holdfast-operator", "internal/operator"},
}

func TestNobodyBorrowsFromAnotherProgram(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, imported := range p.Imports {
			for room, allowed := range roomsOfOneProgram {
				in := func(folder string) bool { return within(p.ImportPath, module+folder) }
				if within(imported, module+room) && !slices.ContainsFunc(allowed, in) {
					t.Errorf("%s imports %s: what both need belongs into a package below both",
						strings.TrimPrefix(p.ImportPath, module), strings.TrimPrefix(imported, module))
				}
			}
		}
	}
}
