package machineconfig_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/ignition"
)

// orders returns each order of a list.
func orders(list []string) [][]string {
	if len(list) < 2 {
		return [][]string{list}
	}
	var out [][]string
	for i := range list {
		rest := slices.Delete(slices.Clone(list), i, i+1)
		for _, o := range orders(rest) {
			out = append(out, append([]string{list[i]}, o...))
		}
	}
	return out
}

// TestInWhateverOrderASiteDeclaresItsRowsTheConfigurationIsTheSame, and what a host reads
// of it is what was declared.
func TestInWhateverOrderASiteDeclaresItsRowsTheConfigurationIsTheSame(t *testing.T) {
	files := []string{`{path: /opt/a, actions: [{type: None}]}`, `{path: /opt/b, actions: [{type: Drain}]}`, `{path: /opt/c, actions: [{type: Restart, restart: {serviceName: c.service}}]}`}
	units := []string{`{name: a.service, actions: [{type: None}]}`, `{name: b.service, actions: [{type: DaemonReload}]}`, `{name: c.service, actions: [{type: Reboot}]}`}
	var want string
	for _, f := range orders(files) {
		for _, u := range orders(units) {
			r := withPolicy(t, fmt.Sprintf(`{files: [%s], units: [%s], sshkey: {actions: [{type: Drain}, {type: None}]}}`, strings.Join(f, ", "), strings.Join(u, ", ")))
			if want == "" {
				want = r.Name
			}
			if r.Name != want {
				t.Errorf("%q, %q: %s, not %s", f, u, r.Name, want)
			}
			cfg, err := machineconfig.Read(*r.Object())
			if err != nil {
				t.Fatal(err)
			}
			p, err := cfg.Policy()
			if err != nil || len(p.Files) != 3 || len(p.Units) != 3 || len(p.SSHKey.Actions) != 2 {
				t.Fatalf("%+v, %v", p, err)
			}
			for i, letter := range []string{"a", "b", "c"} {
				if p.Files[i].Path != "/opt/"+letter || string(p.Units[i].Name) != letter+".service" {
					t.Errorf("row %d is of %s and %s", i, p.Files[i].Path, p.Units[i].Name)
				}
			}
			if p.Files[2].Actions[0].Restart == nil || p.Files[2].Actions[0].Restart.ServiceName != "c.service" || p.SSHKey.Actions[0].Type != "Drain" {
				t.Errorf("%+v", p)
			}
		}
	}
}

// TestEachPartOfADeclarationChangesTheConfiguration: alone it is a declaration too.
func TestEachPartOfADeclarationChangesTheConfiguration(t *testing.T) {
	names := map[string]string{}
	for _, policy := range []string{
		`{}`, `{files: [{path: /opt/a, actions: [{type: None}]}]}`, `{files: [{path: /opt/a, actions: [{type: Drain}]}]}`, `{units: [{name: a.service, actions: [{type: None}]}]}`,
		`{sshkey: {actions: [{type: None}]}}`, `{sshkey: {actions: [{type: Drain}, {type: None}]}}`, `{sshkey: {actions: [{type: None}, {type: Drain}]}}`,
	} {
		r := withPolicy(t, policy)
		if other, is := names[r.Name]; is {
			t.Errorf("%s and %s have one name", policy, other)
		}
		names[r.Name] = policy
		has := slices.ContainsFunc(r.Config.Ignition.Storage.Files, func(f types.File) bool { return f.Path == machineconfig.PolicyPath })
		if has != (policy != `{}`) || len(r.Sources) != 1 {
			t.Errorf("%s: %v, made of %q", policy, has, r.Sources)
		}
	}
}

// TestTheFilesOfHoldfastAreReadAndNobodyElsesMay: only of a merge, only at their paths, and
// both are checked there.
func TestTheFilesOfHoldfastAreReadAndNobodyElsesMay(t *testing.T) {
	of := func(path, contents string) mcfgv1.MachineConfig {
		return made(t, "10-mine", withFiles(fmt.Sprintf(`{path: %s, contents: {source: "%s"}}`, path, ignition.DataURL([]byte(contents)))))
	}
	for _, path := range []string{machineconfig.PolicyPath, machineconfig.KubeletPath} {
		for contents, good := range map[string]bool{"{}": true, "": false, "[]": false, "1": false, `"x"`: false, "{": false, `{"nobodyKnows": 1}`: false} {
			_, err := machineconfig.Read(of(path, contents))
			if good != (err == nil) || !good && !strings.Contains(err.Error(), "spec.config.storage.files.0.contents: ") {
				t.Errorf("%s with %q: %v", path, contents, err)
			}
			if _, err := machineconfig.Render("worker", []mcfgv1.MachineConfig{of(path, contents)}); err == nil || !strings.Contains(err.Error(), "spec.config.storage.files.0.path: "+path+" belongs to") {
				t.Errorf("a MachineConfig may have %s: %v", path, err)
			}
		}
		if _, err := machineconfig.Read(of(path+".x", "{}")); err == nil {
			t.Errorf("a merge may have a file beside %s", path)
		}
	}
}
