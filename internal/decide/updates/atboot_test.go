package updates_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/updates"
)

func TestHowFarAHostIsWithWhatChangesAtABoot(t *testing.T) {
	const wish, other = "2026-11-23T03:00:00Z/held", "x"
	stack := []string{"corosync=3.1.7-2"}
	staged := updates.Record{Wish: wish, Phase: updates.Staged, Boot: "1", Stack: stack}
	changing := updates.Record{Wish: wish, Phase: updates.Changing, Boot: "2", Stack: stack}
	ordered := updates.Request{Wish: wish, AtBoot: true, Boot: "1"}
	later, nameless := ordered, ordered // in a later boot, and by an earlier release
	later.Boot, nameless.Boot = "2", ""
	const waits = "waits for holdfast-held.service, which changes what etcd runs on: corosync=3.1.7-2"
	const works = "changes what etcd runs on, before Corosync and Pacemaker start: corosync=3.1.7-2"
	for _, c := range []struct {
		sentence     string
		record       updates.Record
		request      updates.Request
		wish, boot   string
		active       string
		stage        updates.Stage
		what         string
		is           bool
		changesAtAll bool
	}{
		{"it is ready for the boot", staged, updates.Request{Wish: wish}, wish, "1", "inactive", updates.Over, "", true, false},
		{"the boot is ordered and has not come", staged, ordered, wish, "1", "inactive", updates.Over, "", true, true},
		{"it booted before that was ordered", staged, updates.Request{Wish: wish}, wish, "2", "inactive", updates.Over, "", true, false},
		{"the boot is ordered in a later boot and has not come", staged, later, wish, "2", "inactive", updates.Over, "", true, true},
		{"it has booted after that", staged, later, wish, "3", "inactive", updates.Busy, waits, true, true},
		{"an earlier release has ordered the boot", staged, nameless, wish, "1", "inactive", updates.Over, "", true, true},
		{"it has booted, and an earlier release had ordered that", staged, nameless, wish, "2", "inactive", updates.Busy, waits, true, true},
		{"it has booted, and the unit waits for its turn", staged, ordered, wish, "2", "inactive", updates.Busy, waits, true, true},
		{"the unit has started", staged, ordered, wish, "2", "activating", updates.Busy, waits, true, true},
		{"the unit did not start", staged, ordered, wish, "2", "failed", updates.Broken, "was cut off", true, true},
		{"the unit changes packages", changing, ordered, wish, "2", "activating", updates.Busy, works, true, true},
		{"also for a wish that is gone", changing, ordered, "", "2", "activating", updates.Busy, works, true, true},
		{"the unit was cut off in this boot", changing, ordered, wish, "2", "failed", updates.Broken, "it goes on at the next boot", true, true},
		{"it was cut off, and its wish is gone", changing, ordered, "", "2", "failed", updates.Nothing, "", false, true},
		{"the power was cut, and the unit waits for its turn", changing, ordered, wish, "3", "inactive", updates.Busy, waits, true, true},
		{"a former wish was staged", staged, ordered, other, "2", "inactive", updates.Nothing, "", false, true},
		{"an order for another wish", staged, updates.Request{Wish: other, AtBoot: true}, wish, "2", "inactive", updates.Over, "", true, false},
		{"all is installed", updates.Record{Wish: wish, Phase: updates.Installed}, ordered, wish, "2", "inactive", updates.Nothing, "", false, false},
	} {
		stage, what, is := c.record.AtBoot(c.request, c.wish, c.boot, c.active)
		if stage != c.stage || is != c.is || what != c.what && (c.stage != updates.Broken || !strings.Contains(what, c.what)) {
			t.Errorf("%s: %q %q %v, want %q %q", c.sentence, stage, what, is, c.stage, c.what)
		}
		if got := c.record.Ordered(c.request); got != c.changesAtAll {
			t.Errorf("%s: ordered %v", c.sentence, got)
		}
	}
}

