package machineconfig_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/ignition"
)

// one renders one MachineConfig, and reads the result back as a host does.
func one(t *testing.T, list ...mcfgv1.MachineConfig) machineconfig.Config {
	t.Helper()
	r, err := machineconfig.Render("worker", list)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := machineconfig.Read(*r.Object())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestNothingOfAnAccountCanBeSetButItsKeys tries each other field by itself: none could
// be taken back.
func TestNothingOfAnAccountCanBeSetButItsKeys(t *testing.T) {
	for _, field := range []string{
		`gecos: a`, `groups: [wheel]`, `homeDir: /home/a`, `noCreateHome: true`, `noLogInit: true`, `noUserGroup: true`, `passwordHash: "$6$hush"`,
		`primaryGroup: wheel`, `shell: /bin/sh`, `shouldExist: false`, `system: true`, `uid: 0`,
	} {
		got := mistakes(t, spec(t, `{config: {ignition: {version: 3.5.0}, passwd: {users: [{name: core, sshAuthorizedKeys: [ssh-ed25519 AAAA], `+field+`}]}}}`))
		if got != "MachineConfig 50-site: spec.config.passwd.users.0: only sshAuthorizedKeys can be set; remove the other fields" {
			t.Errorf("%s: %q", field, got)
		}
	}
}

// TestANumberOfAnAccountIsNotBelowZero, of the owner and of the group.
func TestANumberOfAnAccountIsNotBelowZero(t *testing.T) {
	for text, ok := range map[string]bool{
		`user: {id: 0}, group: {id: 0}`: true, `user: {id: -1}`: false, `group: {id: -1}`: false, `user: {id: 7}, group: {id: -7}`: false,
	} {
		got := mistakes(t, made(t, "50-site", withFiles(`{path: /etc/site, `+text+`, contents: {source: "data:,"}}`)))
		if (got == "") != ok {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// TestKeysAreTheSameWhateverIsAroundThem: blanks at the ends of a line are none of a
// key's.
func TestKeysAreTheSameWhateverIsAroundThem(t *testing.T) {
	keys := func(list string) mcfgv1.MachineConfig {
		return made(t, "50-site", `{ignition: {version: 3.5.0}, passwd: {users: [{name: core, sshAuthorizedKeys: [`+list+`]}]}}`)
	}
	want := name(t, keys(`ssh-ed25519 AAAA a, ssh-ed25519 BBBB b`))
	for _, list := range []string{`"ssh-ed25519 AAAA a\n", "  ssh-ed25519 BBBB b "`, `ssh-ed25519 BBBB b, ssh-ed25519 AAAA a`} {
		if got := name(t, keys(list)); got != want {
			t.Errorf("%s: %s, not %s", list, got, want)
		}
	}
}

// TestAUnitWithoutAWordIsNoUnitOfItsOwn: empty contents are none, so they neither take
// the distribution's unit away nor stand against a mask.
func TestAUnitWithoutAWordIsNoUnitOfItsOwn(t *testing.T) {
	unit := func(name, text string) mcfgv1.MachineConfig {
		return made(t, name, `{ignition: {version: 3.5.0}, systemd: {units: [{name: cups.service, `+text+`}]}}`)
	}
	if a, b := name(t, unit("10-a", `mask: true, contents: ""`)), name(t, unit("10-a", `mask: true`)); a != b {
		t.Errorf("%s and %s", a, b)
	}
	if u := one(t, unit("10-a", `contents: ""`)).Ignition.Systemd.Units[0]; u.Contents != nil {
		t.Errorf("%q", *u.Contents)
	}
	if got := mistakes(t, made(t, "10-a", `{ignition: {version: 3.5.0}, systemd: {units: [{name: kubelet.service, contents: ""}]}}`)); got != "" {
		t.Errorf("it takes nothing from a unit of Holdfast's: %s", got)
	}
}

// TestALaterMachineConfigMayChangeAModeAlone: the bytes stay those of the earlier one,
// whatever else the later one says of them.
func TestALaterMachineConfigMayChangeAModeAlone(t *testing.T) {
	first := made(t, "10-a", withFiles(`{path: /etc/site, contents: {source: "data:,hello"}}`))
	for _, contents := range []string{``, `, contents: {}`, `, contents: {compression: gzip}`} {
		later := made(t, "20-b", withFiles(`{path: /etc/site, mode: 384`+contents+`}`))
		f := one(t, first, later).Ignition.Storage.Files[0]
		if data, err := ignition.Contents(f.Contents); err != nil || string(data) != "hello" || *f.Mode != 0o600 {
			t.Errorf("%q: %q with mode %#o, %v", contents, data, *f.Mode, err)
		}
	}
}

// TestAMergedObjectIsKnownAsOne, and is made from no other merged one.
func TestAMergedObjectIsKnownAsOne(t *testing.T) {
	r, err := machineconfig.Render("gpu", site(t))
	if err != nil {
		t.Fatal(err)
	}
	o := r.Object()
	if _, ok := o.Labels[machineconfig.LabelRendered]; !ok || o.Name != r.Name || !strings.HasPrefix(o.Name, "rendered-gpu-") {
		t.Errorf("%s %v", o.Name, o.Labels)
	}
	if got := o.Annotations[machineconfig.AnnotationSources]; got != strings.Join(r.Sources, " ") || !slices.Contains(r.Sources, "50-gpu") {
		t.Errorf("made of %q, says %q", r.Sources, got)
	}
}

// TestAPoolThatSelectsWhatIsWrongHasNoConfiguration: half of one is none.
func TestAPoolThatSelectsWhatIsWrongHasNoConfiguration(t *testing.T) {
	for selector, want := range map[string]string{
		`{}`: "selects every MachineConfig", `{matchLabels: {machineconfiguration.openshift.io/role: worker}}`: "FIPS",
	} {
		pool := poolOf(t, selector)
		r, err := machineconfig.Of(&pool, machineconfig.Objects{MachineConfigs: []mcfgv1.MachineConfig{made(t, "10-a", withFiles()), spec(t, `{fips: true}`)}})
		if err == nil || !strings.Contains(err.Error(), want) || r.Name != "" {
			t.Errorf("%s: %q, %v", selector, r.Name, err)
		}
	}
}

// TestHowAConfigurationIsCutIntoObjectsChangesNothing: each part of a site in an object
// of its own, in an order that keeps who wins.
func TestHowAConfigurationIsCutIntoObjectsChangesNothing(t *testing.T) {
	var files, objects []string
	for i := range 6 {
		files = append(files, fmt.Sprintf(`{path: /etc/site/%d, contents: {source: "data:,%d"}}`, i, i))
		objects = append(objects, fmt.Sprintf("%d0-part", i+1))
	}
	want := name(t, made(t, "50-all", withFiles(files...)))
	for cut := range 1 << (len(files) - 1) { // each bit begins a new object
		var list []mcfgv1.MachineConfig
		from := 0
		for i := range files {
			if i == len(files)-1 || cut&(1<<i) != 0 {
				list = append(list, made(t, objects[len(list)], withFiles(files[from:i+1]...)))
				from = i + 1
			}
		}
		if got := name(t, list...); got != want {
			t.Errorf("in %d objects: %s, not %s", len(list), got, want)
		}
	}
}

func poolOf(t *testing.T, selector string) mcfgv1.MachineConfigPool {
	t.Helper()
	var p mcfgv1.MachineConfigPool
	if err := yaml.UnmarshalStrict([]byte(`{metadata: {name: worker}, spec: {machineConfigSelector: `+selector+`}}`), &p); err != nil {
		t.Fatal(err)
	}
	return p
}
