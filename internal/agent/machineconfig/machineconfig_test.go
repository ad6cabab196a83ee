package machineconfig

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	decide "github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/rollout"
)

func service(exec string) []types.Unit {
	return []types.Unit{{Name: "site.service", Enabled: new(true), Contents: new("[Service]\nExecStart=" + exec + "\n[Install]\nWantedBy=multi-user.target\n")}}
}

const (
	one    = "rendered-worker-1"
	two    = "rendered-worker-2"
	bad    = "rendered-worker-bad"
	kernel = "rendered-worker-kernel"
	unset  = "rendered-worker-unset"
)

// withConfigs returns a host, and an API with configurations: two follows one
// without a reboot, bad has a unit that does not start, kernel needs a reboot, and
// unset sets a parameter that the kernel does not have, after one that it has.
func withConfigs(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.has(one, map[string]string{"/etc/motd": "one\n", "/etc/sysctl.d/50-site.conf": "vm.swappiness = 1\n"}, service("/bin/one"))
	w.has(two, map[string]string{"/etc/motd": "two\n", "/etc/sysctl.d/50-site.conf": "vm.swappiness = 2\n"}, service("/bin/two"))
	w.has(bad, map[string]string{"/etc/motd": "bad\n", "/etc/sysctl.d/50-site.conf": "vm.swappiness = 3\n"}, service("/bad"))
	w.has(kernel, map[string]string{"/etc/motd": "one\n", "/etc/sysctl.d/50-site.conf": "vm.swappiness = 1\n"}, service("/bin/one"), "mitigations=off")
	w.has(unset, map[string]string{"/etc/motd": "unset\n", "/etc/sysctl.d/50-site.conf": "vm.dirty_ratio = 5\nvm.swappiness = 7\nvm.nonsense = 1\n"}, service("/bin/one"))
	return w
}

// at returns a host that has a configuration.
func at(t *testing.T, name string) *world {
	t.Helper()
	w := withConfigs(t)
	w.wish(name)
	if w.settle(5 * time.Minute); w.says() != "Done "+name+": " {
		t.Fatalf("says %s", w.says())
	}
	w.orders, w.effects, w.writes = nil, 0, 0
	return w
}

const hour = time.Hour

func TestAHostReachesTheConfigurationThatItsNodeNames(t *testing.T) {
	w := at(t, one)
	if want := `motd "one\n", sysctl "vm.swappiness = 1\n", parameters map[vm/dirty_ratio:20 vm/swappiness:1], unit "[Service]\nExecStart=/bin/one\n[Install]\nWantedBy=multi-user.target\n", enabled map[site.service:true], running map["site.service":"[Service]\nExecStart=/bin/one\n[Install]\nWantedBy=multi-user.target\n"], boot loader ""`; w.look() != want {
		t.Errorf("it has %s\nwant %s", w.look(), want)
	}
	w.wish(two)
	w.settle(hour)
	if want := []string{"reenable --no-reload -- site.service", "daemon-reload", "restart -- site.service", "restart -- systemd-sysctl.service"}; strings.Join(w.orders, "\n") != strings.Join(want, "\n") {
		t.Errorf("it orders %q", w.orders)
	}
	if w.says() != "Done "+two+": " || w.parameters["vm/swappiness"] != "2" || w.running["site.service"] != w.unitFile("site.service") {
		t.Errorf("says %s, has %s", w.says(), w.look())
	}
	if entries, err := os.ReadDir(filepath.Join(w.root, "/var/lib/holdfast/machineconfig/configs")); err != nil || len(entries) != 1 {
		t.Errorf("it keeps %v, %v", entries, err)
	}
}

