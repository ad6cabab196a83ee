package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/state"
)

var (
	pinnedBefore = strings.Repeat("ab", 32)
	shownNow     = strings.Repeat("cd", 32)
)

// pinningOf returns a run of fencing pin on a host whose device was pinned at
// first sight. The BMC shows the given certificate.
func pinningOf(t *testing.T, in, shows string, f pinFlags) (*pinning, *bytes.Buffer) {
	t.Helper()
	r, out := rotationOf(t, in, rotateFlags{})
	dev := deviceBefore()
	dev.Insecure, dev.FirstSight, dev.Fingerprint = true, true, pinnedBefore
	putDevice(t, r.store, dev)
	r.store.Test = func(_ context.Context, dev state.FencingDevice) fence.Report {
		rep := fence.Report{Target: dev.Target, Identity: fence.IdentityMatches}
		if dev.Fingerprint != shows {
			rep.Problems = []string{"it shows another certificate"}
		}
		return rep
	}
	if f.output == "" {
		f.output = "text"
	}
	return &pinning{
		pinFlags: f, streams: r.streams, store: r.store, cluster: r.cluster, clear: r.clear,
		shown: func(context.Context, state.FencingDevice) (redfish.ShownCertificate, error) {
			return redfish.ShownCertificate{Fingerprint: shows, Subject: "CN=iDRAC", Issuer: "CN=iDRAC", Ends: time.Unix(0, 0)}, nil
		},
	}, out
}

func (p *pinning) device(t *testing.T) state.FencingDevice {
	t.Helper()
	dev, err := p.store.Read("cp-1")
	if err != nil {
		t.Fatal(err)
	}
	return dev
}

func TestADryRunOfAPinShowsBothCertificatesAndChangesNothing(t *testing.T) {
	p, out := pinningOf(t, "", shownNow, pinFlags{dryRun: true})
	if err := p.run(t.Context(), "cp-1"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"certificate OTHER than", pinnedBefore, shownNow, "CN=iDRAC, signed by itself"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no word of %s: %s", want, out)
		}
	}
	p.output = "json"
	out.Reset()
	if err := p.run(t.Context(), "cp-1"); err != nil {
		t.Fatal(err)
	}
	var both pins
	if err := json.Unmarshal(out.Bytes(), &both); err != nil || both.Pinned != pinnedBefore || both.Shown.Fingerprint != shownNow || both.Same || !both.FirstSight {
		t.Errorf("%+v, %v: %s", both, err, out)
	}
	if dev := p.device(t); dev.Fingerprint != pinnedBefore || p.store.IsPending("cp-1") {
		t.Errorf("it was changed: %+v", dev)
	}
}

func TestOnlyWhatAPersonAcceptsIsPinned(t *testing.T) {
	for name, c := range map[string]struct {
		in    string
		flags pinFlags
		takes bool
		says  string
	}{
		"yes":                    {"yes\n", pinFlags{}, true, "pinned: the BMC accepts the account"},
		"no":                     {"no\n", pinFlags{}, false, "nothing was changed"},
		"nothing":                {"", pinFlags{}, false, "nothing was changed"},
		"the right one is named": {"", pinFlags{fingerprint: strings.ToUpper(shownNow)}, true, "pinned"},
		"another one is named":   {"yes\n", pinFlags{fingerprint: strings.Repeat("ef", 32)}, false, strings.Repeat("ef", 32)},
		"nobody is asked":        {"", pinFlags{yes: true}, true, "pinned"},
	} {
		p, out := pinningOf(t, c.in, shownNow, c.flags)
		err := p.run(t.Context(), "cp-1")
		if (err == nil) != c.takes || err != nil && !strings.Contains(err.Error(), c.says) || err == nil && !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		want := pinnedBefore
		if c.takes {
			want = shownNow
		}
		if dev := p.device(t); dev.Fingerprint != want || dev.FirstSight == c.takes || p.store.IsPending("cp-1") != c.takes || dev.Password != "old words" {
			t.Errorf("%s: %+v, to follow: %v", name, dev, p.store.IsPending("cp-1"))
		}
	}
}

