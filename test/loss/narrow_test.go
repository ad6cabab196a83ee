package loss_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/model/state"
)

// narrowWithin has room for packages, and for two agents that begin anew.
const narrowWithin = 20 * time.Minute

// TestASiteShrinksFromThreeControlPlanesToTwo takes one of three control planes out while clients write
// through the virtual IP, and then loses each of the two in turn. With -widen-cut it cuts the power of one
// host once, at a stage of the plan (hack/test loss SCENARIOS=PlanesToTwo CUT=handing:cp-1).
func TestASiteShrinksFromThreeControlPlanesToTwo(t *testing.T) {
	s := up(t, 3)
	const first, second, third = "cp-1", "cp-2", "cp-3"
	s.installConfig(first, 2, "/root/two.yaml")
	out, err := s.Sh(t.Context(), first, "holdfast topology plan --install-config /root/two.yaml")
	for _, words := range []string{third + " goes for good, and " + first + " and " + second + " are the two control planes", "three    open", "fencing  open", "target   open"} {
		if !strings.Contains(fmt.Sprint(out, err), words) {
			t.Errorf("topology plan does not say %q: %s, %v", words, out, err)
		}
	}
	w := s.writeAt("vip", s.Lab.Layout.APIVIPs[0])

	began := time.Now()
	s.narrows(first, first, second)
	t.Logf("two control planes %.0f s after the command", time.Since(began).Seconds())
	w.paused("until then", stepPause)
	s.switchesOff(third)

	for _, name := range []string{first, second} {
		if n := strings.TrimSpace(s.on(name, votesOf)); n != "2" {
			t.Errorf("%s lists %s voters", name, n)
		}
		// The accounts of the BMCs go once both hosts know the end of the plan.
		s.eventually(wholeWithin, name+" has what one of two has, and nothing of the plan's", func() error {
			has, err := s.Sh(t.Context(), name, "systemctl is-enabled corosync pacemaker podman-etcd; ls /etc/kubernetes/manifests/etcd.yaml "+replacement.NarrowTargetPath+" "+state.EtcdThirdPath+" 2>/dev/null")
			if strings.Count(has, "enabled") != 3 || strings.Contains(has, "/") {
				return fmt.Errorf("%s, %w", has, err)
			}
			return nil
		})
		if boots, _ := s.Sh(t.Context(), name, "systemctl is-enabled kubelet"); strings.TrimSpace(boots) != "disabled" {
			t.Errorf("kubelet of %s starts at boot without Pacemaker: %s", name, boots)
		}
	}
	s.eventually(wholeWithin, "the two are a pair, and the third one has no Node", func() error { return s.pairOf(first, second, third) })
	s.eventually(wholeWithin, "the operator's set-up of two is done, and the site says that it is healthy", func() error {
		return errors.Join(s.healthy(first), s.healthy(second))
	})
	s.on(first, "holdfast fencing verify")

	for _, lost := range []string{first, second} {
		w.goesOnWithout(lost)
		s.eventually(wholeWithin, "the site is a pair with "+lost, func() error { return s.pairOf(first, second, third) })
	}
	w.judge()
}

// pairOf returns nil once the records of both hosts say pair, and the third one has no Node.
func (s site) pairOf(first, second, third string) error {
	var all []error
	for _, name := range []string{first, second} {
		record, err := s.ReadFile(s.Context(), name, state.EtcdRecordPath)
		if err != nil || !strings.Contains(string(record), `"`+string(state.EtcdPair)+`"`) {
			all = append(all, fmt.Errorf("the record of %s: %s, %w", name, record, err))
		}
	}
	out, err := s.Sh(s.Context(), first, "kubectl --kubeconfig "+state.AdminKubeconfig+" get node "+third+" --ignore-not-found -o name")
	if err != nil || strings.TrimSpace(out) != "" {
		all = append(all, fmt.Errorf("the Node of %s: %s, %w", third, out, err))
	}
	return errors.Join(all...)
}

// narrows takes one of three control planes out, by the install-config that the carrier of the plan has for two.
func (s site) narrows(carrier string, stay ...string) {
	s.Helper()
	command := "holdfast topology apply --install-config /root/two.yaml --without-backup --yes --by test --timeout 20s"
	s.eventually(comingWithin, "the plan begins", func() error {
		out, err := s.Sh(s.Context(), carrier, command)
		if strings.Contains(fmt.Sprint(out, err), "to follow it: sudo holdfast topology apply") || strings.Contains(fmt.Sprint(out, err), "has begun") {
			return nil
		}
		return fmt.Errorf("%s, %w", out, err)
	})
	s.followNarrowing(carrier, stay...)
}

// switchesOff has a host shut down, if it has not by itself.
func (s site) switchesOff(name string) {
	s.Helper()
	if out, err := s.Sh(s.Context(), name, "systemctl poweroff --no-block"); err != nil {
		s.Logf("%s is off already: %s, %v", name, out, err)
	}
}

// followNarrowing follows the plan on the host that carries it to its end, and cuts the power of a host at
// the stage that the flag names.
func (s site) followNarrowing(carrier string, stay ...string) {
	s.Helper()
	stage, lost, cuts := strings.Cut(*cutAt, ":")
	last := narrow.Stage("")
	s.eventually(narrowWithin, "the site has two control planes", func() error {
		out, err := s.Sh(s.Context(), carrier, "holdfast topology apply --by test --timeout 3s")
		if strings.Contains(out, strings.Join(stay, " and ")+" are the two control planes: either host may be lost") {
			return nil
		}
		var plan narrow.Plan
		data, unread := s.ReadFile(s.Context(), carrier, replacement.NarrowPlanPath)
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
