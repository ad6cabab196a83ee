package grow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/holdfast/holdfast/internal/adapter/host"
	decide "github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/install/apply"
	"github.com/holdfast/holdfast/internal/install/plan"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/testkit/golden"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// sites returns a living site of one control plane, and the one of two that it becomes.
func sites(t *testing.T) (have, want *site.Site) {
	t.Helper()
	from, to := strings.Index(sitetest.TwoDual, "controlPlane:"), strings.Index(sitetest.TwoDual, "networking:")
	one := sitetest.New(t, sitetest.TwoDual[:from]+"controlPlane: {replicas: 1}\n"+sitetest.TwoDual[to:])
	have = one.For(state.RoleBootstrap).Settled()
	want, err := decide.Site(have, sitetest.New(t, sitetest.TwoDual).Config, "cp-1")
	must(t, err)
	return have, want
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// machine is a Debian host in a folder: its packages start what they bring, unless that is
// masked. A test can cut a run at any effect.
type machine struct {
	powercut.Cut
	t       *testing.T
	root    string
	missing []string
	// on, active and masked are the units that start at boot, run, and cannot start.
	on, active, masked map[string]bool
	// started are all units that ever ran.
	started map[string]bool
	image   bool
}

// brought are the packages of Debian that start a unit.
var brought = map[string]string{"corosync": renderhost.CorosyncUnit, "pacemaker": renderhost.PacemakerUnit, "pcs": renderhost.PcsdUnit}

func newMachine(t *testing.T, have *site.Site) *machine {
	t.Helper()
	m := &machine{
		t: t, root: t.TempDir(), missing: []string{"podman", "corosync", "pacemaker", "pcs", "fence-agents"},
		on: map[string]bool{}, active: map[string]bool{}, masked: map[string]bool{}, started: map[string]bool{},
	}
	m.put("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\n")
	m.put("/etc/group", "root:x:0:\n")
	m.put("/usr/bin/apt-get", "")
	c, err := renderhost.Config(have, have.Role, nil)
	must(t, err)
	for _, f := range c.Files {
		m.put(f.Path, string(f.Data))
	}
	return m
}

func (m *machine) put(path, data string) {
	m.t.Helper()
	must(m.t, powercut.WriteFile(filepath.Join(m.root, path), []byte(data), 0o644))
}

func (m *machine) read(path string) string {
	data, err := os.ReadFile(filepath.Join(m.root, path))
	if err != nil {
		return "absent"
	}
	return string(data)
}

// two reports what site.json says of the host.
func (m *machine) two() bool {
	s, err := site.Unmarshal([]byte(m.read(site.Path)))
	must(m.t, err)
	return s.Topology().Fencing
}

// host returns the machine as Prepare takes it.
func (m *machine) host() *Host {
	f := apply.NewHost(m.root)
	f.Live = true
	f.WriteFile = func(path string, data []byte, mode fs.FileMode) error {
		return m.Effect(func() error { return powercut.WriteFile(path, data, mode) })
	}
	f.WriteFor = func(path string, data []byte, mode fs.FileMode, _, _ int) error { return f.WriteFile(path, data, mode) }
	mkdir, remove := f.Mkdir, f.Remove
	f.Mkdir = func(p string, mode fs.FileMode) error { return m.Effect(func() error { return mkdir(p, mode) }) }
	f.Remove = func(p string) error { return m.Effect(func() error { return remove(p) }) }
	f.Owner = func(fs.FileInfo) (int, int) { return 0, 0 }
	f.Run = m.run
	return &Host{Files: f, GiveEtcd: func(context.Context) error {
		return m.Effect(func() error { m.image = true; return nil })
	}}
}

func (m *machine) run(_ context.Context, c host.Cmd) ([]byte, error) {
	c.Args = slices.DeleteFunc(slices.Clone(c.Args), func(a string) bool { return strings.HasPrefix(a, "--root") })
	words := c.Args[slices.Index(c.Args, "--")+1:]
	switch c.Name + " " + c.Args[0] {
	case "dpkg-query --show":
		var out strings.Builder
		for _, name := range words {
			if !slices.Contains(m.missing, name) {
				fmt.Fprintf(&out, "%s installed\n", name)
			}
		}
		return []byte(out.String()), nil
	case "systemctl is-enabled":
		switch {
		case m.masked[words[0]]:
			return []byte("masked-runtime\n"), nil
		case m.on[words[0]]:
			return []byte("enabled\n"), nil
		}
		return []byte("disabled\n"), nil
	case "systemctl show":
		var blocks []string
		for _, u := range words {
			blocks = append(blocks, fmt.Sprintf("Type=exec\nActiveState=%s\n", map[bool]string{true: "active", false: "inactive"}[m.active[u]]))
		}
		return []byte(strings.Join(blocks, "\n")), nil
	}
	return nil, m.Effect(func() error { return m.change(c, words) })
}

func (m *machine) change(c host.Cmd, words []string) error {
	switch {
	case c.Name == "apt-get" && slices.Contains(c.Args, "install"):
		m.install()
	case c.Name == "apt-get", c.Name == "dpkg":
	case c.Name != "systemctl":
		return fmt.Errorf("no fake for %s", c)
	}
	for _, u := range words {
		switch c.Args[0] {
		case "mask":
			m.masked[u] = true
		case "unmask":
			m.masked[u] = false
		case "enable", "reenable":
			m.on[u] = true
		case "start":
			m.active[u], m.started[u] = true, true
		case "disable":
			m.on[u], m.active[u] = false, false
		}
	}
	return nil
}

func (m *machine) install() {
	for _, name := range m.missing {
		if unit := brought[name]; unit != "" {
			m.on[unit] = true
			m.active[unit] = !m.masked[unit]
			m.started[unit] = m.started[unit] || !m.masked[unit]
		}
	}
	m.missing = nil
	m.put(renderhost.PodmanBridge, "{}")
	m.put("/etc/corosync/corosync.conf", "totem {\n  version: 2\n  cluster_name: debian\n}\nnodelist {\n  node {\n    name: node1\n    nodeid: 1\n    ring0_addr: 127.0.0.1\n  }\n}\n")
}

// ready returns what a host of two lacks.
func (m *machine) ready() []string {
	var out []string
	say := func(bad bool, what string) {
		if bad {
			out = append(out, what)
		}
	}
	say(len(m.missing) > 0, "packages")
	say(!m.image, "the image of etcd")
	say(!m.active[renderhost.EtcdUnit] || !m.on[renderhost.EtcdUnit], "the etcd keeper")
	say(m.read(renderhost.PodmanBridge) != "absent", "a host without podman's network")
	say(m.read(renderhost.FirstCIBPath) == "absent", renderhost.FirstCIBPath)
	say(!strings.Contains(m.read(renderhost.PackagesPath), "corosync"), renderhost.PackagesPath)
	for _, u := range clusterUnits {
		say(m.active[u] || m.on[u] || m.masked[u], u+" left alone")
		say(m.read("/etc/systemd/system/"+u+".d/10-holdfast.conf") == "absent", "the drop-in of "+u)
	}
	return out
}

func TestWhatAHostOfOneLacksIsTheApprovedList(t *testing.T) {
	have, want := sites(t)
	c, err := Difference(have, want)
	must(t, err)
	var out bytes.Buffer
	var packages, before map[string][]string
	was, err := renderhost.Config(have, have.Role, nil)
	must(t, err)
	for _, f := range was.Files {
		if f.Path == renderhost.PackagesPath {
			must(t, json.Unmarshal(f.Data, &before))
		}
	}
	for _, f := range c.Files {
		fmt.Fprintf(&out, "file %s\n", f.Path)
		if f.Path == renderhost.PackagesPath {
			must(t, json.Unmarshal(f.Data, &packages))
		}
	}
	for _, u := range c.Units {
		fmt.Fprintf(&out, "unit %s enabled=%t\n", u.Name, u.Enabled)
		for _, d := range u.Dropins {
			fmt.Fprintf(&out, "drop-in %s/%s\n", u.Name, d.Name)
		}
	}
	for _, manager := range []string{"apt", "dnf"} {
		for _, p := range packages[manager] {
			if !slices.Contains(before[manager], p) {
				fmt.Fprintf(&out, "package %s %s\n", manager, p)
			}
		}
	}
	golden.Check(t, "host.txt", out.Bytes())
}

func TestALoneHostBecomesOneOfTwo(t *testing.T) {
	have, want := sites(t)
	m := newMachine(t, have)
	var said []string
	h := m.host()
	h.Say = func(s plan.Step) { said = append(said, s.ID) }
	must(t, h.Prepare(t.Context(), want))
	if lacks := m.ready(); len(lacks) > 0 || !m.two() {
		t.Errorf("one of two: %t, and it lacks %q", m.two(), lacks)
	}
	if said[len(said)-1] != "file:"+site.Path || slices.Contains(said[:len(said)-1], "file:"+site.Path) {
		t.Errorf("site.json is not the last and only word: %q", said)
	}
	kept, err := decide.Kept(want).Marshal()
	must(t, err)
	if diff := cmp.Diff(string(kept), m.read(site.Path)); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(filepath.Join(m.root, site.Path)); err != nil || info.Mode().Perm() != state.SecretFileMode {
		t.Errorf("site.json: %v %v", info.Mode(), err)
	}
}

// TestCorosyncNeverRunsWithAPackagesExample: the two-node set-up gives it the site's own.
func TestCorosyncNeverRunsWithAPackagesExample(t *testing.T) {
	have, want := sites(t)
	m := newMachine(t, have)
	must(t, m.host().Prepare(t.Context(), want))
	for _, u := range clusterUnits {
		if m.started[u] {
			t.Errorf("%s ran", u)
		}
	}
}

func TestACutLeavesALoneHostThatTheNextRunCompletesOrOneOfTwo(t *testing.T) {
	have, want := sites(t)
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			m := newMachine(t, have)
			m.At, m.After = at, after
			err := m.host().Prepare(t.Context(), want)
			if err == nil {
				if at < 15 {
					t.Fatalf("only %d effects", at)
				}
				break
			}
			if !errors.Is(err, powercut.Err) {
				t.Fatalf("cut %d: %v", at, err)
			}
			if lacks := m.ready(); m.two() && len(lacks) > 0 {
				t.Errorf("cut %d (after: %t): site.json says two, and the host lacks %q", at, after, lacks)
			}
			m.At, m.Dead = 0, false
			m.masked = map[string]bool{} // of the boot before
			for u := range m.on {
				m.active[u] = m.on[u]
			}
			must(t, m.host().Prepare(t.Context(), want))
			if lacks := m.ready(); len(lacks) > 0 || !m.two() {
				t.Errorf("cut %d (after: %t): the next run left one that lacks %q", at, after, lacks)
			}
		}
	}
}

