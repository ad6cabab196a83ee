package upgrade

import (
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
)

func TestAHostThatWasToldToRiseGoesOnWhateverComesBetween(t *testing.T) {
	g := &gathered{}
	g.book.record = cluster.Record{Upgrade: "u1", From: oldImage, To: newImage, Started: true, NoWayBack: true}
	told := annotation.Turn{Upgrade: "u1", Closed: true, Raise: true, Kubelet: true}
	of := func(change func(*annotation.Turn)) annotation.Turn { out := told; change(&out); return out }
	raise := func(kubelet bool, hosts ...string) cluster.Step {
		return cluster.Step{Do: cluster.Raise, Hosts: hosts, Kubelet: kubelet}
	}
	for what, c := range map[string]struct {
		next           cluster.Step
		had            annotation.Turn
		raise, kubelet bool
	}{
		"its servers":                 {raise(false, "cp-1"), annotation.Turn{}, true, false},
		"its kubelet":                 {raise(true, "cp-1"), of(func(t *annotation.Turn) { t.Kubelet = false }), true, true},
		"another host":                {raise(true, "cp-2"), annotation.Turn{}, false, false},
		"a pause in the middle":       {cluster.Step{Do: cluster.Pause}, told, true, true},
		"a pause, only its servers":   {cluster.Step{Do: cluster.Pause}, of(func(t *annotation.Turn) { t.Kubelet = false }), true, false},
		"told in another upgrade":     {cluster.Step{Do: cluster.Pause}, of(func(t *annotation.Turn) { t.Upgrade = "u0" }), false, false},
		"the way back was not closed": {cluster.Step{Do: cluster.Pause}, of(func(t *annotation.Turn) { t.Closed = false }), false, false},
	} {
		text, _, err := wanted(g, c.next, "cp-1", c.had)
		if err != nil {
			t.Fatal(err)
		}
		got, err := annotation.Decode[annotation.Turn](text)
		if err != nil || got.Raise != c.raise || got.Kubelet != c.kubelet || !got.Closed {
			t.Errorf("%s: %+v %v", what, got, err)
		}
	}
}
