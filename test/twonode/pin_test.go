package twonode_test

import (
	"encoding/json"
	"fmt"
	"testing"

	etcdv1 "github.com/openshift/api/etcd/v1"

	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestBMCCertificateRenewed makes a BMC create a new certificate, as after an
// update of its firmware. That must be visible within one check interval, and
// end with `holdfast fencing pin`, after which the host can be fenced through
// it.
func TestBMCCertificateRenewed(t *testing.T) {
	scenario(t, "BMC: certificate renewed", 1, func(tr *trial) {
		target := "cp-2"
		tr.byName = true
		tr.see()
		before := tr.pinned(target)
		if before == "" {
			tr.Fatal("the first test of the BMC has pinned nothing")
		}
		defer tr.restoresCertificate(target)
		tr.fault(lab.Fault{Kind: lab.FaultBMC, Host: target, Quirk: "certificate", Value: "renewed"})
		tr.measured("the API shows that "+target+" cannot be fenced", checkInterval+checkTakes, func() error {
			return tr.inAPI(target, "False", etcdv1.NodeFencingAvailableConditionType)
		})
		tr.measured("the alert is raised", checkTakes, func() error { return tr.alerted(target, true) })
		tr.statusSays(target, "cannot be fenced", "holdfast fencing pin "+target, before)
		shown := tr.shownBy(target)
		tr.on(tr.other(target), "holdfast fencing pin "+target+" --fingerprint "+shown)
		if got := tr.pinned(target); got != shown || got == before {
			tr.Errorf("pinned is %s, shown %s, before %s", got, shown, before)
		}
		h, _ := tr.Lab.Layout.Host(target)
		tr.allClear(target, h.BMC.Password)
		tr.fenced(0)
	})
}

// restoresCertificate restores the BMC's certificate without a fault, however
// the scenario ends: the next one needs a BMC that fences.
func (tr *trial) restoresCertificate(target string) {
	tr.Helper()
	if _, err := tr.Power.Clear(tr.Context(), lab.ClearRequest{}); err != nil {
		tr.Error(err)
	}
	if out, err := tr.Sh(tr.Context(), tr.other(target), "holdfast fencing pin "+target+" --yes"); err != nil {
		tr.Errorf("%v: %s", err, out)
	}
}

// pinned returns the certificate that the host that fences the target trusts.
func (tr *trial) pinned(target string) string {
	tr.Helper()
	var dev state.FencingDevice
	if err := tr.readOn(tr.other(target), state.FencingDir+"/"+target+".json", &dev); err != nil {
		tr.Fatal(err)
	}
	return dev.Fingerprint
}

// shownBy returns the certificate that the target's BMC shows, as reported by
// the command for administrators.
func (tr *trial) shownBy(target string) string {
	tr.Helper()
	out := tr.on(tr.other(target), "holdfast fencing pin "+target+" --dry-run -o json")
	var said struct {
		Shown struct{ Fingerprint string }
		Same  bool
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil || said.Same || said.Shown.Fingerprint == "" {
		tr.Fatal(fmt.Errorf("fencing pin says %q: %w", out, err))
	}
	return said.Shown.Fingerprint
}
