package wipe

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/decide/deleted"
	"github.com/holdfast/holdfast/internal/decide/wiping"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// machine plays the commands of a host and its mounts.
type machine struct {
	ran    []string
	answer map[string]string
	fails  string
	mounts []string
	// synced are the paths whose file systems were synced, with "!" for those after the journal went.
	synced []string
}

func (m *machine) run(_ context.Context, args ...string) ([]byte, error) {
	line := strings.Join(args, " ")
	m.ran = append(m.ran, line)
	if m.fails != "" && strings.HasPrefix(line, m.fails) {
		return nil, errors.New("it failed")
	}
	for begin, out := range m.answer {
		if strings.HasPrefix(line, begin) {
			return []byte(out), nil
		}
	}
	return nil, nil
}

func newMachine() *machine {
	return &machine{answer: map[string]string{
		"ip -j addr": `[{"ifname":"eth0","addr_info":[{"local":"192.0.2.11","prefixlen":24},{"local":"192.0.2.5","prefixlen":32}]},{"ifname":"cni0"}]`,
		"nft -j list tables": `{"nftables":[{"metainfo":{}},{"table":{"family":"inet","name":"holdfast_api","handle":1}},` +
			`{"table":{"family":"ip","name":"kube-proxy","handle":2}},{"table":{"family":"inet","name":"filter","handle":3}}]}`,
		"systemctl show --property=LoadState --value -- pcsd.service": "not-found\n",
	}}
}

func (m *machine) wiper(root string) *Wiper {
	return &Wiper{
		Root: root, Inventory: wiping.All(), VIPs: []netip.Addr{netip.MustParseAddr("192.0.2.5")}, Run: m.run,
		Mounts: func() ([]string, error) { return slices.Clone(m.mounts), nil },
		Unmount: func(path string) error {
			m.mounts = slices.DeleteFunc(m.mounts, func(p string) bool { return p == path })
			return nil
		},
		Sync: func(path string) error {
			if path = strings.TrimPrefix(path, root); !host.Exists(filepath.Join(root, wiping.JournalPath)) {
				path = "!" + path
			}
			m.synced = append(m.synced, path)
			if m.fails == "sync" {
				return errors.New("it failed")
			}
			return nil
		},
		Resolver: func(context.Context) error { return nil }, Say: func(string, ...any) {},
	}
}

// put writes files below a root, site.json as that of a site.
func put(t *testing.T, root string, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, p)), 0o755); err != nil {
			t.Fatal(err)
		}
		var data []byte
		if p == site.Path {
			data = siteOf(t, "a", "")
		}
		if err := os.WriteFile(filepath.Join(root, p), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// siteOf returns site.json of a cluster in one of its lives.
func siteOf(t *testing.T, cluster, life string) []byte {
	t.Helper()
	s := sitetest.New(t, sitetest.TwoDual).For(state.RoleMaster)
	s.Identity.ClusterID, s.Life.ID = cluster, life
	data, err := s.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var (
	ours   = []string{"/etc/kubernetes/pki/ca.key", "/etc/holdfast/site.json", "/etc/holdfast/.site.json.42", "/etc/holdfast/kept/etc/holdfast/site.json", "/etc/holdfast/kept/etc/corosync/authkey", "/var/lib/etcd/member/snap/db", "/var/lib/kubelet/config.yaml", "/etc/systemd/system/kubelet.service", "/etc/systemd/system/corosync.service.d/10-holdfast.conf", "/var/lib/holdfast/install/complete"}
	theirs = []string{"/etc/holdfast/firewall", "/etc/holdfast/leave-deleted", "/etc/systemd/system/corosync.service.d/local.conf", "/etc/hosts", "/usr/lib/holdfast/holdfast-agent"}
)

func left(root string, paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return !host.Exists(filepath.Join(root, p)) })
}

func TestEverythingThatAHostIsGivenIsInTheInventory(t *testing.T) {
	stays := []string{"/etc/sudoers.d/90-holdfast"}
	for _, config := range []string{sitetest.TwoDual, sitetest.OneNone} {
		s := sitetest.New(t, config)
		for _, role := range []state.Role{state.RoleBootstrap, state.RoleMaster, state.RoleWorker} {
			c, err := renderhost.Config(s, role, nil)
			if err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, f := range c.Files {
				paths = append(paths, f.Path)
			}
			for _, u := range c.Units {
				if u.Contents != "" {
					paths = append(paths, renderhost.UnitDir+"/"+u.Name)
				}
				for _, d := range u.Dropins {
					paths = append(paths, renderhost.UnitDir+"/"+u.Name+".d/"+d.Name)
				}
				if u.Enabled && !slices.Contains(wiping.All().Stop, u.Name) {
					t.Errorf("%s: unit %s is not stopped", role, u.Name)
				}
			}
			for _, f := range renderhost.LifeUnits("/out") { // the agent writes them
				paths = append(paths, f.Path)
			}
			for _, p := range paths {
				if !wiping.All().Covers(p) && !slices.Contains(stays, p) {
					t.Errorf("%s: %s is not deleted", role, p)
				}
			}
		}
	}
}

