package loss_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab"
)

const (
	// goesOnWithin has room for a record that says sole.
	goesOnWithin = 2 * time.Minute
	// shrinkWithin has room for the proof that the host is off, and for guards that are lifted.
	shrinkWithin = 6 * time.Minute
)

// TestASiteShrinksFromTwoControlPlanesToOneAndGrowsAgain makes one of two control planes the only
// one while clients write, cuts its power, wakes the other host up, and lets another machine in
// under the name of the one that went.
func TestASiteShrinksFromTwoControlPlanesToOneAndGrowsAgain(t *testing.T) {
	s := up(t, 2)
	stays, goes := s.ControlPlanes()[0], s.ControlPlanes()[1]
	s.installConfig(stays, 1, "/root/one.yaml")
	s.on(goes, "systemctl poweroff --no-block")
	s.eventually(goesOnWithin, stays+" goes on alone", func() error { return s.sole(stays) })
	w := s.write(stays)

	began := time.Now()
	s.becomesAlone(stays)
	t.Logf("one control plane after %.0f s", time.Since(began).Seconds())
	w.paused("until then", stepPause)
	s.nothingOfTwo(stays)

	w.startsAlone(stays)
	s.power(goes, "on")
	s.staysInert(goes)

	s.swap(goes)
	s.installConfig(stays, 2, "/root/two.yaml")
	grow := fmt.Sprintf("holdfast topology apply --install-config /root/two.yaml --address %s --without-backup --yes --by test", s.Address(goes, lab.V4))
	s.eventually(widenWithin, "the host is one of two", func() error {
		out, err := s.Sh(t.Context(), stays, grow+" --join-file /root/join.ign --timeout 20s")
		if grow = "holdfast topology apply --by test"; strings.Contains(fmt.Sprint(out, err), "install the new machine") {
			return nil
		}
		return fmt.Errorf("%s, %w", out, err)
	})
	s.install(goes, s.on(stays, "cat /root/join.ign"))
	s.on(stays, fmt.Sprintf("holdfast topology apply --by test --timeout %s", joinWithin))
	s.eventually(wholeWithin, "the site is whole", func() error { return s.Whole(t.Context()) })
	s.on(stays, "holdfast fencing verify")
	w.judge()
}

// becomesAlone makes the host that goes on alone the only control plane, by the install-config that it has for one.
func (s site) becomesAlone(stays string) {
	s.Helper()
	out := s.on(stays, fmt.Sprintf("holdfast topology apply --install-config /root/one.yaml --keep-bmc-account --without-backup --yes --by test --timeout %s", shrinkWithin))
	if !strings.Contains(out, stays+" is the only control plane") {
		s.Errorf("the command says %s", out)
	}
}

// nothingOfTwo checks that a host which is not one of two is well, and has nothing left of two.
func (s site) nothingOfTwo(name string) {
	s.Helper()
	s.eventually(wholeWithin, name+" says that it is healthy", func() error { return s.healthy(name) })
	if left, err := s.Sh(s.Context(), name, "systemctl is-enabled corosync pacemaker; ls /etc/corosync/corosync.conf /etc/holdfast/fencing /var/lib/etcd/holdfast-record.json 2>/dev/null"); strings.Contains(left, "enabled") || strings.Contains(left, "/") {
		s.Errorf("left of two hosts on %s: %s, %v", name, left, err)
	}
}

// installConfig gives a host the lab's install-config for a number of control planes.
func (s site) installConfig(name string, controlPlanes int, path string) {
	s.Helper()
	file := filepath.Join(s.TempDir(), "install-config.yaml")
	if _, err := s.Holdfast(s.Context(), "lab", "install-config", "--name", s.LabName(), "--control-planes", fmt.Sprint(controlPlanes), "--out", file); err != nil {
		s.Fatal(err)
	}
	s.giveFile(name, file, path)
}

// healthy returns an error while the site says that it is not.
func (s site) healthy(name string) error {
	out, err := s.Sh(s.Context(), name, "holdfast status")
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
