package apply

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/install/plan"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

func inodeOf(info fs.FileInfo) uint64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		panic("no inode")
	}
	return st.Ino
}

const site = `{"ignition":{"version":"3.4.0"},
"passwd":{"groups":[{"name":"ops","gid":2000}],
 "users":[{"name":"core","groups":["sudo"],"passwordHash":"$6$secrethash","sshAuthorizedKeys":["ssh-ed25519 AAAA me"]}]},
"storage":{"directories":[{"path":"/var/lib/x","mode":448,"user":{"name":"core"},"group":{"name":"ops"}}],
 "files":[{"path":"/etc/secret.key","mode":384,"overwrite":true,"contents":{"source":"data:,TOPSECRET"}},
  {"path":"/etc/motd","mode":420,"overwrite":true,"user":{"id":77},"contents":{"source":"data:,hello%0A"}},
  {"path":"/etc/profile","append":[{"source":"data:,export%20A%3D1%0A"}]},
  {"path":"/etc/holdfast/packages.json","contents":{"source":"data:,%7B%22apt%22%3A%5B%22podman%22%5D%7D"}}],
 "links":[{"path":"/etc/localtime","target":"../usr/share/zoneinfo/UTC","overwrite":true},{"path":"/etc/hard","target":"/etc/motd","hard":true,"overwrite":true}]},
"systemd":{"units":[
 {"name":"a.service","enabled":true,"contents":"[Service]\nType=oneshot\n[Install]\nWantedBy=multi-user.target\n","dropins":[{"name":"10-x.conf","contents":"[Service]\nB=1\n"}]},
 {"name":"swap.target","mask":true},{"name":"old.service","enabled":false}]}}`

func siteMachine(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.put(t, "/etc/motd", "hello\nthere\n", 0o644)
	m.put(t, "/etc/secret.key", "OLD", 0o644)
	m.put(t, "/etc/profile", "# profile\n", 0o640)
	if err := os.Symlink("/usr/share/zoneinfo/CET", filepath.Join(m.root, "/etc/localtime")); err != nil {
		t.Fatal(err)
	}
	m.enabled["old.service"] = true
	m.active["swap.target"] = true
	m.missing["podman"] = true
	return m
}

func offline() *Fetcher {
	return &Fetcher{Now: func() time.Time { return time.Time{} }, Sleep: func(context.Context, time.Duration) error { return errors.New("slept") }}
}

func (m *machine) apply(t *testing.T, config string, change func(*Request)) (Result, error) {
	t.Helper()
	req := Request{Config: []byte(config), Start: true, Fetch: offline()}
	if change != nil {
		change(&req)
	}
	return m.host().Apply(context.Background(), req)
}

