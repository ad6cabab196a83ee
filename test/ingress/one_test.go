package ingress_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/labsite"
)

const joinWithin = 10 * time.Minute

// workers returns the label of the hosts for applications. Tests of the control
// plane do not touch these hosts.
func workers() map[string]string { return map[string]string{state.LabelWorker: ""} }

// TestTheRouterStaysOnTheOneControlPlane tests a site of one control plane on
// platform none. Its names lead to that host's address, so the router must stay
// there, whatever joins.
func TestTheRouterStaysOnTheOneControlPlane(t *testing.T) {
	k := one()
	s := open(t, k)
	cp := s.ControlPlanes()[0]
	hello := s.Deploy(t, labsite.App{
		Name: "hello", Host: "hello.apps." + s.Lab.Layout.ClusterDomain(), Controller: ingress.DefaultName, Where: workers(), Replicas: 2,
	})
	stays := func(name string, times int, play func(*trial, corev1.Pod)) {
		t.Helper()
		scenario(t, s, k, name, times, func(tr *trial) {
			for _, a := range tr.controlPlaneAddresses() {
				tr.asks("control plane "+familyName(a), web(a), hello)
			}
			tr.Steady("before")
			before := tr.theRouter(cp)
			p := tr.follow()
			defer p.only(tr, cp)
			play(tr, before)
		})
	}
	stays("workers of a later day join", 1, func(tr *trial, before corev1.Pod) { tr.laterWorkersJoin(cp, before) })
	stays("router pod deleted", 20, func(tr *trial, before corev1.Pod) {
		since := tr.Now()
		if err := tr.API.Delete(tr.Context(), &before); err != nil {
			tr.Fatal(err)
		}
		tr.routerIsBack(cp, before, since)
	})
	stays("reboot of the control plane", 1, func(tr *trial, before corev1.Pod) {
		since := tr.Now()
		tr.On(cp, "systemctl --no-block reboot")
		tr.BootedAgain(cp, since)
		tr.theRouter(cp)
		tr.Steady("after the reboot")
		tr.Noticed("", since)
	})
	stays("operator upgraded", 2, func(tr *trial, before corev1.Pod) {
		since := tr.Now()
		tr.upgradeOperator()
		tr.sameRouter(cp, before)
		tr.NothingFailed("operator upgraded", since, tr.Clients()...)
	})
}

// theRouter waits for the router of a host: clients get answers before the API
// knows that the router is ready.
func (tr *trial) theRouter(host string) corev1.Pod {
	tr.Helper()
	var found corev1.Pod
	tr.Eventually(labsite.WholeWithin, "a router is ready on "+host, func() error {
		var err error
		found, err = tr.readyRouter(ingress.DefaultName, host)
		return err
	})
	return found
}

func (tr *trial) controlPlaneAddresses() []netip.Addr {
	var out []netip.Addr
	for _, p := range tr.Lab.Layout.Hosts[0].Machine.Addresses {
		out = append(out, p.Addr())
	}
	return out
}

// laterWorkersJoin switches the spare workers on. No request may fail
// meanwhile, and nothing may touch the router.
func (tr *trial) laterWorkersJoin(cp string, before corev1.Pod) {
	tr.Helper()
	since := tr.Now()
	var names []string
	for _, h := range tr.Lab.Layout.Hosts {
		names = append(names, h.Name)
		st, err := tr.PowerOf(tr.Context(), h.Name)
		if err != nil {
			tr.Fatal(err)
		}
		if h.Spare && st.Power == lab.PowerOff {
			tr.Switch(h.Name, lab.ActionOn)
		}
	}
	tr.Eventually(joinWithin, "all workers have joined", func() error { return tr.NodesReady(tr.Context(), names...) })
	tr.Trial.Took("joined", time.Since(since))
	tr.sameRouter(cp, before)
	tr.NothingFailed("workers join", since, tr.Clients()...)
}

// sameRouter checks that the router was not replaced.
func (tr *trial) sameRouter(cp string, before corev1.Pod) {
	tr.Helper()
	now, err := tr.readyRouter(ingress.DefaultName, cp)
	if err != nil {
		tr.Error(err)
	} else if now.UID != before.UID {
		tr.Errorf("the router was replaced: it is %s, was %s", now.Name, before.Name)
	}
}

// routerIsBack waits for the next router, and records the effect on clients.
// There is one, because only one router at a time can have the ports of a lone
// host.
func (tr *trial) routerIsBack(cp string, before corev1.Pod, since time.Time) {
	tr.Helper()
	tr.Eventually(rolloutWithin, "another router is ready on "+cp, func() error {
		now, err := tr.readyRouter(ingress.DefaultName, cp)
		if err == nil && now.UID == before.UID {
			err = errors.New("it is the one that was deleted")
		}
		return err
	})
	tr.Trial.Took("ready again", time.Since(since))
	tr.Steady("by the next router")
	tr.Noticed("", since)
	tr.Eventually(time.Minute, "the cluster says that ingress is available", func() error {
		if err := tr.condition(ingress.DefaultName, ingress.Available, "True"); err != nil {
			return fmt.Errorf("clients are answered: %w", err)
		}
		return nil
	})
}
