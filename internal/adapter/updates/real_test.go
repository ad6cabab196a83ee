package updates

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/updates"
)

// rig is a folder with packages of its own and a repository of files, for a package
// manager of the machine that tests.
type rig struct {
	t    *testing.T
	root string
	by   manager
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) at(path string) string { return filepath.Join(r.root, path) }

func (r *rig) put(path, data string) {
	r.t.Helper()
	r.must(os.WriteFile(r.at(path), []byte(data), 0o644))
}

// asks has the unit do its work.
func (r *rig) asks(install bool) updates.Record {
	r.t.Helper()
	p := Patcher{
		Store: NewStore(r.root), Holds: updates.Holds(true), Manager: r.by, Boot: func() (string, error) { return "1", nil },
		Free: func() (map[string]uint64, error) { return map[string]uint64{"/": 10 << 30}, nil },
	}
	r.must(p.PutRequest(updates.Request{Wish: wish, Install: install}))
	r.must(p.Patch(r.t.Context()))
	record, err := p.Record()
	r.must(err)
	return record
}

// debian is one with apt-get and dpkg.
type debian struct {
	rig
	apt apt
}

// needs leaves a test out, in words, where root or one of the programs is missing. Where
// tools are required that is a failure.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "packages are installed by root alone")
	}
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, err.Error())
		}
	}
	if len(missing) == 0 {
		return
	}
	if os.Getenv("HOLDFAST_REQUIRE_TOOLS") == "1" {
		t.Fatalf("%s: run hack/setup", strings.Join(missing, "; "))
	}
	t.Skipf("NOT TESTED: %s", strings.Join(missing, "; "))
}

func newDebian(t *testing.T) *debian {
	t.Helper()
	needs(t, "apt-get", "dpkg", "dpkg-deb")
	d := &debian{rig: rig{t: t, root: t.TempDir()}}
	for _, folder := range []string{"repository", "etc/apt/preferences.d", "etc/apt/apt.conf.d", "etc/apt/trusted.gpg.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/log/apt", "run"} {
		d.must(os.MkdirAll(d.at(folder), 0o755))
	}
	d.put("var/lib/dpkg/status", "")
	d.put("etc/apt/sources.list", "deb [trusted=yes] file:"+d.at("repository")+" ./\n")
	d.apt = apt{
		run: host.Run, root: d.root, dpkg: []string{"--root=" + d.root, "--force-not-root", "--force-script-chrootless"},
		options: []string{
			"--option=Dir=" + d.root, "--option=Dir::State::status=" + d.at("var/lib/dpkg/status"), "--option=APT::Architecture=amd64", "--option=APT::Sandbox::User=root",
			"--option=Dir::Bin::dpkg=/usr/bin/dpkg", "--option=Dpkg::Options::=--root=" + d.root, "--option=Dpkg::Options::=--force-script-chrootless", "--option=Dir::Log::Terminal=",
		},
	}
	d.by = d.apt
	return d
}

