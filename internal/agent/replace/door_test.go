package replace

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/replace"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

const ask = `{"machine":{"UUID":"new"},"address":"10.98.0.12","arch":"amd64"}`

func newDoor(t *testing.T, stage replace.Stage) *Door {
	t.Helper()
	d := &Door{
		Store: replacement.Store{Root: t.TempDir(), Write: powercut.WriteFile}, Cluster: "site-1", Now: func() time.Time { return noon },
		Manifest: func(_ []decide.Node, self string) ([]byte, error) { return []byte("pod of " + self), nil },
	}
	conf, err := os.ReadFile("../../decide/twonode/testdata/corosync.conf")
	if err != nil {
		t.Fatal(err)
	}
	put := func(path string, data []byte) {
		t.Helper()
		if err := powercut.WriteFile(d.Store.Path(path), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(corosync.Path, conf)
	put(state.EtcdParametersPath, []byte("{}"))
	if stage == "" {
		return d
	}
	plan := replace.Plan{
		Format: 1, ID: "p1", Survivor: "cp-1", Old: replace.Old{Name: "cp-2"}, New: replace.New{Name: "cp-2"}, Stage: stage,
		Newcomer: replace.Newcomer{Machine: state.Machine{UUID: "new"}, Address: "10.98.0.12"},
	}
	if err := errors.Join(d.Store.PutPlan(plan), d.Store.PutSecrets(replacement.Secrets{Plan: "p1", Token: strings.Repeat("s", 32)})); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAHostThatNoPlanNamesIsToldWhatToType(t *testing.T) {
	for name, c := range map[string]struct {
		stage replace.Stage
		host  string
	}{"no plan": {"", "cp-2"}, "a plan for another name": {replace.Retired, "cp-9"}, "a plan that was taken back": {replace.Aborted, "cp-9"}, "the same, by its own name": {replace.Aborted, "cp-2"}} {
		_, err := newDoor(t, c.stage).Ask(t.Context(), c.host, []byte(ask))
		if _, refused := errors.AsType[joining.Refusal](err); !refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// kubeadm would take it for a further member of a first installation.
func TestAHostWhosePlanIsWholeIsNotLetInAsAtAnInstallation(t *testing.T) {
	for name, c := range map[string]struct {
		ask      string
		tidy, in bool
	}{
		"the newcomer, cut right after it entered": {ask, false, true},
		"the same, and the secrets are gone":       {ask, true, false},
		"another machine":                          {strings.Replace(ask, "new", "other", 1), false, false},
		"from another address":                     {strings.Replace(ask, "10.98.0.12", "10.98.0.13", 1), false, false},
		"nobody says which machine":                {"{}", false, false},
	} {
		d := newDoor(t, replace.Whole)
		if c.tidy && d.Store.DropSecrets() != nil {
			t.Fatal("the secrets cannot be dropped")
		}
		e, err := d.Ask(t.Context(), "cp-2", []byte(c.ask))
		_, refused := errors.AsType[joining.Refusal](err)
		if refused == c.in || c.in != (len(e.Input) > 0) || !c.in && !strings.Contains(err.Error(), "holdfast host replace") {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	d := newDoor(t, replace.Aborted)
	plan, err := d.Store.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if plan.Grows = true; d.Store.PutPlan(*plan) != nil {
		t.Fatal("the plan cannot be written")
	}
	if e, err := d.Ask(t.Context(), "cp-2", []byte(ask)); err == nil || !strings.Contains(err.Error(), "holdfast topology apply, on cp-1") {
		t.Errorf("a growth that was taken back: %+v, %v", e, err)
	}
}

func TestAtAnInstallationEtcdBeginsUnderKubelet(t *testing.T) {
	d := newDoor(t, "")
	if err := os.Remove(d.Store.Path(state.EtcdParametersPath)); err != nil {
		t.Fatal(err)
	}
	if e, err := d.Ask(t.Context(), "cp-2", []byte(ask)); e.Needed || err != nil {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestANewcomerGetsTheSecretOnlyOnceItIsLetIn(t *testing.T) {
	for name, c := range map[string]struct {
		stage replace.Stage
		ask   string
		gets  bool
	}{
		"not verified":         {replace.Retired, ask, false},
		"let in":               {replace.Joining, ask, true},
		"another machine":      {replace.Joining, strings.Replace(ask, "new", "other", 1), false},
		"from another address": {replace.Joining, strings.Replace(ask, "10.98.0.12", "10.98.0.13", 1), false},
	} {
		d := newDoor(t, c.stage)
		e, err := d.Ask(t.Context(), "cp-2", []byte(c.ask))
		if err != nil || !e.Needed || (len(e.Input) > 0) != c.gets || (e.Waits == "") != c.gets {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		if r, err := d.Store.Request(); err != nil || r == nil || !r.At.Equal(noon) {
			t.Errorf("%s: it was not written down: %+v, %v", name, r, err)
		}
		if !c.gets {
			continue
		}
		var in decide.Input
		if err := json.Unmarshal(e.Input, &in); err != nil || in.Validate(decide.Auth) != nil || in.Self != "cp-2" || in.Manifest != "pod of cp-2" || len(in.Fencing) > 0 {
			t.Errorf("%+v, %v", in, err)
		}
	}
}

// A plan that ended without its newcomer lets nobody in, and kubeadm must not try.
func TestANewcomerThatWasGivenUpIsRefused(t *testing.T) {
	d := newDoor(t, replace.Whole)
	plan, err := d.Store.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if plan.Ended = "cp-2 was lost"; d.Store.PutPlan(*plan) != nil {
		t.Fatal("the plan cannot be written")
	}
	if e, err := d.Ask(t.Context(), "cp-2", []byte(ask)); err == nil || !strings.Contains(err.Error(), "holdfast host replace cp-2") {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestANewcomerThatIsNotListedYetWaits(t *testing.T) {
	d := newDoor(t, replace.Joining)
	conf, err := os.ReadFile(d.Store.Path(corosync.Path))
	if err != nil {
		t.Fatal(err)
	}
	alone, err := decide.Leave(conf, "cp-2")
	if err != nil {
		t.Fatal(err)
	}
	if err := powercut.WriteFile(d.Store.Path(corosync.Path), alone, 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err := d.Ask(t.Context(), "cp-2", []byte(ask)); err != nil || e.Waits == "" || len(e.Input) > 0 {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestAMachineWithoutAnIdentityIsRefused(t *testing.T) {
	for _, text := range []string{"", "{}", `{"address":"10.98.0.12"}`, `{"machine":{"UUID":"new"}}`} {
		if _, err := newDoor(t, replace.Retired).Ask(t.Context(), "cp-2", []byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
