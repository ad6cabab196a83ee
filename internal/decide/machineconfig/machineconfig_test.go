package machineconfig_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/install/plan"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// object reads a MachineConfig from YAML.
func object(t testing.TB, text string) mcfgv1.MachineConfig {
	t.Helper()
	var mc mcfgv1.MachineConfig
	if err := yaml.UnmarshalStrict([]byte(text), &mc); err != nil {
		t.Fatal(err)
	}
	return mc
}

// made returns a MachineConfig of the role worker with an Ignition config.
func made(t testing.TB, name, config string) mcfgv1.MachineConfig {
	t.Helper()
	return object(t, fmt.Sprintf(`{metadata: {name: %s, labels: {machineconfiguration.openshift.io/role: worker}}, spec: {config: %s}}`, name, config))
}

// withFiles returns an Ignition config of the newest version with files.
func withFiles(files ...string) string {
	return fmt.Sprintf(`{ignition: {version: 3.5.0}, storage: {files: [%s]}}`, strings.Join(files, ", "))
}

const (
	audit = `{path: /etc/audit/rules.d/site.rules, mode: 384, contents: {source: "data:,-w%20/etc/shadow%0A"}}`
	probe = `[Unit]\nDescription=Probe\n[Service]\nExecStart=/usr/local/bin/probe\n[Install]\nWantedBy=multi-user.target\n`
)

// site is what a pool of workers with GPUs is made of.
func site(t testing.TB) []mcfgv1.MachineConfig {
	t.Helper()
	return []mcfgv1.MachineConfig{
		object(t, `
metadata: {name: 50-gpu, labels: {machineconfiguration.openshift.io/role: gpu}}
spec:
  kernelArguments: [intel_iommu=on, console=ttyS0]
  config:
    ignition: {version: 3.5.0}
    storage: {files: [{path: /etc/sysctl.d/50-site.conf, contents: {source: "data:,vm.nr_hugepages%20=%2064%0A"}}]}
    passwd: {users: [{name: core, sshAuthorizedKeys: [ssh-ed25519 AAAAB gpu@example.test]}]}
`),
		object(t, fmt.Sprintf(`
metadata: {name: 99-probe, labels: {machineconfiguration.openshift.io/role: worker}}
spec:
  config:
    ignition: {version: 3.2.0}
    systemd:
      units:
      - {name: probe.service, enabled: true, contents: "%s", dropins: [{name: 20-b.conf, contents: "[Service]\nNice=5\n"}, {name: 10-a.conf, contents: "[Service]\nNice=1\n"}]}
      - {name: kubelet.service, dropins: [{name: 50-site.conf, contents: "[Service]\nCPUWeight=500\n"}]}
      - {name: cups.service, mask: true, enabled: false}
`, probe)),
		object(t, fmt.Sprintf(`
metadata: {name: 00-worker, labels: {machineconfiguration.openshift.io/role: worker}}
spec:
  kernelArguments: [console=tty0]
  config:
    ignition: {version: 3.4.0}
    storage: {files: [%s, {path: /etc/sysctl.d/50-site.conf, mode: 416, group: {name: adm}, contents: {source: "data:,vm.swappiness%%20=%%2010%%0A"}}]}
    passwd: {users: [{name: core, sshAuthorizedKeys: [ssh-ed25519 AAAAC night@example.test, ssh-ed25519 AAAAA day@example.test]}]}
`, audit)),
		object(t, `{metadata: {name: 60-empty, labels: {machineconfiguration.openshift.io/role: gpu}}}`),
	}
}

func TestTheMergeOfAPoolIsTheApprovedOne(t *testing.T) {
	r, err := machineconfig.Render("gpu", site(t))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\nof %s\n", r.Name, strings.Join(r.Sources, ", "))
	for _, o := range r.Overrides {
		fmt.Fprintln(&out, o)
	}
	fmt.Fprintf(&out, "kernel arguments: %s\n", strings.Join(r.Spec.KernelArguments, " "))
	if err := json.Indent(&out, r.Spec.Config.Raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "gpu.txt", out.Bytes())
}

func TestAHostCanApplyTheMergeAndReadItBack(t *testing.T) {
	r, err := machineconfig.Render("gpu", site(t))
	if err != nil {
		t.Fatal(err)
	}
	applied(t, r)
}

// applied checks that a host reads a merged configuration as it was made, and
// can apply it.
func applied(t testing.TB, r machineconfig.Rendered) {
	t.Helper()
	stored := mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: r.Spec}
	if _, err := machineconfig.Read(stored); err != nil {
		t.Errorf("%s cannot be read: %v", r.Spec.Config.Raw, err)
	}
	pool, _, _ := strings.Cut(strings.TrimPrefix(r.Name, machineconfig.Prefix), "-")
	again, err := machineconfig.Render(pool, []mcfgv1.MachineConfig{stored})
	if err != nil || again.Name != r.Name {
		t.Errorf("merged once more it is %s, not %s: %v", again.Name, r.Name, err)
	}
	cfg, err := ignition.Parse(r.Spec.Config.Raw)
	if err != nil {
		t.Errorf("it is no Ignition config: %v", err)
	}
	if _, err := plan.FromConfig(cfg); err != nil {
		t.Errorf("a host cannot apply it: %v", err)
	}
}

