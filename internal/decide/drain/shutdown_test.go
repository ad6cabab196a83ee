package drain_test

import (
	"testing"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatAHostThatShutsDownDoesAboutItsPods(t *testing.T) {
	own := drain.Leave("5")
	node := func(name string, ready bool, annotations ...string) state.Node {
		n := state.Node{Name: name, Ready: ready, Annotations: map[string]string{}}
		for i := 0; i < len(annotations); i += 2 {
			n.Annotations[annotations[i]] = annotations[i+1]
		}
		return n
	}
	peer := node("cp-2", true)
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
		{"the other one leaves too", []state.Node{node("cp-1", true), node("cp-2", true, drain.CordonedBy, own)}, false, "no other host takes pods now"},
		{"the other one leaves too, and a worker stays", []state.Node{node("cp-1", true), node("cp-2", true, drain.CordonedBy, own), node("w-1", true)}, true, ""},
		{"it has asked, and the other one left since", []state.Node{node("cp-1", true, drain.Desired, own), node("cp-2", false)}, false, "no other host takes pods now"},
		{"its node was deleted", []state.Node{peer}, false, "the cluster has no node of this name"},
	} {
		l := drain.Leaving{Nodes: c.nodes, Name: "cp-1", Configured: true}
		if ask, over := l.Next(); ask != c.ask || over != c.over {
			t.Errorf("%s: asks %v, %q; want %v, %q", c.sentence, ask, over, c.ask, c.over)
		}
		l.Configured = false
		if ask, over := l.Next(); ask || c.ask && over != "nothing would have it take pods again after the boot" || !c.ask && over != c.over {
			t.Errorf("%s, and it follows no configuration: asks %v, %q", c.sentence, ask, over)
		}
	}
}