func TestASecondRunHasNothingToDo(t *testing.T) {
	m := siteMachine(t)
	first, err := m.apply(t, site, nil)
	if err != nil || !first.Applied || len(first.Steps) == 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	for path, want := range map[string]string{
		"/etc/motd": "hello\n", "/etc/secret.key": "TOPSECRET", "/etc/profile": "# profile\nexport A=1\n", "/etc/hard": "hello\n",
		"/home/core/.ssh/authorized_keys": "# begin: managed by holdfast, changes are lost\nssh-ed25519 AAAA me\n# end: managed by holdfast\n",
	} {
		if got := m.read(t, path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	before, effects := m.look(t), m.Effects
	second, err := m.apply(t, site, nil)
	if err != nil || len(second.Steps) != 0 || !second.Applied {
		t.Fatalf("second run: %+v, %v", second, err)
	}
	if m.Effects != effects {
		t.Errorf("the second run had %d effects: %v", m.Effects-effects, m.commands)
	}
	if diff := cmp.Diff(before, m.look(t)); diff != "" {
		t.Error(diff)
	}
}

// TestARunCutAtAnyEffectIsFinishedByTheNext cuts the power before and after
// every single effect: each write, each change of mode or owner, each command.
func TestARunCutAtAnyEffectIsFinishedByTheNext(t *testing.T) {
	for _, firstBoot := range []bool{false, true} {
		boot := func(r *Request) { r.FirstBoot = firstBoot }
		whole := siteMachine(t)
		if _, err := whole.apply(t, site, boot); err != nil {
			t.Fatal(err)
		}
		want := whole.look(t)
		if whole.Effects < 25 {
			t.Fatalf("only %d effects: the test cuts nothing", whole.Effects)
		}
		for cut := 1; cut <= whole.Effects; cut++ {
			for _, after := range []bool{false, true} {
				m := siteMachine(t)
				m.At, m.After = cut, after
				if _, err := m.apply(t, site, boot); !errors.Is(err, powercut.Err) {
					t.Fatalf("cut at %d: %v", cut, err)
				}
				m.Dead, m.At = false, 0
				if _, err := m.apply(t, site, boot); err != nil {
					t.Fatalf("cut at %d (after: %v): the next run: %v", cut, after, err)
				}
				if diff := cmp.Diff(want, m.look(t)); diff != "" {
					t.Fatalf("cut at %d (after: %v), first boot %v: -whole +cut\n%s", cut, after, firstBoot, diff)
				}
			}
		}
	}
}

func TestADryRunChangesNothingAndHidesSecrets(t *testing.T) {
	m := siteMachine(t)
	before := m.look(t)
	res, err := m.apply(t, site, func(r *Request) { r.DryRun = true })
	if err != nil || res.Applied || len(res.Steps) == 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	if diff := cmp.Diff(before, m.look(t)); diff != "" || m.Effects != 0 {
		t.Errorf("%d effects: %s", m.Effects, diff)
	}
	for _, s := range res.Steps {
		for _, secret := range []string{"TOPSECRET", "OLD\n", "secrethash"} {
			if strings.Contains(s.Diff+s.Why, secret) {
				t.Errorf("%s tells %s", s.ID, secret)
			}
		}
	}
}

func TestNoSecretIsInACommandLine(t *testing.T) {
	m := siteMachine(t)
	if _, err := m.apply(t, site, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range m.commands {
		if strings.Contains(c, "secrethash") || strings.Contains(c, "TOPSECRET") {
			t.Errorf("command %s", c)
		}
	}
	if !strings.Contains(m.read(t, "/etc/shadow"), "core:$6$secrethash:") {
		t.Error("the password was not set")
	}
}

func TestWhatIsWrongIsSaidBeforeAnythingChanges(t *testing.T) {
	tests := map[string]struct{ config, want string }{
		"not json":     {"{", "ignition:"},
		"a disk":       {`{"ignition":{"version":"3.4.0"},"storage":{"disks":[{"device":"/dev/sda","wipeTable":true}]}}`, "storage.disks: a package-based host keeps its disks"},
		"a directory":  {`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc","contents":{"source":"data:,"}},{"path":"/etc2","contents":{"source":"data:,"}}]}}`, "storage.files.0: /etc is a directory"},
		"unknown host": {`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/x","contents":{"source":"tftp://h/x"}}]}}`, "storage.files.0.contents.source: tftp: is not supported"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			_, err := m.apply(t, tt.config, nil)
			if _, bad := errors.AsType[*InputError](err); !bad || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an input error with %q", err, tt.want)
			}
			if m.Effects != 0 {
				t.Errorf("%d effects", m.Effects)
			}
		})
	}
}

func TestMissingPackagesAreNamedInOneMessage(t *testing.T) {
	m := newMachine(t)
	m.missing = map[string]bool{"podman": true, "nftables": true}
	m.broken["apt-get"] = errors.New("exit status 100")
	config := `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc/holdfast/packages.json","contents":{"source":"data:,%7B%22apt%22%3A%5B%22podman%22%2C%22nftables%22%2C%22curl%22%5D%7D"}}]}}`
	_, err := m.apply(t, config, nil)
	if err == nil || strings.Count(err.Error(), "packages missing on this host: nftables podman;") != 1 {
		t.Errorf("got %v", err)
	}
	if _, err := m.apply(t, config, func(r *Request) { r.SkipPackages = true }); err != nil {
		t.Errorf("with --skip-packages: %v", err)
	}
	delete(m.broken, "apt-get")
	if _, err := m.apply(t, config, nil); err != nil || len(m.missing) != 0 {
		t.Errorf("with a repository: %v, missing %v", err, m.missing)
	}
}

func TestTheFirstBootHappensOncePerConfiguration(t *testing.T) {
	m := siteMachine(t)
	boot := func(r *Request) { r.FirstBoot = true }
	if _, err := m.apply(t, site, boot); err != nil {
		t.Fatal(err)
	}
	m.put(t, "/etc/motd", "changed by somebody\n", 0o644)
	m.active["a.service"] = false
	effects := m.Effects
	res, err := m.apply(t, site, boot)
	if err != nil || !res.Before || m.Effects != effects || m.read(t, "/etc/motd") != "changed by somebody\n" {
		t.Errorf("second boot: %+v, %v, %d effects", res, err, m.Effects-effects)
	}
	other := strings.Replace(site, "hello", "other", 1)
	if res, err := m.apply(t, other, boot); err != nil || res.Before || m.read(t, "/etc/motd") != "other\n" {
		t.Errorf("another configuration: %+v, %v", res, err)
	}
	for _, c := range m.commands {
		if strings.HasPrefix(c, "systemctl start") && !strings.Contains(c, "--no-block") {
			t.Errorf("the first boot waits for a unit: %s", c)
		}
	}
}

func TestACutFirstBootIsFinishedWithoutTheServer(t *testing.T) {
	server, hits := serve(t, map[string]answer{"/config/worker": {body: site}})
	pointer, err := ignition.Pointer(server.URL+"/config/worker", caOf(server), "token")
	if err != nil {
		t.Fatal(err)
	}
	m := siteMachine(t)
	boot := func(r *Request) { r.FirstBoot = true; r.Fetch = testFetcher(time.Minute) }
	m.At = 12
	if _, err := m.apply(t, string(pointer), boot); !errors.Is(err, powercut.Err) {
		t.Fatal(err)
	}
	server.Close()
	m.Dead, m.At = false, 0
	if _, err := m.apply(t, string(pointer), boot); err != nil {
		t.Fatalf("after the cut: %v", err)
	}
	if hits["/config/worker"] != 1 || m.read(t, "/etc/secret.key") != "TOPSECRET" {
		t.Errorf("%d requests, key %q", hits["/config/worker"], m.read(t, "/etc/secret.key"))
	}
	if _, err := os.Stat(filepath.Join(m.root, configFile)); err == nil {
		t.Error("the configuration with its secrets stayed behind")
	}
}

func TestTwoRunsDoNotMeet(t *testing.T) {
	m := newMachine(t)
	unlock, err := m.host().lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.apply(t, site, nil); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("got %v", err)
	}
	unlock()
	if _, err := m.apply(t, site, nil); err != nil {
		t.Error(err)
	}
}