// name returns the name of the merge of the MachineConfigs of a pool.
func name(t testing.TB, list ...mcfgv1.MachineConfig) string {
	t.Helper()
	r, err := machineconfig.Render("worker", list)
	if err != nil {
		t.Fatal(err)
	}
	return r.Name
}

func gzipped(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	if _, err := zw.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return ignition.DataURL(out.Bytes())
}

func TestTheSameContentsHaveTheSameName(t *testing.T) {
	reversed := site(t)
	slices.Reverse(reversed)
	if a, b := name(t, site(t)...), name(t, reversed...); a != b {
		t.Errorf("in another order of objects: %s and %s", a, b)
	}
	want := name(t, made(t, "10-a", withFiles(`{path: /etc/motd, contents: {source: "data:,hello"}}`, audit)))
	for sentence, list := range map[string][]mcfgv1.MachineConfig{
		"in base64":              {made(t, "10-a", withFiles(`{path: /etc/motd, contents: {source: "data:;base64,aGVsbG8="}}`, audit))},
		"compressed":             {made(t, "10-a", withFiles(`{path: /etc/motd, contents: {compression: gzip, source: "`+gzipped(t, "hello")+`"}}`, audit))},
		"with a hash":            {made(t, "10-a", withFiles(`{path: /etc/motd, contents: {source: "data:,hello", verification: {hash: sha256-2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824}}}`, audit))},
		"with the mode written":  {made(t, "10-a", withFiles(`{path: /etc/motd, mode: 420, overwrite: true, contents: {source: "data:,hello"}}`, audit))},
		"in another order":       {made(t, "10-a", withFiles(audit, `{path: /etc/motd, contents: {source: "data:,hello"}}`))},
		"under another name":     {made(t, "77-z", withFiles(`{path: /etc/motd, contents: {source: "data:,hello"}}`, audit))},
		"in two objects":         {made(t, "10-a", withFiles(audit)), made(t, "20-b", withFiles(`{path: /etc/motd, contents: {source: "data:,hello"}}`))},
		"in an older version":    {made(t, "10-a", strings.Replace(withFiles(`{path: /etc/motd, contents: {source: "data:,hello"}}`, audit), "3.5.0", "3.1.0", 1))},
		"over something earlier": {made(t, "10-a", withFiles(audit)), made(t, "11-b", withFiles(`{path: /etc/motd, contents: {compression: gzip, source: "`+gzipped(t, "other")+`"}}`)), made(t, "20-b", withFiles(`{path: /etc/motd, contents: {source: "data:,hello"}}`))},
	} {
		if got := name(t, list...); got != want {
			t.Errorf("%s: %s, not %s", sentence, got, want)
		}
	}
}

func TestOtherContentsHaveAnotherName(t *testing.T) {
	file := func(text string) mcfgv1.MachineConfig { return made(t, "10-a", withFiles(text)) }
	unit := func(text string) mcfgv1.MachineConfig {
		return made(t, "10-a", `{ignition: {version: 3.5.0}, systemd: {units: [{name: cups.service, `+text+`}]}}`)
	}
	kernel := func(list string) mcfgv1.MachineConfig {
		return object(t, `{metadata: {name: 10-a, labels: {machineconfiguration.openshift.io/role: worker}}, spec: {kernelArguments: [`+list+`]}}`)
	}
	seen := map[string]string{}
	for sentence, mc := range map[string]mcfgv1.MachineConfig{
		"a file":                     file(`{path: /etc/motd, contents: {source: "data:,hello"}}`),
		"other bytes":                file(`{path: /etc/motd, contents: {source: "data:,hallo"}}`),
		"another mode":               file(`{path: /etc/motd, mode: 384, contents: {source: "data:,hello"}}`),
		"another owner":              file(`{path: /etc/motd, user: {id: 1000}, contents: {source: "data:,hello"}}`),
		"another path":               file(`{path: /etc/issue, contents: {source: "data:,hello"}}`),
		"a masked unit":              unit(`mask: true`),
		"a unit that is not masked":  unit(`mask: false`),
		"a disabled unit":            unit(`enabled: false`),
		"a drop-in":                  unit(`dropins: [{name: a.conf, contents: "[Service]"}]`),
		"arguments":                  kernel(`quiet, console=tty0, console=ttyS0`),
		"arguments in another order": kernel(`quiet, console=ttyS0, console=tty0`),
		"one argument twice":         kernel(`quiet, quiet`),
		"one argument":               kernel(`quiet`),
		"nothing":                    kernel(``),
	} {
		n := name(t, mc)
		if other, ok := seen[n]; ok {
			t.Errorf("%s and %s are both %s", sentence, other, n)
		}
		seen[n] = sentence
	}
}