// TestTheRowsOfTheSiteDecideWhatAHostDoes: those that came with the configuration, also
// on the way back from it.
func TestTheRowsOfTheSiteDecideWhatAHostDoes(t *testing.T) {
	w := at(t, one)
	const rows = `{"files": [{"path": "/opt/site.conf", "actions": [{"type": "Drain"}, {"type": "Restart", "restart": {"serviceName": "%s"}}]}], "units": [], "sshkey": {"actions": []}}`
	with := func(name, unit, contents string) {
		w.has(name, map[string]string{
			"/etc/motd": "one\n", "/etc/sysctl.d/50-site.conf": "vm.swappiness = 1\n", "/opt/site.conf": contents,
			decide.PolicyPath: strings.ReplaceAll(rows, "%s", unit),
		}, service("/bin/one"))
		w.wish(name)
		w.settle(hour)
	}
	with(two, "site.service", "a")
	if got := strings.Join(w.orders, ", "); w.says() != "Done "+two+": " || w.boot != 0 || got != "reenable --no-reload -- site.service, restart -- site.service" || !slices.Equal(w.asked, []string{"drain-" + two, "uncordon-" + two}) {
		t.Errorf("says %s after %q and %d boots, asked %q", w.says(), got, w.boot, w.asked)
	}
	with(bad, "gone.service", "b")
	if w.short() != "Degraded "+two || !strings.Contains(w.says(), "gone.service") || w.file("/opt/site.conf") != "a" || w.boot != 0 {
		t.Errorf("says %s after %d boots, has %q", w.says(), w.boot, w.file("/opt/site.conf"))
	}
	with(unset, "kubelet.service", "c")
	if want := "Unreconcilable " + two + ": MachineConfiguration cluster: spec.nodeDisruptionPolicy.files.0.actions.1: kubelet.service carries the cluster"; !strings.HasPrefix(w.says(), want) {
		t.Errorf("says %s", w.says())
	}
}

func TestAHostWithoutAWishDoesNothing(t *testing.T) {
	w := withConfigs(t)
	for range 3 {
		if result, err := w.once(); err != nil || result != (loop.Result{}) {
			t.Fatalf("%+v, %v", result, err)
		}
	}
	if w.effects != 0 || w.writes != 0 || len(w.annotations) != 0 || w.agent.Task().Every != 0 {
		t.Errorf("%d effects, %d writes", w.effects, w.writes)
	}
	<-w.agent.wake // of the first list
	w.watch()
	select {
	case <-w.agent.wake:
		t.Error("a node that has not changed wakes it")
	default:
	}
	if _, err := os.Stat(filepath.Join(w.root, "/var/lib/holdfast")); !os.IsNotExist(err) {
		t.Errorf("it wrote to the disk: %v", err)
	}
}

func TestAUnitThatDoesNotStartIsTakenBackOnce(t *testing.T) {
	w := at(t, one)
	before := w.look()
	w.wish(bad)
	w.settle(hour)
	if want := "Degraded " + one + ": run systemctl restart site.service: exit status 1: Job for site.service failed"; w.says() != want {
		t.Errorf("says %s", w.says())
	}
	if w.look() != before {
		t.Errorf("it has %s\nand had %s", w.look(), before)
	}
	w.orders = nil
	w.start()
	if w.settle(hour); len(w.orders) != 0 || !strings.HasPrefix(w.says(), "Degraded") {
		t.Errorf("it tries again: %q, %s", w.orders, w.says())
	}
	w.wish(two)
	if w.settle(hour); w.says() != "Done "+two+": " {
		t.Errorf("given another one: %s", w.says())
	}
}

// TestAUnitThatTheHostDoesNotHaveNeedsNoRestart: a file for timesyncd on a host with chrony, a
// drop-in for a unit of other hosts, and a row of the site that has one read its files again.
func TestAUnitThatTheHostDoesNotHaveNeedsNoRestart(t *testing.T) {
	const rows = `{"files": [{"path": "/opt/site.conf", "actions": [{"type": "Reload", "reload": {"serviceName": "gone.service"}}]}], "units": [], "sshkey": {"actions": []}}`
	dropin := types.Unit{Name: "elsewhere.service", Dropins: []types.Dropin{{Name: "site.conf", Contents: new("[Service]\nNice=1\n")}}}
	for order, with := range map[string]struct {
		files map[string]string
		units []types.Unit
	}{
		"try-restart -- systemd-timesyncd.service": {map[string]string{"/etc/systemd/timesyncd.conf.d/site.conf": "[Time]\nNTP=192.0.2.1\n"}, nil},
		"try-restart -- elsewhere.service":         {nil, []types.Unit{dropin}},
		"try-reload-or-restart -- gone.service":    {map[string]string{"/opt/site.conf": "a", decide.PolicyPath: rows}, nil},
	} {
		w := at(t, one)
		files := map[string]string{"/etc/motd": "one\n", "/etc/sysctl.d/50-site.conf": "vm.swappiness = 1\n"}
		maps.Copy(files, with.files)
		w.has(two, files, append(service("/bin/one"), with.units...))
		w.wish(two)
		if w.settle(hour); w.says() != "Done "+two+": " || !slices.Contains(w.orders, order) {
			t.Errorf("%s: says %s after %q", order, w.says(), w.orders)
		}
	}
}

