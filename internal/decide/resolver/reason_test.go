package resolver

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestEachDecisionHasItsReason(t *testing.T) {
	var unknown state.Fact[bool]
	noAddress, noDomain := view(state.Known(true)), view(state.Known(true))
	noAddress.Host.Addresses, noDomain.Settings.Domain = nil, ""
	for _, c := range []struct {
		v    state.NetworkView
		m    Memory
		do   Do
		want string
	}{
		{noAddress, Memory{}, Leave, "this host has no address yet"},
		{noDomain, Memory{}, Leave, "this host has no address yet"},
		{view(state.Known(true)), Memory{}, Prepend, "the host's name server answers"},
		{view(state.Known(false)), Memory{Booting: true, Expected: true}, Prepend, "the host's name server is about to start"},
		{view(unknown), Memory{Booting: true, Expected: true, Waiting: Patience - 1}, Prepend, "the host's name server is about to start"},
		{view(unknown), Memory{Booting: true, Expected: true, Waiting: Patience}, Leave, "it is not yet known whether the host's name server answers"},
		{view(state.Known(false)), Memory{Booting: true, Expected: true, Waiting: Patience}, Restore, "the host's name server does not answer"},
	} {
		got := Decide(c.v, c.m)
		if got.Do != c.do || got.Reason != c.want {
			t.Errorf("%+v, want %s: %s", got, c.do, c.want)
		}
		if c.do != Leave && (got.Server != c.v.Host.Addresses[0] || got.Search != "lab.example.test") {
			t.Errorf("%+v", got)
		}
	}
}
