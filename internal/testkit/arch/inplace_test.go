package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/restore"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Why an annotation or a label stays as the backup has it when etcd is restored in place.
const (
	saysHost  = "its host says it of itself, and says it anew"
	isSetting = "people set it, and by itself it begins nothing"
	notOfNode = "it stands at no node, and begins nothing"
)

// inPlace has each annotation and label of Holdfast's, and of MachineConfigs, that stays, with the reason.
// All others are taken away from nodes.
var inPlace = map[string]string{
	"holdfast.io/attempt":                 notOfNode,
	"holdfast.io/authorities":             saysHost,
	"holdfast.io/backup":                  saysHost,
	"holdfast.io/copied-digest":           notOfNode,
	"holdfast.io/copied-version":          notOfNode,
	"holdfast.io/copy-of":                 notOfNode,
	"holdfast.io/cordoned-for":            "without a wish the operator takes its own cordon away by it",
	"holdfast.io/deleted":                 saysHost,
	"holdfast.io/doctor":                  saysHost,
	"holdfast.io/dual-stack":              "at a node its host says it; see InfrastructureInPlace for the announcement",
	"holdfast.io/encryption":              saysHost,
	"holdfast.io/etcd-authorities":        saysHost,
	"holdfast.io/etcd-defragment-wanted":  "it counts for ten minutes (etcdspace.WishLasts)",
	"holdfast.io/etcd-space":              saysHost,
	"holdfast.io/expires":                 notOfNode,
	"holdfast.io/guard":                   notOfNode,
	"holdfast.io/haproxy-restarted":       notOfNode,
	"holdfast.io/host-names":              notOfNode,
	"holdfast.io/incidents":               notOfNode,
	"holdfast.io/joining":                 notOfNode,
	"holdfast.io/joining-again":           notOfNode,
	"holdfast.io/joining-by":              notOfNode,
	"holdfast.io/joining-host":            notOfNode,
	"holdfast.io/joining-request":         notOfNode,
	"holdfast.io/joining-role":            notOfNode,
	"holdfast.io/machine":                 saysHost,
	"holdfast.io/machine-config-sources":  notOfNode,
	"holdfast.io/maintenance-window":      isSetting,
	"holdfast.io/name-clients":            isSetting,
	"holdfast.io/network-policies":        notOfNode,
	"holdfast.io/patch-result":            saysHost,
	"holdfast.io/previous-failure":        notOfNode,
	"holdfast.io/readdress":               "a host begins a move only where it finds itself at the other place; one that has moved needs it",
	"holdfast.io/readdressed":             "it says where the objects of the backup are",
	"holdfast.io/reboot":                  isSetting,
	"holdfast.io/reboot-required-wished":  "it keeps the operator from a second wish for the same reason",
	"holdfast.io/rendered-machine-config": notOfNode,
	"holdfast.io/restore-reclaim-policy":  notOfNode,
	"holdfast.io/restore-suspended":       notOfNode,
	"holdfast.io/role":                    saysHost,
	"holdfast.io/route-hosts":             notOfNode,
	"holdfast.io/source-ranges-from":      notOfNode,
	"holdfast.io/spec-hash":               notOfNode,
	"holdfast.io/two-node-step":           notOfNode,
	"holdfast.io/upgrade-commit":          "it counts for the upgrade whose id it has, and that one is gone",
	"holdfast.io/upgrade-host":            saysHost,
	"holdfast.io/upgrade-offer":           "hosts fetch a release by it, and no more",
	"holdfast.io/upgrade-overrides":       isSetting,
	"holdfast.io/upgrade-paused":          isSetting,
	"holdfast.io/upgrade-soak":            isSetting,
	"holdfast.io/upgrade-sources":         isSetting,
	"holdfast.io/vip-answer.":             saysHost,
	"holdfast.io/vip-probe.":              "a question about an address, which changes nothing",
	"holdfast.io/vips":                    saysHost,
	"holdfast.io/vips-applied":            saysHost,
	"holdfast.io/vrrp-router-ids":         isSetting,
	"holdfast.io/vrrp-sync-families":      isSetting,
	"holdfast.io/writes-from-outside":     saysHost,
}

// TestARestoreInPlaceDecidesOnEachAnnotation: a wish of the day of the backup would begin on a host that
// runs. So whoever adds an annotation says what becomes of it.
func TestARestoreInPlaceDecidesOnEachAnnotation(t *testing.T) {
	found := map[string]bool{}
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		if !within(rel, "internal") || within(rel, "internal/lab") || within(rel, "internal/testkit") {
			continue
		}
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range annotationsOf(parsed) {
				found[name] = true
				n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{name: "x"}}}
				new(restore.Found).NodeInPlace(n)
				if _, stays := n.Annotations[name]; stays != (inPlace[name] != "") {
					t.Errorf("%s/%s: %s stays when etcd is restored in place: %v; reason: %q", rel, file, name, stays, inPlace[name])
				}
			}
		}
	}
	for name := range inPlace {
		if !found[name] {
			t.Errorf("no package has %s any more: take it out of the table", name)
		}
	}
	for _, name := range []string{"holdfast.io/reboot-wanted", "holdfast.io/upgrade-turn", "machineconfiguration.openshift.io/desiredConfig"} {
		if !found[name] {
			t.Errorf("%s was not found: the test looks in the wrong places", name)
		}
	}
}

// annotationsOf returns the names of annotations and labels that are constants of a file.
func annotationsOf(file *ast.File) []string {
	var out []string
	for _, d := range file.Decls {
		g, is := d.(*ast.GenDecl)
		if !is || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			for _, value := range s.(*ast.ValueSpec).Values {
				if name := annotationIn(value); name != "" {
					out = append(out, name)
				}
			}
		}
	}
	return out
}

// annotationIn returns the name in a constant: a text, or one behind state.AnnotationDomain.
func annotationIn(value ast.Expr) string {
	domain := ""
	if sum, is := value.(*ast.BinaryExpr); is {
		x := sum.X
		if s, is := x.(*ast.SelectorExpr); is {
			x = s.Sel
		}
		if id, is := x.(*ast.Ident); !is || id.Name != "AnnotationDomain" {
			return ""
		}
		domain, value = state.AnnotationDomain, sum.Y
	}
	l, is := value.(*ast.BasicLit)
	if !is || l.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(l.Value)
	if err != nil || strings.ContainsAny(domain+text, " %\n") {
		return ""
	}
	for _, begins := range []string{state.AnnotationDomain, "machineconfiguration.openshift.io/"} {
		if name, is := strings.CutPrefix(domain+text, begins); is && name != "" {
			return domain + text
		}
	}
	return ""
}
