package holders

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func view(annotation string, held ...string) state.NetworkView {
	v := state.NetworkView{
		Settings: state.NetworkSettings{APIVIPs: []netip.Addr{netip.MustParseAddr("10.98.0.5"), netip.MustParseAddr("fd98::5")}},
		Host:     state.HostFacts{NodeName: "cp-1"},
		Nodes:    state.Known([]state.Node{{Name: "cp-1", Annotations: map[string]string{Annotation: annotation}}}),
	}
	for _, h := range held {
		a := netip.MustParseAddr(h)
		v.Addresses = append(v.Addresses, state.HostAddress{Interface: "eth0", Prefix: netip.PrefixFrom(a, a.BitLen())})
	}
	return v
}

func TestTheNodeSaysWhatItsHostHoldsAndIsLeftAloneOtherwise(t *testing.T) {
	stale, unlisted := view("", "10.98.0.5"), view("", "10.98.0.5")
	boots := view("10.98.0.5,fd98::5", "10.98.0.5", "fd98::5")
	boots.Announces = true
	boots.Nodes.Value = append(boots.Nodes.Value, state.Node{Name: "cp-2"})
	stale.Stale = true
	unlisted.Host.NodeName = "cp-9"
	for _, c := range []struct {
		name, want string
		view       state.NetworkView
		told       bool
	}{
		{"it holds one", "10.98.0.5", view("", "10.98.0.5", "10.98.0.11"), true},
		{"it holds both", "10.98.0.5,fd98::5", view("10.98.0.5", "fd98::5", "10.98.0.5"), true},
		{"it lost them", "", view("10.98.0.5,fd98::5", "10.98.0.11"), true},
		{"it is about to boot, and holds them for a moment", "", boots, true},
		{"all is said", "", view("10.98.0.5", "10.98.0.5"), false},
		{"the API was not asked yet", "", stale, false},
		{"the API does not know the node", "", unlisted, false},
	} {
		told, got := false, ""
		a := &Announcer{Annotate: func(_ context.Context, node, name, value string) error {
			if node != "cp-1" || name != Annotation {
				t.Errorf("%s: %s of %s", c.name, name, node)
			}
			told, got = true, value
			return nil
		}}
		changed, err := a.Reconcile(t.Context(), c.view)
		if err != nil || told != c.told || got != c.want || (changed != "") != told {
			t.Errorf("%s: told %t %q, %q, %v", c.name, told, got, changed, err)
		}
	}
	a := &Announcer{Annotate: func(context.Context, string, string, string) error { return errors.New("no API") }}
	if _, err := a.Reconcile(t.Context(), view("", "10.98.0.5")); err == nil {
		t.Error("a failure is not told")
	}
}
