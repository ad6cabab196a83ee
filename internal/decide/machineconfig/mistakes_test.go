package machineconfig_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/testkit/golden"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// spec returns a MachineConfig with a spec.
func spec(t testing.TB, text string) mcfgv1.MachineConfig {
	t.Helper()
	return object(t, `{metadata: {name: 50-site, labels: {machineconfiguration.openshift.io/role: worker}}, spec: `+text+`}`)
}

// mistakes returns what is wrong with MachineConfigs, a line for each.
func mistakes(t testing.TB, list ...mcfgv1.MachineConfig) string {
	t.Helper()
	r, err := machineconfig.Render("worker", list)
	if err == nil {
		return ""
	}
	var m machineconfig.Mistakes
	if !errors.As(err, &m) || r.Name != "" {
		t.Fatalf("%v, %+v", err, r)
	}
	return err.Error()
}

func TestEachThingThatCannotBeAppliedIsRefusedWithItsField(t *testing.T) {
	const ign = `ignition: {version: 3.5.0}`
	in := func(text string) string { return `{config: {` + ign + `, ` + text + `}}` }
	file := func(text string) string { return in(`storage: {files: [{` + text + `}]}`) }
	at := func(path string) string { return file(`path: ` + path + `, contents: {source: "data:,"}`) }
	unit := func(text string) string { return in(`systemd: {units: [{` + text + `}]}`) }
	user := func(text string) string { return in(`passwd: {users: [{` + text + `}]}`) }
	parameters := func(path, lines string) string {
		return file(`path: ` + path + `, contents: {source: "` + ignition.DataURL([]byte(lines)) + `"}`)
	}
	cases := []string{
		`{osImageURL: "x", baseOSExtensionsContainerImage: "y", fips: true, kernelType: realtime, extensions: [usbguard]}`,
		`{kernelType: default}`,
		`{kernelArguments: ["a b", "quiet", "x=\"y\"", "x=$(id)", "", "root=/dev/sda", "init=/bin/sh", "nosmt", "hugepagesz=1G", "crashkernel=512M@64M", "rd.driver.blacklist=nouveau", "systemd.mask=holdfast-agent.service"]}`,
		`{config: {}}`,
		`{config: {ignition: {version: 2.2.0}}}`,
		`{config: {ignition: {version: 3.9.0}}}`,
		`{config: {ignition: {version: 3.5.0}, extra: 1, storage: {files: [{path: relative, mode: 99999}, {path: /etc/a, wrong: 2}]}}}`,
		in(`storage: {disks: [{device: /dev/sdb, wipeTable: true}], raid: [{name: a, level: raid1, devices: [/dev/sdb]}], filesystems: [{device: /dev/sdb, format: xfs, path: /var}], luks: [{name: a, device: /dev/sdb}], directories: [{path: /etc/a}], links: [{path: /etc/b, target: c}]}`),
		`{config: {ignition: {version: 3.5.0, config: {merge: [{source: "https://x/"}]}, proxy: {httpProxy: "http://clerk:hush@p"}, security: {tls: {certificateAuthorities: [{source: "data:,x"}]}}, timeouts: {httpTotal: 1}}, kernelArguments: {shouldExist: [quiet]}, passwd: {groups: [{name: g}]}}}`,
		`{config: {ignition: {version: 3.5.0, config: {replace: {source: "https://x/"}}}}}`,
		file(`path: /etc/a`),
		file(`path: /etc/a, overwrite: false, contents: {source: "data:,"}`),
		file(`path: /etc/a, append: [{source: "data:,x"}], contents: {source: "data:,"}`),
		file(`path: /etc/a, contents: {source: "https://elsewhere/x"}`),
		file(`path: /etc/a, contents: {source: "data:,x", verification: {hash: sha256-2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824}}`),
		file(`path: /usr/local/bin/a, mode: 2541, contents: {source: "data:,"}`),
		file(`path: /etc/a, user: {id: -1}, contents: {source: "data:,"}`),
		in(`storage: {files: [{path: /etc/a, contents: {source: "data:,"}}, {path: /etc/a/b, contents: {source: "data:,"}}]}`),
		at(`/etc/../root/x`), at(`/proc/sys/x`), at(`/root/x`), at(`/usr/bin/x`), at(`/boot/x`), at(`/run/x`), at(`/etcetera/x`), at(`/etc`), at(`/opt/site/x`), at(`/usr/local/bin/probe`),
		at(`/etc/kubernetes/manifests/x.yaml`), at(`/etc/kubernetes`), at(`/etc/hostname`), at(`/etc/shadow`), at(`/etc/default/grub.d/x.cfg`), at(`/etc/systemd/system/x.service`),
		at(`/etc/systemd/system.control/holdfast-agent.service.d/50-site.conf`), at(`/etc/systemd/system.control/x.service`),
		at(`/etc/holdfast/firewall`), at(`/etc/holdfast/x`), at(`/etc/profile.d/holdfast.sh`), at(`/usr/local/bin/kubelet`), at(`/var/lib/etcd/x`), at(`/var/lib/site/x`),
		unit(`name: ../x.service, contents: "[Service]"`),
		unit(`name: x.service, mask: true, contents: "[Service]"`),
		unit(`name: kubelet.service, enabled: false`),
		unit(`name: holdfast-agent.service, mask: true`),
		unit(`name: pacemaker.service, dropins: [{name: 50-site.conf, contents: "[Service]"}, {name: 10-holdfast.conf, contents: "[Service]"}, {name: 10-proxy.conf, contents: "[Service]"}]`),
		unit(`name: x.service, dropins: [{name: a/b.conf, contents: "[Service]"}, {name: 10-proxy.conf, contents: "[Service]"}]`),
		unit(`name: holdfast-configure.service, dropins: [{name: 50-site.conf, contents: "[Service]\nReadOnlyPaths=/etc\n"}]`),
		unit(`name: holdfast-.service, dropins: [{name: 50-site.conf, contents: "[Service]\nExecStart=/bin/true\n"}]`),
		unit(`name: holdfast-agent.service, dropins: [{name: 50-site.conf, contents: "# a hook\n[Service]\nExecStart=\nExecStart=/bin/hush\nEnvironment=TOKEN=hush\nReadWritePaths=-/srv/hook /srv/other\nReadWritePaths=\n[Unit]\nMemoryMin=1G\n"}]`),
		unit(`name: holdfast-agent.service, dropins: [{name: 50-site.conf, contents: "[Service]\nLogLevelMax=info \\\nhush=1\n"}]`),
		unit(`name: holdfast-agent.service, dropins: [{name: 50-site.conf, contents: "[Unit]\nDescription=a\n\n[Service]\n; b\nMemoryMin = 64M\nReadWritePaths=-/srv/hook -/srv/b"}]`),
		user(`name: root, sshAuthorizedKeys: [ssh-ed25519 AAAA]`),
		user(`name: core, sshAuthorizedKeys: [ssh-ed25519 AAAA], passwordHash: "$6$hush", groups: [wheel]`),
		user(`name: core, sshAuthorizedKeys: ["a\nb", " "]`),
		parameters(`/etc/sysctl.d/50-site.conf`, "# a\n\n;b\nvm.swappiness = 10\n-net.core.somaxconn=1024\n-kernel.sysrq\nnonsense\nkernel.panic 10\n = 3\n"),
		parameters(`/etc/sysctl.d/50-site.conf`, "net.ipv4.ip_forward = 0\nnet/ipv4/conf/eth0.100/arp_ignore=0\nnet.ipv4.conf.*.arp_announce=0\n-net.ipv6.conf.all.accept_ra=2\nnet.ipv4.conf.eth0.rp_filter=2\n"),
		parameters(`/etc/sysctl.d/50-site`, "vm.swappiness = 10\n"),
		parameters(`/etc/sysctl.conf`, "nonsense\n"),
	}
	var out strings.Builder
	for _, text := range cases {
		got := mistakes(t, spec(t, text))
		if got == "" {
			got = "accepted"
		}
		fmt.Fprintf(&out, "%s\n    %s\n", text, strings.ReplaceAll(got, "\n", "\n    "))
		if strings.Contains(got, "hush") {
			t.Errorf("a secret is told: %s", got)
		}
	}
	golden.Check(t, "mistakes.txt", []byte(out.String()))
}

