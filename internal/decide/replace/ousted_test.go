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
		"the Node of its name is another machine":           {old, true},
		"it was retired, and the newcomer is not there yet": {with(func(s *Self) { s.Entry, s.Node = entry(out), state.Known("") }), true},
		"the API is away, and the other control plane says so": {with(func(s *Self) {
			s.Entry, s.Node, s.Told = state.Fact[*retired.Host]{}, state.Fact[string]{}, "another machine"
		}), true},
		"the other control plane says so, and the API names it": {with(func(s *Self) { s.Node, s.Told = state.Known("old"), "another machine" }), false},
		"the other control plane says so, and its etcd runs":    {with(func(s *Self) { s.Etcd, s.Told = state.Known(true), "another machine" }), false},
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
		"the site was restored: its list knows nothing of this host": {with(func(s *Self) {
			s.Entry, s.Node, s.Succeeded = state.Known[*retired.Host](nil), state.Known("old"), "restored"
		}), true},
		"the site was restored, and its etcd runs":   {with(func(s *Self) { s.Etcd, s.Succeeded = state.Known(true), "restored" }), false},
		"the site was restored while this one joins": {with(func(s *Self) { s.Installed, s.Succeeded = false, "restored" }), false},
		"its own machine id is unknown":              {with(func(s *Self) { s.MachineID = "" }), false},
	} {
		if got := Ousted(c.self); got != "" != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAPlanOustsTheMachineThatItTookOutAndNoOther(t *testing.T) {
	machine := func(uuid string) state.Machine { return state.Machine{UUID: uuid, Serial: "S"} }
	plan := Plan{Stage: Whole, Old: Old{Name: "cp-2", Machine: machine("aa-1")}, Newcomer: Newcomer{Machine: machine("bb-2")}, By: "ada"}
	with := func(change func(*Plan)) Plan { p := plan; change(&p); return p }
	for name, c := range map[string]struct {
		plan       Plan
		host, uuid string
		want       bool
	}{
		"the old machine":                     {plan, "cp-2", "AA-1", true},
		"before the newcomer is there":        {with(func(p *Plan) { p.Stage, p.Newcomer = Retired, Newcomer{} }), "cp-2", "aa-1", true},
		"the newcomer":                        {plan, "cp-2", "bb-2", false},
		"the same board with another disk":    {with(func(p *Plan) { p.Newcomer.Machine = machine("aa-1") }), "cp-2", "aa-1", false},
		"the other host":                      {plan, "cp-1", "aa-1", false},
		"a plan that can be taken back":       {with(func(p *Plan) { p.Stage = Planned }), "cp-2", "aa-1", false},
		"a plan that was taken back":          {with(func(p *Plan) { p.Stage = Aborted }), "cp-2", "aa-1", false},
		"a machine that does not know itself": {with(func(p *Plan) { p.Old.Machine = machine("") }), "cp-2", "", false},
	} {
		if got := c.plan.Ousts(c.host, machine(c.uuid)); got != "" != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestL4AHostIsOvertakenOnlyWhileItsEtcdRuns(t *testing.T) {
	told := Self{Installed: true, MachineID: "old", Etcd: state.Known(true), Told: "another machine"}
	with := func(change func(*Self)) Self { s := told; change(&s); return s }
	for name, c := range map[string]struct {
		self Self
		want bool
	}{
		"its etcd runs, and the other control plane says so": {told, true},
		"nobody says so":                           {with(func(s *Self) { s.Told = "" }), false},
		"its etcd is stopped: it is ousted":        {with(func(s *Self) { s.Etcd = state.Known(false) }), false},
		"whether its etcd runs is unknown":         {with(func(s *Self) { s.Etcd = state.Fact[bool]{} }), false},
		"a newcomer whose installation goes on":    {with(func(s *Self) { s.Installed = false }), false},
		"its etcd runs, and the site was restored": {with(func(s *Self) { s.Told, s.Succeeded = "", "restored" }), true},
	} {
		if got := Overtaken(c.self); got != "" != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
