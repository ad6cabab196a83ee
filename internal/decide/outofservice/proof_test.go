package outofservice

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAProofIsOfTheTimeBetweenTheLastJoinAndNow(t *testing.T) {
	in := fencedNode()
	for _, c := range []struct {
		at   time.Duration
		want bool
	}{{in.Joined, false}, {in.Joined + 1, true}, {in.Uptime, true}, {in.Uptime + 1, false}} {
		at, want := c.at, c.want
		for name, change := range map[string]change{
			"a fence": func(in *Input) { in.Fenced.Value.At = at },
			"a word": func(in *Input) {
				in.Fenced.Known, in.Human = false, state.Known(state.Confirmation{Who: "ops", Boot: in.Boot, At: at})
			},
		} {
			when, why := proof(fencedNode(change))
			if (why != "") != want || want && !when.Equal(in.Now.Add(at-in.Uptime)) || !want && !when.IsZero() {
				t.Errorf("%s at %s: %q, %s", name, at, why, when)
			}
		}
	}
}

func TestAWordNeedsSomebodyWhoGaveIt(t *testing.T) {
	in := fencedNode()
	in.Fenced.Known = false
	in.Human = state.Known(state.Confirmation{Who: "ops", Boot: in.Boot, At: in.Uptime})
	if _, why := proof(in); why != "confirmed to be off by ops" {
		t.Error(why)
	}
	for name, change := range map[string]func(*state.Confirmation){
		"nobody gave it":  func(c *state.Confirmation) { c.Who = "" },
		"of another boot": func(c *state.Confirmation) { c.Boot = "boot-0" },
	} {
		other := in
		change(&other.Human.Value)
		if _, why := proof(other); why != "" {
			t.Errorf("%s: %q", name, why)
		}
	}
	in.Human.Known = false
	if _, why := proof(in); why != "" {
		t.Errorf("nobody said anything: %q", why)
	}
}

