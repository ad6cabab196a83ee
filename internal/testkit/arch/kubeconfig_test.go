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

// openings lists the functions that give access to an API from a kubeconfig, or
// from the pod that a process runs in, by the last names of their packages.
var openings = map[string][]string{
	"clientcmd": {
		"BuildConfigFromFlags", "BuildConfigFromKubeconfigGetter", "LoadFromFile", "RESTConfigFromKubeConfig", "NewClientConfigFromBytes",
		"NewDefaultClientConfig", "NewNonInteractiveClientConfig", "NewNonInteractiveDeferredLoadingClientConfig", "NewInteractiveClientConfig",
	},
	"rest": {"InClusterConfig"},
	"ctrl": {"GetConfig", "GetConfigOrDie"}, "config": {"GetConfig", "GetConfigOrDie", "GetConfigWithContext"},
}

// openingsIn lists the openings that a file uses.
func openingsIn(file *ast.File) []string {
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && slices.Contains(openings[x.Name], s.Sel.Name) {
				found = append(found, x.Name+"."+s.Sel.Name)
			}
		}
		return true
	})
	return found
}

// TestAKubeconfigIsOpenedInOnePlace counts openings in the shipped code. The
// test bed rewrites kubeconfigs, and tests have their own.
func TestAKubeconfigIsOpenedInOnePlace(t *testing.T) {
	var found []string
	for _, p := range listPackages(t) {
		if l, ok := layerOf(p.ImportPath); ok && l == lab {
			continue
		}
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, opening := range openingsIn(file) {
				found = append(found, strings.TrimPrefix(p.ImportPath, module)+"/"+name+" "+opening)
			}
		}
	}
	slices.Sort(found)
	want := []string{"internal/adapter/kube/access.go clientcmd.BuildConfigFromFlags", "internal/adapter/kube/access.go rest.InClusterConfig"}
	if !slices.Equal(found, want) {
		t.Errorf("an access to the API is kube.Access, which opens it in one place: found %q", found)
	}
}

func TestTheCheckOfOpeningsNoticesThem(t *testing.T) {
	const text = `package p
var a, _ = clientcmd.BuildConfigFromFlags("", "x")
var b = rest.InClusterConfig
var c = rest.HTTPClientFor`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := openingsIn(file); !slices.Equal(got, []string{"clientcmd.BuildConfigFromFlags", "rest.InClusterConfig"}) {
		t.Errorf("found %q", got)
	}
}
