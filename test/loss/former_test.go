package loss_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/lab"
	model "github.com/holdfast/holdfast/internal/model/site"
)

// TestFormerHostsStayOffAfterARestore restores a site of two on other machines with the same names
// and addresses, and then switches the former ones on, with their disks: first the survivor, which
// by its own record may go on alone, then the one that was lost before it.
func TestFormerHostsStayOffAfterARestore(t *testing.T) {
	s := up(t, 2)
	stays, lost := s.ControlPlanes()[0], s.ControlPlanes()[1]
	s.burns(lost)
	s.eventually(5*time.Minute, stays+" goes on alone", func() error { return s.confirm(stays, lost) })
	dir := t.TempDir()
	s.create(secretOf("till", "before"))
	file := s.backup(dir)
	s.burns(stays)

	began := time.Now()
	s.eventually(time.Minute, stays+" is off", func() error { return s.isOff(stays) })
	for _, name := range []string{stays, lost} {
		s.swap(name)
	}
	s.restores(file, filepath.Join(dir, "site"), stays, lost)
	s.eventually(15*time.Minute, "the restored site is whole", func() error { return s.Whole(s.Context()) })
	t.Logf("restored %.0f s after the last host was lost", time.Since(began).Seconds())
	s.has("till", "before")
	s.eventually(wholeWithin, "the site says that it is healthy", func() error { return s.healthy(stays) })

	for _, old := range []string{stays + "-old1", lost + "-old1"} {
		w := s.write(stays)
		s.wakes(old)
		s.eventually(wholeWithin, "the restored site is whole after "+old+" woke up", func() error { return s.Whole(s.Context()) })
		w.judge()
	}
	// Once it is written down, nothing starts although nobody of the restored site answers.
	for _, name := range []string{stays, lost} {
		s.power(name, "cut")
	}
	s.power(stays+"-old1", "on")
	s.eventually(2*time.Minute, "the former survivor has booted", func() error {
		_, err := s.Sh(s.Context(), stays+"-old1", "systemctl is-active holdfast-agent.service")
		return err
	})
	out := s.on(stays+"-old1", "systemctl show --property=ConditionResult --value kubelet.service podman-etcd.service pacemaker.service corosync.service; pgrep -x etcd || echo none; holdfast explain etcd 2>&1 || true")
	t.Logf("%s", out)
	for _, unit := range []string{"kubelet", "podman-etcd", "pacemaker", "corosync"} {
		if got := s.on(stays+"-old1", "systemctl is-active "+unit+".service || true"); got != "inactive" {
			t.Errorf("%s is %q on a host of a former life", unit, got)
		}
	}
}

// restores prepares the restore of a backup, and installs it on two blank machines of the lab.
func (s site) restores(file, dir, first, second string) {
	s.Helper()
	if _, err := host.Run(s.Context(), host.Command(*program, "restore", "--from", file, "--dir", dir)); err != nil {
		s.Fatal(err)
	}
	config, err := s.Lab.Layout.InstallConfig() // the machines have other BMCs
	if err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, installer.ConfigFile), config, 0o600); err != nil {
		s.Fatal(err)
	}
	if _, err := host.Run(s.Context(), host.Command(*program, "create", "ignition-configs", "--dir", dir)); err != nil {
		s.Fatal(err)
	}
	for _, h := range []struct{ name, ignition string }{{first, "bootstrap.ign"}, {second, "master.ign"}} {
		ignition, err := os.ReadFile(filepath.Join(dir, h.ignition))
		if err != nil {
			s.Fatal(err)
		}
		s.install(h.name, string(ignition))
	}
	s.eventually(2*time.Minute, "the first host is there", func() error {
		_, err := s.Lab.Root(s.Context(), s.Power, first)
		return err
	})
	s.giveFile(first, filepath.Join(dir, installer.SnapshotFile), model.RestorePath)
}

// isOff returns an error while a machine is on.
func (s site) isOff(name string) error {
	h, err := s.PowerOf(s.Context(), name)
	if err == nil && h.Power != lab.PowerOff {
		err = fmt.Errorf("power %s", h.Power)
	}
	return err
}