func TestAnInterruptEndsEachQuestionAboutFencing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		interrupt()
		silent, end := io.Pipe()
		p, _ := pinningOf(t, "", shownNow, pinFlags{})
		p.streams.In = silent
		for question, err := range map[string]error{
			"pin":       p.run(ctx, "cp-1"),
			"rehearsal": (&verifyFlags{}).consent(ctx, p.streams, []string{"cp-1"}),
		} {
			if codeOf(err) != command.ExitNotConfirmed || !strings.Contains(err.Error(), "interrupted: nothing was changed") {
				t.Errorf("%s: %v", question, err)
			}
		}
		if dev := p.device(t); dev.Fingerprint != pinnedBefore {
			t.Errorf("it was changed: %+v", dev)
		}
		_ = end.Close()
	})
}

func TestAPinThatAPersonComparedIsHisOwn(t *testing.T) {
	p, _ := pinningOf(t, "yes\n", pinnedBefore, pinFlags{})
	if err := p.run(t.Context(), "cp-1"); err != nil || p.device(t).FirstSight {
		t.Errorf("what was pinned at first sight, and was compared: %v, %+v", err, p.device(t))
	}
	p.streams.In = strings.NewReader("")
	p.store.Test = func(context.Context, state.FencingDevice) fence.Report {
		t.Error("the account was tried, though nothing is to be changed")
		return fence.Report{}
	}
	if err := p.run(t.Context(), "cp-1"); err != nil {
		t.Errorf("once more: %v", err)
	}
}

func TestABMCThatRefusesTheAccountIsNotPinned(t *testing.T) {
	p, _ := pinningOf(t, "yes\n", shownNow, pinFlags{})
	p.store.Test = func(context.Context, state.FencingDevice) fence.Report {
		return fence.Report{Problems: []string{"401"}}
	}
	if err := p.run(t.Context(), "cp-1"); err == nil || p.device(t).Fingerprint != pinnedBefore {
		t.Errorf("%v, %+v", err, p.device(t))
	}
	p.shown = func(context.Context, state.FencingDevice) (redfish.ShownCertificate, error) {
		return redfish.ShownCertificate{}, errors.New("connection refused")
	}
	if err := p.run(t.Context(), "cp-1"); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
}

func TestARotationLeavesThePinAndAnAuthorityTakesItsPlace(t *testing.T) {
	r, _ := rotationOf(t, "new words\n", rotateFlags{passwordFile: "-"})
	dev := deviceBefore()
	dev.Insecure, dev.FirstSight, dev.Fingerprint = true, true, pinnedBefore
	putDevice(t, r.store, dev)
	if err := r.run(t.Context(), "cp-1"); err != nil {
		t.Fatal(err)
	}
	got, err := r.store.Read("cp-1")
	if err != nil || got.Fingerprint != pinnedBefore || !got.FirstSight || got.Password != "new words" {
		t.Errorf("%+v, %v", got, err)
	}
	r.rotateFlags = rotateFlags{verification: "Enabled"}
	if err := r.run(t.Context(), "cp-1"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.store.Read("cp-1"); err != nil || got.Fingerprint != "" || got.FirstSight || got.Insecure {
		t.Errorf("%+v, %v", got, err)
	}
	r.rotateFlags = rotateFlags{verification: "Disabled", fingerprint: shownNow}
	if err := r.run(t.Context(), "cp-1"); err != nil {
		t.Fatal(err)
	}
	if got, err := r.store.Read("cp-1"); err != nil || got.Fingerprint != shownNow || got.FirstSight {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestMistakesOfAPinAreTold(t *testing.T) {
	for _, args := range [][]string{{"fencing", "pin"}, {"fencing", "pin", "cp-1", "--fingerprint", "SHA1:ab"}} {
		if code, _, errs := runLine(t, args...); code != ExitUsage {
			t.Errorf("%q: exit %d: %s", args, code, errs)
		}
	}
}
