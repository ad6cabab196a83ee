package ingress_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/labsite"
)

// ingressLostMost is the longest time for which clients may be without an
// answer when the host with the ingress VIP is lost, as for the API.
const ingressLostMost = 800 * time.Millisecond

// appOn deploys an application that runs on one host, so that the loss of the
// other does not affect it.
func appOn(t *testing.T, s *labsite.Site, host string) labsite.App {
	t.Helper()
	return s.Deploy(t, labsite.App{
		Name: "hello-" + host, Host: "hello-" + host + ".apps." + s.Lab.Layout.ClusterDomain(),
		Controller: ingress.DefaultName, Where: map[string]string{corev1.LabelHostname: host}, Replicas: 1,
	})
}

// oneOfTwo plays a scenario on two hosts. The holder of the ingress VIPs is to
// be lost, and clients use an application on the other host.
func oneOfTwo(t *testing.T, name string, times int, play func(tr *trial, lost, survivor string)) {
	t.Helper()
	k := two()
	s := open(t, k)
	apps := map[string]labsite.App{}
	for _, h := range s.ControlPlanes() {
		apps[h] = appOn(t, s, h)
	}
	scenario(t, s, k, name, times, func(tr *trial) {
		vips := tr.Lab.Layout.IngressVIPs
		lost, err := tr.Holder(vips[0])
		if err != nil {
			tr.Fatal(err)
		}
		survivor := tr.other(lost)
		for _, vip := range vips {
			tr.asks("ingress VIP "+familyName(vip), web(vip), apps[survivor])
		}
		tr.Steady("before")
		play(tr, lost, survivor)
	})
}

// TestOneOfTwoHostsIsFenced cuts the host that holds the ingress VIP. The VIP
// and the routers must go on with the other host, which must also accept new
// routers while it is alone.
func TestOneOfTwoHostsIsFenced(t *testing.T) {
	oneOfTwo(t, "one of two hosts fenced", 3, func(tr *trial, lost, survivor string) {
		for _, vip := range tr.Lab.Layout.IngressVIPs {
			tr.Trial.Promise("ingress VIP "+familyName(vip)+", no answer", ingressLostMost)
		}
		p := tr.follow()
		defer p.available(tr)
		since := time.Now() // the lab answers only when it is done
		tr.Inject(lab.Fault{Kind: lab.FaultPowerCut, Host: lost})
		tr.ingressIsOn(survivor)
		tr.Steady("by the survivor")
		tr.Noticed("", since)
		tr.holdOff(lost, survivor)
		tr.rollOutAlone(survivor)
		tr.Switch(lost, lab.ActionOn)
		tr.BootedAgain(lost, since)
		tr.Eventually(labsite.WholeWithin, "the site is whole again", func() error { return tr.Whole(tr.Context()) })
		tr.Eventually(rolloutWithin, "both hosts have a router", func() error {
			_, first := tr.readyRouter(ingress.DefaultName, lost)
			_, second := tr.readyRouter(ingress.DefaultName, survivor)
			return errors.Join(first, second)
		})
	})
}

// other returns the host's peer.
func (tr *trial) other(host string) string {
	return slices.DeleteFunc(tr.ControlPlanes(), func(h string) bool { return h == host })[0]
}

// ingressIsOn waits until a host holds the ingress VIPs, and has a router.
func (tr *trial) ingressIsOn(host string) {
	tr.Helper()
	tr.Eventually(2*time.Minute, host+" holds the ingress VIPs", func() error {
		var errs []error
		for _, vip := range tr.Lab.Layout.IngressVIPs {
			if now, err := tr.Holder(vip); err != nil || now != host {
				errs = append(errs, errors.Join(fmt.Errorf("%s is held by %q", vip, now), err))
			}
		}
		n, err := tr.Network(tr.Context(), host)
		if err == nil && !n.View.Router.Value.Ready {
			err = errors.New("its router is not ready")
		}
		return errors.Join(append(errs, err)...)
	})
}

// holdOff keeps a host off after its fence has switched it on again, as if it
// were broken. Its peer goes on alone and must not fence it twice.
func (tr *trial) holdOff(lost, survivor string) {
	tr.Helper()
	tr.Eventually(2*time.Minute, survivor+" has noted that it goes on alone", func() error {
		r, err := tr.Etcd(tr.Context(), survivor)
		if err == nil && r.Snapshot.Record.Value.State != state.EtcdSole {
			err = fmt.Errorf("it is %s: %s %s", r.Snapshot.Record.Value.State, r.Verdict.Reason, r.Problem)
		}
		return err
	})
	tr.Eventually(2*time.Minute, "the fence of "+lost+" is over", func() error {
		st, err := tr.PowerOf(tr.Context(), lost)
		if err == nil && st.Power == lab.PowerOff && st.BMC == "off" {
			err = errors.New("it was not switched on again")
		}
		return err
	})
	tr.Switch(lost, lab.ActionCut)
}

// rollOutAlone replaces the routers while one host is off. The survivor's
// router must be replaced, and the roll-out must wait for no other.
func (tr *trial) rollOutAlone(survivor string) {
	tr.Helper()
	before, err := tr.readyRouter(ingress.DefaultName, survivor)
	if err != nil {
		tr.Fatal(err)
	}
	since := time.Now()
	tr.rollRouters(ingress.DefaultName)
	tr.Eventually(rolloutWithin, "a new router on "+survivor+" while its peer is off", func() error {
		now, err := tr.readyRouter(ingress.DefaultName, survivor)
		if err == nil && now.UID == before.UID {
			err = errors.New("it is the one from before")
		}
		return err
	})
	tr.Trial.Took("roll-out while alone", time.Since(since))
	tr.Steady("by the new router")
	tr.Noticed("roll-out while alone", since)
}

// available checks that the cluster never reported a missing ingress.
func (p *places) available(tr *trial) {
	tr.Helper()
	p.stop()
	if p.unavailable != "" {
		tr.Errorf("the default IngressController said that it is not available: %s", p.unavailable)
	}
}