// The kernel keeps a parameter that no file sets any more. On the way back in the same
// boot it gets its former value; after a boot only another one takes it away.
func TestKernelParametersGoBackWithoutAReboot(t *testing.T) {
	for _, from := range []string{"", one} {
		w := withConfigs(t)
		if from != "" {
			w = at(t, from)
		}
		w.wish(one)
		before := w.look()
		w.wish(unset)
		w.settle(hour)
		if !strings.HasPrefix(w.says(), strings.TrimSpace("Degraded "+from)) || !strings.Contains(w.says(), "systemctl restart systemd-sysctl.service") || w.look() != before {
			t.Errorf("from %q: says %s, has %s\nand had %s", from, w.says(), w.look(), before)
		}
		if _, err := os.Stat(filepath.Join(w.root, hostconfig.ParametersPath)); !os.IsNotExist(err) {
			t.Errorf("from %q: the values stay: %v", from, err)
		}
	}
	w := withConfigs(t)
	w.byHand()
	w.wish(unset)
	for w.agent.journal == nil || w.agent.journal.Phase != hostapply.Acting {
		if _, err := w.once(); err != nil {
			t.Fatal(err)
		}
	}
	w.boots()
	if w.settle(hour); !strings.Contains(w.says(), "needs a reboot: file /etc/sysctl.d/50-site.conf changed") {
		t.Errorf("after a boot with the file: %s", w.says())
	}
	w.boots()
	if w.settle(hour); w.parameters["vm/swappiness"] != "60" || !strings.HasPrefix(w.says(), "Degraded") {
		t.Errorf("after the next boot: %s, %s", w.says(), w.look())
	}
}

func TestAHostThatDoesNotBecomeReadyGoesBackAndSaysWhy(t *testing.T) {
	for why, c := range map[string]func(*world){
		"kubelet is not healthy": func(w *world) { w.notReady = strings.HasPrefix(w.file("/etc/motd"), "two") },
		"site.service has failed": func(w *world) {
			w.failing["site.service"] = strings.HasPrefix(w.file("/etc/motd"), "two")
		},
		"the API does not say whether the node is ready: the API is away": func(w *world) {
			w.away = w.agent.journal.Phase == hostapply.Checking && !w.agent.journal.Back
		},
	} {
		w := at(t, one)
		before, began := w.look(), w.now
		w.wish(two)
		for w.now.Sub(began) < hour {
			c(w)
			result, _ := w.once()
			w.now = w.now.Add(max(result.Again, time.Second))
		}
		if !strings.HasPrefix(w.says(), "Degraded "+one+": ") || !strings.HasSuffix(w.says(), "10m0s after: "+why) && !strings.HasSuffix(w.says(), "is ready: "+why) {
			t.Errorf("%s: says %s", why, w.says())
		}
		if w.look() != before {
			t.Errorf("%s: it has %s\nand had %s", why, w.look(), before)
		}
	}
}

// TestACrashOfTheAgentOrItsHostChangesNothing plays each way with a crash of the agent, or a
// power cut, after each effect.
func TestACrashOfTheAgentOrItsHostChangesNothing(t *testing.T) {
	for _, c := range []struct{ from, to string }{{"", one}, {one, two}, {one, bad}, {"", bad}} {
		begin := func() *world {
			if c.from != "" {
				return at(t, c.from)
			}
			return withConfigs(t)
		}
		whole := begin()
		whole.wish(c.to)
		whole.settle(hour)
		if whole.effects < 10 {
			t.Fatalf("%s: only %d effects", c.to, whole.effects)
		}
		step := 1
		if testing.Short() {
			step = 6 // each costs a whole way
		}
		for crash := 0; crash < whole.effects; crash += step {
			for _, power := range []bool{false, true} {
				w := begin()
				w.wish(c.to)
				w.left, w.power = crash, power
				w.settle(hour)
				w.settle(hour)
				// A unit that is cut off may be told in other words, never another end.
				if w.short() != whole.short() || w.look() != whole.look() {
					t.Fatalf("%q to %q, crash after %d (power cut: %v): says %s, not %s\nit has %s\nnot     %s", c.from, c.to, crash, power, w.says(), whole.says(), w.look(), whole.look())
				}
			}
		}
	}
}

