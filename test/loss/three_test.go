package loss_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/lab"
)

const (
	// comingWithin has room for the gates and the other host's copy of the plan.
	comingWithin = 3 * time.Minute
	// threeWithin has room for an installation, and for guards that are lifted.
	threeWithin = 25 * time.Minute
	// votesOf counts the voters of etcd, as this host has them.
	votesOf = "PATH=/usr/local/bin:$PATH; etcdctl --endpoints https://localhost:2379 --cacert /etc/kubernetes/pki/etcd/ca.crt --cert /etc/kubernetes/pki/etcd/server.crt " +
		"--key /etc/kubernetes/pki/etcd/server.key member list | grep -c 'started.*false$'"
)

// TestASiteGrowsFromTwoControlPlanesToThree lets a third control plane in while clients write through
// the virtual IP, and then loses each of the three in turn. With -widen-cut it cuts the power of one
// host once, at a stage of the plan (hack/test loss SCENARIOS=ToThree CUT=handing:cp-1).
func TestASiteGrowsFromTwoControlPlanesToThree(t *testing.T) {
	s := up(t, 2, "--spare-control-planes=1")
	const first, second, third = "cp-1", "cp-2", "cp-3"
	s.installConfig(first, 3, "/root/three.yaml")
	w := s.writeAt("vip", s.Lab.Layout.APIVIPs[0])

	began := time.Now()
	command := fmt.Sprintf("holdfast topology apply --install-config /root/three.yaml --new-name %s --address %s --without-backup --yes --by test --timeout 20s", third, s.Address(third, lab.V4))
	s.eventually(comingWithin, "the third host may be installed", func() error {
		out, err := s.Sh(t.Context(), first, command)
		command = "holdfast topology apply --by test --join-file /root/join.ign --timeout 10s"
		if strings.Contains(fmt.Sprint(out, err), "install the new machine") {
			return nil
		}
		return fmt.Errorf("%s, %w", out, err)
	})
	t.Logf("the third host may be installed after %.0f s", time.Since(began).Seconds())
	s.install(third, s.on(first, "cat /root/join.ign"))
	if err := s.Reopen(); err != nil {
		t.Fatal(err)
	}

	s.followThree(first)
	t.Logf("three control planes %.0f s after the command", time.Since(began).Seconds())
	w.paused("until then", stepPause)
	s.eventually(wholeWithin, "the site is whole", func() error { return s.Whole(t.Context()) })
	for _, name := range []string{first, second, third} {
		if n := strings.TrimSpace(s.on(name, votesOf)); n != "3" {
			t.Errorf("%s lists %s voters", name, n)
		}
		if left, err := s.Sh(t.Context(), name, "systemctl is-enabled corosync pacemaker; ls /etc/corosync/corosync.conf /etc/holdfast/fencing /var/lib/etcd/holdfast-record.json 2>/dev/null"); strings.Contains(left, "enabled") || strings.Contains(left, "/") {
			t.Errorf("left of two hosts on %s: %s, %v", name, left, err)
		}
		s.eventually(wholeWithin, name+" says that it is healthy", func() error { return s.healthy(name) })
	}

	for _, lost := range []string{first, second, third} {
		cut := time.Now()
		s.power(lost, "cut")
		s.eventually(takesOverWithin, "the two others serve without "+lost, func() error {
			if w.rec.Last("") < w.rec.At(cut.Add(5*time.Second)) {
				return errors.New("nobody has written since")
			}
			return nil
		})
		gap := w.rec.Copy().Gap("", w.rec.At(cut), w.rec.Since())
		t.Logf("without %s nobody wrote for %.1f s", lost, gap.Length.Seconds())
		s.power(lost, "on")
		s.eventually(wholeWithin, "the site is whole with "+lost, func() error { return s.Whole(t.Context()) })
	}
	w.judge()
}

// followThree follows the plan on the host that carries it to its end, and cuts the power of a host at
// the stage that the flag names.
func (s site) followThree(carrier string) {
	s.Helper()
	stage, lost, cuts := strings.Cut(*cutAt, ":")
	last := widen.Stage("")
	s.eventually(threeWithin, "the site has three control planes", func() error {
		out, err := s.Sh(s.Context(), carrier, "holdfast topology apply --by test --timeout 3s")
		if strings.Contains(out, "is the third control plane: any one may be lost") {
			return nil
		}
		var plan widen.Plan
		data, unread := s.ReadFile(s.Context(), carrier, replacement.WidenPlanPath)
		if unread == nil {
			unread = json.Unmarshal(data, &plan)
		}
		if unread == nil && plan.Stage != last {
			last = plan.Stage
			s.Logf("the plan is at %s: %s", last, strings.TrimSpace(fmt.Sprint(out, err)))
		}
		if cuts && string(last) == stage {
			cuts = false
			s.Logf("%s loses its power", lost)
			s.power(lost, "cut")
			s.power(lost, "on")
		}
		return fmt.Errorf("%s: %s, %w", last, out, errors.Join(err, unread, errors.New("not yet")))
	})
	if cuts {
		s.Errorf("the plan was never seen at %s, so %s has not lost its power", stage, lost)
	}
}
