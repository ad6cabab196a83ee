package updates

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/updates"
)

// redHat is one with dnf. The machine's own packages and repositories play no part.
type redHat struct {
	rig
	dnf dnf
}

func newRedHat(t *testing.T) *redHat {
	t.Helper()
	needs(t, "dnf", "rpm", "rpmbuild", "createrepo_c")
	r := &redHat{rig: rig{t: t, root: t.TempDir()}}
	for _, folder := range []string{"repository", "specs", "etc/dnf", "etc/yum.repos.d"} {
		r.must(os.MkdirAll(r.at(folder), 0o755))
	}
	// The settings of RHEL 9.
	r.put("etc/dnf/dnf.conf", "[main]\ngpgcheck=1\ninstallonly_limit=3\nclean_requirements_on_remove=True\nbest=True\nskip_if_unavailable=False\n")
	r.put("etc/yum.repos.d/site.repo", "[site]\nname=site\nbaseurl=file://"+r.at("repository")+"\ngpgcheck=0\nskip_if_unavailable=1\n")
	r.dnf = dnf{run: host.Run, options: []string{"--installroot=" + r.root, "--releasever=9"}}
	r.by = r.dnf
	return r
}

// rpm is a package. tags are lines of its head, and scripts stand after its description.
type rpm struct{ name, version, tags, scripts string }

// offers puts packages into the repository. Each has a file of the configuration; a
// kernel's has its version in the name, because several are there at once.
func (r *redHat) offers(all ...rpm) {
	r.t.Helper()
	for _, p := range all {
		file := "/etc/" + p.name
		if p.name == "kernel-core" {
			p.tags += "Provides: installonlypkg(kernel)\n"
			file += "-" + p.version
		}
		r.put("specs/"+p.name, fmt.Sprintf("Name: %s\nVersion: %s\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n%s%%description\nx\n%s%%install\nmkdir -p %%{buildroot}/etc\necho of the version %s > %%{buildroot}%s\n%%files\n%%config(noreplace) %s\n", p.name, p.version, p.tags, p.scripts, p.version, file, file))
		_, err := host.Run(r.t.Context(), host.Command("rpmbuild", "--quiet", "-bb", "--define=_topdir "+r.at("build"), "--define=_rpmdir "+r.at("repository"), r.at("specs/"+p.name)))
		r.must(err)
	}
	_, err := host.Run(r.t.Context(), host.Command("createrepo_c", "--quiet", r.at("repository")))
	r.must(err)
}

// installs has dnf install packages, as a person does.
func (r *redHat) installs(names ...string) {
	r.t.Helper()
	_, err := r.dnf.call(r.t.Context(), installTime, nil, append([]string{"--quiet", "--assumeyes", "--refresh", "install"}, names...)...)
	r.must(err)
}

