package links

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/nic"
	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/decide/uplink"
	"github.com/holdfast/holdfast/internal/model/state"
)

var (
	_ network.Reconciler = (*Reconciler)(nil)
	_ Kernel             = nic.Kernel{}
)

// kernel plays a kernel and remembers what it is told.
type kernel struct {
	links    []uplink.Link
	settings uplink.Settings
	writes   int
	refuses  error
}

func (k *kernel) Links() ([]uplink.Link, error)      { return k.links, nil }
func (k *kernel) Settings() (uplink.Settings, error) { return k.settings, nil }

func (k *kernel) SetARP() error {
	k.writes++
	k.settings = uplink.Settings{ARPIgnore: state.Known(1), ARPAnnounce: state.Known(2)}
	return nil
}

func (k *kernel) Hear(name string) error {
	if k.refuses != nil {
		return k.refuses
	}
	k.writes++
	i := slices.IndexFunc(k.links, func(l uplink.Link) bool { return l.Name == name })
	k.links[i].AcceptRA = state.Known(2)
	return nil
}

func host() state.NetworkView {
	a := netip.MustParsePrefix("10.98.0.11/24")
	return state.NetworkView{
		Host:      state.HostFacts{Addresses: []netip.Addr{a.Addr()}},
		Addresses: []state.HostAddress{{Interface: "eth0", Prefix: a}},
	}
}

func TestAHostHearsItsRoutersThoughItForwardsAndAsksThemAtOnce(t *testing.T) {
	k := &kernel{
		settings: uplink.Settings{ARPIgnore: state.Known(0), ARPAnnounce: state.Known(0)},
		links:    []uplink.Link{{Name: "eth0", AcceptRA: state.Known(1)}, {Name: "cni0", Kind: "bridge", AcceptRA: state.Known(1)}},
	}
	var asked []string
	p := &Reconciler{Kernel: k, Solicit: func(_ context.Context, name string) error { asked = append(asked, name); return nil }}
	said, err := p.Reconcile(t.Context(), host())
	if err != nil || !strings.Contains(said, "answers ARP for its own") || !strings.Contains(said, "accepted on eth0 although") {
		t.Errorf("it says %q, %v", said, err)
	}
	if said, err := p.Reconcile(t.Context(), host()); said != "" || err != nil || k.writes != 2 || len(asked) != 1 || asked[0] != "eth0" {
		t.Errorf("again it says %q, %v; %d writes, asked on %v", said, err, k.writes, asked)
	}
	// Somebody takes it back, as a tool does that knows only the default.
	k.links[0].AcceptRA, k.settings.ARPIgnore = state.Known(1), state.Known(0)
	if said, err := p.Reconcile(t.Context(), host()); said == "" || err != nil || k.writes != 4 {
		t.Errorf("it says %q, %v; %d writes", said, err, k.writes)
	}
}

func TestWhatTheKernelRefusesIsAnErrorAndHoldsUpNothingElse(t *testing.T) {
	k := &kernel{
		settings: uplink.Settings{ARPIgnore: state.Known(0), ARPAnnounce: state.Known(2)},
		links:    []uplink.Link{{Name: "eth0", AcceptRA: state.Known(1)}}, refuses: errors.New("read-only file system"),
	}
	p := &Reconciler{Kernel: k, Solicit: func(context.Context, string) error { return nil }}
	said, err := p.Reconcile(t.Context(), host())
	if err == nil || !strings.Contains(said, "ARP") || k.writes != 1 {
		t.Errorf("it says %q, %v", said, err)
	}
}
