package machineconfig

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/ignition"
)

const packaged = "rendered-worker-packaged"

// atPackaged returns a host whose configuration enables a unit of a package, sets keys,
// and has a file of a group of the site.
func atPackaged(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.packaged["tool.service"] = true
	w.put("/etc/passwd", "root:x:0:0::/root:/bin/sh\ncore:x:0:0::/home/core:/bin/sh\n")
	w.put("/etc/group", "root:x:0:\nsite:x:0:\n")
	w.put("/home/core/.profile", "")
	f := types.File{Node: types.Node{Path: "/etc/site.conf", Group: types.NodeGroup{Name: new("site")}}}
	f.Contents.Source = new(ignition.DataURL([]byte("x\n")))
	w.hasConfig(packaged, types.Config{
		Storage: types.Storage{Files: []types.File{f}},
		Systemd: types.Systemd{Units: []types.Unit{{Name: "tool.service", Enabled: new(true)}}},
		Passwd:  types.Passwd{Users: []types.PasswdUser{{Name: "core", SSHAuthorizedKeys: []types.SSHAuthorizedKey{"ssh-ed25519 AAAA"}}}},
	})
	w.wish(packaged)
	if w.settle(5 * time.Minute); w.says() != "Done "+packaged+": " || !w.enabled["tool.service"] {
		t.Fatalf("says %s, has %s", w.says(), w.look())
	}
	return w
}

// TestAHostThatCanNoLongerHaveItsConfigurationSaysSoAndBootsAsWanted, also if that happens
// once it has its turn: what a person did to a host by hand keeps nobody from an answer.
func TestAHostThatCanNoLongerHaveItsConfigurationSaysSoAndBootsAsWanted(t *testing.T) {
	unit := func(w *world) string { return filepath.Join(w.root, "/etc/systemd/system/tool.service") }
	site := func(w *world) string { return filepath.Join(w.root, "/etc/site.conf") }
	for _, c := range []struct {
		sentence string
		does     func(*world) error
		why      string
	}{
		{"it masks the unit", func(w *world) error { return os.Symlink(os.DevNull, unit(w)) }, "tool.service is masked on this host; to enable it unmask it (systemctl unmask tool.service)"},
		{"it removes the package", func(w *world) error { clear(w.packaged); return nil }, "this host has no unit tool.service"},
		{"it deletes the account", func(w *world) error {
			w.put("/etc/passwd", "root:x:0:0::/root:/bin/sh\n")
			return nil
		}, "this host has no account core"},
		{"it deletes the group", func(w *world) error { w.put("/etc/group", "root:x:0:\n"); return nil }, `this host has no group "site"`},
		{"it puts a folder there", func(w *world) error { return errors.Join(os.Remove(site(w)), os.Mkdir(site(w), 0o755)) }, "/etc/site.conf is a directory on this host"},
	} {
		for _, late := range []bool{false, true} {
			w := atPackaged(t)
			boots := w.boot
			if late {
				w.blocked = true
				w.wants(tonight)
				w.settle(2 * driftEvery)
				if !strings.HasPrefix(w.says(), "Working") || !drain.Empties(w.annotations[drain.Desired]) {
					t.Fatalf("%s: it has no turn: %s", c.sentence, w.says())
				}
			}
			if err := c.does(w); err != nil {
				t.Fatal(err)
			}
			w.now = w.now.Add(driftEvery)
			if !late {
				w.settle(hour)
				w.told(t, c.sentence, c.why)
				w.wants(tonight)
			}
			w.blocked = false
			w.operator()
			w.settle(hour)
			w.told(t, c.sentence, c.why)
			if w.boot != boots+1 || w.annotations[rollout.RebootDone] != tonight || drain.Empties(w.annotations[drain.Desired]) {
				t.Errorf("%s (in its turn: %v): %d boots, %v", c.sentence, late, w.boot-boots, w.annotations)
			}
		}
	}
}

// told checks that a host says what somebody changed.
func (w *world) told(t *testing.T, sentence, why string) {
	t.Helper()
	if !strings.HasPrefix(w.says(), "Degraded "+packaged+": somebody changed ") || !strings.Contains(w.says(), why) || w.annotations[rollout.StageAt] != string(rollout.Changed) {
		t.Errorf("%s: says %s", sentence, w.says())
	}
}