func TestOneOfTwoIsLeftAlone(t *testing.T) {
	have, want := sites(t)
	m := newMachine(t, have)
	must(t, m.host().Prepare(t.Context(), want))
	m.active[renderhost.CorosyncUnit] = true // the two-node set-up came
	effects := m.Effects
	must(t, m.host().Prepare(t.Context(), want))
	steps, err := m.host().Steps(t.Context(), want)
	if err != nil || len(steps) > 0 || m.Effects != effects {
		t.Errorf("%d effects more, steps %+v, %v", m.Effects-effects, steps, err)
	}
}

func TestADryRunSaysWhatItWouldDoAndDoesNothing(t *testing.T) {
	have, want := sites(t)
	m := newMachine(t, have)
	steps, err := m.host().Steps(t.Context(), want)
	must(t, err)
	var out strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&out, "%s (%s)\n", s.ID, s.Why)
		if strings.Contains(s.Diff, "hush-") {
			t.Errorf("%s shows a password", s.ID)
		}
	}
	golden.Check(t, "steps.txt", []byte(out.String()))
	if m.Effects > 0 || m.two() {
		t.Errorf("%d effects", m.Effects)
	}
}

func TestWhatIsTheSameOfOneAndOfTwoStaysAsTheSiteHasIt(t *testing.T) {
	have, want := sites(t)
	m := newMachine(t, have)
	const own = "# a machine configuration says so\n"
	m.put("/etc/sysctl.d/90-holdfast.conf", own)
	m.put(state.ProxyPath, own)
	must(t, m.host().Prepare(t.Context(), want))
	for _, path := range []string{"/etc/sysctl.d/90-holdfast.conf", state.ProxyPath} {
		if got := m.read(path); got != own {
			t.Errorf("%s is now %q", path, got)
		}
	}
}

