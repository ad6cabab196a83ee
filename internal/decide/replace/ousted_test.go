package replace

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAHostIsOustedOnlyIfTheClusterHasAnotherMachineInItsPlace(t *testing.T) {
	when := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	out := retired.Host{Name: "cp-2", Machine: "old", ControlPlane: true, When: when, By: "ada"}
	given := out
	given.Again = when.Add(time.Hour)
	worker := given
	worker.ControlPlane = false
	entry := func(h retired.Host) state.Fact[*retired.Host] { return state.Known(&h) }
	old := Self{Installed: true, MachineID: "old", Etcd: state.Known(false), Entry: entry(given), Node: state.Known("new")}
	with := func(change func(*Self)) Self { s := old; change(&s); return s }
	for name, c := range map[string]struct {
		self Self
		want bool
	}{
		"the Node of its name is another machine":               {old, true},
		"it was retired, and the newcomer is not there yet":     {with(func(s *Self) { s.Entry, s.Node = entry(out), state.Known("") }), true},
		"the newcomer itself":                                   {with(func(s *Self) { s.MachineID = "new" }), false},
		"the newcomer, which has no Node yet":                   {with(func(s *Self) { s.MachineID, s.Node = "new", state.Known("") }), false},
		"the name was given, and the Node is not there yet":     {with(func(s *Self) { s.Node = state.Known("") }), false},
		"the same system was wiped and is the newcomer":         {with(func(s *Self) { s.Node = state.Known("old") }), false},
		"the same system was wiped and is being installed":      {with(func(s *Self) { s.Installed, s.Entry, s.Node = false, entry(out), state.Known("") }), false},
		"nobody took it out":                                    {with(func(s *Self) { s.Entry = state.Known[*retired.Host](nil) }), false},
		"a worker: kubelet is refused, and it holds no address": {with(func(s *Self) { s.Entry = entry(worker) }), false},
		"its etcd runs: it is a member":                         {with(func(s *Self) { s.Etcd = state.Known(true) }), false},
		"whether its etcd runs is unknown":                      {with(func(s *Self) { s.Etcd = state.Fact[bool]{} }), false},
		"the list is unknown":                                   {with(func(s *Self) { s.Entry = state.Fact[*retired.Host]{} }), false},
		"the Node is unknown":                                   {with(func(s *Self) { s.Node = state.Fact[string]{} }), false},
		"its own machine id is unknown":                         {with(func(s *Self) { s.MachineID = "" }), false},
	} {
		if got := Ousted(c.self); got != "" != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
