package names

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAHostMakesItsShortNameKnownOnTheInterfacesOfItsAddresses(t *testing.T) {
	v := demo()
	v.Host.NodeName = "Host-1.rack1.example.com"
	v.Addresses[1].Interface = "eth1"
	a, ok := DecideAdvert(v)
	if want := "{demo Workstation-host-1 host-1 [cluster=demo] [192.0.2.21 2001:db8::21] [eth0 eth1]}"; !ok || fmt.Sprint(a) != want {
		t.Errorf("%v\nwant %s", a, want)
	}
}

func TestNobodyIsMadeKnownWhoIsNoneOrHasNoNameOrAddressYet(t *testing.T) {
	for why, change := range map[string]func(*state.NetworkView){
		"bootstrap":          func(v *state.NetworkView) { v.Role = state.RoleBootstrap },
		"the site's names":   func(v *state.NetworkView) { v.Settings.ManagedVIPs = false },
		"no name":            func(v *state.NetworkView) { v.Host.NodeName = "" },
		"localhost":          func(v *state.NetworkView) { v.Host.NodeName = "localhost.localdomain" },
		"no cluster":         func(v *state.NetworkView) { v.Settings.Cluster = "" },
		"no address":         func(v *state.NetworkView) { v.Host.Addresses = nil },
		"address not usable": func(v *state.NetworkView) { v.Host.Addresses, v.Addresses[0].Usable = v.Host.Addresses[:1], false },
		"address not there":  func(v *state.NetworkView) { v.Host.Addresses = addrs("192.0.2.99") },
	} {
		v := demo()
		change(&v)
		if a, ok := DecideAdvert(v); ok {
			t.Errorf("%s: %+v", why, a)
		}
	}
}

func TestHardCase35_AHostThatMovesToAnotherNICIsMadeKnownThere(t *testing.T) {
	v := demo()
	for i := range v.Addresses {
		v.Addresses[i].Interface = "bond0.354"
	}
	if a, ok := DecideAdvert(v); !ok || fmt.Sprint(a.Interfaces) != "[bond0.354]" {
		t.Errorf("%+v", a)
	}
}

func TestOnlyTheHostsOwnAddressesAreMadeKnownOfAllThatItsNICHas(t *testing.T) {
	v := demo()
	v.Addresses = append(v.Addresses, state.HostAddress{Interface: "eth0", Prefix: netip.MustParsePrefix("192.0.2.5/32"), Usable: true, Label: "vip"})
	if a, ok := DecideAdvert(v); !ok || len(a.Addresses) != 2 {
		t.Errorf("%+v", a)
	}
}

func TestHardCase35_ALongNameKeepsItsEndsAroundAHash(t *testing.T) {
	for _, n := range []int{1, 62, 63} {
		if text := strings.Repeat("x", n); Label(text) != text {
			t.Errorf("%d bytes were changed", n)
		}
	}
	long := "a-very-long-cluster-name Workstation-" + strings.Repeat("x", 40) + "-and-its-end"
	got := Label(long)
	if len(got) != 63 || !strings.HasPrefix(got, "a-very-long-clu") || !strings.HasSuffix(got, "xxxx-and-its-end") {
		t.Errorf("%q", got)
	}
	// printf %s "$long" | sha256sum | cut -c-32
	if hash := got[15:47]; strings.Trim(hash, "0123456789abcdef") != "" {
		t.Errorf("%q", hash)
	}
	if Label(long+"x") == got || Label("b"+long[1:]) == got {
		t.Error("two names became one")
	}
}

func TestALongNameThatIsCutInACharacterStaysText(t *testing.T) {
	if got := Label(strings.Repeat("ä", 40)); strings.ToValidUTF8(got, "") != got || len(got) > 63 {
		t.Errorf("%q", got)
	}
}
