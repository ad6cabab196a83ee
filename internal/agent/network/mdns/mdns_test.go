package mdns

import (
	"errors"
	"net/netip"
	"testing"

	publisher "github.com/holdfast/holdfast/internal/adapter/mdns"
	"github.com/holdfast/holdfast/internal/agent/network"
	decide "github.com/holdfast/holdfast/internal/decide/names"
	"github.com/holdfast/holdfast/internal/model/state"
)

var (
	_ network.Reconciler = (*Reconciler)(nil)
	_ Publisher          = (*publisher.Publisher)(nil)
)

// recorder is a Publisher that keeps what it is to publish.
type recorder struct {
	said  string
	byes  int
	fails error
}

func (r *recorder) Set(a decide.Advert) (bool, error) {
	text := a.Host + a.Addresses[0].String() + a.Interfaces[0]
	changed := text != r.said
	r.said = text
	return changed, r.fails
}

func (r *recorder) Close() error { r.byes++; r.said = ""; return nil }

func view() state.NetworkView {
	return state.NetworkView{
		Settings: state.NetworkSettings{Cluster: "demo", ManagedVIPs: true}, Role: state.RoleMaster,
		Host: state.HostFacts{NodeName: "host-0", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.20")}, Interface: "eth0"},
	}
}

func reconcile(t *testing.T, p *Reconciler, v state.NetworkView) string {
	t.Helper()
	changed, err := p.Reconcile(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func TestAHostIsMadeKnownOnceAndSaysGoodbyeAtTheEnd(t *testing.T) {
	r := &recorder{}
	p := New(r)
	if got := reconcile(t, p, view()); got != "published host-0 with [192.0.2.20]" {
		t.Error(got)
	}
	if got := reconcile(t, p, view()); got != "" {
		t.Error(got)
	}
	if err := p.Withdraw(t.Context()); err != nil || r.byes != 1 {
		t.Errorf("%v, %d goodbyes", err, r.byes)
	}
	if err := p.Withdraw(t.Context()); err != nil || r.byes != 1 {
		t.Errorf("%v, %d goodbyes", err, r.byes)
	}
}

func TestABootstrappingHostIsNotMadeKnownAndOneThatTurnsIntoAControlPlaneIs(t *testing.T) {
	r := &recorder{}
	p := New(r)
	v := view()
	v.Role = state.RoleBootstrap
	if got := reconcile(t, p, v); got != "" || r.said != "" || r.byes != 0 {
		t.Errorf("%q, said %q", got, r.said)
	}
	if reconcile(t, p, view()); r.said == "" {
		t.Error("it was not made known")
	}
}

func TestHardCase35_AHostThatLosesItsAddressSaysGoodbyeAndIsKnownAgainOnItsNextNIC(t *testing.T) {
	r := &recorder{}
	p := New(r)
	reconcile(t, p, view())
	v := view()
	v.Host.Addresses = nil
	if got := reconcile(t, p, v); got != "no longer published" || r.byes != 1 {
		t.Errorf("%q, %d goodbyes", got, r.byes)
	}
	v = view()
	v.Host.Interface = "bond0.354"
	if reconcile(t, p, v); r.said != "host-0192.0.2.20bond0.354" {
		t.Error(r.said)
	}
}

func TestAPublisherThatFailsIsAskedAgain(t *testing.T) {
	r := &recorder{fails: errors.New("no")}
	p := New(r)
	if _, err := p.Reconcile(t.Context(), view()); err == nil {
		t.Error("an error was lost")
	}
	r.fails, r.said = nil, ""
	if got := reconcile(t, p, view()); got == "" {
		t.Error("it was not tried again")
	}
}