// has returns the versions of a package that are installed.
func (r *redHat) has(name string) string {
	r.t.Helper()
	out, err := host.Run(r.t.Context(), host.Command("rpm", "--root="+r.root, "--query", "--queryformat=%{VERSION}\n", name))
	if err != nil {
		return "none"
	}
	all := strings.Fields(string(out))
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (r *redHat) want(versions map[string]string) {
	r.t.Helper()
	for name, want := range versions {
		if got := r.has(name); got != want {
			r.t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestARealDnfInstallsWhatIsNewAndLeavesOutWhatEtcdRunsOn: a fourth kernel takes the
// place of the oldest, a file that somebody changed stays, and so do Corosync, what needs
// a newer one, and what the site itself holds back.
func TestARealDnfInstallsWhatIsNewAndLeavesOutWhatEtcdRunsOn(t *testing.T) {
	r := newRedHat(t)
	names := []string{"glibc", "corosync", "held", "needs-corosync", "kernel-core"}
	for _, name := range names {
		r.offers(rpm{name: name, version: "1"})
	}
	r.installs(names...)
	for _, version := range []string{"2", "3"} {
		r.offers(rpm{name: "kernel-core", version: version})
		r.installs("kernel-core-" + version)
	}
	r.offers(
		rpm{name: "glibc", version: "2", tags: "Requires: glibc-new-part-with-a-name-that-does-not-fit\n"}, rpm{name: "glibc-new-part-with-a-name-that-does-not-fit", version: "2"},
		rpm{name: "corosync", version: "2"}, rpm{name: "held", version: "2"}, rpm{name: "needs-corosync", version: "2", tags: "Requires: corosync >= 2\n"},
		rpm{name: "kernel-core", version: "4"},
	)
	r.put("etc/dnf/dnf.conf", "[main]\ninstallonly_limit=3\nbest=True\nexcludepkgs=held\n")
	r.put("etc/glibc", "of somebody\n")

	record := r.asks(false)
	want := []string{"glibc", "glibc-new-part-with-a-name-that-does-not-fit", "kernel-core", "needs-corosync"}
	if record.Phase != updates.Fetched || !slices.Equal(record.Updates, want) || !slices.Equal(record.Held, []string{"corosync"}) || r.has("glibc") != "1" {
		t.Fatalf("fetched: %+v", record)
	}
	if record = r.asks(true); record.Phase != updates.Installed {
		t.Fatalf("installed: %+v", record)
	}
	r.want(map[string]string{"glibc": "2", "glibc-new-part-with-a-name-that-does-not-fit": "2", "corosync": "1", "needs-corosync": "1", "held": "1", "kernel-core": "2 3 4"})
	if own, err := os.ReadFile(r.at("etc/glibc")); err != nil || string(own) != "of somebody\n" {
		t.Errorf("the file of the configuration is %q, %v", own, err)
	}
}

// TestARealDnfIsAskedBeforeItTakesSomethingAwayOrBringsWhatIsLeftOut: dnf's own list of
// updates names neither.
func TestARealDnfIsAskedBeforeItTakesSomethingAwayOrBringsWhatIsLeftOut(t *testing.T) {
	for want, next := range map[string][]rpm{
		"refused: the updates would bring crun with them, which are left out": {{name: "glibc", version: "2", tags: "Requires: crun\n"}, {name: "crun", version: "1"}},
		"refused: the updates would remove site-tool":                         {{name: "glibc", version: "2", tags: "Obsoletes: site-tool < 9\n"}},
	} {
		r := newRedHat(t)
		r.offers(rpm{name: "glibc", version: "1"}, rpm{name: "site-tool", version: "1"})
		r.installs("glibc", "site-tool")
		r.offers(next...)
		_, err := r.dnf.look(t.Context(), true)
		r.must(err)
		err = r.dnf.install(t.Context(), nil, Patcher{Holds: updates.Holds(true)}.refuse)
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		r.want(map[string]string{"glibc": "1", "site-tool": "1", "crun": "none"})
	}
}

// TestARealDnfSaysThatARepositoryIsAway, also if the repository's file says that it may be.
func TestARealDnfSaysThatARepositoryIsAway(t *testing.T) {
	r := newRedHat(t)
	r.offers(rpm{name: "glibc", version: "1"})
	r.installs("glibc")
	r.offers(rpm{name: "glibc", version: "2"})
	r.must(os.Rename(r.at("repository"), r.at("away")))
	if record := r.asks(false); record.Phase != updates.Failed || !strings.HasPrefix(record.Error, "nothing was changed: run dnf") || strings.Contains(record.Error, "--setopt") || !strings.Contains(record.Error, "repo 'site'") || r.has("glibc") != "1" {
		t.Errorf("%+v", record)
	}
	r.must(os.Rename(r.at("away"), r.at("repository")))
	r.must(os.Remove(r.at(RecordPath)))
	if record := r.asks(false); record.Phase != updates.Fetched || r.has("glibc") != "1" {
		t.Errorf("%+v", record)
	}
}

// script is one that says that it begins, and then waits for a word.
const script = "%post -p <lua>\nlocal f = io.open('/began', 'a') f:write('x') f:close()\nlocal g = io.open('/go') if g then g:close() end\n"

// cutOff has dnf install what is new, and kills it inside of the script of a package.
func (r *redHat) cutOff() {
	r.t.Helper()
	r.must(errors.Join(unix.Mkfifo(r.at("began"), 0o600), unix.Mkfifo(r.at("go"), 0o600)))
	began, err := os.OpenFile(r.at("began"), os.O_RDWR, 0)
	r.must(err)
	c := exec.CommandContext(r.t.Context(), "dnf", slices.Concat(r.dnf.options, []string{"--quiet", "--assumeyes", "--refresh", "upgrade"})...)
	r.must(c.Start())
	ended, says := make(chan error, 1), make(chan error, 1)
	go func() { ended <- c.Wait() }()
	go func() {
		_, err := began.Read(make([]byte, 1))
		says <- err
	}()
	select {
	case err := <-says:
		r.must(err)
	case err := <-ended:
		r.t.Fatalf("dnf ended before the script began: %v", err)
	}
	r.must(c.Process.Kill())
	if err := <-ended; err == nil {
		r.t.Fatal("dnf ended well though it was killed")
	}
	r.must(errors.Join(began.Close(), os.Remove(r.at("began")), os.Remove(r.at("go"))))
}

// TestARealDnfCompletesWhatWasCutOff: rpm has then both versions of a package in its list,
// or a kernel whose script never ran.
func TestARealDnfCompletesWhatWasCutOff(t *testing.T) {
	for sentence, c := range map[string]struct {
		next []rpm
		cut  map[string]string
	}{
		"in the script of a package, with its former version still there": {
			[]rpm{{name: "glibc", version: "2", scripts: script}, {name: "openssl", version: "2", tags: "Requires: glibc = 2\n"}},
			map[string]string{"glibc": "1 2", "openssl": "1"},
		},
		"in the script of a kernel, and nothing is there twice": {
			[]rpm{{name: "kernel-core", version: "2", scripts: script}},
			map[string]string{"glibc": "1", "kernel-core": "1 2"},
		},
	} {
		r := newRedHat(t)
		r.offers(rpm{name: "glibc", version: "1"}, rpm{name: "openssl", version: "1"}, rpm{name: "kernel-core", version: "1"})
		r.installs("glibc", "openssl", "kernel-core")
		r.offers(c.next...)
		r.cutOff()
		r.want(c.cut)
		if record := r.asks(false); record.Phase != updates.Fetched || !record.Interrupted {
			t.Errorf("%s: %+v", sentence, record)
		}
		if record := r.asks(true); record.Phase != updates.Installed {
			t.Errorf("%s: %+v", sentence, record)
		}
		want := map[string]string{"glibc": "1", "openssl": "1", "kernel-core": "1"}
		for _, p := range c.next {
			want[p.name] = p.version
		}
		if want["kernel-core"] == "2" {
			want["kernel-core"] = "1 2"
		}
		r.want(want)
		if ran, err := os.ReadFile(r.at("began")); err != nil || string(ran) != "x" {
			t.Errorf("%s: the script ran with %q, %v", sentence, ran, err)
		}
		if again, err := r.dnf.interrupted(t.Context()); again || err != nil {
			t.Errorf("%s: it is still cut off: %v, %v", sentence, again, err)
		}
	}
}

// TestARealDnfLeavesWhatIsCutOffAndInNoRepositoryToItsNextVersion.
func TestARealDnfLeavesWhatIsCutOffAndInNoRepositoryToItsNextVersion(t *testing.T) {
	r := newRedHat(t)
	r.offers(rpm{name: "glibc", version: "1"})
	r.installs("glibc")
	r.offers(rpm{name: "glibc", version: "2", scripts: script})
	r.cutOff()
	r.must(os.RemoveAll(r.at("repository/noarch")))
	r.offers(rpm{name: "glibc", version: "3"})
	if _, err := r.dnf.look(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if record := r.asks(true); record.Phase != updates.Installed {
		t.Errorf("%+v", record)
	}
	r.want(map[string]string{"glibc": "3"})
}
