package updates_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestHowFarAHostIsWithUpdates(t *testing.T) {
	const wish = "2026-11-23T03:00:00Z"
	for _, c := range []struct {
		sentence string
		record   updates.Record
		runs     bool
		starts   int
		stage    updates.Stage
		what     string
	}{
		{"nothing was asked yet", updates.Record{}, false, 0, updates.Nothing, ""},
		{"a former wish is over", updates.Record{Wish: "x", Phase: updates.Installed}, false, 0, updates.Nothing, ""},
		{"a former wish failed", updates.Record{Wish: "x", Phase: updates.Failed, Error: "y"}, false, 0, updates.Nothing, ""},
		{"it fetches", updates.Record{Wish: wish, Phase: updates.Fetching, Tries: 1}, true, 1, updates.Busy, "fetches the updates of its distribution"},
		{"the unit has just started", updates.Record{Wish: "x", Phase: updates.Installed}, true, 1, updates.Busy, "fetches the updates of its distribution"},
		{"it was cut off while it fetched", updates.Record{Wish: wish, Phase: updates.Fetching, Tries: 1}, false, 0, updates.Nothing, ""},
		{"it has fetched", updates.Record{Wish: wish, Phase: updates.Fetched, Updates: []string{"a"}}, false, 0, updates.Ready, ""},
		{"it installs", updates.Record{Wish: wish, Phase: updates.Installing, Updates: []string{"a", "b"}, Tries: 1}, true, 0, updates.Busy, "installs 2 updates: a, b"},
		{"it installs for a wish that is gone", updates.Record{Wish: "x", Phase: updates.Installing, Updates: []string{"a"}, Tries: 1}, true, 0, updates.Busy, "installs 1 update: a"},
		{"it was cut off while it installed", updates.Record{Wish: wish, Phase: updates.Installing, Tries: 2}, false, 0, updates.Ready, ""},
		{"it is always cut off", updates.Record{Wish: wish, Phase: updates.Installing, Tries: 3}, false, 0, updates.Broken, "holdfast-patch.service ended 3 times without a result; its journal says why"},
		{"it writes no record", updates.Record{Wish: wish, Phase: updates.Fetched}, false, 3, updates.Broken, "holdfast-patch.service ended 3 times without a result; its journal says why"},
		{"it has installed", updates.Record{Wish: wish, Phase: updates.Installed}, false, 0, updates.Over, ""},
		{"it failed", updates.Record{Wish: wish, Phase: updates.Failed, Error: "no route"}, false, 0, updates.Broken, "no route"},
	} {
		if stage, what := updates.StageOf(c.record, wish, c.runs, c.starts); stage != c.stage || what != c.what {
			t.Errorf("%s: %q %q, want %q %q", c.sentence, stage, what, c.stage, c.what)
		}
	}
}

func TestAPhaseThatBeginsAgainIsCounted(t *testing.T) {
	r := updates.Record{}.Begin("w", updates.Fetching, "1")
	r = r.Begin("w", updates.Fetching, "2")
	if want := (updates.Record{Wish: "w", Phase: updates.Fetching, Boot: "2", Tries: 2}); !cmp.Equal(r, want) {
		t.Errorf("%+v", r)
	}
	r.Updates, r.Held = []string{"a"}, []string{"podman"}
	r = r.Begin("w", updates.Installing, "2")
	if want := (updates.Record{Wish: "w", Phase: updates.Installing, Boot: "2", Tries: 1, Updates: []string{"a"}, Held: []string{"podman"}}); !cmp.Equal(r, want) {
		t.Errorf("%+v", r)
	}
	if r = r.Begin("x", updates.Installing, "2"); !cmp.Equal(r, updates.Record{Wish: "x", Phase: updates.Installing, Boot: "2", Tries: 1}) {
		t.Errorf("another wish: %+v", r)
	}
}