// TestTheUnitsOfTheWayBackAreNoMachineConfigs: by what runs before the agent at a boot, in a shutdown, and to write
// files or to return to a release, nobody but Holdfast adds anything. kubelet is not among them: the agent goes
// back from what breaks that.
func TestTheUnitsOfTheWayBackAreNoMachineConfigs(t *testing.T) {
	dropin := func(unit string) string {
		return mistakes(t, spec(t, `{config: {ignition: {version: 3.5.0}, systemd: {units: [{name: `+unit+`, dropins: [{name: 50-site.conf, contents: "[Service]\nNice=1\n"}]}]}}}`))
	}
	for _, unit := range []string{
		host.AgentUnit, host.ConfigureUnit, host.LeaveUnit, host.LifeUnit, host.ParachuteUnit, host.ParachuteTimer, host.SwitchUnit, "holdfast-.service", "holdfast-.timer",
		"service", "timer", // their drop-ins would be those of all units of the type
	} {
		if dropin(unit) == "" {
			t.Errorf("%s takes a drop-in", unit)
		}
	}
	for _, unit := range []string{host.KubeletUnit, host.ContainerdUnit, host.PatchUnit} {
		if why := dropin(unit); why != "" {
			t.Errorf("%s takes no drop-in: %s", unit, why)
		}
	}
	file := func(path string) string {
		return mistakes(t, spec(t, `{config: {ignition: {version: 3.5.0}, storage: {files: [{path: "`+path+`", contents: {source: "data:,"}}]}}}`))
	}
	for _, folder := range []string{
		"/etc/systemd/system", "/etc/systemd/system.attached", "/etc/systemd/system.control", "/run/systemd/system", "/usr/lib/systemd/system", "/usr/local/lib/systemd/system",
	} {
		for _, name := range []string{host.AgentUnit, host.AgentUnit + ".d/50-site.conf", host.ParachuteTimer + ".d/50-site.conf", "holdfast-.service.d/50-site.conf", "service.d/50-site.conf", "timer.d/50-site.conf"} {
			if file(folder+"/"+name) == "" {
				t.Errorf("%s/%s is accepted", folder, name)
			}
		}
	}
	for _, path := range []string{"/usr/local/lib/systemd/system/site.service", "/etc/systemd/system.control/site.service.d/50-site.conf", "/etc/systemd/system.attached/kubelet.service.d/50-site.conf", "/opt/site/service.d/a.conf"} {
		if why := file(path); why != "" {
			t.Errorf("%s is refused: %s", path, why)
		}
	}
}

