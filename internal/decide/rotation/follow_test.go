package rotation

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestFromWhateverFilesAFollowerGoesToItsPhase: each content of its files, each phase,
// each turn, and each thing that the API may publish.
func TestFromWhateverFilesAFollowerGoesToItsPhase(t *testing.T) {
	ends := map[string]int{}
	for _, phase := range phases {
		for _, turn := range []string{"worker-1", "worker-2", ""} {
			for _, published := range append(trusts, "") {
				for _, start := range haves() {
					o := Order{Of: "a", New: newKey, Phase: phase, Turn: turn}
					have := start
					bad := func(rule string) {
						t.Helper()
						t.Fatalf("%+v, published %q: from %+v to %+v: %s", o, published, start, have, rule)
					}
					var why error
					for steps := 0; ; steps++ {
						before := slices.Clone(have.Trusts)
						var c Change
						c, why = Follow(o, "worker-1", have, idsOf(published))
						if !slices.Equal(before, have.Trusts) {
							bad("what it was given changed")
						}
						if c.Act == Rest {
							break
						}
						if steps == 5 {
							bad("it goes on for ever")
						}
						next := have.after(c)
						added := slices.DeleteFunc(slices.Clone(next.Trusts), func(id ID) bool { return slices.Contains(have.Trusts, id) })
						dropped := slices.DeleteFunc(slices.Clone(have.Trusts), func(id ID) bool { return slices.Contains(next.Trusts, id) })
						switch {
						case phase != Done && turn != "worker-1":
							bad("it changes something without its turn")
						case c.Act == WriteKey:
							bad("it has no key")
						case len(added) > 0 && (!slices.Equal(added, []ID{newKey}) || !strings.Contains(published, "n")):
							bad("it trusts what was not published")
						case len(dropped) > 0 && (phase != Drop && phase != Done || published != "n" || have.Leaf != newKey || !have.Loaded):
							bad("it drops one too early")
						case len(next.Trusts) == 0:
							bad("it trusts nobody")
						case c.Act == WriteLeaf && (phase == Trust || !slices.Contains(have.Trusts, newKey)):
							bad("it shows what it does not trust, or too early")
						}
						have = next
					}
					report := Report{New: newKey, Trusts: have.Trusts, Signs: have.Leaf}
					if phase == Trust && start.Leaf != newKey {
						report.Trusts = append(slices.Clone(report.Trusts), start.Leaf)
					}
					done := have.Loaded && report.has(phase)
					if mayAct := phase == Done || turn == "worker-1"; mayAct && !done && why == nil {
						bad("it rests without a reason, and has not done what is wished")
					}
					if done && why == nil {
						ends["done"]++
					} else if why != nil {
						ends["waits"]++
					}
				}
			}
		}
	}
	if ends["done"] < 100 || ends["waits"] < 100 {
		t.Errorf("%v", ends)
	}
	if c, err := Follow(Order{Phase: Done}, "worker-1", haves()[0], idsOf("n")); c.Act != Rest || err != nil {
		t.Errorf("before the first rotation: %+v, %v", c, err)
	}
}

