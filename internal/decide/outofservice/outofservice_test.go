package outofservice

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/state"
)

var now = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

type change = func(*Input)

// fencedNode returns the facts of cp-1 10 s after it fenced cp-2, which the API
// still holds for ready.
func fencedNode(changes ...change) Input {
	in := Input{
		Host: "cp-1", Now: now, Boot: "boot-1", Uptime: time.Hour,
		Node: Node{
			Name: "cp-2", ResourceVersion: "41", Annotations: map[string]string{"other": "x"},
			Ready: true, ReadySince: now.Add(-30 * time.Minute), Heartbeat: now.Add(-20 * time.Second),
		},
		Contact: state.Known(false), Joined: time.Minute,
		Fenced: state.Known(state.EtcdFenced{Target: "cp-2", State: "Off", Boot: "boot-1", At: time.Hour - 10*time.Second}),
	}
	for _, c := range changes {
		c(&in)
	}
	return in
}

func tainted(in *Input) {
	in.Node.Taints = append(in.Node.Taints, Taint{Key: Key, Value: Value, Effect: Effect})
}

func marked(in *Input) {
	in.Node.Annotations = map[string]string{Annotation: "cp-1 " + now.Add(-10*time.Second).Format(time.RFC3339)}
}
func contact(in *Input) { in.Contact, in.Joined = state.Known(true), time.Hour-time.Second }
func ready(in *Input)   { in.Node.Ready, in.Node.ReadySince = true, now.Add(-time.Second) }
func unready(in *Input) { in.Node.Ready, in.Node.ReadySince = false, now.Add(-5*time.Second) }
func fence(f func(*state.EtcdFenced)) change {
	return func(in *Input) { f(&in.Fenced.Value) }
}

// TestTheTaint tests one sentence about the taint per line.
func TestTheTaint(t *testing.T) {
	noFence := func(in *Input) { in.Fenced = state.Fact[state.EtcdFenced]{} }
	word := func(at time.Duration) change {
		return func(in *Input) {
			in.Human = state.Known(state.Confirmation{Who: "ops", Boot: "boot-1", At: at})
		}
	}
	mark := func(text string) change {
		return func(in *Input) { in.Node.Annotations = map[string]string{Annotation: text} }
	}
	for sentence, c := range map[string]struct {
		in   Input
		want Action
	}{
		"a fenced node is tainted":                            {fencedNode(), Add},
		"also when the API knows already":                     {fencedNode(unready), Add},
		"without a fence nothing is known":                    {fencedNode(noFence), Leave},
		"a person's word counts as much":                      {fencedNode(noFence, word(time.Hour-time.Second)), Add},
		"a person's word of before its last joining does not": {fencedNode(noFence, word(time.Second)), Leave},
		"PoweringOff is not Off":                              {fencedNode(fence(func(f *state.EtcdFenced) { f.State = "PoweringOff" })), Leave},
		"the fence of another node is not this one's":         {fencedNode(fence(func(f *state.EtcdFenced) { f.Target = "cp-1" })), Leave},
		"a fence of another boot proves nothing":              {fencedNode(fence(func(f *state.EtcdFenced) { f.Boot = "boot-0" })), Leave},
		"a fence of before its last joining proves nothing":   {fencedNode(fence(func(f *state.EtcdFenced) { f.At = time.Second })), Leave},
		"a fence of the future proves nothing":                {fencedNode(fence(func(f *state.EtcdFenced) { f.At = 2 * time.Hour })), Leave},
		"contact ends the proof":                              {fencedNode(contact), Leave},
		"unknown contact is no absence":                       {fencedNode(func(in *Input) { in.Contact = state.Fact[bool]{} }), Leave},
		"a boot without a name proves nothing":                {fencedNode(func(in *Input) { in.Boot, in.Fenced.Value.Boot = "", "" }), Leave},
		"it is set once":                                      {fencedNode(tainted, marked), Leave},
		"somebody else's taint stays theirs":                  {fencedNode(tainted), Leave},
		"and is never removed":                                {fencedNode(tainted, contact, ready), Leave},
		"whoever removed ours had a reason":                   {fencedNode(marked), Leave},
		"but another fence is another reason":                 {fencedNode(mark("cp-1 2026-11-20T08:00:00Z")), Add},
		"fenced again before it was free of the first":        {fencedNode(tainted, mark("cp-1 2026-11-20T08:00:00Z")), Add},
		"a node that is back already is not tainted":          {fencedNode(ready), Leave},
		"ours is removed when the node is back":               {fencedNode(tainted, marked, contact, ready), Remove},
		"also by a host that has rebooted since":              {fencedNode(tainted, marked, ready, noFence), Remove},
		"also when the node was never seen unready":           {fencedNode(tainted, marked, contact, func(in *Input) { in.Node.Heartbeat = now }), Remove},
		"a node that is Ready by old news is not back":        {fencedNode(tainted, marked, contact), Leave},
		"a node that is not Ready is not back":                {fencedNode(tainted, marked, contact, unready), Leave},
		"the mark goes too where the taint is gone":           {fencedNode(marked, contact, ready), Remove},
		"a mark without a time ends with any readiness":       {fencedNode(tainted, mark("cp-1"), contact), Remove},
		"a mark of the future ends with contact":              {fencedNode(tainted, mark("cp-1 2030-01-01T00:00:00Z"), contact), Remove},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := Decide(c.in)
			if got.Action != c.want || got.Reason == "" {
				t.Errorf("%+v, want %s", got, c.want)
			}
			if got.Action == Add {
				if m, ok := parseMark(got.Mark); !ok || m.by != "cp-1" || m.at.IsZero() {
					t.Errorf("mark %q", got.Mark)
				}
			}
		})
	}
}

