package apilb

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestWhatFollowsFromAMemory has the memory after each call, and when to ask
// again.
func TestWhatFollowsFromAMemory(t *testing.T) {
	now := time.Unix(1e9, 0)
	before := now.Add(-time.Minute)
	v := site([]string{"10.98.0.5"}, nil)
	none := v
	none.Settings.ManagedVIPs = false
	unset := v
	unset.Settings.Cluster = ""
	with := func(b state.Fact[state.Balancer]) state.NetworkView { v := v; v.Balancer = b; return v }
	on, off, nothing := To(v.Settings.APIVIPs), Redirect{Table: true}, Redirect{}
	for name, c := range map[string]struct {
		m     Memory
		v     state.NetworkView
		want  *Redirect
		after Memory
		again time.Time
	}{
		"settings that are not known":        {Memory{On: true, Started: before}, unset, nil, Memory{On: true, Started: before}, time.Time{}},
		"a host that does not balance":       {Memory{On: true, Started: before}, none, &nothing, Memory{Started: before}, time.Time{}},
		"a first call":                       {Memory{}, unset, nil, Memory{Started: now}, time.Time{}},
		"no answer yet":                      {Memory{Started: now}, v, nil, Memory{Started: now}, now.Add(FirstAnswer)},
		"no answer in time":                  {Memory{Started: before, On: true}, v, &off, Memory{Started: before}, time.Time{}},
		"no answer any more":                 {Memory{Started: now, On: true, Answered: true}, v, &off, Memory{Started: now, Answered: true}, time.Time{}},
		"a live server":                      {Memory{Started: now, Fruitless: before}, with(says(true, true)), &on, Memory{Started: now, Answered: true, On: true}, time.Time{}},
		"servers that are overloaded":        {Memory{Started: now, On: true, Fruitless: before}, with(says(false, true)), &on, Memory{Started: now, Answered: true, On: true}, time.Time{}},
		"servers that are dead":              {Memory{Started: now, On: true}, with(says(false, false)), &on, Memory{Started: now, Answered: true, On: true, Fruitless: now}, now.Add(Fruitless)},
		"servers that are dead for too long": {Memory{Started: now, On: true, Fruitless: now.Add(-Fruitless)}, with(says(false, false)), &off, Memory{Started: now, Answered: true, Fruitless: now.Add(-Fruitless)}, time.Time{}},
		"dead servers that never lived":      {Memory{Started: now}, with(says(false, false)), &off, Memory{Started: now, Answered: true, Fruitless: now}, time.Time{}},
	} {
		got, after, again := Next(c.m, c.v, now)
		if got.Known != (c.want != nil) || c.want != nil && (got.Value.Table != c.want.Table || !slices.Equal(got.Value.VIPs, c.want.VIPs)) {
			t.Errorf("%s: %+v", name, got)
		}
		if after != c.after || !again.Equal(c.again) {
			t.Errorf("%s: %+v, again at %s", name, after, again)
		}
	}
}

func TestAHostWithoutAnAddressYetUsesBothFamilies(t *testing.T) {
	for name, c := range map[string]struct {
		vips, own []string
		want      []bool
	}{
		"no address yet":             {[]string{"10.98.0.5"}, nil, []bool{true, false}},
		"no address yet, IPv6 first": {[]string{"fd98::5"}, nil, []bool{false, true}},
		"one family":                 {[]string{"10.98.0.5"}, []string{"10.98.0.11"}, []bool{true}},
		"the other family alone":     {[]string{"10.98.0.5"}, []string{"fd98::11"}, []bool{false}},
		"both":                       {[]string{"fd98::5"}, []string{"10.98.0.11", "fd98::11"}, []bool{false, true}},
		"no VIP":                     {nil, []string{"10.98.0.11", "fd98::11"}, []bool{true, false}},
	} {
		if got := families(site(c.vips, c.own)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestTheBalancerListensOnTheFamiliesThatThereAre(t *testing.T) {
	for name, c := range map[string]struct {
		vips, own []string
		v4, v6    bool
	}{
		"IPv4": {[]string{"10.98.0.5"}, []string{"10.98.0.11"}, true, false}, "IPv6": {[]string{"fd98::5"}, []string{"fd98::11"}, false, true},
		"by a VIP": {[]string{"fd98::5"}, []string{"10.98.0.11"}, true, true}, "mapped": {[]string{"::ffff:10.98.0.5"}, nil, true, false}, "none": {nil, nil, false, false},
	} {
		v := state.NetworkView{Settings: state.NetworkSettings{APIVIPs: addrs(c.vips...)}, Host: state.HostFacts{Addresses: addrs(c.own...)}}
		if v4, v6 := Families(v); v4 != c.v4 || v6 != c.v6 {
			t.Errorf("%s: %v, %v", name, v4, v6)
		}
	}
}

func TestABackendsNameHoldsAllThatItIs(t *testing.T) {
	b := Backend{Node: "cp-1", Addr: netip.MustParseAddr("fd98::11")}
	backup := b
	backup.Backup = true
	if b.Server() != "cp-1:fd98::11" || backup.Server() != "cp-1:backup:fd98::11" || NodeOf(b.Server()) != "cp-1" || NodeOf(backup.Server()) != "cp-1" {
		t.Errorf("%s, %s", b.Server(), backup.Server())
	}
}

func TestARedirectHasItsTableAndItsVIPs(t *testing.T) {
	if got := To(addrs("fd98::5", "10.98.0.5")); !got.Table || !slices.Equal(got.VIPs, addrs("10.98.0.5", "fd98::5")) {
		t.Errorf("%+v", got)
	}
}
