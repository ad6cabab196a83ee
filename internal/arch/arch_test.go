// Package arch holds the rules of the source tree as tests: which packages
// decide, which have effects, and who may import whom.
package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/holdfast/holdfast/"

// layer is one line of the table in docs/ARCHITECTURE.md.
type layer int

const (
	pure   layer = iota // takes data, returns data
	effect              // an adapter of one outer thing, or a reader or writer of hosts
	loop                // composes the others
	lab                 // the test bed, its hardware simulators and what only tests import
	person              // a person's command, which also drives labs
	binary              // wiring
)

// layers names the layer of every package; a package below one that is listed
// belongs to the same layer unless it is listed itself. A new package must be
// put here, which is the moment to think where it belongs.
var layers = map[string]layer{
	"internal/state":        pure,
	"internal/config":       pure,
	"internal/topology":     pure,
	"internal/plan":         pure,
	"internal/render":       pure,
	"internal/decide":       pure,
	"internal/payload":      pure,
	"internal/site":         pure,
	"internal/ignition":     pure,
	"internal/jointoken":    pure,
	"internal/host":         effect,
	"internal/keys":         effect,
	"internal/kube":         effect,
	"internal/redfish":      effect,
	"internal/observe":      effect,
	"internal/apply":        effect,
	"internal/release":      effect,
	"internal/command":      loop,
	"internal/agent":        loop,
	"internal/configserver": loop,
	"internal/installer":    loop,
	"internal/lab":          lab,
	"internal/arch":         lab,
	"internal/sim":          lab,
	"internal/golden":       lab,
	"internal/sitetest":     lab,
	"internal/cli":          person,
	"cmd":                   binary,
	"test":                  lab,
}

// generators are programs of the generate step; they belong to no layer.
var generators = []string{"internal/render/manifests/gen"}

// forbiddenInPure are the direct imports that would let a decision reach
// outside, each with what to do instead.
var forbiddenInPure = map[string]string{
	"os":           "take the data",
	"os/exec":      "take the data",
	"net":          "use net/netip",
	"net/http":     "take the data",
	"context":      "nothing here blocks",
	"sync":         "no goroutines",
	"log":          "return evidence",
	"log/slog":     "return evidence",
	"math/rand":    "deterministic",
	"math/rand/v2": "deterministic",
	"crypto/rand":  "deterministic",
}

// onlyImporter names packages that have exactly one adapter.
var onlyImporter = map[string][]string{
	"os/exec":                      {"internal/host"},
	"github.com/stmcginnis/gofish": {"internal/redfish"},
	"k8s.io/client-go/kubernetes":  {"internal/kube"},
}

type goPackage struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps=false", "-json=ImportPath,Imports,Deps", module+"...").Output()
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
			t.Errorf("%s is in no layer: add it to internal/arch and docs/ARCHITECTURE.md", rel)
		}
	}
}

func TestPurePackagesReachNothingOutside(t *testing.T) {
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		if l, ok := layerOf(p.ImportPath); !ok || l != pure || slices.Contains(generators, rel) {
			continue
		}
		for _, imported := range p.Imports {
			if instead, bad := forbiddenInPure[imported]; bad {
				t.Errorf("%s imports %s: %s", rel, imported, instead)
			}
			if strings.HasPrefix(imported, "k8s.io/client-go/") && !strings.HasPrefix(imported, "k8s.io/client-go/tools/clientcmd/api") {
				t.Errorf("%s imports %s: it would reach the API", rel, imported)
			}
		}
		for _, dep := range p.Deps {
			if l, ok := layerOf(dep); strings.HasPrefix(dep, module) && (!ok || l != pure) {
				t.Errorf("%s depends on %s, which is not pure", rel, strings.TrimPrefix(dep, module))
			}
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