// TestSystemdItselfKeepsWhatUnitsOfOursNeed: what it runs before it reads units, and what it sets for all of them,
// holds for those by which a host goes back from its configuration.
func TestSystemdItselfKeepsWhatUnitsOfOursNeed(t *testing.T) {
	file := func(path, text string) string {
		return mistakes(t, made(t, "50-site", withFiles(`{path: "`+path+`", contents: {source: "`+ignition.DataURL([]byte(text))+`"}}`)))
	}
	for _, folder := range []string{"/etc/systemd/", "/usr/local/lib/systemd/"} {
		for _, kind := range []string{"system-generators/", "system-environment-generators/"} {
			if why := file(folder+kind+"site", "#!/bin/sh\nhush\n"); !strings.Contains(why, "storage.files.0.contents: systemd runs "+folder+kind+"site before it reads units") || strings.Contains(why, "hush") {
				t.Errorf("%s%s: %q", folder, kind, why)
			}
			if why := file(folder+kind+"systemd-gpt-auto-generator", ""); why != "" {
				t.Errorf("an empty file, which takes one of the distribution away, is refused: %s", why)
			}
		}
		for _, path := range []string{"system.conf", "system.conf.d/50-site.conf"} {
			for text, want := range map[string]string{
				"[Manager]\nDefaultEnvironment=TOKEN=hush\n": `line 2: "DefaultEnvironment" of [Manager] may not be set`,
				"[Manager]\n# a\nDefaultTimeoutStartSec=1\n": `line 3: "DefaultTimeoutStartSec" of [Manager] may not be set`,
				"DumpCore=no\n": `line 1: "DumpCore" of [] may not be set`,
				"[Manager]\nCapabilityBoundingSet=CAP_KILL\n":         `"CapabilityBoundingSet" of [Manager]`,
				"[Manager]\nDefaultLimitNOFILE=64\n":                  "DefaultLimitNOFILE needs a soft limit of at least 1024 and a hard one of at least 65536, such as 1024:65536 or infinity",
				"[Manager]\nDefaultLimitNOFILE=1024\n":                "DefaultLimitNOFILE needs a soft limit",
				"[Manager]\nDefaultLimitNOFILE=1024:65535\n":          "DefaultLimitNOFILE needs a soft limit",
				"[Manager]\nDefaultLimitNOFILE=512:infinity\n":        "DefaultLimitNOFILE needs a soft limit",
				"[Manager]\nDefaultLimitNOFILE=1024:\n":               "DefaultLimitNOFILE needs a soft limit",
				"[Manager]\nDefaultLimitNOFILE=1024:524288:524288\n":  "DefaultLimitNOFILE needs a soft limit",
				"[Manager]\nDefaultTasksMax=15%\n":                    "DefaultTasksMax is not infinity",
				"[Manager]\nRuntimeWatchdogSec=1\n":                   "RuntimeWatchdogSec is neither off",
				"[Manager]\nRuntimeWatchdogSec=500ms\n":               "RuntimeWatchdogSec is neither off",
				"[Manager]\nRebootWatchdogSec=0min\n":                 "RebootWatchdogSec is neither off",
				"[Manager]\nDumpCore=no \\\nDefaultLimitNPROC=hush\n": "line 2: each setting is on one line",
			} {
				if why := file(folder+path, text); !strings.Contains(why, "storage.files.0.contents: ") || !strings.Contains(why, want) || strings.Contains(why, "hush") {
					t.Errorf("%s%s, %q: %q, want %q", folder, path, text, why, want)
				}
			}
			const fine = "# of the site\n[Manager]\nDefaultLimitNOFILE = 1024:infinity\nDefaultLimitCORE=0\nDefaultTasksMax=infinity\nRuntimeWatchdogSec=30s\nRebootWatchdogSec=10min\nKExecWatchdogSec=off\nLogLevel=notice\nDefaultMemoryAccounting=yes\n"
			for _, limit := range []string{"1024:infinity", "1024:65536", "65536", "524288", "infinity"} {
				if why := file(folder+path, strings.Replace(fine, "1024:infinity", limit, 1)); why != "" {
					t.Errorf("%s%s, %s: %s", folder, path, limit, why)
				}
			}
		}
	}
	for _, path := range []string{"/etc/systemd/system.conf.d/README", "/etc/systemd/journald.conf.d/50-site.conf", "/etc/systemd/user.conf", "/etc/systemd/user-generators/site", "/opt/system.conf"} {
		if why := file(path, "[Manager]\nDefaultEnvironment=A=1\n"); why != "" {
			t.Errorf("systemd reads %s for no unit of ours: %s", path, why)
		}
	}
}