// A unit that goes on reads, or writes again, what is deleted beside it: a backup does for hours.
func TestEachUnitOfOursIsStoppedBeforeAnythingIsDeleted(t *testing.T) {
	named := regexp.MustCompile(`= "((holdfast-[a-z]+@?)[a-z]*\.(service|timer))"`)
	units := map[string]string{} // with the beginning of its name: an instance of a template has more of it
	for _, dir := range []string{"../../render/host", "../../decide/updates"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range named.FindAllStringSubmatch(string(text), -1) {
				units[found[1]] = found[2]
			}
		}
	}
	if _, there := units[renderhost.BackupUnit]; !there || len(units) < 15 {
		t.Fatalf("found only %v", units)
	}
	for unit, begin := range units {
		if !slices.ContainsFunc(wiping.All().Stop, func(s string) bool {
			return s == unit || strings.HasSuffix(begin, "@") && strings.HasPrefix(s, begin)
		}) {
			t.Errorf("%s is not stopped", unit)
		}
	}
}

// The agent copies files of the host into a folder, some with the keys of the cluster.
func TestEachCopyThatTheAgentKeepsIsInTheInventory(t *testing.T) {
	copies := []string{twonode.KeptCIB, deleted.KeptDir + corosync.Path, deleted.KeptDir + twonode.CorosyncKey}
	for _, k := range []deleted.Kind{{}, {ControlPlane: true, Encrypts: true}, {ControlPlane: true, Pacemaker: true}} {
		for _, s := range deleted.Specs(k) {
			copies = append(copies, deleted.KeptDir+s.Path)
		}
	}
	for _, p := range copies {
		if !wiping.All().Covers(p) {
			t.Errorf("%s is not deleted", p)
		}
	}
}

func TestAWipeDeletesWhatIsOursAndNothingElse(t *testing.T) {
	root, m := t.TempDir(), newMachine()
	put(t, root, append(slices.Clone(ours), theirs...)...)
	w := m.wiper(root)
	if err := w.Begin(t.Context(), Journal{Host: "w-1", At: time.Now()}); err != nil || !Begun(root) {
		t.Fatal(err)
	}
	if err := w.Wipe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := left(root, ours); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
	if got := left(root, theirs); len(got) != len(theirs) {
		t.Errorf("of others only %q is left", got)
	}
	for _, want := range []string{"ip addr del 192.0.2.5/32 dev eth0", "ip link delete cni0", "nft delete table inet holdfast_api", "nft delete table ip kube-proxy", "systemctl stop -- kubelet.service"} {
		if !slices.Contains(m.ran, want) {
			t.Errorf("it did not run %s", want)
		}
	}
	for _, never := range []string{"nft delete table inet filter", "ip addr del 192.0.2.11/24 dev eth0", "systemctl stop -- pcsd.service"} {
		if slices.Contains(m.ran, never) {
			t.Errorf("it ran %s", never)
		}
	}
	if Begun(root) {
		t.Error("the journal is left")
	}
	// A power cut must not bring back what was deleted, nor the journal alone.
	if want := []string{"", "/var", "/var/lib", "!/var/lib"}; !slices.Equal(m.synced, want) {
		t.Errorf("synced are %q, want %q", m.synced, want)
	}
}

func TestAWipeThatIsCutOffGoesOnFromTheJournal(t *testing.T) {
	for _, fails := range []string{"systemctl stop -- kubelet.service", "ip -j", "nft delete", "systemctl daemon-reload", "wipefs", "sync"} {
		root, m := t.TempDir(), newMachine()
		put(t, root, ours...)
		w := m.wiper(root)
		w.Disks = []string{"/dev/disk/by-id/x"}
		if err := w.Begin(t.Context(), Journal{Host: "w-1"}); err != nil {
			t.Fatal(err)
		}
		m.fails = fails
		if err := w.Wipe(t.Context()); err == nil || !Begun(root) {
			t.Errorf("%s: %v, journal %t", fails, err, Begun(root))
		}
		m.fails = ""
		if err := w.Wipe(t.Context()); err != nil || Begun(root) || len(left(root, ours)) > 0 {
			t.Errorf("%s: again: %v, left %q", fails, err, left(root, ours))
		}
	}
}

