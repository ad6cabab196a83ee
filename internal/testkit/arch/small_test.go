package arch

import (
	"slices"
	"strings"
	"testing"
)

// smallPrograms are programs that Pacemaker starts again and again, on a host
// that may be in trouble. They must start at once and hold little.
var smallPrograms = []string{"cmd/fence-holdfast", "cmd/podman-etcd"}

// kubernetesInSmall lists the packages of Kubernetes that a small program may
// hold, each with its reason.
var kubernetesInSmall = map[string]string{
	"sigs.k8s.io/yaml": "etcd's pod manifest is YAML; it reads YAML by JSON's rules and imports nothing else of Kubernetes",
}

// notInSmall lists packages of ours with features that no small program has.
var notInSmall = map[string]string{
	"internal/model/config":  "the install configuration: what others need of it are bmc, secret and netaddr",
	"internal/decide/vips":   "virtual IPs: what others need of it is netaddr",
	"internal/model/viprule": "the same, with Kubernetes' errors of fields",
	"internal/render":        "Kubernetes' types: what others need of etcd's manifest is etcdpod",
	"internal/adapter/kube":  "there may be no API when a host is fenced",
}

// isKubernetes reports whether a package is one of Kubernetes'.
func isKubernetes(importPath string) bool {
	host, _, _ := strings.Cut(importPath, "/")
	return host == "k8s.io" || strings.HasSuffix(host, ".k8s.io")
}

// tooMuch returns what a program with these dependencies must not hold, and
// which of the named packages of Kubernetes it holds.
func tooMuch(deps []string) (bad, named []string) {
	for _, dep := range deps {
		switch {
		case isKubernetes(dep) && kubernetesInSmall[dep] == "":
			bad = append(bad, dep+", which is not named here with its reason")
		case isKubernetes(dep):
			named = append(named, dep)
		}
		for folder, why := range notInSmall {
			if within(dep, module+folder) {
				bad = append(bad, strings.TrimPrefix(dep, module)+", "+why)
			}
		}
	}
	return bad, named
}

func TestSmallProgramsHoldNoFeatureOfOthers(t *testing.T) {
	held := map[string]bool{}
	for _, p := range listPackages(t) {
		if !slices.Contains(smallPrograms, strings.TrimPrefix(p.ImportPath, module)) {
			continue
		}
		if len(p.Deps) < 100 {
			t.Errorf("%s has only %d dependencies: they were not listed", p.ImportPath, len(p.Deps))
		}
		bad, named := tooMuch(p.Deps)
		for _, b := range bad {
			t.Errorf("%s holds %s", strings.TrimPrefix(p.ImportPath, module), b)
		}
		for _, n := range named {
			held[n] = true
		}
	}
	for name := range kubernetesInSmall {
		if !held[name] {
			t.Errorf("no small program holds %s any more: take it out of the table", name)
		}
	}
}

func TestTheCheckOfSmallProgramsNoticesWhatIsTooMuch(t *testing.T) {
	bad, named := tooMuch([]string{
		"k8s.io/api/core/v1", "sigs.k8s.io/json", "sigs.k8s.io/yaml", "notk8s.io/x", "github.com/x/k8s.io",
		module + "internal/model/config", module + "internal/install/configserver", module + "internal/adapter/kube/vipobject",
	})
	if len(bad) != 4 || !slices.Equal(named, []string{"sigs.k8s.io/yaml"}) {
		t.Errorf("bad %q, named %q", bad, named)
	}
}