func TestAnOrderIsWhatAllControlPlanesSay(t *testing.T) {
	good := Report{Of: "a", New: newKey, Phase: Sign, Turn: "worker-1"}
	node := func(name string, control bool, r *Report) state.Node {
		n := state.Node{Name: name, Labels: map[string]string{"holdfast.io/role": "master"}}
		if control {
			n.Labels[state.LabelControlPlane] = ""
		}
		if r != nil {
			n.Annotations = map[string]string{state.AnnotationTrust: state.FormatAnnotation(Reports{Authorities: map[Authority]Report{KubernetesCA: *r}})} //nolint:exhaustive // one is enough
		}
		return n
	}
	with := func(change func(*Report)) *Report {
		r := good
		change(&r)
		return &r
	}
	for what, c := range map[string]struct {
		nodes []state.Node
		want  Order
		err   string
	}{
		"two say the same":      {[]state.Node{node("cp-1", true, &good), node("cp-2", true, &good), node("worker-1", false, nil)}, Order{"a", newKey, Sign, "worker-1"}, ""},
		"no rotation":           {[]state.Node{node("cp-1", true, &Report{Trusts: []ID{oldKey}})}, Order{}, ""},
		"one is behind":         {[]state.Node{node("cp-1", true, &good), node("cp-2", true, with(func(r *Report) { r.Turn = "cp-2" }))}, Order{}, "cp-1 and cp-2 do not say the same"},
		"another phase":         {[]state.Node{node("cp-1", true, &good), node("cp-2", true, with(func(r *Report) { r.Phase = Trust }))}, Order{}, "do not say the same"},
		"another key":           {[]state.Node{node("cp-1", true, &good), node("cp-2", true, with(func(r *Report) { r.New = oldKey }))}, Order{}, "do not say the same"},
		"another wish":          {[]state.Node{node("cp-1", true, &good), node("cp-2", true, with(func(r *Report) { r.Of = "b" }))}, Order{}, "do not say the same"},
		"one says nothing":      {[]state.Node{node("cp-1", true, &good), node("cp-2", true, nil)}, Order{}, "cp-2 does not say what is wished"},
		"an earlier release":    {[]state.Node{node("cp-1", true, with(func(r *Report) { r.Phase = "" }))}, Order{}, "does not say how far"},
		"a key is not derived":  {[]state.Node{node("cp-1", true, with(func(r *Report) { r.New = "" }))}, Order{}, "does not say how far"},
		"a host that claims it": {[]state.Node{node("cp-1", true, &good), node("worker-1", false, with(func(r *Report) { r.New = "x" }))}, Order{"a", newKey, Sign, "worker-1"}, ""},
		"nobody":                {[]state.Node{node("worker-1", false, &good)}, Order{}, "no control plane is known"},
	} {
		got, err := OrderOf(c.nodes, KubernetesCA)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}

func TestWorkersFollowTheKubernetesCAAlone(t *testing.T) {
	said := state.FormatAnnotation(Reports{ControlPlanes: 9, NoRoot: true, Authorities: map[Authority]Report{KubernetesCA: {Signs: oldKey}}}) //nolint:exhaustive // one is enough
	nodes := []state.Node{
		{Name: "cp-1", Labels: map[string]string{state.LabelControlPlane: ""}},
		{Name: "worker-1", Ready: true, Annotations: map[string]string{state.AnnotationTrust: said}},
		{Name: "worker-2"},
	}
	got := FollowersOf(nodes, KubernetesCA)
	if len(got) != 2 || got[0].Name != "worker-1" || !got[0].Ready || got[0].Report == nil || got[0].ControlPlanes != 0 || got[0].NoRoot || got[1].Ready || got[1].Report != nil {
		t.Errorf("%+v", got)
	}
	if got := FollowersOf(nodes, EtcdCA); got != nil {
		t.Errorf("%+v", got)
	}
}

// Nobody knows whether there is a rotation if what is wished cannot be read: workers rest.
func TestAWishThatCannotBeReadHasNotVanished(t *testing.T) {
	node := func(host string, r Report) state.Node {
		return state.Node{Name: host, Ready: true, Labels: map[string]string{state.LabelControlPlane: ""}, Annotations: map[string]string{
			state.AnnotationTrust: state.FormatAnnotation(Reports{ControlPlanes: 2, Authorities: map[Authority]Report{KubernetesCA: r}}), //nolint:exhaustive // one is enough
		}}
	}
	none, damaged := Report{Trusts: []ID{oldKey}}, Report{Unreadable: true, Problem: "take it away"}
	if !Vanished([]state.Node{node("cp-1", none), node("cp-2", none)}, KubernetesCA) {
		t.Error("there is none")
	}
	nodes := []state.Node{node("cp-1", none), node("cp-2", damaged)}
	if Vanished(nodes, KubernetesCA) {
		t.Error("it counts as vanished")
	}
	if o, err := OrderOf(nodes, KubernetesCA); err == nil || err.Error() != "cp-2: take it away" {
		t.Errorf("%+v %v", o, err)
	}
}
