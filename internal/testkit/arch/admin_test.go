package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// administrators lists the source files in which a program uses the
// administrator's account of a control plane, each with its reason.
var administrators = map[string]string{
	"internal/agent/install/kubeadm.go":       "the installation, before anybody has a right",
	"internal/agent/controlplane/identity.go": "what only an administrator may make, as far as it is missing",
	"internal/agent/parts/unit.go":            "roles and kinds of a release, in an upgrade, for minutes",
	"internal/agent/carry/facts.go":           "a plan about the control planes, which a person wished: agents have no right to delete nodes and pods",
	"internal/install/dualstack/cluster.go":   "a second address family of the site, which a person announced: the networks in its objects",
	"internal/install/readdress/cluster.go":   "a move of the site, which a person announced: the addresses in its objects",
	"internal/install/grow/cluster.go":        "a growth, which a person wished: roles, guards and the topology",
	"internal/cli/host_replace_join.go":       "a person's command on a host",
	"internal/cli/topology_early.go":          "a person's command on a control plane",
	"internal/cli/topology_narrow.go":         "a person's command on a control plane",
	"internal/decide/leafcert/leaves.go":      "its certificate is renewed, and nothing is asked with it",
	"internal/cli/place/flags.go":             "the help of a person's commands",
	"internal/cli/place/kubeconfig.go":        "a person's commands",
}

func TestWhatRunsOnAHostIsNoAdministrator(t *testing.T) {
	found := map[string]bool{}
	for _, p := range listPackages(t) {
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if says(file, `"/etc/kubernetes/admin.conf"`) && p.ImportPath != module+"internal/model/state" || names(file, "state", "AdminKubeconfig") {
				found[strings.TrimPrefix(p.ImportPath, module)+"/"+name] = true
			}
		}
	}
	for name := range found {
		if administrators[name] == "" {
			t.Errorf("%s takes the administrator's account: agents have one of their own (state.AgentKubeconfig)", name)
		}
	}
	for name := range administrators {
		if !found[name] {
			t.Errorf("%s does not take the administrator's account any more: take it out of the table", name)
		}
	}
}

// names reports whether a file uses a name of a package.
func names(file *ast.File, of, what string) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == what {
			x, ok := s.X.(*ast.Ident)
			found = found || ok && x.Name == of
		}
		return !found
	})
	return found
}

// says reports whether a file has a literal that is exactly this text.
func says(file *ast.File, text string) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		l, is := n.(*ast.BasicLit)
		found = found || is && l.Value == text
		return !found
	})
	return found
}
