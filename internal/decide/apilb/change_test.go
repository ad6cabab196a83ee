package apilb

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/state"
)

func backend(server string) Backend {
	for _, b := range []Backend{{Node: "cp-1", Addr: addrs("10.98.0.11")[0]}, {Node: "cp-1", Addr: addrs("10.98.0.99")[0]}} {
		if b.Server() == server {
			return b
		}
	}
	panic(server)
}

func TestWhatComesIsAddedAndWhatGoesIsDrainedFirst(t *testing.T) {
	const one, other = "cp-1:10.98.0.11", "cp-1:10.98.0.99"
	running := func(health Health, admin Admin, sessions int, since time.Duration) Server {
		return Server{Name: one, Health: health, Admin: admin, Sessions: sessions, Since: since}
	}
	for _, c := range []struct {
		name    string
		running []Server
		want    []Backend
		changes []Change
	}{
		{"as it should be", []Server{running(HealthReady, AdminReady, 3, 0)}, []Backend{backend(one)}, nil},
		{"new", nil, []Backend{backend(one)}, []Change{{Add, one, backend(one)}}},
		{
			"another address, added before the old one is drained",
			[]Server{running(HealthReady, AdminReady, 3, 0)},
			[]Backend{backend(other)},
			[]Change{{Add, other, backend(other)}, {Verb: Drain, Server: one}},
		},
		{"gone, with connections", []Server{running(HealthReady, AdminReady, 3, 0)}, nil, []Change{{Verb: Drain, Server: one}}},
		{"gone, idle, may be given one at this moment", []Server{running(HealthReady, AdminReady, 0, 0)}, nil, []Change{{Verb: Drain, Server: one}}},
		{"draining", []Server{running(HealthReady, AdminDrain, 1, DrainTime-time.Second)}, nil, nil},
		{"drained", []Server{running(HealthReady, AdminDrain, 0, 0)}, nil, []Change{{Verb: Remove, Server: one}}},
		{"draining for too long", []Server{running(HealthReady, AdminDrain, 1, DrainTime)}, nil, []Change{{Verb: Remove, Server: one}}},
		{"gone and dead", []Server{running(HealthDead, AdminReady, 0, 0)}, nil, []Change{{Verb: Remove, Server: one}}},
		{"half removed by an earlier run", []Server{running(HealthDead, AdminMaintenance, 0, 0)}, nil, []Change{{Verb: Remove, Server: one}}},
		{"back while it drains", []Server{running(HealthReady, AdminDrain, 1, 0)}, []Backend{backend(one)}, []Change{{Verb: Resume, Server: one}}},
		{"half added by an earlier run", []Server{running(HealthDead, AdminMaintenance, 0, 0)}, []Backend{backend(one)}, []Change{{Verb: Resume, Server: one}}},
	} {
		if got := Changes(c.running, c.want); !slices.Equal(got, c.changes) {
			t.Errorf("%s:\ngot  %v\nwant %v", c.name, got, c.changes)
		}
	}
}

func TestB46_ConnectionsThatLeadNowhereAreCutAndThoseOfAStarvedServerLater(t *testing.T) {
	const name = "cp-1:10.98.0.11"
	for _, c := range []struct {
		what string
		in   Server
		cut  bool
	}{
		{"it takes no connection", Server{Health: HealthDead, Sessions: 1}, true},
		{"it resets them", Server{Health: HealthBroken, Sessions: 1}, true},
		{"nothing is left to cut", Server{Health: HealthDead}, false},
		{"it has just begun to hang", Server{Health: HealthHung, Sessions: 1, Since: HangTime - time.Second}, false},
		{"it hangs on", Server{Health: HealthHung, Sessions: 1, Since: HangTime}, true},
		{"it says that it is not ready", Server{Health: HealthUnready, Sessions: 1, Since: time.Hour}, false},
		{"it works", Server{Health: HealthReady, Sessions: 1, Since: time.Hour}, false},
		{"haproxy has no socket left to ask it with", Server{Health: HealthUnasked, Sessions: 1, Since: time.Hour}, false},
		{"it was not looked at yet", Server{Health: HealthUnchecked, Sessions: 1, Since: time.Hour}, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			c.in.Name, c.in.Admin = name, AdminReady
			got := Changes([]Server{c.in}, []Backend{backend(name)})
			if cut := slices.Equal(got, []Change{{Verb: Cut, Server: name}}); cut != c.cut || !cut && len(got) > 0 {
				t.Errorf("%v", got)
			}
			if told := len(View([]Server{c.in}, state.Fact[state.Balancer]{}).Stranded) > 0; told != c.cut {
				t.Errorf("the view says %t", told)
			}
		})
	}
	drained := []Server{{Name: name, Health: HealthHung, Admin: AdminDrain, Sessions: 1, Since: HangTime}}
	if got := Changes(drained, nil); len(got) != 1 || got[0].Verb != Remove {
		t.Errorf("one that goes and hangs: %v", got)
	}
}

func TestANodeTakesRequestsIfOneOfItsServersDoes(t *testing.T) {
	before := state.Known(state.Balancer{
		Backends: map[string]bool{"cp-4": true, "cp-6": true}, Reached: map[string]bool{"cp-4": true, "cp-6": true},
	})
	got := View([]Server{
		{Name: "cp-1:10.98.0.11", Health: HealthDead},
		{Name: "cp-1:backup:fd98::11", Health: HealthReady, Admin: AdminReady},
		{Name: "cp-2:10.98.0.12", Health: HealthUnready, Admin: AdminReady},
		{Name: "cp-3:10.98.0.13", Health: HealthReady, Admin: AdminDrain},
		{Name: "cp-4:10.98.0.14", Health: HealthUnchecked, Admin: AdminReady},
		{Name: "cp-5:10.98.0.15", Health: HealthUnchecked, Admin: AdminReady},
		{Name: "cp-6:10.98.0.16", Health: HealthUnasked, Admin: AdminReady},
		{Name: "cp-7:10.98.0.17", Health: HealthUnasked, Admin: AdminReady},
	}, before)
	want := state.Balancer{
		Backends: map[string]bool{"cp-1": true, "cp-2": false, "cp-3": false, "cp-4": true, "cp-5": false, "cp-6": false, "cp-7": false},
		Reached:  map[string]bool{"cp-1": true, "cp-2": true, "cp-3": true, "cp-4": true, "cp-5": false, "cp-6": false, "cp-7": false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
