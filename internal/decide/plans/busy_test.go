package plans

import (
	"maps"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatElseChangesHosts(t *testing.T) {
	node := func(name string, plane bool) state.Node {
		n := state.Node{Name: name, Annotations: map[string]string{drain.CordonedBy: "drain-rendered-b"}}
		if plane {
			n.Labels = map[string]string{state.LabelControlPlane: ""}
		}
		return n
	}
	nodes := []state.Node{node("cp-1", true), node("cp-3", true), node("w-1", false)}
	for _, c := range []struct{ upgrade, but, want string }{
		{"waits for the upgrade: x", "", "waits for the upgrade: x"},
		{"", "", "cp-1 is drained; cp-3 is drained"},
		{"", "cp-3", "cp-1 is drained"},
	} {
		if got := Busy(c.upgrade, nodes, c.but); got != c.want {
			t.Errorf("%q", got)
		}
	}
	blocked := node("cp-2", true)
	blocked.Ready = true
	maps.Copy(blocked.Annotations, map[string]string{rollout.StateOf: string(rollout.Working), rollout.StageAt: string(rollout.Held), rollout.ReasonOf: "x", rollout.BlockedOf: "x"})
	if got := Busy("", []state.Node{blocked}, ""); got != "cp-2 is at work on its configuration" {
		t.Errorf("it boots once a program has ended: %q", got)
	}
	if got := Busy("", nodes[2:], ""); got != "" {
		t.Errorf("a worker: %q", got)
	}
}