func TestMachineConfigsOfWorkersComeFirstAndThenTheLaterNameWins(t *testing.T) {
	in := func(role, name, text string) mcfgv1.MachineConfig {
		mc := made(t, name, withFiles(`{path: /etc/motd, contents: {source: "data:,`+text+`"}}`))
		mc.Labels[mcfgv1.MachineConfigRoleLabelKey] = role
		return mc
	}
	for _, c := range []struct {
		list []mcfgv1.MachineConfig
		want string
	}{
		{[]mcfgv1.MachineConfig{in("worker", "10-a", "a"), in("worker", "20-b", "b")}, "b"},
		{[]mcfgv1.MachineConfig{in("gpu", "10-a", "a"), in("worker", "20-b", "b")}, "a"},
		{[]mcfgv1.MachineConfig{in("worker", "100-a", "a"), in("worker", "99-b", "b")}, "b"}, // names are compared by their bytes
	} {
		r, err := machineconfig.Render("gpu", c.list)
		if err != nil {
			t.Fatal(err)
		}
		data, err := ignition.Contents(r.Config.Ignition.Storage.Files[0].Contents)
		if err != nil || string(data) != c.want {
			t.Errorf("%s: got %q, %v, want %q", r.Sources, data, err, c.want)
		}
		if len(r.Overrides) != 1 || r.Overrides[0].What != "file /etc/motd" || r.Overrides[0].By != r.Sources[1] || r.Overrides[0].Of != r.Sources[0] {
			t.Errorf("overrides %v", r.Overrides)
		}
	}
}

func TestTheMachineConfigsOfAPoolAreThoseItSelects(t *testing.T) {
	all := []mcfgv1.MachineConfig{
		made(t, "00-worker", withFiles()), made(t, "99-worker", withFiles()),
		object(t, `{metadata: {name: 00-master, labels: {machineconfiguration.openshift.io/role: master}}}`),
		object(t, `{metadata: {name: 50-gpu, labels: {machineconfiguration.openshift.io/role: gpu}}}`),
		object(t, `{metadata: {name: rendered-worker-12, labels: {site: a}}}`),
	}
	pool := func(selector string) *mcfgv1.MachineConfigPool {
		var p mcfgv1.MachineConfigPool
		if err := yaml.UnmarshalStrict([]byte(`{metadata: {name: x}, spec: {`+selector+`}}`), &p); err != nil {
			t.Fatal(err)
		}
		return &p
	}
	const role = "machineconfiguration.openshift.io/role"
	for _, c := range []struct{ selector, want, mistake string }{
		{`machineConfigSelector: {matchLabels: {` + role + `: worker}}`, "00-worker 99-worker", ""},
		{`machineConfigSelector: {matchExpressions: [{key: ` + role + `, operator: In, values: [worker, gpu]}]}`, "00-worker 99-worker 50-gpu", ""},
		{`machineConfigSelector: {matchLabels: {` + role + `: none}}`, "", ""},
		{``, "", ""},
		{`machineConfigSelector: {matchLabels: {site: a}}`, "", ""},
		{`machineConfigSelector: {}`, "", "MachineConfigPool x: spec.machineConfigSelector: selects every MachineConfig"},
		{`machineConfigSelector: {matchExpressions: [{key: a, operator: Near}]}`, "", "spec.machineConfigSelector: "},
	} {
		got, err := machineconfig.Selected(pool(c.selector), all)
		var names []string
		for _, mc := range got {
			names = append(names, mc.Name)
		}
		if strings.Join(names, " ") != c.want || (err == nil) != (c.mistake == "") || err != nil && !strings.Contains(err.Error(), c.mistake) {
			t.Errorf("%s: got %v, %v", c.selector, names, err)
		}
	}
	bad := append(all,
		object(t, `{metadata: {name: rendered-mine, labels: {`+role+`: worker, all: a}}}`),
		object(t, `{metadata: {name: 70-none, labels: {all: a}}}`))
	_, err := machineconfig.Selected(pool(`machineConfigSelector: {matchLabels: {all: a}}`), bad)
	if err == nil || err.Error() != "MachineConfig rendered-mine: metadata.name: the prefix rendered- is kept for results of a merge; choose another name\n"+
		"MachineConfig 70-none: metadata.labels: needs machineconfiguration.openshift.io/role with the role that it is for" {
		t.Errorf("got %v", err)
	}
}

func TestAMergeThatTheAPICannotHoldIsRefused(t *testing.T) {
	big := made(t, "10-a", withFiles(`{path: /etc/big, contents: {source: "data:,`+strings.Repeat("x", machineconfig.MaxBytes)+`"}}`))
	_, err := machineconfig.Render("worker", []mcfgv1.MachineConfig{big})
	var m machineconfig.Mistakes
	if !errors.As(err, &m) || len(m) != 1 || !strings.Contains(m[0].Why, "one object of the API holds 1048576") {
		t.Errorf("got %v", err)
	}
}

func TestAMachineConfigMayHaveNoIgnitionConfig(t *testing.T) {
	r, err := machineconfig.Render("worker", []mcfgv1.MachineConfig{{Spec: mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{}}}})
	if err != nil || string(r.Spec.Config.Raw) != `{"ignition":{"version":"3.5.0"}}`+"\n" {
		t.Errorf("got %s, %v", r.Spec.Config.Raw, err)
	}
}