func TestTheMistakesOfAllMachineConfigsAreNamedAtOnce(t *testing.T) {
	a, b, c := spec(t, `{fips: true}`), spec(t, `{kernelArguments: [quiet, "a b"]}`), spec(t, `{config: {ignition: {version: 2.2.0}}}`)
	a.Name, b.Name, c.Name = "10-a", "20-b", "30-c"
	want := `MachineConfig 10-a: spec.fips: FIPS mode is chosen when the operating system is installed; leave it out
MachineConfig 20-b: spec.kernelArguments.1: "a b" is not NAME or NAME=VALUE without spaces, quotes and signs of a shell
MachineConfig 30-c: spec.config.ignition.version: unsupported, this holdfast reads 3.0.0 to 3.5.0`
	if diff := cmp.Diff(want, mistakes(t, c, a, b)); diff != "" {
		t.Error(diff)
	}
}

func TestAMistakeOfTheMergeNamesTheLastThatCausedIt(t *testing.T) {
	a := made(t, "10-a", `{ignition: {version: 3.5.0}, systemd: {units: [{name: x.service, contents: "[Service]"}]}}`)
	b := made(t, "20-b", `{ignition: {version: 3.5.0}, systemd: {units: [{name: x.service, mask: true}]}}`)
	want := "MachineConfig 20-b: spec.config.systemd.units.mask (unit x.service, merged): a masked unit has no contents: the mask takes their place"
	if diff := cmp.Diff(want, mistakes(t, a, b)); diff != "" {
		t.Error(diff)
	}
}

