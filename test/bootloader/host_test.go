package bootloader

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// configurations are the kernel arguments of machine configurations, by their names. The
// second one changes an argument of the first, takes one away and adds one. Each sets the
// level of the kernel's messages, which the distribution sets too: the last one counts.
var configurations = map[string][]string{
	"none":   nil,
	"first":  {"holdfast.word=a,b", "holdfast.flag", "loglevel=6"},
	"second": {"holdfast.word=c", "loglevel=5", "holdfast.more=1"},
}

// host is a machine with the agent of this tree.
type testHost struct {
	*machine
	// own are the arguments with which it boots by itself.
	own []string
}

// newHost boots a machine, and gives it the agent, its unit and the configurations.
func newHost(t *testing.T, k kind) *testHost {
	t.Helper()
	if !*play {
		t.Skip("machines with boot loaders are booted by 'hack/test bootloader'")
	}
	needTools(t)
	image, dir := k.image(t), t.TempDir()
	for _, name := range []string{diskFile, kernelFile, varsFile} {
		if _, err := os.Stat(filepath.Join(image, name)); err == nil {
			must(t, "", "cp", "--sparse=always", filepath.Join(image, name), dir)
		}
	}
	h := &testHost{machine: &machine{kind: k, dir: dir, tools: tools(t)}}
	h.start(t)
	h.must(t, "ln -s /media/tools/holdfast-agent /usr/local/bin/ && cp /media/tools/"+host.ConfigureUnit+" /etc/systemd/system/ && systemctl daemon-reload")
	h.own = h.arguments(t)
	return h
}

// tools makes the second disk of a machine.
func tools(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	from, disk := filepath.Join(dir, "files"), filepath.Join(dir, "tools.img")
	for name, arguments := range configurations {
		put(t, hostconfig.NewStore(filepath.Join(from, name)), name, arguments)
	}
	unit := configureUnit(t)
	if err := os.WriteFile(filepath.Join(from, host.ConfigureUnit), []byte(unit), 0o644); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	must(t, "", "cp", *agent, filepath.Join(from, "holdfast-agent"))
	must(t, "", "cp", self, filepath.Join(from, "hold"))
	must(t, "", "mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-L", "tools", "-d", from, disk, "400M")
	return disk
}

// put writes what the agent does before it has a configuration written.
func put(t *testing.T, s hostconfig.Store, name string, arguments []string) {
	t.Helper()
	good := ""
	if len(arguments) > 0 {
		good = "rendered-worker-" + name
		mc := &mcfgv1.MachineConfig{Spec: mcfgv1.MachineConfigSpec{KernelArguments: arguments}}
		mc.Name = good
		if err := s.PutConfig(mc); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.PutJournal(hostapply.Journal{Good: good}); err != nil {
		t.Fatal(err)
	}
}

// configureUnit returns the unit that writes configurations on hosts.
func configureUnit(t *testing.T) string {
	t.Helper()
	cfg, err := host.Config(sitetest.New(t, sitetest.OneNone), state.RoleWorker, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range cfg.Units {
		if u.Name == host.ConfigureUnit {
			return u.Contents
		}
	}
	t.Fatal("a host has no " + host.ConfigureUnit)
	return ""
}

// wish makes a configuration the one that the host is to have.
func (h *testHost) wish(t *testing.T, name string) {
	t.Helper()
	folder := hostconfig.Folder
	h.must(t, "mkdir -p "+folder+" && cp -a /media/tools/"+name+folder+"/. "+folder+" && sync")
}

// configure has the agent's own unit write a configuration.
func (h *testHost) configure(t *testing.T, name string) {
	t.Helper()
	h.wish(t, name)
	h.must(t, "systemctl start "+host.ConfigureUnit+" || { systemctl status --full "+host.ConfigureUnit+"; false; }")
	var result hostconfig.Result
	if err := json.Unmarshal([]byte(h.must(t, "cat "+hostconfig.ResultPath)), &result); err != nil || result.Error != "" {
		t.Fatalf("%s: %+v, %v", name, result, err)
	}
}

// cutAfter has a configuration written by the same code, and cuts the power after some of
// its effects. Then it boots the host.
func (h *testHost) cutAfter(t *testing.T, name string, effects int) {
	t.Helper()
	h.wish(t, name)
	h.send(t, fmt.Sprintf("%s=%d /media/tools/hold", holdVariable, effects))
	h.wait(t, lineLimit, func(line string) bool {
		if strings.HasPrefix(line, "typed: ended") {
			t.Fatalf("%s is written with fewer than %d effects", name, effects)
		}
		return line == held
	})
	h.cutNow(t)
}

// cutNow cuts the power, and boots the host.
func (h *testHost) cutNow(t *testing.T) {
	t.Helper()
	h.cut()
	h.start(t)
}

// arguments returns those with which the kernel runs that the boot loader did not make up
// itself.
func (h *testHost) arguments(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(strings.Fields(h.must(t, "cat /proc/cmdline")), func(a string) bool {
		return strings.HasPrefix(a, "BOOT_IMAGE=") || strings.HasPrefix(a, "initrd=")
	})
}

// runs compares the arguments of the kernel that runs with the host's own ones and those
// of one of several configurations, which stand behind them, and returns its name.
func (h *testHost) runs(t *testing.T, names ...string) string {
	t.Helper()
	got := h.arguments(t)
	for _, name := range names {
		if slices.Equal(got, slices.Concat(h.own, configurations[name])) {
			t.Logf("the kernel has the arguments of %q: %s", name, strings.Join(got, " "))
			return name
		}
	}
	t.Errorf("the kernel was booted with %q, not with %q and those of one of %q", got, h.own, names)
	return ""
}

// mentions counts words of our configurations in a text.
func mentions(text string) map[string]int {
	out := map[string]int{}
	for word := range strings.FieldsSeq(text) {
		if slices.Contains(slices.Concat(slices.Collect(maps.Values(configurations))...), word) {
			out[word]++
		}
	}
	return out
}