// offers puts a package into the repository. It has a file of the configuration.
func (d *debian) offers(name, version, more string) {
	d.t.Helper()
	folder := d.at("build/" + name)
	d.must(os.MkdirAll(folder+"/DEBIAN", 0o755))
	d.must(os.MkdirAll(folder+"/etc", 0o755))
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: x <x@example.com>\nDescription: x\n%s", name, version, more)
	d.must(os.WriteFile(folder+"/DEBIAN/control", []byte(control), 0o644))
	d.must(os.WriteFile(folder+"/DEBIAN/conffiles", []byte("/etc/"+name+"\n"), 0o644))
	d.must(os.WriteFile(folder+"/etc/"+name, []byte("of the version "+version+"\n"), 0o644))
	file := name + "_" + version + "_amd64.deb"
	_, err := host.Run(d.t.Context(), host.Command("dpkg-deb", "--build", "--root-owner-group", folder, d.at("repository/"+file)))
	d.must(err)
	info, err := os.Stat(d.at("repository/" + file))
	d.must(err)
	index, err := os.OpenFile(d.at("repository/Packages"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	d.must(err)
	sum, err := host.Run(d.t.Context(), host.Command("sha256sum", d.at("repository/"+file)))
	d.must(err)
	_, err = fmt.Fprintf(index, "%sFilename: ./%s\nSize: %d\nSHA256: %s\n\n", control, file, info.Size(), strings.Fields(string(sum))[0])
	d.must(err)
	d.must(index.Close())
}

// has returns the version of a package, with how it is installed.
func (d *debian) has(name string) string {
	d.t.Helper()
	out, err := host.Run(d.t.Context(), host.Command("dpkg-query", "--admindir="+d.at("var/lib/dpkg"), "--show", "--showformat=${Version} ${db:Status-Status}", name))
	if err != nil {
		return "none"
	}
	return string(out)
}

// TestARealAptInstallsWhatIsNewAndLeavesOutWhatEtcdRunsOn: a new kernel is a new
// package, a file that somebody changed stays, and so do Corosync and what the site
// itself holds back.
func TestARealAptInstallsWhatIsNewAndLeavesOutWhatEtcdRunsOn(t *testing.T) {
	d := newDebian(t)
	for _, name := range []string{"libc6", "corosync", "held", "linux-image-6.1.0-27-amd64"} {
		d.offers(name, "1", "")
	}
	d.offers("linux-image-amd64", "1", "Depends: linux-image-6.1.0-27-amd64\n")
	_, err := d.apt.call(t.Context(), lookTime, nil, "update")
	d.must(err)
	_, err = d.apt.call(t.Context(), lookTime, nil, "--yes", "install", "libc6", "corosync", "held", "linux-image-amd64")
	d.must(err)
	for _, name := range []string{"libc6", "corosync", "held", "linux-image-6.1.0-28-amd64"} {
		d.offers(name, "2", "")
	}
	d.offers("linux-image-amd64", "2", "Depends: linux-image-6.1.0-28-amd64\n")
	d.put("etc/apt/preferences.d/site", "Package: held\nPin: version *\nPin-Priority: -1\n")
	d.put("etc/libc6", "of somebody\n")

	r := d.asks(false)
	if r.Phase != updates.Fetched || !slices.Equal(r.Updates, []string{"libc6", "linux-image-6.1.0-28-amd64", "linux-image-amd64"}) || !slices.Equal(r.Held, []string{"corosync"}) || d.has("libc6") != "1 installed" {
		t.Fatalf("fetched: %+v", r)
	}
	if r = d.asks(true); r.Phase != updates.Installed {
		t.Fatalf("installed: %+v", r)
	}
	for name, want := range map[string]string{"libc6": "2 installed", "corosync": "1 installed", "held": "1 installed", "linux-image-6.1.0-28-amd64": "2 installed", "linux-image-6.1.0-27-amd64": "1 installed"} {
		if got := d.has(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if own, err := os.ReadFile(d.at("etc/libc6")); err != nil || string(own) != "of somebody\n" {
		t.Errorf("the file of the configuration is %q, %v", own, err)
	}
}

func TestARealAptSaysThatARepositoryIsAwayAndCompletesWhatWasCutOff(t *testing.T) {
	d := newDebian(t)
	d.offers("libc6", "1", "")
	d.offers("openssl", "1", "")
	_, err := d.apt.call(t.Context(), lookTime, nil, "update")
	d.must(err)
	_, err = d.apt.call(t.Context(), lookTime, nil, "--yes", "install", "libc6", "openssl")
	d.must(err)
	d.offers("libc6", "2", "")
	d.offers("openssl", "2", "")
	d.must(os.Rename(d.at("repository"), d.at("away")))
	if r := d.asks(false); r.Phase != updates.Failed || !strings.HasPrefix(r.Error, "nothing was changed: run apt-get update: ") || d.has("libc6") != "1 installed" {
		t.Errorf("%+v", r)
	}
	d.must(os.Rename(d.at("away"), d.at("repository")))
	d.must(os.Remove(d.at(RecordPath)))
	_, err = host.Run(context.WithoutCancel(t.Context()), host.Command("dpkg", append(slices.Clone(d.apt.dpkg), "--unpack", d.at("repository/libc6_2_amd64.deb"))...))
	d.must(err)
	if got := d.has("libc6"); got != "2 unpacked" {
		t.Fatalf("it is %s", got)
	}
	if r := d.asks(false); r.Phase != updates.Fetched || !r.Interrupted {
		t.Errorf("%+v", r)
	}
	_, err = d.apt.call(t.Context(), lookTime, nil, "update")
	d.must(err)
	if r := d.asks(true); r.Phase != updates.Installed || d.has("libc6") != "2 installed" || d.has("openssl") != "2 installed" {
		t.Errorf("%+v, libc6 %s, openssl %s", r, d.has("libc6"), d.has("openssl"))
	}
}

// TestARealAptSaysThatAnotherPackageManagerWorks has somebody else hold each of its locks.
func TestARealAptSaysThatAnotherPackageManagerWorks(t *testing.T) {
	d := newDebian(t)
	d.offers("libc6", "1", "")
	_, err := d.apt.call(t.Context(), lookTime, nil, "update")
	d.must(err)
	d.apt.options = append(d.apt.options, "--option=DPkg::Lock::Timeout=0")
	for path, args := range map[string][]string{
		"var/lib/apt/lists/lock":      {"update"},
		"var/cache/apt/archives/lock": {"--yes", "--download-only", "install", "libc6"},
		"var/lib/dpkg/lock-frontend":  {"--yes", "install", "libc6"},
		"var/lib/dpkg/lock":           {"--yes", "install", "libc6"},
	} {
		file, err := os.OpenFile(d.at(path), os.O_RDWR|os.O_CREATE, 0o640)
		d.must(err)
		d.must(unix.FcntlFlock(file.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
		if _, err := d.apt.call(t.Context(), lookTime, nil, args...); !locked(err) {
			t.Errorf("%s is held: %v", path, err)
		}
		d.must(file.Close())
		if path == "var/lib/apt/lists/lock" {
			_, err := d.apt.call(t.Context(), lookTime, nil, args...)
			d.must(err)
		}
	}
}

func TestWhatAHostShowsOfARebootIsRead(t *testing.T) {
	answer := func(said string, err error) func(context.Context, host.Cmd) ([]byte, error) {
		return func(_ context.Context, c host.Cmd) ([]byte, error) {
			if c.String() != "needs-restarting -r" {
				t.Errorf("it asks %s", c)
			}
			return []byte(said), err
		}
	}
	ended := func(code int) error { return &host.RunError{ExitCode: code, Err: fmt.Errorf("exit status %d", code)} }
	const wants = "Core libraries or services have been updated since boot-up:\n  * glibc\n  * kernel\n\nReboot is required to fully utilize these updates.\n"
	for _, c := range []struct {
		sentence string
		files    map[string]string
		link     string
		run      func(context.Context, host.Cmd) ([]byte, error)
		want     string
	}{
		{"Debian at rest", map[string]string{aptPath: ""}, "", nil, "No"},
		{"Debian that asks for it", map[string]string{aptPath: "", "/run/reboot-required": "*** System restart required ***", "/run/reboot-required.pkgs": "libc6\nlibc6\ndbus\n"}, "", nil, "Yes: its packages ask for it: dbus, libc6"},
		{"Debian with another kernel", map[string]string{aptPath: "", "/boot/vmlinuz-2": "", "/proc/sys/kernel/osrelease": "1\n"}, "boot/vmlinuz-2", nil, "Yes: the kernel 2 is installed, and 1 runs"},
		{"Debian whose link leads nowhere", map[string]string{aptPath: "", "/proc/sys/kernel/osrelease": "1\n"}, "boot/vmlinuz-2", nil, "No"},
		{"RHEL at rest", nil, "", answer("No core libraries or services have been updated.\n", nil), "No"},
		{"RHEL that asks for it", nil, "", answer(wants, ended(1)), "Yes: needs-restarting asks for it: glibc, kernel"},
		{"RHEL whose tool fails", nil, "", answer("Traceback\n", ended(1)), "Unknown: run '': exit status 1"},
		{"RHEL without the tool", nil, "", answer("", ended(127)), "Unknown: this host has no needs-restarting (the package yum-utils or dnf-utils)"},
	} {
		root := t.TempDir()
		for path, data := range c.files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, path), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if c.link != "" {
			if err := os.Symlink(c.link, filepath.Join(root, "vmlinuz")); err != nil {
				t.Fatal(err)
			}
		}
		if got := Required(t.Context(), root, c.run).String(); got != c.want {
			t.Errorf("%s: %q, want %q", c.sentence, got, c.want)
		}
	}
}
