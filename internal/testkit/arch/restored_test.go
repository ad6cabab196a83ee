package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/restore"
	"github.com/holdfast/holdfast/internal/render/operator"
)

// ofRestore says of each object that Holdfast writes or reads at run time what a restore does
// with it, by its key in etcd. A name that ends in "-" begins those of several objects. An
// object is kept if it is of the site, and left out if it is of hosts, of a plan or of one life.
var ofRestore = map[string]restore.Fate{
	"configmaps/kube-system/holdfast-backup-proof":              restore.Keep, // it counts by the recipients
	"configmaps/kube-system/holdfast-release":                   restore.Keep, // it lists what an older release brought, to be removed
	"configmaps/kube-system/cluster-config-v1":                  restore.Keep, // the installation writes it again
	"configmaps/kube-system/kubeadm-config":                     restore.Keep, // the same
	"configmaps/openshift-config/user-ca-bundle":                restore.Keep,
	"configmaps/openshift-config-managed/default-ingress-cert":  restore.Keep,
	"secrets/openshift-ingress-operator/router-ca":              restore.Keep, // people trust it
	"secrets/openshift-etcd/holdfast-backup":                    restore.Keep, // where backups go
	"configmaps/shop/kube-root-ca.crt":                          restore.Keep, // the controller manager writes it
	"configmaps/kube-system/extension-apiserver-authentication": restore.Keep, // API servers write it

	"configmaps/kube-public/cluster-info":                    restore.Drop,
	"configmaps/kube-system/bootstrap":                       restore.Drop,
	"configmaps/kube-system/holdfast-encryption":             restore.Drop,
	"configmaps/kube-system/holdfast-incidents-":             restore.Drop,
	"configmaps/kube-system/holdfast-replace":                restore.Drop,
	"configmaps/kube-system/holdfast-retired":                restore.Look, // who was taken out stays out
	"configmaps/kube-system/holdfast-upgrade":                restore.Drop,
	"configmaps/openshift-etcd/external-etcd-pod":            restore.Drop,
	"secrets/kube-system/bootstrap-token-":                   restore.Drop,
	"secrets/kube-system/holdfast-authorities":               restore.Drop,
	"secrets/kube-system/holdfast-join-key":                  restore.Drop,
	"secrets/kube-system/holdfast-two-control-planes":        restore.Drop,
	"secrets/openshift-etcd/fencing-credentials-":            restore.Drop,
	"secrets/openshift-etcd/pacemaker-auth":                  restore.Drop,
	"secrets/openshift-etcd/" + operator.InputSecret("cp-1"): restore.Drop,

	// Annotations of these announce plans and wishes: a move, a second family, a drain, a boot.
	"config.openshift.io/infrastructures/cluster": restore.Drop,
	"minions/cp-1": restore.Drop,
}

// noObjects are constants with such names that name no object of the cluster.
var noObjects = map[string]string{
	"holdfast-restore": "a folder below etcd's",
	"openshift-etcd":   "a namespace",
	"kube-system":      "a namespace",
	"holdfast-lab":     "a program",
	"drop-secret":      "a step of a plan",
	"give-name":        "a step of a plan",
	"rendered-":        "MachineConfigs of a pool, which the operator makes of others",
}

// nameOfObject fits constants that name an object. Those of internal/render are not asked: the
// installation brings these objects.
var nameOfObject = regexp.MustCompile(`(Secret|ConfigMap)|(Name|Prefix)$`)

// TestARestoreDecidesOnEachObjectOfRunTime: an object that a plan, a life or a host left in the
// backup would act on the restored site. So whoever adds one says what a restore does with it.
func TestARestoreDecidesOnEachObjectOfRunTime(t *testing.T) {
	decided := map[string]bool{}
	for key, want := range ofRestore {
		name := path.Base(key)
		decided[name] = true
		if strings.HasSuffix(name, "-") {
			key += "cp-1"
		}
		if got := restore.Of(restore.Root + key).Fate; got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	found := map[string]bool{}
	for _, p := range listPackages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module)
		if within(rel, "internal/render") || within(rel, "internal/lab") || within(rel, "internal/testkit") || within(rel, "test") {
			continue
		}
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for constant, value := range namesOfObjects(parsed) {
				found[value] = true
				if !decided[value] && noObjects[value] == "" {
					t.Errorf("%s/%s: nobody has decided what a restore does with %s (%s): see decide/restore, and add it to ofRestore", rel, file, value, constant)
				}
			}
		}
	}
	for _, value := range []string{"holdfast-replace", "pacemaker-auth", "fencing-credentials-", "bootstrap-token-", "holdfast-two-control-planes"} {
		if !found[value] {
			t.Errorf("the constant with %s was not found: the test looks in the wrong places", value)
		}
	}
}

// namesOfObjects returns the constants of a file that name objects, with their values.
func namesOfObjects(file *ast.File) map[string]string {
	out := map[string]string{}
	for _, d := range file.Decls {
		g, is := d.(*ast.GenDecl)
		if !is || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v, is := s.(*ast.ValueSpec)
			if !is || len(v.Names) != len(v.Values) {
				continue
			}
			for i, name := range v.Names {
				l, is := v.Values[i].(*ast.BasicLit)
				if !is || !nameOfObject.MatchString(name.Name) {
					continue
				}
				if value, err := strconv.Unquote(l.Value); err == nil && formOfName.MatchString(value) {
					out[name.Name] = value
				}
			}
		}
	}
	return out
}

// formOfName is that of a name of Kubernetes with more than one word.
var formOfName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9.]*)+$`)