// TestWhatHoldfastItselfWritesIsRefused keeps the table of places in step with
// what the installation writes.
func TestWhatHoldfastItselfWritesIsRefused(t *testing.T) {
	s := sitetest.New(t, sitetest.TwoDual)
	s.Config.AdditionalTrustBundle = "-----BEGIN CERTIFICATE-----\nTUlJ\n-----END CERTIFICATE-----\n"
	s.Config.SSHKey = "ssh-ed25519 AAAA day@example.test"
	var paths []string
	for _, role := range []state.Role{state.RoleBootstrap, state.RoleMaster, state.RoleWorker} {
		cfg, err := host.Config(s, role, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range cfg.Files {
			paths = append(paths, f.Path)
		}
		for _, u := range cfg.Units {
			if u.Contents != "" && mistakes(t, spec(t, fmt.Sprintf(`{config: {ignition: {version: 3.5.0}, systemd: {units: [{name: %s, contents: "[Service]"}]}}}`, u.Name))) == "" {
				t.Errorf("%s may be written by a MachineConfig", u.Name)
			}
			for _, d := range u.Dropins {
				if mistakes(t, spec(t, fmt.Sprintf(`{config: {ignition: {version: 3.5.0}, systemd: {units: [{name: %s, dropins: [{name: %s, contents: "[Service]"}]}]}}}`, u.Name, d.Name))) == "" {
					t.Errorf("%s/%s may be written by a MachineConfig", u.Name, d.Name)
				}
			}
		}
	}
	for _, image := range payload.Images() {
		if image.Name == payload.HostImage {
			for _, f := range image.Files {
				paths = append(paths, f.Path)
			}
		}
	}
	paths = append(paths, host.ContainerdPath)
	if len(paths) < 20 {
		t.Fatalf("only %q were found", paths)
	}
	for _, p := range paths {
		if mistakes(t, made(t, "50-site", withFiles(`{path: `+p+`, contents: {source: "data:,"}}`))) == "" {
			t.Errorf("%s may be written by a MachineConfig", p)
		}
	}
}

// TestTheKernelParametersOfHoldfastAreRefused keeps the list in step with the file
// that each host gets.
func TestTheKernelParametersOfHoldfastAreRefused(t *testing.T) {
	cfg, err := host.Config(sitetest.New(t, sitetest.OneNone), state.RoleWorker, nil)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(cfg.Files, func(f state.File) bool { return strings.HasPrefix(f.Path, machineconfig.SysctlFolder) })
	settings, wrong := machineconfig.Sysctls(cfg.Files[i].Data)
	if len(settings) < 5 || len(wrong) > 0 {
		t.Fatalf("%v, %v", settings, wrong)
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		text := mistakes(t, made(t, "50-site", withFiles(`{path: /etc/sysctl.d/50-site.conf, contents: {source: "`+ignition.DataURL([]byte(name+"=0\n"))+`"}}`)))
		if !strings.Contains(text, "Holdfast sets "+name) {
			t.Errorf("%s may be set: %s", name, text)
		}
	}
}

func TestKernelParametersAreReadAsSystemdReadsThem(t *testing.T) {
	settings, wrong := machineconfig.Sysctls([]byte("vm.swappiness = 10\nnet/ipv4/conf/eth0.100/rp_filter=2\nnet.ipv4.conf.eth0/100.log_martians = 1\n -kernel.sysrq=0\n-net.core.x\nkernel.core_pattern=|/bin/x a=b\nodd name=1\n"))
	want := map[string]string{
		"vm/swappiness": "10", "net/ipv4/conf/eth0.100/rp_filter": "2", "net/ipv4/conf/eth0.100/log_martians": "1",
		"kernel/sysrq": "0", "kernel/core_pattern": "|/bin/x a=b",
	}
	if diff := cmp.Diff(want, settings); diff != "" || !slices.Equal(wrong, []int{7}) {
		t.Errorf("wrong %v\n%s", wrong, diff)
	}
}
