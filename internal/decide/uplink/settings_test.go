package uplink_test

import (
	"fmt"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/uplink"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAKernelThatAnswersForOtherInterfacesIsLoose(t *testing.T) {
	known, unknown := state.Known[int], state.Fact[int]{}
	for _, c := range []struct {
		ignore, announce state.Fact[int]
		want             bool
	}{
		{known(0), known(2), true},
		{known(1), known(2), false},
		{known(2), known(2), false},
		{known(1), known(1), true},
		{known(1), known(0), true},
		{unknown, known(2), false},
		{known(1), unknown, false},
		{unknown, unknown, false},
		{unknown, known(1), true},
	} {
		if got := (uplink.Settings{ARPIgnore: c.ignore, ARPAnnounce: c.announce}).Loose(); got != c.want {
			t.Errorf("arp_ignore %+v, arp_announce %+v: %v", c.ignore, c.announce, got)
		}
	}
}

func TestAnUplinkMayBeMadeInEachOfTheseWays(t *testing.T) {
	for kind, want := range map[string]string{
		"bond": "[x]", "team": "[x]", "vlan": "[x]", "bridge": "[x]", "macvlan": "[x]", "vxlan": "[]", "dummy": "[]", "": "[]",
	} {
		links := []uplink.Link{{Name: "x", Kind: kind, Lower: []string{"eth0"}}, {Name: "eth0", Physical: true, Member: true}}
		if got := fmt.Sprint(uplink.Uplinks(links, nil)); got != want {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

func TestTheLoopbackLeadsNowhereWhateverAddressItHas(t *testing.T) {
	if got := uplink.Uplinks([]uplink.Link{{Name: "lo"}}, []string{"lo"}); len(got) != 0 {
		t.Error(got)
	}
}

// stack returns interfaces of which each is made of the next one, and the last
// one is a NIC.
func stack(levels int) []uplink.Link {
	links := []uplink.Link{{Name: "l0", Physical: true, Member: true}}
	for i := range levels {
		links = append(links, uplink.Link{Name: fmt.Sprintf("l%d", i+1), Kind: "vlan", Lower: []string{fmt.Sprintf("l%d", i)}, Member: i+1 < levels})
	}
	return links
}

func TestFourLevelsOfInterfacesAreFollowed(t *testing.T) {
	for levels, want := range map[int]int{1: 1, 4: 1, 5: 0} {
		if got := uplink.Uplinks(stack(levels), nil); len(got) != want {
			t.Errorf("%d levels: %v", levels, got)
		}
	}
	loop := []uplink.Link{{Name: "a", Kind: "bridge", Lower: []string{"b"}}, {Name: "b", Kind: "vlan", Lower: []string{"a"}}}
	if got := uplink.Uplinks(loop, nil); len(got) != 0 {
		t.Errorf("interfaces made of each other: %v", got)
	}
}

func TestDeafUplinksAreNamedInOrder(t *testing.T) {
	links := []uplink.Link{
		{Name: "eth1", Physical: true, AcceptRA: state.Known(1)},
		{Name: "eth0", Physical: true, AcceptRA: state.Known(1)},
		{Name: "eth2", Physical: true, AcceptRA: state.Known(uplink.Always)},
	}
	if got := fmt.Sprint(uplink.Deaf(links, nil)); got != "[eth0 eth1]" {
		t.Error(got)
	}
}