func TestWhichVersionsOfWhatEtcdRunsOnChangeByThemselves(t *testing.T) {
	for _, c := range []struct{ name, have, next, refused string }{
		{"corosync", "3.1.7-1", "3.1.7-1+deb12u1", ""},
		{"corosync", "3.1.7-1", "3.2.0-1", ""},
		{"corosync", "3.1.7-1", "4.0.0-1", "do not speak with each other"},
		{"pacemaker", "2.1.5-1+deb12u1", "2.1.5-1+deb12u2", ""},
		{"pacemaker", "0:2.1.7-5.el9", "0:2.1.7-5.2.el9_4", ""},
		{"pacemaker", "2.1.5-1", "2.1.6-1", "may not be let in again"},
		{"pacemaker-cli-utils", "2.1.5-1", "2.1.6-1", "may not be let in again"},
		{"pacemaker", "2.1.5-1", "", "nobody says which version"},
		{"podman", "4.3.1+ds1-8+deb12u1", "4.3.1+ds1-8+deb12u2", ""},
		{"podman", "4:5.2.2-1.el9", "4:5.6.0-1.el9", ""},
		{"podman", "5.4.0-1", "5.8.0-1", "migrate their state"},
		{"podman", "5.8.0-1", "5.9.0-1", ""},
		{"podman", "words", "5.9.0-1", "migrate their state"},
		{"corosync", "words", "3.1.7-1", "do not speak with each other"},
		{"libqb100", "2.0.6-2", "2.0.8-1", ""},
		{"libnew1", "", "1", ""},
	} {
		got := updates.StackRefusal(map[string]string{c.name: c.have}, map[string]string{c.name: c.next})
		if (got == "") != (c.refused == "") || !strings.Contains(got, c.refused) {
			t.Errorf("%s %s to %s: %q, want %q", c.name, c.have, c.next, got, c.refused)
		}
	}
	all := updates.StackRefusal(map[string]string{"corosync": "3", "pacemaker": "2.1.5-1"}, map[string]string{"corosync": "4", "pacemaker": "2.1.6-1"})
	if strings.Count(all, "; ") != 1 {
		t.Errorf("not all of it is told: %s", all)
	}
}

// The lines are those of apt-get 2.6, and the table that of dnf 4.14.
func TestTheVersionsThatWouldComeAreRead(t *testing.T) {
	const apt = `Inst libcfg7 [3.1.7-1] (3.1.7-1+deb12u1 Debian:12.9/stable [amd64]) []
Inst corosync:amd64 [3.1.7-1] (3.1.7-1+deb12u1 Debian:12.9/stable [amd64])
Inst libnew1 (1.0-1 Debian:12.9/stable [amd64])
Conf corosync (3.1.7-1+deb12u1 Debian:12.9/stable [amd64])
`
	want := map[string]string{"libcfg7": "3.1.7-1+deb12u1", "corosync": "3.1.7-1+deb12u1", "libnew1": "1.0-1"}
	if diff := cmp.Diff(want, updates.AptVersions([]byte(apt))); diff != "" {
		t.Error(diff)
	}
	const dnf = `Dependencies resolved.
==================================================
 Package       Arch    Version          Repo   Size
==================================================
Upgrading:
 corosync      x86_64  3.1.8-1.el9_4    site  6.0 k
 a-package-with-a-very-long-name-of-the-resource-agents-of-another-kind
               noarch  4:2-1            site  6.3 k
Removing:
 corosync      x86_64  3.1.7-1.el9      @site   10

Transaction Summary
`
	got := updates.DnfVersions([]byte(dnf))
	if got["corosync"] != "3.1.8-1.el9_4" || got["a-package-with-a-very-long-name-of-the-resource-agents-of-another-kind"] != "4:2-1" {
		t.Errorf("%v", got)
	}
	if got := updates.NamedVersions([]byte("corosync=3.1.7-1\npackage podman is not installed\nx=\n")); !cmp.Equal(got, map[string]string{"corosync": "3.1.7-1"}) {
		t.Errorf("%v", got)
	}
}

func TestTheResultNamesWhatChangedAtABoot(t *testing.T) {
	r := updates.Record{Stack: []string{"corosync=3.1.7-2"}}
	if got := r.Result(); got != "changed what etcd runs on, at its boot: corosync=3.1.7-2" {
		t.Error(got)
	}
	r.Updates, r.Held = []string{"libc6"}, []string{"containerd"}
	if got := r.Result(); got != "installed 1 update: libc6; changed what etcd runs on, at its boot: corosync=3.1.7-2; left out, because etcd runs on them or the release brings them: containerd" {
		t.Error(got)
	}
}
