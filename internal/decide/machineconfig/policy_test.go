package machineconfig_test

import (
	"fmt"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/ignition"
)

// withPolicy returns the configuration of a pool of workers with one file, on a site
// that declares something about changes.
func withPolicy(t *testing.T, policy string) machineconfig.Rendered {
	t.Helper()
	all := machineconfig.Objects{MachineConfigs: []mcfgv1.MachineConfig{made(t, "10-a", withFiles(audit))}}
	if err := yaml.UnmarshalStrict([]byte(policy), &all.Policy); err != nil {
		t.Fatal(err)
	}
	pool := poolOf(t, `{matchLabels: {machineconfiguration.openshift.io/role: worker}}`)
	r, err := machineconfig.Of(&pool, all)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const twoFiles = `{files: [{path: /opt/a, actions: [{type: None}]}, {path: /opt/b, actions: [{type: Drain}]}]}`

func TestWhatASiteDeclaresAboutChangesBelongsToTheConfiguration(t *testing.T) {
	r := withPolicy(t, twoFiles)
	cfg, err := machineconfig.Read(*r.Object())
	if err != nil {
		t.Fatal(err)
	}
	p, err := cfg.Policy()
	if err != nil || len(p.Files) != 2 || p.Files[1].Path != "/opt/b" || p.Files[1].Actions[0].Type != operatorv1.DrainSpecAction {
		t.Errorf("it has %+v, %v", p, err)
	}
	if turned := withPolicy(t, `{files: [{path: /opt/b, actions: [{type: Drain}]}, {path: /opt/a, actions: [{type: None}]}], sshkey: {actions: []}}`); turned.Name != r.Name {
		t.Errorf("%s in another order is %s", r.Name, turned.Name)
	}
	if other := withPolicy(t, `{files: [{path: /opt/a, actions: [{type: None}]}]}`); other.Name == r.Name {
		t.Error("another declaration has the same name")
	}
}

func TestWithoutADeclarationNothingIsAdded(t *testing.T) {
	r := withPolicy(t, `{}`)
	if empty := withPolicy(t, `{files: [], units: [], sshkey: {actions: []}}`); empty.Name != r.Name {
		t.Errorf("an empty declaration makes %s of %s", empty.Name, r.Name)
	}
	list := []mcfgv1.MachineConfig{made(t, "10-a", withFiles(audit))}
	if plain, err := machineconfig.Render("worker", list); err != nil || plain.Name[len("rendered-worker-"):] != r.Name[strings.LastIndex(r.Name, "-")+1:] {
		t.Errorf("%s is not %s, %v", r.Name, plain.Name, err)
	}
	p, err := r.Config.Policy()
	if err != nil || len(p.Files)+len(p.Units) > 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestTheFilesOfHoldfastInAConfigurationAreReadOnlyFromAMerge(t *testing.T) {
	mine := func(contents string) mcfgv1.MachineConfig {
		return made(t, "10-mine", withFiles(fmt.Sprintf(`{path: %s, contents: {source: "%s"}}`, machineconfig.PolicyPath, ignition.DataURL([]byte(contents)))))
	}
	if _, err := machineconfig.Render("worker", []mcfgv1.MachineConfig{mine("{}")}); err == nil || !strings.Contains(err.Error(), "files.0.path: "+machineconfig.PolicyPath+" belongs to Holdfast") {
		t.Errorf("a MachineConfig may have it: %v", err)
	}
	for contents, want := range map[string]string{"{}": "", "{": "storage.files.0.contents: unexpected EOF", `{"pods": 1}`: `unknown field "pods"`} {
		_, err := machineconfig.Read(mine(contents))
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%q: %v", contents, err)
		}
	}
}
