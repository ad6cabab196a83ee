package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// realServer is the API server of this package's tests, nil if there is none.
var realServer *apitest.API

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, &realServer)) }

const configPool = `{apiVersion: machineconfiguration.openshift.io/v1, kind: MachineConfigPool, metadata: {name: worker, labels: {size: small}},
spec: {machineConfigSelector: {matchLabels: {machineconfiguration.openshift.io/role: worker}}, nodeSelector: {matchLabels: {node-role.kubernetes.io/worker: ""}}}}
`

// TestARealAPITakesWhatConfigApplyWritesOnce, in whatever form it keeps it, and all or
// nothing of it.
func TestARealAPITakesWhatConfigApplyWritesOnce(t *testing.T) {
	server := apitest.Need(t, realServer)
	text := strings.TrimRight(sitetest.TwoDual, "\n") + "\n"
	site, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	files, err := manifests.Render(site, topology.Of(site))
	if err != nil {
		t.Fatal(err)
	}
	server.Install(t, files)
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	server.Kubectl(t, "apply", "--filename", put("pool", configPool))
	apply := func(code int, args ...string) (verbs, errs string) {
		t.Helper()
		got, out, errs := runLine(t, append([]string{"config", "apply", "-o", "json", "--kubeconfig", server.Kubeconfig()}, args...)...)
		if got != code {
			t.Fatalf("%v: exit code %d: %s", args, got, errs)
		}
		var report applyReport
		if code == ExitOK {
			if err := json.Unmarshal([]byte(out), &report); err != nil {
				t.Fatal(err)
			}
		}
		var list []string
		for _, o := range report.Objects {
			list = append(list, o.Name+" "+string(o.Verb))
		}
		return strings.Join(list, ", "), errs
	}
	folder := filepath.Join(dir, "site")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	put("site/motd.yaml", configMotd)
	put("site/pods.yaml", configPods)
	const created, unchanged = "pods created, 50-motd created", "pods unchanged, 50-motd unchanged"
	for _, c := range []struct{ want, dry string }{{created, "true"}, {created, "false"}, {unchanged, "false"}} {
		if verbs, _ := apply(ExitOK, "-f", folder, "--dry-run="+c.dry); verbs != c.want {
			t.Errorf("dry run %s: %s, want %s", c.dry, verbs, c.want)
		}
	}
	server.Kubectl(t, "label", "machineconfig", "50-motd", "team=night")
	put("site/motd.yaml", strings.Replace(configMotd, "secret-words", "other", 1))
	if verbs, _ := apply(ExitOK, "-f", folder); verbs != "pods unchanged, 50-motd updated" {
		t.Error(verbs)
	}
	if label := server.Kubectl(t, "get", "machineconfig", "50-motd", "--output=jsonpath={.metadata.labels.team}"); label != "night" {
		t.Errorf("the label of others is %q", label)
	}

	// The operator would take it: the name is what the API server refuses.
	put("site/name.yaml", strings.Replace(configMotd, "50-motd", "Not_A_Name", 1))
	put("site/new.yaml", strings.Replace(configMotd, "50-motd", "60-new", 1))
	if _, errs := apply(command.ExitRefused, "-f", folder); !strings.Contains(errs, "Not_A_Name") || !strings.Contains(errs, "nothing was written") {
		t.Error(errs)
	}
	if list := server.Kubectl(t, "get", "machineconfigs", "--output=name"); strings.Contains(list, "60-new") {
		t.Errorf("half of it was written: %s", list)
	}

	keys := "\nsshKey: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIFUBV9w8G5o3MXeMolrNnTBJb2BuuWW/gcjeZU1fg6r operator@example.com\n"
	if site.SSHKey != "" {
		keys = ""
	}
	file := put("install-config.yaml", text+keys)
	for _, want := range []machineconfig.Verb{machineconfig.Created, machineconfig.Unchanged} {
		if verbs, _ := apply(ExitOK, "--install-config", file); verbs != "99-master-ssh "+string(want)+", 99-worker-ssh "+string(want) {
			t.Errorf("%s, want %s", verbs, want)
		}
	}
}