// TestAReleaseThatRefusesMoreLeavesNoHostBehind: what the host has was taken by an earlier
// release, and this one refuses it. The host goes on with it, says so where it is asked for
// it anew, and is given another one.
func TestAReleaseThatRefusesMoreLeavesNoHostBehind(t *testing.T) {
	const refused = "rendered-worker-refused"
	w := at(t, two)
	w.has(refused, map[string]string{"/etc/motd": "refused\n", "/etc/kubernetes/site.conf": "x\n"}, service("/bin/refused"), "root=/dev/sda1")
	if err := w.agent.Store.PutConfig(w.objects[refused]); err != nil {
		t.Fatal(err)
	}
	earlier := *w.agent.journal
	earlier.Good = refused
	if err := w.agent.Store.PutJournal(earlier); err != nil {
		t.Fatal(err)
	}
	w.start()
	if err := w.agent.Configure(t.Context(), refused); err != nil { // as holdfast-configure does
		t.Fatal(err)
	}
	w.bootedWith("root=/dev/sda1")
	w.wish(refused)
	if w.settle(hour); w.says() != "Done "+refused+": " {
		t.Errorf("it says %s", w.says())
	}
	w.put("/etc/motd", "by hand\n")
	w.now = w.now.Add(driftEvery)
	if w.settle(hour); !strings.HasPrefix(w.says(), "Degraded "+refused+": somebody changed file:/etc/motd") {
		t.Errorf("somebody changed it: %s", w.says())
	}
	w.wants(tonight)
	if w.settle(hour); w.boot != 1 || w.annotations[rollout.RebootDone] != tonight {
		t.Errorf("%d boots, %v", w.boot, w.annotations)
	}
	w.wish(one)
	if w.settle(hour); w.says() != "Done "+one+": " {
		t.Errorf("given another one: %s", w.says())
	}
	if err := w.agent.Store.PutConfig(w.objects[refused]); err != nil {
		t.Fatal(err)
	}
	w.wish(refused)
	if w.settle(hour); !strings.HasPrefix(w.says(), "Unreconcilable "+one+": MachineConfig "+refused) {
		t.Errorf("given it anew: %s", w.says())
	}
}

// TestAHostWhoseJournalCannotBeReadSaysSo of what it is given. One that was at rest keeps what it said.
func TestAHostWhoseJournalCannotBeReadSaysSo(t *testing.T) {
	w := at(t, one)
	kept := w.file(hostconfig.JournalPath)
	w.put(hostconfig.JournalPath, "{")
	w.start()
	if _, err := w.once(); err == nil || w.says() != "Done "+one+": " {
		t.Errorf("at rest: says %s, %v", w.says(), err)
	}
	delete(w.annotations, rollout.StateOf) // the operator does so as it gives another one
	w.wish(two)
	const why = ": cannot say how far it is: read " + hostconfig.JournalPath + ": unexpected end of JSON input"
	if _, err := w.once(); err == nil || w.says() != "Working "+one+why {
		t.Errorf("given another one: says %s, %v", w.says(), err)
	}
	w.put(hostconfig.JournalPath, kept)
	if w.settle(hour); w.says() != "Done "+two+": " {
		t.Errorf("once it is there again: %s", w.says())
	}
}

// TestAMaskedUnitFailsNoConfigurationThatDoesNotNeedIt: systemd refuses to restart it even where it does
// not run. One that runs with its former files, or that has to run, is for a person.
func TestAMaskedUnitFailsNoConfigurationThatDoesNotNeedIt(t *testing.T) {
	const timesyncd, sysctl = "systemd-timesyncd.service", "systemd-sysctl.service"
	for _, c := range []struct {
		sentence, unit string
		runs           bool
		files          map[string]string
		fails          bool
	}{
		{"it does not run", timesyncd, false, map[string]string{"/etc/systemd/timesyncd.conf.d/site.conf": "[Time]\nNTP=192.0.2.1\n"}, false},
		{"it runs", timesyncd, true, map[string]string{"/etc/systemd/timesyncd.conf.d/site.conf": "[Time]\nNTP=192.0.2.1\n"}, true},
		{"it has to run", sysctl, false, map[string]string{"/etc/sysctl.d/50-site.conf": "vm.swappiness = 2\n"}, true},
	} {
		w := at(t, one)
		if err := os.Symlink(os.DevNull, filepath.Join(w.root, "/etc/systemd/system", c.unit)); err != nil {
			t.Fatal(err)
		}
		if c.runs {
			w.running[c.unit] = "of a package"
		}
		files := map[string]string{"/etc/motd": "one\n", "/etc/sysctl.d/50-site.conf": "vm.swappiness = 1\n"}
		maps.Copy(files, c.files)
		w.has(two, files, service("/bin/one"))
		w.wish(two)
		w.settle(hour)
		if !c.fails && w.says() != "Done "+two+": " {
			t.Errorf("%s: says %s", c.sentence, w.says())
		}
		if c.fails && !strings.Contains(w.says(), c.unit+" is masked on this host; unmask it (systemctl unmask "+c.unit+")") {
			t.Errorf("%s: says %s", c.sentence, w.says())
		}
	}
}