func TestNoMachineConfigSetsWhatIsWritten(t *testing.T) {
	have, want := sites(t)
	c, err := Difference(have, want)
	must(t, err)
	var paths []string
	for _, f := range c.Files {
		paths = append(paths, f.Path)
	}
	for _, u := range c.Units {
		if u.Contents != "" {
			paths = append(paths, plan.UnitDir+"/"+u.Name)
		}
		for _, d := range u.Dropins {
			paths = append(paths, plan.UnitDir+"/"+u.Name+".d/"+d.Name)
		}
	}
	for _, path := range paths {
		var mc mcfgv1.MachineConfig
		must(t, json.Unmarshal([]byte(`{"metadata":{"name":"site"},"spec":{"config":{"ignition":{"version":"3.4.0"},
			"storage":{"files":[{"path":"`+path+`","overwrite":true,"contents":{"source":"data:,x"}}]}}}}`), &mc))
		if _, err := machineconfig.Read(mc); err == nil || !strings.Contains(err.Error(), "belongs to") {
			t.Errorf("a MachineConfig may set %s: %v", path, err)
		}
	}
}

func TestAHostThatIsNotTheOneIsRefusedBeforeAnyStep(t *testing.T) {
	have, want := sites(t)
	for sentence, c := range map[string]struct {
		do  func(m *machine, want *site.Site)
		why string
	}{
		"in somebody's cluster of Corosync": {func(m *machine, _ *site.Site) {
			m.put("/etc/corosync/corosync.conf", "totem {\n  cluster_name: storage\n}\nnodelist {\n  node {\n    nodeid: 1\n    ring0_addr: 10.98.0.20\n  }\n}\n")
		}, `the Corosync cluster "storage"`},
		"of another site": {func(_ *machine, want *site.Site) { want.Identity.ClusterID = "another" }, "of another site"},
	} {
		m, other := newMachine(t, have), *want
		c.do(m, &other)
		if err := m.host().Prepare(t.Context(), &other); err == nil || !strings.Contains(err.Error(), c.why) || m.Effects > 0 {
			t.Errorf("%s: %d effects, %v", sentence, m.Effects, err)
		}
	}
}
