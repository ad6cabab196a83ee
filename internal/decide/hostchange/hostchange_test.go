package hostchange_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/hostchange"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// config reads the spec of a MachineConfig without its config's version.
func config(t testing.TB, text string) machineconfig.Config {
	t.Helper()
	var mc mcfgv1.MachineConfig
	text = strings.ReplaceAll(`{metadata: {name: x}, spec: {`+text+`}}`, "config: {", "config: {ignition: {version: 3.5.0}, ")
	if err := yaml.UnmarshalStrict([]byte(text), &mc); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	cfg, err := machineconfig.Read(mc)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func file(path, contents string) string {
	return fmt.Sprintf(`config: {storage: {files: [{path: %s, contents: {source: "%s"}}]}}`, path, ignition.DataURL([]byte(contents)))
}

func unit(text string) string { return `config: {systemd: {units: [{` + text + `}]}}` }

// authority is a certificate.
const authority = `-----BEGIN CERTIFICATE-----
MIIBNDCB56ADAgECAhRcPQEIiyZO+IIKUzu2ebK/Cw1BTzAFBgMrZXAwDzENMAsG
A1UEAwwEc2l0ZTAgFw0yNjExMjYwNDE2NTZaGA8yMTI2MTEwMjA0MTY1NlowDzEN
MAsGA1UEAwwEc2l0ZTAqMAUGAytlcAMhAJfhqWEnNnOoqXEqp6uqzDFtajNaelOr
td3dHQcGoDOMo1MwUTAdBgNVHQ4EFgQUGQYNQ0J2jV7gRMxh7rn8iP4EYeYwHwYD
VR0jBBgwFoAUGQYNQ0J2jV7gRMxh7rn8iP4EYeYwDwYDVR0TAQH/BAUwAwEB/zAF
BgMrZXADQQCfmLvTl1BHg7+lxbsjw+l5bRmJIgqfmwQSAiN0jPSuzwHd22F79r8B
7zR0gNnw+YI6VzhVqVgytuJMM5AdKSEO
-----END CERTIFICATE-----
`

// step is the step from one configuration to another.
type step struct{ sentence, from, to string }

func fileSteps() []step {
	const sysctl, modules = "/etc/sysctl.d/50-site.conf", "/etc/modules-load.d/site.conf"
	return []step{
		{"a parameter is added", "", file(sysctl, "vm.swappiness=10\n")},
		{"a parameter has another value", file(sysctl, "vm.swappiness=10\n"), file(sysctl, "# less\nvm/swappiness = 5\nvm.dirty_ratio=5\n")},
		{"a parameter is dropped", file(sysctl, "vm.swappiness=10\nvm.dirty_ratio=5\n"), file(sysctl, "vm.swappiness=10\n")},
		{"a file of parameters is removed", file(sysctl, "vm.swappiness=10\n"), ""},
		{"a module is added", file(modules, "# ours\nsctp\n"), file(modules, "sctp\ndummy")},
		{"a module is dropped", file(modules, "sctp\ndummy\n"), file(modules, "sctp\n")},
		{"a mirror changes", file("/etc/containerd/certs.d/a.example.test/hosts.toml", "server = 'a'"), file("/etc/containerd/certs.d/a.example.test/hosts.toml", "server = 'b'")},
		{"the rows of the site change", file(machineconfig.PolicyPath, "{}"), file(machineconfig.PolicyPath, `{"files": []}`)},
		{"kubelet's settings change", file(machineconfig.KubeletPath, "{}"), file(machineconfig.KubeletPath, `{"maxPods": 50}`)},
		{"the site gets a proxy", file(state.ProxyPath, "# none\n"), file(state.ProxyPath, `HTTP_PROXY="http://p"`)},
		{"the site adds authorities", "", file(state.TrustPath, authority)},
		{"no line of the authorities changes", file(state.TrustPath, authority), file(state.TrustPath, authority+"# ours\n")},
		{"the firewall's exceptions change", "", file("/etc/holdfast/firewall", "10.0.0.1\n")},
		{"journald is set", "", file("/etc/systemd/journald.conf.d/50-site.conf", "[Journal]\n")},
		{"a time server changes", file("/etc/chrony.conf", "server a\n"), file("/etc/chrony.conf", "server b\n")},
		{"the other time client is set", "", file("/etc/systemd/timesyncd.conf", "[Time]\n")},
		{"sshd is set", "", file("/etc/ssh/sshd_config.d/50-site.conf", "PasswordAuthentication no\n")},
		{"a greeting changes", file("/etc/motd", "a"), file("/etc/motd", "b")},
		{"a rule of sudo is removed", file("/etc/sudoers.d/site", "a"), ""},
		{"a file that nobody knows is added", "", file("/etc/site.conf", "a")},
		{"its name begins like a known one", "", file("/etc/motd2", "a")},
		{"a program changes", file("/usr/local/bin/probe", "a"), file("/usr/local/bin/probe", "b")},
		{"a mode changes", `config: {storage: {files: [{path: /etc/motd, mode: 420, contents: {source: "data:,"}}]}}`, `config: {storage: {files: [{path: /etc/motd, mode: 384, user: {id: 1}, group: {name: adm}, contents: {source: "data:,"}}]}}`},
	}
}

func unitSteps() []step {
	const with, other = `contents: "[Service]\nA=1"`, `contents: "[Service]\nA=2"`
	return []step{
		{"a unit is added and enabled", "", unit(`name: a.service, enabled: true, ` + with)},
		{"a unit that is enabled changes", unit(`name: a.service, enabled: true, ` + with), unit(`name: a.service, enabled: true, ` + other)},
		{"a unit that others start changes", unit(`name: a.service, ` + with), unit(`name: a.service, ` + other)},
		{"a drop-in of the distribution's unit is added", "", unit(`name: cups.service, dropins: [{name: a.conf, contents: "[Service]"}]`)},
		{"it is removed", unit(`name: cups.service, dropins: [{name: a.conf, contents: "[Service]"}]`), ""},
		{"a unit is masked", "", unit(`name: cups.service, mask: true`)},
		{"a unit is disabled", unit(`name: cups.service, enabled: true`), unit(`name: cups.service, enabled: false`)},
		{"a mask is no longer set", unit(`name: cups.service, mask: true`), ""},
		{"a unit is no longer enabled by the configuration", unit(`name: a.service, enabled: true, ` + with), unit(`name: a.service, ` + with)},
		{"the distribution's unit comes back", unit(`name: cups.service, ` + with), unit(`name: cups.service`)},
		{"a unit is removed", unit(`name: a.service, enabled: true, ` + with), ""},
		{"a timer is added", "", unit(`name: a.timer, enabled: true, contents: "[Timer]"`)},
		{"a mount is added", "", unit(`name: srv.mount, enabled: true, contents: "[Mount]"`)},
		{"a template changes", unit(`name: a@.service, ` + with), unit(`name: a@.service, ` + other)},
		{"kubelet gets a drop-in", "", unit(`name: kubelet.service, dropins: [{name: a.conf, contents: "[Service]"}]`)},
		{"the network gets a drop-in", "", unit(`name: systemd-networkd.service, dropins: [{name: a.conf, contents: "[Service]"}]`)},
	}
}

func otherSteps() []step {
	const key = `config: {passwd: {users: [{name: core, sshAuthorizedKeys: [%s]}]}}`
	return []step{
		{"a kernel argument is added", `kernelArguments: [quiet]`, `kernelArguments: [quiet, nosmt]`},
		{"a kernel argument has another value", `kernelArguments: [hugepages=1]`, `kernelArguments: [hugepages=2]`},
		{"kernel arguments change places", `kernelArguments: [console=tty0, console=ttyS0]`, `kernelArguments: [console=ttyS0, console=tty0]`},
		{"a key is added", fmt.Sprintf(key, "ssh-ed25519 A"), fmt.Sprintf(key, "ssh-ed25519 A, ssh-ed25519 B")},
		{"keys are removed", fmt.Sprintf(key, "ssh-ed25519 A"), ""},
		{"nothing changes", file("/etc/site.conf", "a"), file("/etc/site.conf", "a")},
		{"several things change", file("/etc/sysctl.d/a.conf", "vm.swappiness=10\n"), `config: {storage: {files: [{path: /etc/chrony.conf, contents: {source: "data:,"}}, {path: /etc/sysctl.d/a.conf, contents: {source: "data:,vm.swappiness%20=%2010%0Avm.dirty_ratio=5%0A"}}]}, systemd: {units: [{name: b.service, enabled: true, contents: "[Service]"}, {name: a.service, mask: true}]}, passwd: {users: [{name: core, sshAuthorizedKeys: [ssh-ed25519 A]}]}}`},
		{"one of several needs a reboot", "", `kernelArguments: [quiet], config: {systemd: {units: [{name: a.service, mask: true}]}}`},
	}
}

// told shows a plan.
func told(p hostchange.Plan) string {
	var out strings.Builder
	for _, c := range p.Changes {
		fmt.Fprintf(&out, "    %s %s %s (%s) by %s: %v\n", c.Kind, c.Name, c.Verb, strings.Join(c.Parts, ", "), c.Rule, c.Needs)
	}
	fmt.Fprintf(&out, "    before %v, after %v\n", p.Before, p.After)
	return out.String()
}

func TestWhatEachChangeNeedsIsApproved(t *testing.T) {
	var out strings.Builder
	used := map[string]bool{}
	for _, s := range slices.Concat(fileSteps(), unitSteps(), otherSteps()) {
		p := hostchange.Compare(config(t, s.from), config(t, s.to), hostchange.Table(nil))
		for _, c := range p.Changes {
			used[c.Rule] = true
		}
		if p.Reboots() && (len(p.After) != 1 || !p.Drains() || len(p.Before) != 1) {
			t.Errorf("%s: a reboot takes the place of everything else: %v, %v", s.sentence, p.Before, p.After)
		}
		fmt.Fprintf(&out, "%s\n%s", s.sentence, told(p))
	}
	golden.Check(t, "steps.txt", []byte(out.String()))
	for _, row := range hostchange.Table(nil) {
		if !used[row.Rule] {
			t.Errorf("no step shows the row %s", row.Rule)
		}
	}
}

// TestThePageHasTheTable keeps the page that people read in step with the table.
func TestThePageHasTheTable(t *testing.T) {
	var out strings.Builder
	out.WriteString("\n| change | what it needs | why | rule |\n|---|---|---|---|\n")
	for _, row := range hostchange.Table(nil) {
		var needs []string
		for _, a := range row.Needs {
			needs = append(needs, words(a))
		}
		if len(needs) == 0 {
			needs = []string{"nothing"}
		}
		fmt.Fprintf(&out, "| %s | %s | %s | `%s` |\n", row.What, strings.Join(needs, ", then "), row.Why, row.Rule)
	}
	out.WriteString("\n")
	golden.Section(t, "../../../docs/host-changes.md", "table", out.String())
}

func words(a hostchange.Action) string {
	if a.Do == hostchange.Reboot {
		return "drain and reboot"
	}
	return "`" + a.String() + "`"
}

func policy(t *testing.T, text string) operatorv1.NodeDisruptionPolicyConfig {
	t.Helper()
	var out operatorv1.NodeDisruptionPolicyConfig
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestASiteDeclaresWhatItsOwnFilesNeed(t *testing.T) {
	rows, err := hostchange.Policies(policy(t, `
files:
- {path: /opt/site, actions: [{type: Restart, restart: {serviceName: probe.service}}]}
- {path: /opt/site/data/, actions: [{type: None}]}
- {path: /opt/site/kernel, actions: [{type: Reboot}]}
- {path: /etc/motd, actions: [{type: Drain}, {type: Reload, reload: {serviceName: a.service}}, {type: DaemonReload}]}
units:
- {name: srv.mount, actions: [{type: None}]}
- {name: probe.service, actions: [{type: Reload, reload: {serviceName: probe.service}}]}
sshkey: {actions: [{type: Drain}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	table := hostchange.Table(rows)
	const probe = `name: probe.service, enabled: true, contents: "[Service]`
	for _, c := range []struct{ sentence, from, to, before, after string }{
		{"a file in a folder of the site", "", file("/opt/site/a", "a"), "[]", "[restart probe.service]"},
		{"a file in a folder inside of that", "", file("/opt/site/data/a", "a"), "[]", "[]"},
		{"a file that the site wants a reboot for", "", file("/opt/site/kernel", "a"), "[drain]", "[reboot]"},
		{"a name that begins like the folder", "", file("/opt/sites", "a"), "[drain]", "[reboot]"},
		{"a drain, in our order", "", file("/etc/motd", "a"), "[drain]", "[daemon-reload try-reload-or-restart a.service]"},
		{"a mount of the site", "", unit(`name: srv.mount, contents: "[Mount]"`), "[]", "[daemon-reload]"},
		{"a unit of the site", unit(probe + `\nA=1"`), unit(probe + `\nA=2"`), "[]", "[daemon-reload try-reload-or-restart probe.service]"},
		{"it ends", unit(probe + `"`), "", "[stop probe.service]", "[daemon-reload]"},
		{"it is disabled", unit(probe + `"`), unit(`name: probe.service, enabled: false, contents: "[Service]"`), "[stop probe.service]", "[daemon-reload]"},
		{"a key", "", `config: {passwd: {users: [{name: core, sshAuthorizedKeys: [a]}]}}`, "[drain]", "[]"},
		{"what carries the cluster", "", unit(`name: kubelet.service, dropins: [{name: a.conf, contents: "[Service]"}]`), "[drain]", "[reboot]"},
	} {
		p := hostchange.Compare(config(t, c.from), config(t, c.to), table)
		if before, after := fmt.Sprint(p.Before), fmt.Sprint(p.After); before != c.before || after != c.after {
			t.Errorf("%s: before %s, after %s", c.sentence, before, after)
		}
	}
}

// TestTheRowsOfAWayAreThoseOfTheConfigurationItLeadsTo: also where a site declares
// something about the folder with the rows.
func TestTheRowsOfAWayAreThoseOfTheConfigurationItLeadsTo(t *testing.T) {
	with := func(policy, path, contents string) machineconfig.Config {
		return config(t, fmt.Sprintf(`config: {storage: {files: [{path: %s, contents: {source: "%s"}}, {path: %s, contents: {source: "%s"}}]}}`,
			machineconfig.PolicyPath, ignition.DataURL([]byte(policy)), path, ignition.DataURL([]byte(contents))))
	}
	const (
		quiet = `{"files": [{"path": "/opt/site", "actions": [{"type": "None"}]}, {"path": "/etc", "actions": [{"type": "Reboot"}]}]}`
		all   = `{"files": [{"path": "/etc", "actions": [{"type": "None"}]}]}`
		boots = `{"files": [{"path": "/opt/site", "actions": [{"type": "Reboot"}]}]}`
	)
	for _, c := range []struct {
		sentence, from, to, path string
		boots                    bool
	}{
		{"rows that come with the change", boots, quiet, "/opt/site/a", false},
		{"the other way round", quiet, boots, "/opt/site/a", true},
		{"the rows before all of ours but the first", quiet, quiet, "/etc/motd", true},
		{"settings of kubelet, whatever the site declares", all, all, machineconfig.KubeletPath, true},
	} {
		from, to := with(c.from, c.path, `{"maxPods": 1}`), with(c.to, c.path, `{"maxPods": 2}`)
		table, err := hostchange.TableOf(to)
		if err != nil {
			t.Fatal(err)
		}
		if p := hostchange.Compare(from, to, table); p.Reboots() != c.boots {
			t.Errorf("%s: %s", c.sentence, told(p))
		}
	}
	from, to := with(boots, "/opt/site/a", "a"), with(quiet, "/opt/site/a", "a")
	table, err := hostchange.TableOf(to)
	if p := hostchange.Compare(from, to, table); err != nil || len(p.Changes) != 1 || !p.Quiet() {
		t.Errorf("another declaration alone: %s, %v", told(p), err)
	}
	if _, err := hostchange.TableOf(with(`{"units": [{"name": "kubelet.service", "actions": []}]}`, "/opt/a", "")); err == nil {
		t.Error("a declaration with a mistake is used")
	}
}

func TestEveryMistakeOfAPolicyIsNamedAtOnce(t *testing.T) {
	rows, err := hostchange.Policies(policy(t, `
files:
- {path: relative, actions: [{type: None}, {type: Drain}]}
- {path: /, actions: [{type: Reload}]}
- {path: /etc/../a, actions: [{type: Run}]}
- {path: /etc/a, actions: [{type: Restart, restart: {serviceName: kubelet.service}}]}
units:
- {name: pacemaker.service, actions: [{type: None}]}
sshkey: {actions: [{type: Restart}]}
`))
	if err == nil || rows != nil {
		t.Fatalf("got %v", rows)
	}
	golden.Check(t, "policy.txt", []byte(err.Error()+"\n"))
}

func TestNoChangeNeedsNothing(t *testing.T) {
	for _, s := range slices.Concat(fileSteps(), unitSteps(), otherSteps()) {
		for _, text := range []string{s.from, s.to} {
			if p := hostchange.Compare(config(t, text), config(t, text), hostchange.Table(nil)); len(p.Changes) > 0 || !p.Quiet() {
				t.Errorf("%s: %s", text, told(p))
			}
		}
	}
}

// TestTheWayBackIsTheSameChanges: a host that goes back changes what it changed.
func TestTheWayBackIsTheSameChanges(t *testing.T) {
	for _, s := range slices.Concat(fileSteps(), unitSteps(), otherSteps()) {
		there := hostchange.Compare(config(t, s.from), config(t, s.to), hostchange.Table(nil))
		back := hostchange.Compare(config(t, s.to), config(t, s.from), hostchange.Table(nil))
		if len(there.Changes) != len(back.Changes) {
			t.Fatalf("%s: %s%s", s.sentence, told(there), told(back))
		}
		for i, c := range there.Changes {
			b := back.Changes[i]
			turned := map[hostchange.Verb]hostchange.Verb{hostchange.Added: hostchange.Removed, hostchange.Removed: hostchange.Added, hostchange.Changed: hostchange.Changed}[c.Verb]
			if b.Name != c.Name || b.Kind != c.Kind || b.Verb != turned {
				t.Errorf("%s: %+v is undone by %+v", s.sentence, c, b)
			}
		}
	}
}

func TestOnTheWayBackAParameterWhoseValueIsKnownNeedsNoReboot(t *testing.T) {
	const sysctl = "/etc/sysctl.d/50-site.conf"
	from := config(t, file(sysctl, "vm.swappiness=10\nvm/dirty_ratio=5\nnet.ipv4.conf.*.rp_filter=1\n"))
	if got := hostchange.Parameters(from); !slices.Equal(got, []string{"vm/dirty_ratio", "vm/swappiness"}) {
		t.Errorf("it sets %q", got)
	}
	for _, c := range []struct {
		to     string
		values map[string]string
		boots  bool
	}{
		{"", nil, true},
		{"", map[string]string{"vm/swappiness": "60", "vm/dirty_ratio": "20"}, true}, // the pattern
		{file(sysctl, "net.ipv4.conf.*.rp_filter=2\n"), map[string]string{"vm/swappiness": "60", "vm/dirty_ratio": "20"}, false},
		{file(sysctl, "net.ipv4.conf.*.rp_filter=2\n"), map[string]string{"vm/swappiness": "60"}, true},
		{file("/etc/sysctl.d/51-site.conf", "net.ipv4.conf.*.rp_filter=1\n"), map[string]string{"vm/swappiness": "60", "vm/dirty_ratio": "20"}, true},
	} {
		p := hostchange.Compare(from, config(t, c.to), hostchange.Table([]hostchange.Row{hostchange.Restored(c.values)}))
		if p.Reboots() != c.boots || p.Parameters() == c.boots {
			t.Errorf("to %q with %v: %v", c.to, c.values, p.After)
		}
	}
}