// TestAWipeThatIsBrokenOffBeforeItEndsTheAgentIsAllowedAnew: the host lives on. Months later a wipe would
// delete it, and ask nobody.
func TestAWipeThatIsBrokenOffBeforeItEndsTheAgentIsAllowedAnew(t *testing.T) {
	for fails, keeps := range map[string]bool{
		"lsblk": false,
		"systemctl show --property=LoadState --value -- holdfast-parachute.timer": false,
		"systemctl stop -- holdfast-raise.service":                                true,
		"systemctl show --property=LoadState --value -- holdfast-agent.service":   false,
		"systemctl stop -- holdfast-agent.service":                                true,
		"systemctl show --property=LoadState --value -- kubelet.service":          true,
	} {
		for _, earlier := range []bool{false, true} { // a run before this one was allowed, and may have ended the agent
			root, m := t.TempDir(), newMachine()
			put(t, root, ours...)
			w := m.wiper(root)
			if earlier {
				if err := m.wiper(root).Begin(t.Context(), Journal{Host: "w-1", Boot: "boot-1"}); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Begin(t.Context(), Journal{Host: "w-1", Boot: "boot-1"}); err != nil {
				t.Fatal(err)
			}
			w.Disks, m.fails = []string{"/dev/disk/by-id/x"}, fails
			if err := w.Wipe(t.Context()); err == nil || Begun(root) != (keeps || earlier) || host.Exists(filepath.Join(root, wiping.JournalPath)) != Begun(root) {
				t.Errorf("%s, a run before: %t: %v, it goes on unasked: %t", fails, earlier, err, Begun(root))
			}
		}
	}
}

// TestTheAgentOfALaterBootEndsThePermissionOfAWipe, and not the one of a wipe that runs.
func TestTheAgentOfALaterBootEndsThePermissionOfAWipe(t *testing.T) {
	root, m := t.TempDir(), newMachine()
	put(t, root, ours...)
	lapses := func(boot string, want bool) {
		t.Helper()
		if was, err := Lapse(root, boot); err != nil || was != want || want && host.Exists(filepath.Join(root, wiping.JournalPath)) {
			t.Errorf("%s: %v, there was one: %t", boot, err, was)
		}
	}
	begins := func(boot string) {
		t.Helper()
		if err := m.wiper(root).Begin(t.Context(), Journal{Host: "w-1", By: boot, Boot: boot}); err != nil || !Begun(root) {
			t.Fatal(err)
		}
	}
	lapses("boot-1", false)
	begins("boot-1")
	lapses("boot-1", false)
	lapses("boot-2", true)
	begins("boot-2")
	begins("boot-3") // it goes on
	if j, err := journal(root); err != nil || j.By != "boot-2" || j.Boot != "boot-3" {
		t.Errorf("%+v %v", j, err)
	}
	lapses("boot-3", false)
	lapses("", false)
	lapses("boot-4", true)
	if err := os.WriteFile(filepath.Join(root, wiping.JournalPath), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	lapses("boot-4", true)
}

func TestFileSystemsOfPodsAreTakenAwayAndOthersStopTheDeletion(t *testing.T) {
	root, m := t.TempDir(), newMachine()
	put(t, root, ours...)
	m.mounts = []string{"/var/lib/kubelet/pods/a", "/var/lib/kubelet/pods/a/volumes/nfs", "/var/lib/holdfast/backups"}
	w := m.wiper(root)
	err := w.Wipe(t.Context())
	if err == nil || !strings.Contains(err.Error(), "/var/lib/holdfast/backups") || len(left(root, ours)) != len(ours) {
		t.Errorf("%v, left %q", err, left(root, ours))
	}
	if !slices.Equal(m.mounts, []string{"/var/lib/holdfast/backups"}) {
		t.Errorf("mounted are %q", m.mounts)
	}
	m.mounts = []string{filepath.Join("/", "var/lib/etcd")} // a disk of its own: its contents go
	if err := w.Wipe(t.Context()); err != nil || len(left(root, ours)) > 0 || !host.Exists(filepath.Join(root, "var/lib/etcd")) {
		t.Errorf("%v, left %q", err, left(root, ours))
	}
}

func TestADiskThatIsInUseStopsTheWipeBeforeItBegins(t *testing.T) {
	root, m := t.TempDir(), newMachine()
	put(t, root, ours...)
	m.answer["lsblk"] = "\n/srv\n"
	w := m.wiper(root)
	w.Disks = []string{"/dev/disk/by-id/x"}
	if err := w.Begin(t.Context(), Journal{Host: "w-1"}); err == nil || !strings.Contains(err.Error(), "nothing was changed: disk /dev/disk/by-id/x is not wiped: it is in use at /srv") || Begun(root) {
		t.Errorf("%v, and the next wipe needs no permission: %t", err, Begun(root))
	}
	if err := w.Wipe(t.Context()); err == nil || !strings.Contains(err.Error(), "in use at /srv") {
		t.Error(err)
	}
	if slices.ContainsFunc(m.ran, func(l string) bool { return strings.HasPrefix(l, "systemctl") || strings.HasPrefix(l, "wipefs") }) || len(left(root, ours)) != len(ours) {
		t.Errorf("it ran %q", m.ran)
	}
	m.answer["lsblk"] = ""
	if err := w.Begin(t.Context(), Journal{Host: "w-1"}); err != nil {
		t.Fatal(err)
	}
	m.answer["lsblk"] = "\n/srv\n" // somebody mounts it while the wipe is cut off
	if err := w.Begin(t.Context(), Journal{Host: "w-1"}); err != nil || !Begun(root) {
		t.Errorf("a wipe that has begun does not go on: %v", err)
	}
}

func TestAMountInTheWayStopsTheWipeBeforeItBegins(t *testing.T) {
	root, m := t.TempDir(), newMachine()
	put(t, root, ours...)
	m.mounts = []string{"/", "/var/lib/etcd", "/var/lib/kubelet/pods/a/volumes/nfs", "/var/lib/holdfast/backups"}
	w := m.wiper(root)
	err := w.Begin(t.Context(), Journal{Host: "w-1"})
	if err == nil || !strings.Contains(err.Error(), "nothing was changed: other file systems are mounted below what the wipe deletes, and their data would be deleted too: /var/lib/holdfast/backups: unmount them") || Begun(root) {
		t.Errorf("%v, and the next wipe needs no permission: %t", err, Begun(root))
	}
	m.mounts = m.mounts[:3]
	if err := w.Begin(t.Context(), Journal{Host: "w-1"}); err != nil || !Begun(root) {
		t.Errorf("only file systems of pods are left: %v", err)
	}
}

// A wipe whose last step fails keeps its journal. Months later it would delete the host that was
// installed since, and ask nobody.
func TestAPermissionEndsWithTheLifeOfTheHost(t *testing.T) {
	root, m := t.TempDir(), newMachine()
	put(t, root, ours...)
	w := m.wiper(root)
	w.Disks, m.fails = []string{"/dev/disk/by-id/x"}, "wipefs"
	if err := w.Begin(t.Context(), Journal{Host: "w-1"}); err != nil || !Begun(root) {
		t.Fatal(err)
	}
	if err := w.Wipe(t.Context()); err == nil || !Begun(root) || host.Exists(filepath.Join(root, site.Path)) {
		t.Fatalf("%v, it goes on without permission: %t", err, Begun(root))
	}
	for what, data := range map[string][]byte{"another site": siteOf(t, "b", ""), "the restored site": siteOf(t, "a", "2"), "a damaged file": []byte("{")} {
		if err := host.WriteFileAtomic(filepath.Join(root, site.Path), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if Begun(root) {
			t.Errorf("%s: a wipe needs no permission", what)
		}
	}
	m.fails, w.Disks = "", nil
	if err := host.WriteFileAtomic(filepath.Join(root, site.Path), siteOf(t, "b", ""), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Begin(t.Context(), Journal{Host: "w-1"}); err != nil || !Begun(root) {
		t.Errorf("it was allowed anew, and does not count: %v", err)
	}
	if err := os.WriteFile(filepath.Join(root, wiping.JournalPath), []byte("{"), 0o600); err != nil || Begun(root) {
		t.Errorf("a journal that cannot be read allows a wipe: %v", err)
	}
}

func TestTheKernelsTableOfMountsIsRead(t *testing.T) {
	got := parseMounts("/dev/a / ext4 rw 0 0\n10.0.0.1:/x /var/lib/a\\040b nfs rw 0 0\nbroken\n")
	if !slices.Equal(got, []string{"/", "/var/lib/a b"}) {
		t.Errorf("got %q", got)
	}
}
