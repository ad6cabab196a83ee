package vrrp_test

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Frames as keepalived 2.2.7 and Linux send them.
const (
	advert4 = "02000000000b02000000000c0800" + "45c0002000010000ff7000000a62000c0a62000b" + "31e74101001400000a620005"
	advert6 = "02000000000b02000000000c86dd" + "6000000000187 0fffd980000000000000000000000000012fd980000000000000000000000000011" + "31e7410100140000fd980000000000000000000000000005"
	garp    = "ffffffffffff02000000000c0806" + "0001080006040001" + "02000000000c0a620005" + "ffffffffffff0a620005"
	naFrame = "33330000000102000000000c86dd" + "6000000000203afffd980000000000000000000000000005ff020000000000000000000000000001" + "8800000020000000" + "fd980000000000000000000000000005" + "020102000000000c"
)

func frame(t testing.TB, s string) []byte {
	t.Helper()
	var clean []byte
	for _, c := range []byte(s) {
		if c != ' ' {
			clean = append(clean, c)
		}
	}
	b, err := hex.DecodeString(string(clean))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFrames(t *testing.T) {
	const mac = "02:00:00:00:00:0c"
	for name, c := range map[string]struct {
		frame string
		want  vrrp.Frame
	}{
		"advert over IPv4":        {advert4, vrrp.Frame{MAC: mac, Advert: true, Source: addr("10.98.0.12"), RouterID: 231, Priority: 65, Announces: addrs("10.98.0.5")}},
		"advert over IPv6":        {advert6, vrrp.Frame{MAC: mac, Advert: true, Source: addr("fd98::12"), RouterID: 231, Priority: 65, Announces: addrs("fd98::5")}},
		"gratuitous ARP":          {garp, vrrp.Frame{MAC: mac, Claims: addr("10.98.0.5")}},
		"neighbour advertisement": {naFrame, vrrp.Frame{MAC: mac, Source: addr("fd98::5"), Claims: addr("fd98::5")}},
	} {
		got, ok := vrrp.ParseFrame(frame(t, c.frame))
		if diff := cmp.Diff(c.want, got, cmpopts.EquateComparable(c.want.Source)); diff != "" || !ok {
			t.Errorf("%s: %v %s", name, ok, diff)
		}
		for n := range 40 { // cut short it says nothing
			if got, ok := vrrp.ParseFrame(frame(t, c.frame)[:n]); ok && n < 34 {
				t.Errorf("%s: %d bytes were read as %+v", name, n, got)
			}
		}
	}
}

func FuzzParseFrame(f *testing.F) {
	for _, s := range []string{advert4, advert6, garp, naFrame} {
		f.Add(frame(f, s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := vrrp.ParseFrame(b)
		if ok && !got.Advert && !got.Claims.IsValid() {
			t.Errorf("%x says nothing: %+v", b, got)
		}
	})
}

func TestHardCase17_WhoAnswersForAVIPAndIsNoPeerIsAStranger(t *testing.T) {
	i := vrrp.Instance{Name: "shop_API_0", Kind: vrrp.API, VIP: addr("10.98.0.5"), Source: addr("10.98.0.11"), Peers: addrs("10.98.0.12"), RouterID: 231}
	answer := vrrp.Frame{MAC: "02:00:00:00:00:63", Claims: addr("10.98.0.5")}
	peerAdvert := vrrp.Frame{MAC: "02:00:00:00:00:0c", Advert: true, Source: addr("10.98.0.12"), RouterID: 231, Priority: 65}
	stranger := []state.VIPClaim{{VIP: addr("10.98.0.5"), By: "02:00:00:00:00:63"}}
	for _, c := range []struct {
		name   string
		frames []vrrp.Frame
		want   []state.VIPClaim
	}{
		{"a stranger answers", []vrrp.Frame{answer, answer}, stranger},
		{"a peer announces it, from whatever hardware address", []vrrp.Frame{answer, peerAdvert}, nil},
		{"a peer that does not announce it answers", []vrrp.Frame{{MAC: "02:00:00:00:00:63", Claims: addr("10.98.0.12")}, answer}, nil},
		{"this host answers", []vrrp.Frame{{MAC: "02:00:00:00:00:0b", Claims: addr("10.98.0.5")}}, nil},
		{"another address", []vrrp.Frame{{MAC: "02:00:00:00:00:63", Claims: addr("10.98.0.7")}}, nil},
		{"hard case 18: somebody announces it with our router id", []vrrp.Frame{{Advert: true, Source: addr("10.98.0.99"), RouterID: 231, Announces: addrs("10.98.0.7", "10.98.0.5")}}, []state.VIPClaim{{By: "10.98.0.99", RouterID: 231}}},
		{"gateways have the same router id", []vrrp.Frame{{Advert: true, Source: addr("10.98.0.99"), RouterID: 231, Announces: addrs("10.98.0.1")}}, nil},
		{"another router id", []vrrp.Frame{{Advert: true, Source: addr("10.98.0.99"), RouterID: 230}}, nil},
	} {
		got, _ := vrrp.Claims(vrrp.Heard{Own: []string{"02:00:00:00:00:0b"}, Frames: c.frames}, state.NetworkView{}, []vrrp.Instance{i})
		if diff := cmp.Diff(c.want, got, cmpopts.EquateComparable(i.VIP)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// A pair of gateways with our router id was reported as a claim for as long as it
// lived, and made the host listen to it all the time.
func TestHardCase18_GatewaysWithOurRouterIDAreToldOfAndClaimNothing(t *testing.T) {
	i := vrrp.Instance{Name: "shop_API_0", VIP: addr("10.98.0.5"), Source: addr("10.98.0.11"), Peers: addrs("10.98.0.12"), RouterID: 231}
	gateway := func(from string) vrrp.Frame {
		return vrrp.Frame{MAC: "00:00:5e:00:01:e7", Advert: true, Source: addr(from), RouterID: 231, Announces: addrs("10.98.0.1")}
	}
	claims, namesakes := vrrp.Claims(vrrp.Heard{Frames: []vrrp.Frame{gateway("10.98.0.3"), gateway("10.98.0.2"), gateway("10.98.0.3")}}, state.NetworkView{}, []vrrp.Instance{i})
	want := []state.VIPClaim{{By: "10.98.0.2", RouterID: 231}, {By: "10.98.0.3", RouterID: 231}}
	if diff := cmp.Diff(want, namesakes, cmpopts.EquateComparable(i.VIP)); len(claims) > 0 || diff != "" {
		t.Errorf("claims %v, namesakes: %s", claims, diff)
	}
}

func TestOnlyControlPlanesThatAreNotLiveAreAsked(t *testing.T) {
	v := healthy(11)
	if got := vrrp.Doubted(v); len(got) != 0 {
		t.Errorf("%v", got)
	}
	v.Balancer = live("h11", "h12")
	if got := vrrp.Doubted(v); len(got) != 1 || got["h13"] != addr("10.98.0.13") {
		t.Errorf("%v", got)
	}
	v.Balancer = state.Fact[state.Balancer]{}
	if got := vrrp.Doubted(v); len(got) != 2 {
		t.Errorf("%v", got)
	}
	v.Settings.Fencing = true
	if got := vrrp.Doubted(v); len(got) != 0 {
		t.Errorf("two hosts: %v", got)
	}
}

// The advert for a dead holder is read as a farewell, and its checksum fits: the
// sum over all of it, addresses included, is all ones.
func TestAFarewellIsAnAdvertOfPriorityZeroAndAGreetingOneOfTheLowest(t *testing.T) {
	for _, i := range []vrrp.Instance{
		{VIP: addr("10.98.0.5"), Source: addr("10.98.0.12"), Peers: addrs("10.98.0.11"), RouterID: 231},
		{VIP: addr("fd98::5"), Source: addr("fd98::12"), Peers: addrs("fd98::11"), RouterID: 231},
	} {
		said := [][]byte{i.Farewell(0, 20), i.Greeting(0, 20)}
		for priority, b := range said {
			checkAdvert(t, i, b, byte(priority))
		}
	}
}

func checkAdvert(t *testing.T, i vrrp.Instance, b []byte, priority byte) {
	t.Helper()
	pseudo := append(append(i.Source.AsSlice(), i.Peers[0].AsSlice()...), 0, 112, 0, byte(len(b)))
	sum := 0
	for _, part := range [][]byte{pseudo, b} {
		for n := 0; n < len(part); n += 2 {
			sum += int(part[n])<<8 | int(part[n+1])
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	if sum != 0xffff || b[0] != 0x31 || b[1] != 231 || b[2] != priority || b[3] != 1 || b[5] != 20 {
		t.Errorf("%s: sum %x of %x", i.VIP, sum, b)
	}
}
