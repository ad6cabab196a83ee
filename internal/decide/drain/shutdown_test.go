package drain_test

import (
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatAHostThatShutsDownDoesAboutItsPods(t *testing.T) {
	own := drain.Leave("5")
	node := func(name string, ready bool, annotations ...string) state.Node {
		n := state.Node{Name: name, Ready: ready, Labels: map[string]string{}, Annotations: map[string]string{}}
		if strings.HasPrefix(name, "cp-") {
			n.Labels[state.LabelControlPlane] = ""
		}
		for i := 0; i < len(annotations); i += 2 {
			n.Annotations[annotations[i]] = annotations[i+1]
		}
		return n
	}
	peer := node("cp-2", true)
	away := node("cp-2", true, drain.Desired, drain.Leave("7"))
	away.Absent = true
	for _, c := range []struct {
		sentence string
		nodes    []state.Node
		ask      bool
		over     string
	}{
		{"both are whole", []state.Node{node("cp-1", true), peer}, true, ""},
		{"its node is not ready", []state.Node{node("cp-1", false), peer}, true, ""},
		{"it took pods again after a drain", []state.Node{node("cp-1", true, drain.Desired, drain.After("a"), drain.Applied, drain.After("a")), peer}, true, ""},
		{"it has asked", []state.Node{node("cp-1", true, drain.Desired, own, drain.Applied, drain.After("a")), peer}, false, ""},
		{"its pods have moved", []state.Node{node("cp-1", true, drain.Desired, own, drain.Applied, own), peer}, false, "other hosts have its pods"},
		{"it is empty for its turn", []state.Node{node("cp-1", true, drain.Desired, "drain-b", drain.Applied, "drain-b"), peer}, false, "other hosts have its pods"},
		{"it is being emptied for its turn", []state.Node{node("cp-1", true, drain.Desired, "drain-b"), peer}, false, ""},
		{"an administrator has drained it", []state.Node{node("cp-1", true, drain.Wanted, "x", drain.Had, "x"), peer}, false, "other hosts have its pods"},
		{"an administrator is draining it", []state.Node{node("cp-1", true, drain.Wanted, "x"), peer}, true, ""},
		{"it is alone", []state.Node{node("cp-1", true)}, false, "no other host takes pods now"},
		{"the other one is off", []state.Node{node("cp-1", true), node("cp-2", false)}, false, "no other host takes pods now"},
		{"the other one is away from the API", []state.Node{node("cp-1", true), {Name: "cp-2", Ready: true, Absent: true}}, false, "no other host takes pods now"},
		{"the other one is being emptied", []state.Node{node("cp-1", true), node("cp-2", true, drain.CordonedBy, "drain-b", drain.Desired, "drain-b")}, false, "no other host takes pods now"},
		{"the other one is being emptied, and a worker stays", []state.Node{node("cp-1", true), node("cp-2", true, drain.CordonedBy, "drain-b"), node("w-1", true)}, true, ""},
		{"the other one shuts down too", []state.Node{node("cp-1", true), node("cp-2", true, drain.Desired, own)}, true, "cp-2 shuts down too"},
		{"the other one shuts down too, and it has said so itself", []state.Node{node("cp-1", true, drain.Desired, own), node("cp-2", true, drain.Desired, own)}, false, "cp-2 shuts down too"},
		{"the other one shuts down too, and a worker stays", []state.Node{node("cp-1", true), node("cp-2", true, drain.Desired, own), node("w-1", true)}, true, "cp-2 shuts down too"},
		{"the other one was shut down and is off", []state.Node{node("cp-1", true), node("cp-2", false, drain.Desired, drain.Leave("7"))}, false, "no other host takes pods now"},
		{"the other one was shut down and is off, and a worker stays", []state.Node{node("cp-1", true), node("cp-2", false, drain.Desired, drain.Leave("7")), node("w-1", true)}, true, ""},
		{"the other one was shut down and is away from the API, and a worker stays", []state.Node{node("cp-1", true), away, node("w-1", true)}, true, ""},
		{"its worker shuts down too", []state.Node{node("cp-1", true), node("w-1", true, drain.Desired, own)}, false, "no other host takes pods now"},
		{"a worker, and a control plane shuts down too", []state.Node{node("cp-1", true), node("w-1", true), node("cp-2", true, drain.Desired, own)}, true, ""},
		{"the other one has booted, and takes pods again", []state.Node{node("cp-1", true), node("cp-2", true, drain.Desired, drain.After("a"))}, true, ""},
		{"it has asked, and the other one left since", []state.Node{node("cp-1", true, drain.Desired, own), node("cp-2", false)}, false, "no other host takes pods now"},
		{"its node was deleted", []state.Node{peer}, false, "the cluster has no node of this name"},
	} {
		name := "cp-1"
		if strings.HasPrefix(c.sentence, "a worker") {
			name = "w-1"
		}
		l := drain.Leaving{Nodes: c.nodes, Name: name, Configured: true}
		if ask, over := l.Next(); ask != c.ask || over != c.over {
			t.Errorf("%s: asks %v, %q; want %v, %q", c.sentence, ask, over, c.ask, c.over)
		}
		l.Configured = false
		want := c.over
		if c.ask && want == "" {
			want = "nothing would have it take pods again after the boot"
		}
		if ask, over := l.Next(); ask || over != want && over != "nothing would have it take pods again after the boot" {
			t.Errorf("%s, and it follows no configuration: asks %v, %q", c.sentence, ask, over)
		}
	}
}

// TestOnlyAShutdownOfTheWholeHostIsOne has all states of systemd: a restart of the unit,
// by a person or by a script of a package, leaves the host where it is.
func TestOnlyAShutdownOfTheWholeHostIsOne(t *testing.T) {
	for _, s := range []string{"initializing", "starting", "running", "degraded", "maintenance", "offline", "unknown", ""} {
		if drain.GoesDown(s) {
			t.Errorf("%q is a shutdown", s)
		}
	}
	if !drain.GoesDown("stopping") {
		t.Error("a shutdown is none")
	}
}

func TestTwoControlPlanesThatShutDownTogetherKnowIt(t *testing.T) {
	node := func(name, wish string, controlPlane bool) state.Node {
		n := state.Node{Name: name, Ready: true, Labels: map[string]string{}, Annotations: map[string]string{drain.Desired: wish}}
		if controlPlane {
			n.Labels[state.LabelControlPlane] = ""
		}
		return n
	}
	own, other := drain.Leave("5"), drain.Leave("7")
	off, away := node("b", other, true), node("b", other, true)
	off.Ready, away.Absent = false, true
	for sentence, c := range map[string]struct {
		self, peer state.Node
		want       bool
	}{
		"the other one stays":                          {node("a", own, true), node("b", "", true), false},
		"the other one is being emptied for its turn":  {node("a", own, true), node("b", drain.Before("x"), true), false},
		"both shut down":                               {node("a", own, true), node("b", other, true), true},
		"both shut down, and it has not said so":       {node("a", "", true), node("b", other, true), true},
		"the other one was shut down and is off":       {node("a", own, true), off, false},
		"the other one was, and is away from the API":  {node("a", own, true), away, false},
		"a worker beside it":                           {node("a", own, true), node("b", other, false), false},
		"a worker, and a control plane":                {node("a", own, false), node("b", other, true), false},
		"its node is not there, and one shuts down":    {node("c", own, true), node("b", other, true), false},
		"two workers shut down, which nobody waits on": {node("a", own, false), node("b", other, false), false},
	} {
		if got := (drain.Leaving{Nodes: []state.Node{c.self, c.peer}, Name: "a"}).Together(); got != c.want {
			t.Errorf("%s: %v", sentence, got)
		}
	}
}

// A control plane is back from a shutdown, and its agent takes the wish back a moment later.
func TestAControlPlaneThatIsBackFromAShutdownDoesNotShutDown(t *testing.T) {
	node := func(name, boot, wish string) state.Node {
		return state.Node{Name: name, Ready: true, BootID: boot, Labels: map[string]string{state.LabelControlPlane: ""}, Annotations: map[string]string{drain.Desired: wish}}
	}
	for sentence, c := range map[string]struct {
		boot, wish string
		together   bool
	}{
		"it shuts down":         {"a1", drain.Leave("a1-17"), true},
		"it is back":            {"b2", drain.Leave("a1-17"), false},
		"its boot is not known": {"", drain.Leave("a1-17"), true},
		"it is a container, and its kernel stays": {"a1", drain.Leave("a1-16"), true},
		"it takes pods": {"a1", drain.After("x"), false},
	} {
		l := drain.Leaving{Nodes: []state.Node{node("cp-1", "c3", drain.After("x")), node("cp-2", c.boot, c.wish)}, Name: "cp-1", Configured: true}
		if got := l.Together(); got != c.together {
			t.Errorf("%s: together %v", sentence, got)
		}
		if ask, over := l.Next(); !ask || (over == "cp-2 shuts down too") != c.together || !c.together && over != "" {
			t.Errorf("%s: asks %v, %q", sentence, ask, over)
		}
	}
}

func TestWhenAHostThatShutsDownGivesUpItsVIPsBeforeItsServicesStop(t *testing.T) {
	cp := state.Node{Labels: map[string]string{state.LabelControlPlane: ""}}
	one, two, both := state.Known([]state.Node{cp}), state.Known([]state.Node{cp, {}, cp}), state.Known([]state.Node{cp, {}, {}})
	yes, no := state.Known(true), state.Known(false)
	for _, c := range []struct {
		sentence string
		d        drain.Departing
		want     string
	}{
		{"one of two", drain.Departing{Down: yes, ControlPlane: true, Nodes: two}, ""},
		{"a worker", drain.Departing{Down: yes, Nodes: two}, ""},
		{"a worker that knows no node", drain.Departing{Down: yes}, ""},
		{"the unit is restarted", drain.Departing{Down: no, ControlPlane: true, Nodes: two}, "the host does not shut down"},
		{"the unit of a worker is restarted", drain.Departing{Down: no, Nodes: two}, "the host does not shut down"},
		{"systemd does not answer", drain.Departing{ControlPlane: true, Nodes: two}, "systemd does not say whether the host shuts down"},
		{"it is alone", drain.Departing{Down: yes, ControlPlane: true, Nodes: one}, "no other host serves the API"},
		{"it has workers alone", drain.Departing{Down: yes, ControlPlane: true, Nodes: both}, "no other host serves the API"},
		{"it knows no node", drain.Departing{Down: yes, ControlPlane: true}, "nobody says which other hosts serve the API"},
	} {
		if got := c.d.Stays(); got != c.want {
			t.Errorf("%s: %q, want %q", c.sentence, got, c.want)
		}
	}
}
