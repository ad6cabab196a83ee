package life_test

import (
	"context"
	"strings"
	"testing"
	"time"
)

// A package that counts as one below etcd by its name, and two of its versions that differ in the
// revision of the distribution alone. Its script does what that of a package like Corosync does, and
// writes down what it found.
const (
	heldName  = "pacemaker-life"
	heldNow   = "2.1.5-1"
	heldNext  = "2.1.5-2"
	heldTells = "/var/log/life-held"
)

const restartsCorosync = `#!/bin/sh
set -e
{
	echo "corosync is $(systemctl is-active corosync.service || true), pacemaker is $(systemctl is-active pacemaker.service || true)"
	deb-systemd-invoke restart corosync.service || true
	echo "afterwards corosync is $(systemctl is-active corosync.service || true)"
} >` + heldTells + ` 2>/dev/null
`

// TestWhatEtcdRunsOnIsUpdatedUnderLoad has a person want the update of a package below etcd on each
// of two control planes. It changes while the host boots, before Corosync and Pacemaker start; its
// script restarts Corosync and starts nothing. Clients notice no more than of a planned reboot.
//
// It takes about four minutes for each host.
func TestWhatEtcdRunsOnIsUpdatedUnderLoad(t *testing.T) {
	hosts := open(t).ControlPlanes()
	if len(hosts) != 2 {
		t.Skipf("NOT TESTED: %d control planes, and etcd runs on packages of the distribution on two alone", len(hosts))
	}
	for _, h := range hosts {
		if t.Failed() {
			return
		}
		play(t, "patch --held of "+h, func(tr *trial) { tr.patchHeld(h) })
	}
}

func (tr *trial) patchHeld(host string) {
	tr.Helper()
	tr.offersHeld(host)
	tr.movesPods(host)
	before, since := tr.boot(host), tr.Now()
	tr.says(0, "host", "patch", host, "--reason", "the test wants all else")
	if got := tr.version(host, heldName); got != heldNow || tr.boot(host) != before {
		tr.Fatalf("%s has version %q of %s, or has booted, and nobody wanted that", host, got, heldName)
	}
	tr.says(0, "host", "patch", host, "--held", "--reason", "the test wants it")
	tr.Trial.Took("from the wish to its end", time.Since(since))
	if got := tr.version(host, heldName); got != heldNext || tr.boot(host) == before {
		tr.Errorf("%s has version %q of %s, want %s, and a boot", host, got, heldName, heldNext)
	}
	const quiet = "corosync is inactive, pacemaker is inactive\nafterwards corosync is inactive"
	if got := strings.TrimSpace(tr.On(host, "cat "+heldTells)); got != quiet {
		tr.Errorf("the script of the package found on %s:\n%s\nwant\n%s", host, got, quiet)
	}
	if got := tr.On(host, "ls /usr/sbin/policy-rc.d /var/lib/holdfast/updates/at-boot 2>/dev/null || true"); strings.TrimSpace(got) != "" {
		tr.Errorf("%s has still %s", host, got)
	}
	tr.tells(0, []string{"changed what etcd runs on, at its boot: " + heldName + "=" + heldNext}, "host", "show", host)
	tr.asAfterPlannedBoot(host, since)
}

// offersHeld gives a host a repository on its own disk in place of all others, with an update of the
// package. The test's end takes all of it away.
func (tr *trial) offersHeld(host string) {
	tr.Helper()
	tr.offersUpdates(host, false)
	tr.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tr.Context()), time.Minute)
		defer cancel()
		if _, err := tr.Sh(ctx, host, sbin+"dpkg --purge "+heldName+"; rm -f "+heldTells); err != nil {
			tr.Errorf("take the package away: %v", err)
		}
	})
	tr.On(host, strings.Join([]string{
		sbin + "set -e; umask 022",
		"dpkg --install " + repoFolder + "/" + updated + "_2.deb", // it has no update left
		"rm -f /run/reboot-required /run/reboot-required.pkgs",
		builds(heldName, heldNow, ""),
		"dpkg --install " + repoFolder + "/" + heldName + "_" + heldNow + ".deb",
		builds(heldName, heldNext, restartsCorosync),
	}, "\n"))
}
