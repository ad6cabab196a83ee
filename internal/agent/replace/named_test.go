package replace

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

// newRenaming returns a host that stays, and a plan whose new host is called cp-3.
func newRenaming(t *testing.T) (l *lab, job Job, named *int) {
	t.Helper()
	l, job = newLab(t)
	order := order
	order.Wish.New.Name, order.Device.Target = "cp-3", "cp-3"
	job.Plan.New, job.Order = order.Wish.New, &order
	l.store, l.Hosts = fence.Store{Files: records.Files{Root: l.root}}, []string{"cp-1", "cp-2"}
	named = new(int)
	l.NamedIn = func(p replace.Plan) bool { return *named > 0 && p.New.Name == "cp-3" }
	l.Name = func(_ context.Context, p replace.Plan, dev state.FencingDevice) error {
		if p.New.Name != "cp-3" || dev.Password != "geheim" {
			return errors.New("it gets another host's device")
		}
		*named++
		return nil
	}
	l.api.Secrets["openshift-etcd/fencing-credentials-cp-2"] = map[string][]byte{"password": []byte("old")}
	if _, err := l.files.WriteDevice(state.FencingDevice{Target: "cp-2", Address: "https://old", Username: "u", Password: "p"}); err != nil {
		t.Fatal(err)
	}
	return l, job, named
}