func TestWithoutTheAPIAHostGoesOnAndTellsLater(t *testing.T) {
	w := at(t, one)
	w.wish(two)
	if _, err := w.once(); err != nil { // it has the object now, and has begun
		t.Fatal(err)
	}
	w.away = true
	for range 10 {
		_, _ = w.once()
		w.now = w.now.Add(onTheWay)
	}
	w.start() // also an agent that starts without the API
	w.settle(2 * time.Minute)
	if w.file("/etc/motd") != "two\n" || w.agent.journal.Phase != hostapply.Checking {
		t.Fatalf("it has %s, journal %+v", w.look(), w.agent.journal)
	}
	w.away = false
	w.watch()
	if w.settle(hour); w.says() != "Done "+two+": " {
		t.Errorf("says %s", w.says())
	}
}

func TestAConfigurationThatCannotBeReadChangesNothing(t *testing.T) {
	w := at(t, one)
	for _, c := range []struct {
		why, says string
		play      func()
	}{
		{"the API is away", "", func() { w.away = true; w.wish(two) }},
		{
			`get MachineConfig rendered-worker-none: machineconfigs.machineconfiguration.openshift.io "rendered-worker-none" not found`,
			`get MachineConfig rendered-worker-none: machineconfigs.machineconfiguration.openshift.io "rendered-worker-none" not found`,
			func() { w.wish("rendered-worker-none") },
		},
	} {
		c.play()
		result, err := w.once()
		if err == nil || !strings.Contains(err.Error(), c.why) || result.Again != 0 {
			t.Errorf("%s: %+v, %v", c.why, result, err)
		}
		w.away = false
		if w.effects != 0 || w.says() != "Done "+one+": "+c.says {
			t.Errorf("%s: %d effects, says %s", c.why, w.effects, w.says())
		}
	}
	w.wish(bad)
	w.settle(hour)
	w.wish("rendered-worker-none")
	if _, err := w.once(); err == nil || !strings.HasPrefix(w.says(), "Working "+one+": get MachineConfig rendered-worker-none") {
		t.Errorf("after a failure: says %s, %v", w.says(), err)
	}
	w.wish(two)
	if w.settle(hour); w.says() != "Done "+two+": " {
		t.Errorf("in the end: %s", w.says())
	}
}

// TestAnErrorOfTheHostItselfIsTold: the API answers, and a person has to look at the host.
func TestAnErrorOfTheHostItselfIsTold(t *testing.T) {
	w := at(t, one)
	broken := errors.New("input/output error")
	w.agent.Refusal = func(context.Context, Config) (string, error) { return "", broken }
	w.wish(two)
	if _, err := w.once(); err == nil || w.says() != "Working "+one+": look at "+two+": input/output error" {
		t.Errorf("what it is given cannot be compared: says %s, %v", w.says(), err)
	}
	w.start()
	if w.settle(hour); w.says() != "Done "+two+": " {
		t.Errorf("in the end: %s", w.says())
	}
	boot := w.agent.Boot
	w.agent.Boot = func() (string, time.Duration, error) { return "", 0, broken }
	if _, err := w.once(); err == nil || w.says() != "Done "+two+": " {
		t.Errorf("at rest: says %s, %v", w.says(), err)
	}
	w.wish(one)
	if _, err := w.once(); err == nil || w.says() != "Working "+two+": cannot go on: which boot this is: input/output error" {
		t.Errorf("given another one: says %s, %v", w.says(), err)
	}
	w.agent.Boot = boot
	if w.settle(hour); w.says() != "Done "+one+": " {
		t.Errorf("in the end: %s", w.says())
	}
}

// TestAHostThatCannotBeComparedBootsAsWanted: what it compares is about what somebody changed.
func TestAHostThatCannotBeComparedBootsAsWanted(t *testing.T) {
	w := at(t, one)
	w.agent.Differences = func(context.Context, Config) ([]string, error) { return nil, errors.New("input/output error") }
	w.now = w.now.Add(2 * driftEvery)
	if _, err := w.once(); err == nil || !strings.Contains(err.Error(), "compare the host with "+one) {
		t.Errorf("it is not in the log: %v", err)
	}
	w.wants(tonight)
	w.settle(hour)
	w.booted(t, one, 1)
}

