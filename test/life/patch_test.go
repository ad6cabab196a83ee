package life_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The update that a host gets, the package below etcd that it must not get on two
// control planes, and a version of that which is newer than any of Debian's.
const (
	updated    = "life-update"
	belowEtcd  = "corosync"
	tooNew     = "99:1"
	repoFolder = "/srv/life-repository"
)

// TestHostsArePatchedUnderLoad has a person want the updates of each control plane, from a
// repository on its own disk. It has a newer version of one package, which asks for a
// reboot as packages of Debian do, and one of Corosync. The host moves its pods, installs
// the one, leaves Corosync out on two control planes, boots, and takes pods again.
// Clients notice no more than of a planned reboot.
//
// It takes about four minutes for each host.
func TestHostsArePatchedUnderLoad(t *testing.T) {
	for _, h := range open(t).ControlPlanes() {
		if t.Failed() {
			return
		}
		play(t, "patch of "+h, func(tr *trial) { tr.patch(h) })
	}
}

func (tr *trial) patch(host string) {
	tr.Helper()
	pair := len(tr.ControlPlanes()) == 2
	tr.offersUpdates(host, pair)
	held := tr.version(host, belowEtcd)
	tr.movesPods(host)
	before, since := tr.boot(host), tr.Now()

	tr.mayBegin("host", "patch", host)
	if tr.boot(host) != before || tr.version(host, updated) != "1" {
		tr.Errorf("%s was changed, though nobody wanted it yet", host)
	}
	tr.says(0, "host", "patch", host, "--reason", "the test wants it")
	tr.Trial.Took("from the wish to its end", time.Since(since))
	if tr.boot(host) == before {
		tr.Errorf("%s has not booted, and a package asked for it", host)
	}
	if got := tr.version(host, updated); got != "2" {
		tr.Errorf("%s has version %q of %s, want 2", host, got, updated)
	}
	told := "installed 1 update: " + updated
	if pair {
		told += "; left out, because etcd runs on them or the release brings them: " + belowEtcd
		if got := tr.version(host, belowEtcd); got != held || got == tooNew {
			tr.Errorf("%s has version %q of %s, and had %q: etcd runs on it", host, got, belowEtcd, held)
		}
	}
	tr.tells(0, []string{told}, "host", "show", host)
	tr.Eventually(time.Minute, "the distribution wants no reboot any more", func() error { return tr.requiresNothing(host) })
	tr.asAfterPlannedBoot(host, since)
}

// version returns which version of a package a host has; empty for none.
func (tr *trial) version(host, name string) string {
	tr.Helper()
	return tr.On(host, "dpkg-query --show --showformat='${Version}' "+name+" 2>/dev/null || true")
}

// offersUpdates gives a host a repository on its own disk in place of all others, and an
// older version of the package that has an update there. With pair it has an update of
// Corosync too. The test's end takes all of it away.
func (tr *trial) offersUpdates(host string, pair bool) {
	tr.Helper()
	const former = "/root/life-sources"
	tr.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tr.Context()), time.Minute)
		defer cancel()
		back := sbin + "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d && cp -a " + former + "/. /etc/apt/ && rm -rf " + former + " " + repoFolder
		if _, err := tr.Sh(ctx, host, back+"; rm -rf /var/lib/apt/lists/*; dpkg --purge "+updated); err != nil {
			tr.Errorf("take the repository away: %v", err)
		}
	})
	lines := []string{
		sbin + "set -e; umask 022",
		"rm -rf " + former + " " + repoFolder + "; mkdir -p " + former + " " + repoFolder,
		"for f in sources.list sources.list.d; do test ! -e /etc/apt/$f || mv /etc/apt/$f " + former + "/; done",
		"mkdir -p /etc/apt/sources.list.d",
		"echo 'deb [trusted=yes] file:" + repoFolder + " ./' >/etc/apt/sources.list",
		builds(updated, "1", ""),
		"dpkg --install " + repoFolder + "/" + updated + "_1.deb",
		": >" + repoFolder + "/Packages",
		builds(updated, "2", asksForReboot),
	}
	if pair {
		lines = append(lines, builds(belowEtcd, tooNew, ""))
	}
	tr.On(host, strings.Join(lines, "\n"))
	if got := tr.version(host, updated); got != "1" {
		tr.Fatalf("%s has version %q of %s, want 1", host, got, updated)
	}
}

// sbin begins scripts that call dpkg, which wants to find programs for root.
const sbin = "export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; "

// asksForReboot is what a package's script does whose update counts after a boot.
const asksForReboot = `#!/bin/sh
echo '*** System restart required ***' >/run/reboot-required
echo ` + updated + ` >>/run/reboot-required.pkgs
`

// builds returns a script that makes a package and adds it to the repository's index.
// after is the script that runs once the package is installed; empty for none.
func builds(name, version, after string) string {
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: life <life@example.com>\nDescription: of the test\n", name, version, runtime.GOARCH)
	build := repoFolder + "/build"
	file := fmt.Sprintf("%s_%s.deb", name, strings.ReplaceAll(version, ":", "-"))
	lines := []string{
		"rm -rf " + build + "; mkdir -p " + build + "/DEBIAN",
		heredoc(build+"/DEBIAN/control", control),
	}
	if after != "" {
		lines = append(lines, heredoc(build+"/DEBIAN/postinst", after), "chmod 755 "+build+"/DEBIAN/postinst")
	}
	lines = append(lines,
		"dpkg-deb --build --root-owner-group "+build+" "+repoFolder+"/"+file+" >/dev/null",
		"rm -rf "+build,
		"{ cat <<'END'\n"+control+"Filename: ./"+file+"\nEND\n"+
			"stat -c 'Size: %s' "+repoFolder+"/"+file+"; sha256sum "+repoFolder+"/"+file+" | sed 's/ .*//; s/^/SHA256: /'; echo; } >>"+repoFolder+"/Packages",
	)
	return strings.Join(lines, "\n")
}

// heredoc returns a script that writes a text into a file.
func heredoc(path, text string) string { return "cat >" + path + " <<'END'\n" + text + "END" }