func TestTheSiteNamesTheNewHostOnceNothingOfTheOldOneIsLeft(t *testing.T) {
	l, job, named := newRenaming(t)
	do := l.world().Do
	for _, want := range []replace.Act{
		replace.ChangeKey, replace.PutToken, replace.ChangeJoin, replace.PutGrave, replace.DropNode, replace.DropPods, replace.DropSecret,
		replace.LeaveRing, replace.Forget, replace.Retire, replace.NameSite,
	} {
		if d := l.decides(t, job); d.Act != want {
			t.Fatalf("the decision is %+v, want %s", d, want)
		}
		if *named > 0 {
			t.Fatalf("the site names the new host before %s", want)
		}
		for range 2 { // each may be done again
			if err := do[want](t.Context(), job); err != nil {
				t.Fatalf("%s: %v", want, err)
			}
		}
		job.Plan.Reloaded = true
	}
	if d := l.decides(t, job); d.Rule != "newcomer.install" || !strings.Contains(d.Words, "cp-3") || *named != 2 {
		t.Errorf("%+v, named %d times", d, *named)
	}
	if _, left := l.api.Secrets["openshift-etcd/fencing-credentials-cp-2"]; left {
		t.Error("the cluster has the account of the old host's BMC")
	}
	if f := l.look(t.Context(), job); !state.Is(f.OldDevice, true) {
		t.Errorf("while the old host may have to be switched off its device stays: %+v", f.OldDevice)
	}
	for range 2 {
		if err := do[replace.DropDevice](t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	if targets, err := l.files.Targets(); err != nil || slices.Contains(targets, "cp-2") || !state.Is(l.look(t.Context(), job).OldDevice, false) {
		t.Errorf("%q, %v", targets, err)
	}
}

func TestWithoutTheOrderOfTheCommandTheSiteIsNotRewritten(t *testing.T) {
	l, job, named := newRenaming(t)
	job.Order = nil
	if err := l.world().Do[replace.NameSite](t.Context(), job); err == nil || !strings.Contains(err.Error(), "--bmc-address") || *named > 0 {
		t.Error(err)
	}
}

func TestTheDeviceOfANewHostOfTheSameNameIsNoOldOne(t *testing.T) {
	l, job, _ := newRenaming(t)
	job.Plan.New.Name = "cp-2"
	if f := l.look(t.Context(), job); !state.Is(f.OldDevice, false) {
		t.Errorf("%+v", f.OldDevice)
	}
	if err := l.world().Do[replace.DropDevice](t.Context(), job); err == nil {
		t.Error("the new host's device is removed")
	}
}

// The keeper has its peer's name from Pacemaker, which gets the new one before the new host enters. A
// retirement of another name does not count, and the host that stays would wait for a person after
// a power cut.
func TestTheRetirementNamesThePeerThatTheKeeperHas(t *testing.T) {
	l, job, _ := newRenaming(t)
	retire := l.world().Do[replace.Retire]
	if err := errors.Join(l.leaveRing(t.Context(), job), retire(t.Context(), job)); err != nil {
		t.Fatal(err)
	}
	job.Plan.Stage, job.Plan.Reloaded = replace.Joining, true
	if f := l.look(t.Context(), job); !state.Is(f.Retirement, true) || f.Misnamed {
		t.Fatalf("%+v, %t", f.Retirement, f.Misnamed)
	}
	p := state.EtcdParameters{Nodes: map[string]netip.Addr{"cp-1": netip.MustParseAddr("10.98.0.11"), "cp-3": netip.MustParseAddr("10.98.0.13")}}
	if err := l.files.WriteParameters(p); err != nil {
		t.Fatal(err)
	}
	if d := l.decides(t, job); d.Rule != "joining.alone" || d.Act != replace.Retire {
		t.Fatalf("%+v", d)
	}
	if err := retire(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if r, err := l.files.Retired(); err != nil || r.Value.Peer != "cp-3" || l.look(t.Context(), job).Misnamed {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestTheNameOfANewHostIsLookedForInTheClusterAndTheSite(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*lab, *replacement.Order)
		want   string
	}{
		"a new name":              {func(*lab, *replacement.Order) {}, ""},
		"one that the site names": {func(l *lab, _ *replacement.Order) { l.Hosts = append(l.Hosts, "cp-3") }, "Duplicate"},
		"one that was taken out":  {func(l *lab, _ *replacement.Order) { l.api.Graves["cp-3"] = retired.Host{Name: "cp-3", When: noon} }, "stays retired"},
		"one that a plan for a second family does not name": {func(l *lab, _ *replacement.Order) {
			l.api.Infra.DualStack = `{"id":"f1","by":"ada","hosts":{"cp-1":{"controlPlane":true},"cp-2":{"controlPlane":true}}}`
		}, "does not name cp-3"},
		"one that it names": {func(l *lab, _ *replacement.Order) {
			l.api.Infra.DualStack = `{"id":"f1","by":"ada","hosts":{"cp-1":{"controlPlane":true},"cp-3":{"controlPlane":true}}}`
		}, ""},
		"one that is no node name": {func(_ *lab, o *replacement.Order) { o.Wish.New.Name = "cp_3" }, "must be a DNS name"},
	} {
		l, job, _ := newRenaming(t)
		o := *job.Order
		c.change(l, &o)
		job.Plan, job.Order = nil, &o
		f := l.look(t.Context(), job)
		if !f.Taken.Known || (c.want == "") != (f.Taken.Value == "") || !strings.Contains(f.Taken.Value, c.want) {
			t.Errorf("%s: %+v, want %q", what, f.Taken, c.want)
		}
	}
	l, job, _ := newRenaming(t)
	job.Plan, l.open = nil, func() (API, error) { return nil, errors.New("no API") }
	if f := l.look(t.Context(), job); f.Taken.Known {
		t.Errorf("without the API the name counts as known: %+v", f.Taken)
	}
}

// An act that has the agent start anew ends with the agent: nobody has to read that it was
// interrupted.
func TestAnActThatEndsWithTheAgentIsNoFailure(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	s := newSite()
	s.done[replace.NameSite] = false
	a := s.agent(t.TempDir())
	do := a.World.Do[replace.NameSite]
	a.World.Do[replace.NameSite] = func(ctx context.Context, job Job) error {
		stop(errors.New("the agent ends"))
		return errors.Join(do(context.WithoutCancel(ctx), job), context.Cause(ctx))
	}
	if err := a.Store.PutOrder(order); err != nil {
		t.Fatal(err)
	}
	_, err := a.Step(ctx)
	if err == nil || err.Error() != "the agent ends" {
		t.Errorf("%v", err)
	}
	if d, err := a.Store.Doing(); err != nil || d == nil || d.Problem != "" {
		t.Errorf("a person reads %+v, %v", d, err)
	}
	if _, err := a.Step(t.Context()); err != nil {
		t.Error(err)
	}
}