// TestANodeThatIsOffIsNotReady checks that the API is told what it has not
// noticed, for as long as the proof holds and the taint is ours.
func TestANodeThatIsOffIsNotReady(t *testing.T) {
	for sentence, c := range map[string]struct {
		in   Input
		want bool
	}{
		"when it is tainted":                    {fencedNode(), true},
		"also later, where the telling failed":  {fencedNode(tainted, marked), true},
		"not where the API knows":               {fencedNode(tainted, marked, unready), false},
		"not where the proof has ended":         {fencedNode(tainted, marked, contact), false},
		"not where the node is back":            {fencedNode(tainted, marked, ready), false},
		"not where the taint is somebody's":     {fencedNode(tainted), false},
		"not where somebody has taken it away":  {fencedNode(marked), false},
		"not where a fence proves nothing more": {fencedNode(fence(func(f *state.EtcdFenced) { f.Boot = "boot-0" })), false},
	} {
		if got := Decide(c.in); got.Unready != c.want {
			t.Errorf("%s: %+v", sentence, got)
		}
	}
}

// object is a node as the API holds it, with the parts that patches touch.
type object struct {
	Metadata struct {
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Taints []Taint `json:"taints,omitempty"`
	} `json:"spec"`
}

func objectOf(n Node) object {
	var o object
	o.Metadata.ResourceVersion, o.Metadata.Annotations, o.Spec.Taints = n.ResourceVersion, n.Annotations, n.Taints
	return o
}

func patched(t *testing.T, o object, ops []Operation) (object, error) {
	t.Helper()
	doc, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		t.Fatal(err)
	}
	doc, err = patch.Apply(doc)
	if err != nil {
		return o, err
	}
	var out object
	if err := json.Unmarshal(doc, &out); err != nil {
		t.Fatal(err)
	}
	return out, nil
}

// nodes returns the forms that a node may have before a change.
func nodes() map[string]Node {
	foreign := Taint{Key: "example.com/dedicated", Value: "db", Effect: "NoSchedule", TimeAdded: "2026-11-20T08:00:00Z"}
	ours := Taint{Key: Key, Value: Value, Effect: Effect}
	set := map[string]string{"a": "b", Annotation: "cp-1 2026-11-20T08:59:50Z"}
	return map[string]Node{
		"bare":                  {ResourceVersion: "1"},
		"annotated":             {ResourceVersion: "1", Annotations: map[string]string{"a": "b"}},
		"with a foreign taint":  {ResourceVersion: "1", Annotations: map[string]string{"a": "b"}, Taints: []Taint{foreign}},
		"foreign, no note":      {ResourceVersion: "1", Taints: []Taint{foreign}},
		"ours":                  {ResourceVersion: "1", Annotations: set, Taints: []Taint{ours}},
		"ours between others":   {ResourceVersion: "1", Annotations: set, Taints: []Taint{foreign, ours, {Key: "x", Effect: "NoExecute"}}},
		"ours, taken by others": {ResourceVersion: "1", Annotations: set, Taints: []Taint{foreign}},
	}
}

func TestAPatchDoesWhatIsMeantAndNothingElse(t *testing.T) {
	for name, n := range nodes() {
		for _, v := range []Verdict{{Action: Add, Mark: "cp-1 2026-11-20T09:00:00Z"}, {Action: Remove}} {
			if v.Action == Remove != Ours(n) {
				continue
			}
			got, err := patched(t, objectOf(n), Patch(n, v))
			want := objectOf(Apply(n, v))
			if err != nil {
				t.Errorf("%s, %s: %v", name, v.Action, err)
			} else if diff := cmp.Diff(want, got, cmp.Transformer("annotations", func(m map[string]string) []string { return pairs(m) })); diff != "" {
				t.Errorf("%s, %s: %s", name, v.Action, diff)
			}
		}
	}
}

func pairs(m map[string]string) []string {
	out := []string{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return out
}

// TestAPatchFailsWhenTheTaintsHaveChanged protects a taint that somebody adds
// between our look and our change.
func TestAPatchFailsWhenTheTaintsHaveChanged(t *testing.T) {
	for name, n := range nodes() {
		for _, v := range []Verdict{{Action: Add, Mark: "m 2026-11-20T09:00:00Z"}, {Action: Remove}} {
			if v.Action == Remove && n.index() < 0 {
				continue
			}
			changed := objectOf(n)
			changed.Metadata.ResourceVersion = "2"
			changed.Spec.Taints = append([]Taint{{Key: "new", Effect: "NoSchedule"}}, n.Taints...)
			if got, err := patched(t, changed, Patch(n, v)); err == nil {
				t.Errorf("%s, %s: applied to another list: %+v", name, v.Action, got.Spec.Taints)
			}
		}
	}
}

func TestLeavingChangesNothing(t *testing.T) {
	if ops := Patch(fencedNode().Node, Verdict{Action: Leave}); ops != nil {
		t.Errorf("%v", ops)
	}
}