func TestWhatCannotBeAppliedIsRefusedWithItsField(t *testing.T) {
	w := at(t, one)
	w.has("rendered-worker-etc", map[string]string{"/etc/passwd": "x"}, nil)
	w.has("rendered-worker-folder", map[string]string{"/etc/sysctl.d": "x"}, nil)
	for name, want := range map[string]string{
		"rendered-worker-etc":    "MachineConfig rendered-worker-etc: spec.config.storage.files.0.path: /etc/passwd belongs to the host",
		"rendered-worker-folder": "storage.files.0: /etc/sysctl.d is a directory on this host",
		"../../etc/passwd":       `"../../etc/passwd" is not the name of a MachineConfig`,
	} {
		before := w.look()
		w.wish(name)
		w.settle(hour)
		if !strings.HasPrefix(w.says(), "Unreconcilable "+one+": "+want) || w.look() != before {
			t.Errorf("%s: says %s, has %s", name, w.says(), w.look())
		}
	}
	w.wish(one)
	if w.settle(hour); w.says() != "Done "+one+": " {
		t.Errorf("given back what it has: %s", w.says())
	}
}

func TestAPersonBootsTheHostAndTheAgentSaysWhen(t *testing.T) {
	const waits = "Working " + one + ": needs a reboot: kernel arguments changed. Drain worker-1, then boot it"
	w := at(t, one)
	w.byHand()
	w.wish(kernel)
	if w.settle(hour); w.says() != waits || w.boot != 0 || arguments(w.menu) != "mitigations=off" {
		t.Fatalf("says %s, %s", w.says(), w.look())
	}
	w.boots()
	if w.settle(hour); w.says() != "Done "+kernel+": " {
		t.Errorf("after the boot: %s", w.says())
	}

	w = at(t, one)
	w.byHand()
	w.wish(kernel)
	w.settle(hour)
	w.menu = "" // a boot loader that forgets
	w.boots()
	w.settle(hour)
	if want := "Working " + one + ": goes back to " + one + ", because the host was not ready 10m0s after: the kernel was booted without mitigations=off: needs a reboot: kernel arguments changed. Drain worker-1, then boot it"; w.says() != want {
		t.Errorf("without its arguments: %s", w.says())
	}
	w.boots()
	if w.settle(hour); !strings.HasPrefix(w.says(), "Degraded "+one+": ") {
		t.Errorf("back: %s", w.says())
	}

	w = at(t, one)
	w.byHand()
	w.wish(kernel)
	w.settle(hour)
	w.wish(one)
	if w.settle(hour); w.says() != "Done "+one+": " || w.boot != 0 || w.menu != "" {
		t.Errorf("the wish is taken back: %s, %s", w.says(), w.look())
	}
	if len(w.asked) > 0 {
		t.Errorf("it asks for %q, although a person drains it", w.asked)
	}
}

func TestWhatSomebodyChangedIsToldAndNotPutRight(t *testing.T) {
	w := at(t, one)
	w.put("/etc/motd", "by hand\n")
	w.now = w.now.Add(driftEvery)
	w.settle(hour)
	if w.says() != "Degraded "+one+": somebody changed file:/etc/motd (other contents)" || w.file("/etc/motd") != "by hand\n" || w.effects != 0 {
		t.Errorf("says %s, %d effects", w.says(), w.effects)
	}
	writes := w.writes
	for range 5 {
		w.now = w.now.Add(driftEvery)
		w.settle(hour)
	}
	if w.writes != writes {
		t.Errorf("it says it again: %d writes", w.writes-writes)
	}
	w.put("/etc/motd", "one\n")
	w.now = w.now.Add(driftEvery)
	if w.settle(hour); w.says() != "Done "+one+": " {
		t.Errorf("put back: %s", w.says())
	}
}

func TestANodeThatLostItsAnnotationsGetsThemAgain(t *testing.T) {
	w := at(t, one)
	clear(w.annotations)
	w.watch()
	if w.settle(hour); w.annotations[rollout.CurrentConfig] != one || w.annotations[rollout.StateOf] != string(rollout.Done) || w.effects != 0 {
		t.Errorf("says %s, %d effects", w.says(), w.effects)
	}
}

func TestAReasonFitsIntoAnAnnotation(t *testing.T) {
	if got := bounded(strings.Repeat("ü", maxReason)); len(got) > maxReason || !strings.HasSuffix(got, "ü...") {
		t.Errorf("%d bytes, ends with %q", len(got), got[len(got)-6:])
	}
}