func TestTheResultNamesWhatWasInstalledAndLeftOut(t *testing.T) {
	many := strings.Split(strings.Repeat("p ", 14), " ")[:14]
	for want, r := range map[string]updates.Record{
		"there was nothing to install":                                                                  {},
		"installed what an earlier installation has left":                                               {Interrupted: true},
		"installed 14 updates: " + strings.Repeat("p, ", 12) + "2 more":                                 {Updates: many},
		"installed 1 update: a; left out, because etcd runs on them or the release brings them: podman": {Updates: []string{"a"}, Held: []string{"podman"}},
	} {
		if got := r.Result(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The lines are those of apt-get 2.6 on Debian 12.
func TestWhatAptWouldDoIsRead(t *testing.T) {
	const said = `NOTE: This is only a simulation!
Reading package lists...
The following packages will be upgraded:
  libc6 openssl
Inst libc6 [2.36-9+deb12u8] (2.36-9+deb12u9 Debian:12.8/stable [amd64]) []
Inst libc6:i386 [2.36-9+deb12u8] (2.36-9+deb12u9 Debian:12.8/stable [i386])
Conf libc6 (2.36-9+deb12u9 Debian:12.8/stable [amd64])
Inst linux-image-6.1.0-28-amd64 (6.1.119-1 Debian:12.8/stable [amd64])
Remv tripwire [1]
`
	want := updates.Change{Installs: []string{"libc6", "linux-image-6.1.0-28-amd64"}, Removes: []string{"tripwire"}}
	if diff := cmp.Diff(want, updates.AptChange([]byte(said))); diff != "" {
		t.Error(diff)
	}
	const uris = "Reading package lists...\n'http://deb.debian.org/a_1_amd64.deb' a_1_amd64.deb 1000 SHA256:x\n'http://deb.debian.org/b_1_amd64.deb' b_1_amd64.deb 24 SHA256:y\n"
	if got := updates.AptBytes([]byte(uris)); got != 1024 {
		t.Errorf("%d bytes", got)
	}
}

// The tables are those of dnf 4.14; tests of adapter/updates have it print others.
func TestWhatDnfWouldDoIsRead(t *testing.T) {
	const said = `Last metadata expiration check: 0:00:01 ago on Tue Nov 24 20:41:26 2026.
Dependencies resolved.
======================================================================================
 Package                                                       Arch    Version
                                                                           Repo   Size
======================================================================================
Installing:
 kernel-core                                                   noarch  4-1 site  6.0 k
Upgrading:
 glibc                                                         noarch  3-1 site  6.0 k
     replacing  python3.9-pulled.noarch 1-1
Reinstalling:
 openssl                                                       noarch  3-1 site  6.0 k
     replacing  openssl.noarch 2-1
Installing dependencies:
 a-package-with-a-very-long-name-such-as-kernel-modules-core-of-another-kind
                                                               noarch  2-1 site  6.3 k
Removing:
 kernel-core                                                   noarch  1-1 @site 10
Removing dependent packages:
 tripwire                                                      noarch  1-1 @site 10
Skipping packages with broken dependencies:
 addon                                                         noarch  2-1 site  5.9 k

Transaction Summary
======================================================================================
Install  2 Packages
 Upgrade  1 Package

Total size: 24 k
`
	want := updates.Change{
		Installs: []string{"a-package-with-a-very-long-name-such-as-kernel-modules-core-of-another-kind", "glibc", "kernel-core", "openssl"},
		Removes:  []string{"python3.9-pulled", "tripwire"},
	}
	got, whole := updates.DnfChange([]byte(said))
	if diff := cmp.Diff(want, got); diff != "" || !whole {
		t.Error(diff, whole)
	}
	if c, whole := updates.DnfChange([]byte("Dependencies resolved.\nNothing to do.\nComplete!\n")); !whole || len(c.Installs)+len(c.Removes) > 0 {
		t.Errorf("nothing: %+v, %v", c, whole)
	}
	half, _, _ := strings.Cut(said, "Transaction")
	for _, said := range []string{"", half, "Operation aborted.\n"} {
		if _, whole := updates.DnfChange([]byte(said)); whole {
			t.Errorf("%q is whole", said)
		}
	}
}

func TestWhatATransactionOfDnfWithoutAnEndWasToBringIsRead(t *testing.T) {
	const said = `Transaction ID : 6
Begin time     : Tue Nov 24 20:42:18 2026
Begin rpmdb    : 774544fb5874e5d66af7ba21a4b53dfb33f81777fcb1d05e7226757f0430ed8a
End time       : Thu Jan  1 00:00:00 1970 (-1795552938 seconds)
End rpmdb      :  **
Return-Code    : Failure: 1
Comment        :
Packages Altered:
 ** Install       kernel-core-4-1.noarch @site
 ** Upgrade       glibc-1:2-1.noarch     @site
 ** Upgraded      glibc-1-1.noarch       @@System
    Reason Change zlib-1-1.noarch        @site
    Reinstall     openssl-3-1.noarch     @site
 ** Removed       kernel-core-1-1.noarch @@System
Scriptlet output:
   1 Install nothing of this
`
	if diff := cmp.Diff([]string{"kernel-core-4-1.noarch", "glibc-1:2-1.noarch", "openssl-3-1.noarch"}, updates.DnfCutOff([]byte(said))); diff != "" {
		t.Error(diff)
	}
	for _, ended := range []string{"", strings.Replace(said, "rpmdb      :  **", "rpmdb      : 774544fb **", 1), strings.Replace(said, "rpmdb      :  **", "rpmdb      : 774544fb", 1)} {
		if got := updates.DnfCutOff([]byte(ended)); got != nil {
			t.Errorf("%q: %q", ended, got)
		}
	}
}

func TestAVersionThatIsThereTwiceIsNotARemoval(t *testing.T) {
	twice := updates.DnfTwice([]byte("openssl-libs-1:1-1.el9.x86_64 is a duplicate with openssl-libs-1:2-1.el9.x86_64\npodman-1-1.noarch is a duplicate with podman-2-1.noarch\nError: Check discovered 2 problem(s)\n"))
	if !slices.Equal(twice, []string{"openssl-libs", "podman"}) {
		t.Fatalf("%q", twice)
	}
	c := updates.Change{Installs: []string{"podman"}, Removes: []string{"openssl-libs", "tripwire"}}.Once(twice)
	if diff := cmp.Diff(updates.Change{Installs: []string{"openssl-libs", "podman"}, Removes: []string{"tripwire"}}, c); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsLeftOut(t *testing.T) {
	for name, held := range map[string][2]bool{ // on a worker, on one of two control planes
		"openssl": {false, false}, "linux-image-amd64": {false, false}, "pcscd": {false, false},
		"kubelet": {true, true}, "kubeadm": {true, true}, "containerd.io": {true, true}, "runc": {false, true}, "podman": {false, true}, "corosync": {false, true}, "libqb100": {false, true}, "libcpg4": {false, true}, "libcrmcluster29": {false, true}, "libsamplerate0": {false, false}, "pacemaker-cli-utils": {false, true},
	} {
		if got := [2]bool{updates.Holds(false)(name), updates.Holds(true)(name)}; got != held {
			t.Errorf("%s: %v, want %v", name, got, held)
		}
	}
	found, held := updates.Change{Installs: []string{"a", "podman", "runc"}}.Without(updates.Holds(true))
	if !slices.Equal(found, []string{"a"}) || !slices.Equal(held, []string{"podman", "runc"}) {
		t.Errorf("%q, %q", found, held)
	}
}

func TestAChangeThatTakesSomethingAwayOrBringsWhatIsLeftOutIsRefused(t *testing.T) {
	for want, c := range map[string]updates.Change{
		"":                                    {Installs: []string{"a"}},
		"refused: the updates would remove b": {Installs: []string{"a"}, Removes: []string{"b"}},
		"refused: the updates would bring corosync with them, which are left out": {Installs: []string{"a", "corosync"}},
	} {
		if got := c.Refusal(updates.Holds(true)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestADiskThatWouldBecomeFullIsSeenBefore(t *testing.T) {
	const mib = 1 << 20
	all := map[string]uint64{"/": 600 * mib, "/usr": 600 * mib, "/var": 600 * mib, "/boot": 20 * mib}
	for _, c := range []struct {
		updates []string
		fetched uint64
		want    string
	}{
		{[]string{"libc6"}, 10 * mib, ""},
		{[]string{"libc6"}, 20 * mib, "too little room: / has 600 MiB free and needs 612; /usr has 600 MiB free and needs 612; /var has 600 MiB free and needs 612"},
		{[]string{"linux-image-6.1.0-28-amd64"}, 10 * mib, "too little room: /boot has 20 MiB free and needs 128"},
	} {
		if got := updates.Room(c.updates, c.fetched, all); got != c.want {
			t.Errorf("%v: %q, want %q", c.updates, got, c.want)
		}
	}
	if got := updates.Room([]string{"linux-image-x"}, 0, map[string]uint64{"/": 600 * mib}); got != "" {
		t.Errorf("a host without /boot: %q", got)
	}
}

func TestWhetherADistributionWantsAReboot(t *testing.T) {
	for _, c := range []struct {
		sentence string
		seen     updates.Seen
		want     string
	}{
		{"Debian, and nothing asks for it", updates.Seen{Debian: true, Running: "6.1.0-28-amd64", Next: "6.1.0-28-amd64"}, "No"},
		{"Debian without a link to a kernel", updates.Seen{Debian: true, Running: "6.1.0-28-amd64"}, "No"},
		{"packages ask for it", updates.Seen{Debian: true, Flag: true, Packages: []string{"linux-image-amd64", "dbus", "dbus"}}, "Yes: its packages ask for it: dbus, linux-image-amd64"},
		{"nobody says which packages", updates.Seen{Debian: true, Flag: true}, "Yes: its packages ask for it"},
		{"another kernel is installed", updates.Seen{Debian: true, Running: "6.1.0-27-amd64", Next: "6.1.0-28-amd64"}, "Yes: the kernel 6.1.0-28-amd64 is installed, and 6.1.0-27-amd64 runs"},
		{"RHEL, and its tool wants none", updates.Seen{Tool: state.Known(false)}, "No"},
		{"RHEL, and its tool wants one", updates.Seen{Tool: state.Known(true), Why: "kernel, glibc"}, "Yes: needs-restarting asks for it: kernel, glibc"},
		{"RHEL without the tool", updates.Seen{Why: "this host has no needs-restarting"}, "Unknown: this host has no needs-restarting"},
		{"long reasons, of several lines", updates.Seen{Why: strings.Repeat("é\n", 400)}, "Unknown: " + strings.Repeat("é ", 166) + "é..."},
	} {
		r := updates.IsRequired(c.seen)
		if got := r.String(); got != c.want {
			t.Errorf("%s: %q, want %q", c.sentence, got, c.want)
		}
		if back := updates.Read(r.String()); back.Wants != r.Wants || back.String() != c.want && len(c.want) < 500 {
			t.Errorf("%s: read as %+v", c.sentence, back)
		}
	}
	if r := updates.Read(""); r.Wants.Known {
		t.Errorf("a node without it: %+v", r)
	}
	if got := updates.KernelOf("boot/vmlinuz-6.1.0-28-amd64"); got != "6.1.0-28-amd64" || updates.KernelOf("boot/x") != "" {
		t.Errorf("%q", got)
	}
}