// TestWhoWritesAConfigurationWaitsForAnotherRun, and a run that is cancelled meanwhile ends.
func TestWhoWritesAConfigurationWaitsForAnotherRun(t *testing.T) {
	m := newMachine(t)
	unlock, err := m.host().lock()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.host().Alone(ctx); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("cancelled: %v", err)
	}
	got := make(chan error)
	go func() {
		again, err := m.host().Alone(t.Context())
		if err == nil {
			again()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Errorf("it does not wait: %v", err)
	case <-time.After(2 * aloneAgain): // nothing is to happen
	}
	unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestLinksOfAnotherRootDoNotLeadOutOfIt(t *testing.T) {
	m := newMachine(t)
	outside := t.TempDir()
	for _, l := range [][2]string{{outside, "/abs"}, {"../../../../../../../../" + outside, "/etc/up"}, {"/etc", "/alias"}} {
		if err := os.Symlink(l[0], filepath.Join(m.root, l[1])); err != nil {
			t.Fatal(err)
		}
	}
	c := ignition.Config{Files: []state.File{{Path: "/abs/x"}, {Path: "/etc/up/y"}, {Path: "/alias/z", Data: []byte("z")}}}
	raw, err := ignition.Marshal(c, ignition.Newest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.apply(t, string(raw), nil); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("outside: %v, %v", entries, err)
	}
	if m.read(t, "/etc/z") != "z" {
		t.Error("a link within the root was not followed")
	}
}

func TestABrokenJournalCountsAsACutRun(t *testing.T) {
	m := siteMachine(t)
	if _, err := m.apply(t, site, nil); err != nil {
		t.Fatal(err)
	}
	m.put(t, journalFile, "{", 0o600)
	m.stale = true
	res, err := m.apply(t, site, nil)
	if err != nil || m.stale {
		t.Fatalf("%+v, %v, stale %v", res, err, m.stale)
	}
	if j, err := m.host().readJournal(); err != nil || j.Applied == "" || j.InProgress != "" {
		t.Errorf("journal %+v, %v", j, err)
	}
}

func TestStepsAreTold(t *testing.T) {
	m := siteMachine(t)
	var told []string
	res, err := m.apply(t, site, func(r *Request) { r.OnStep = func(s plan.Step) { told = append(told, s.ID) } })
	if err != nil || len(told) != len(res.Steps) {
		t.Errorf("told %v of %d, %v", told, len(res.Steps), err)
	}
}