// TestALookIsWorthRepeating has one line for each part of a fence that only lacks
// the end of contact.
func TestALookIsWorthRepeating(t *testing.T) {
	fresh := func(change func(*Input)) Input {
		in := fencedNode()
		in.Contact = state.Known(true)
		change(&in)
		return in
	}
	for name, c := range map[string]struct {
		in   Input
		want bool
	}{
		"a fence of a moment ago":     {fresh(func(*Input) {}), true},
		"contact is not known":        {fresh(func(in *Input) { in.Contact = state.Fact[bool]{} }), true},
		"contact has ended":           {fresh(func(in *Input) { in.Contact = state.Known(false) }), false},
		"no fence":                    {fresh(func(in *Input) { in.Fenced.Known = false }), false},
		"it did not read Off":         {fresh(func(in *Input) { in.Fenced.Value.State = "On" }), false},
		"of another boot":             {fresh(func(in *Input) { in.Fenced.Value.Boot = "boot-0" }), false},
		"of a boot without a name":    {fresh(func(in *Input) { in.Boot, in.Fenced.Value.Boot = "", "" }), false},
		"of before the last join":     {fresh(func(in *Input) { in.Joined = in.Fenced.Value.At }), false},
		"of just after the last join": {fresh(func(in *Input) { in.Joined = in.Fenced.Value.At - 1 }), true},
		"a minute old":                {fresh(func(in *Input) { in.Fenced.Value.At = in.Uptime - freshFor }), false},
		"not yet a minute old":        {fresh(func(in *Input) { in.Fenced.Value.At = in.Uptime - freshFor + 1 }), true},
	} {
		if got := Fresh(c.in); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTheTaintIsKnownByItsKeyAndEffect(t *testing.T) {
	other := Taint{Key: "x", Effect: Effect}
	for name, c := range map[string]struct {
		list []Taint
		want int
	}{
		"none":            {nil, -1},
		"another key":     {[]Taint{other}, -1},
		"another effect":  {[]Taint{{Key: Key, Effect: "NoSchedule"}}, -1},
		"the first":       {[]Taint{{Key: Key, Effect: Effect}, other}, 0},
		"behind another":  {[]Taint{other, {Key: Key, Effect: Effect}}, 1},
		"another's value": {[]Taint{{Key: Key, Value: "x", Effect: Effect}}, 0},
	} {
		if got := (Node{Taints: c.list}).index(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestAMarkNamesWhoSetItAndWhen(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]mark{
		"": {}, " 2026-11-20T08:00:00Z": {}, "cp-1": {by: "cp-1"}, "cp-1 yesterday": {by: "cp-1"}, formatMark("cp-1", at): {by: "cp-1", at: at},
	} {
		got, ok := parseMark(text)
		if got != want || ok != (want.by != "") || Ours(Node{Annotations: map[string]string{Annotation: text}}) != ok {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
	}
}

// TestAPatchHoldsNoMoreThanItsOwnParts has the steps of each patch, by operation
// and path.
func TestAPatchHoldsNoMoreThanItsOwnParts(t *testing.T) {
	version, taints, notes := "test "+versionPath, taintsPath, annotationsPath
	steps := func(n Node, v Verdict) []string {
		var out []string
		for _, o := range Patch(n, v) {
			out = append(out, o.Op+" "+o.Path)
		}
		return out
	}
	add, remove := Verdict{Action: Add, Mark: "cp-1"}, Verdict{Action: Remove}
	for name, want := range map[string][2][]string{
		"bare":                 {{version, "add " + taints, "add " + notes}, nil},
		"annotated":            {{version, "add " + taints, "add " + markPath}, nil},
		"with a foreign taint": {{"test " + taints, "add " + taints + "/-", "add " + markPath}, nil},
		"foreign, no note":     {{version, "test " + taints, "add " + taints + "/-", "add " + notes}, nil},
		"ours":                 {{"test " + taints, "add " + markPath}, {"test " + markPath, "test " + taints, "remove " + taints + "/0", "remove " + markPath}},
		"ours between others":  {{"test " + taints, "add " + markPath}, {"test " + markPath, "test " + taints, "remove " + taints + "/1", "remove " + markPath}},
	} {
		n := nodes()[name]
		if diff := cmp.Diff(want[0], steps(n, add)); diff != "" {
			t.Errorf("%s, add: %s", name, diff)
		}
		if want[1] != nil {
			if diff := cmp.Diff(want[1], steps(n, remove)); diff != "" {
				t.Errorf("%s, remove: %s", name, diff)
			}
		}
	}
}

func TestANodeHasTheTaintOnceAfterwards(t *testing.T) {
	for name, n := range nodes() {
		got := Apply(n, Verdict{Action: Add, Mark: "cp-1 now"})
		ours := slices.DeleteFunc(slices.Clone(got.Taints), func(t Taint) bool { return t.Key != Key })
		if len(ours) != 1 || got.Annotations[Annotation] != "cp-1 now" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAFenceOfAnEarlierMomentIsTheSame(t *testing.T) {
	for want, after := range map[string]time.Duration{string(Leave): sameFence, string(Add): sameFence + time.Second} {
		in := fencedNode(tainted, marked)
		in.Fenced.Value.At += after
		if got := Decide(in); string(got.Action) != want {
			t.Errorf("%s after the mark: %+v", after, got)
		}
	}
}

// TestWithoutAProofNothingIsDone has the cases in which nobody knows whether the
// node runs.
func TestWithoutAProofNothingIsDone(t *testing.T) {
	noFence := func(in *Input) { in.Fenced.Known = false }
	future := func(in *Input) { in.Node.Annotations = map[string]string{Annotation: "cp-1 2030-01-01T00:00:00Z"} }
	for name, in := range map[string]Input{
		"a node that is not ready":                     fencedNode(noFence, unready),
		"one that never was":                           fencedNode(noFence, func(in *Input) { in.Node.Ready = false }),
		"a mark of the future, and no contact":         fencedNode(tainted, future, unready),
		"a report of a node that nobody is in contact": fencedNode(tainted, marked, func(in *Input) { in.Node.Heartbeat = now }),
	} {
		if got := Decide(in); got.Action != Leave {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestTheNodeThatWasReadStaysAsItIs(t *testing.T) {
	n := nodes()["ours between others"]
	before := slices.Clone(n.Taints)
	Apply(n, Verdict{Action: Remove})
	if diff := cmp.Diff(before, n.Taints); diff != "" {
		t.Error(diff)
	}
}
