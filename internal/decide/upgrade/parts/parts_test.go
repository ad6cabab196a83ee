package parts_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/model/state"
)

const older, newer = "sha256:1", "sha256:2"

func host(name string, ready bool, whole ...string) gate.Host {
	return gate.Host{Name: name, Ready: state.Known(ready), Whole: state.Known(whole)}
}

func TestAReadyControlPlaneThatHasTheReleaseWholeBringsAPart(t *testing.T) {
	worker := host("a", true, newer)
	worker.Worker = true
	silent := host("b", true)
	silent.Whole = state.Fact[[]string]{}
	unknown := host("b", true, newer)
	unknown.Ready = state.Fact[bool]{}
	one, two := host("cp-1", true, older, newer), host("cp-2", true, older, newer)
	for name, c := range map[string]struct {
		hosts []gate.Host
		now   string
		want  string
	}{
		"the first one by its name":         {[]gate.Host{two, one}, "", "cp-1"},
		"who is at it stays":                {[]gate.Host{one, two}, "cp-2", "cp-2"},
		"unless it is not ready":            {[]gate.Host{one, host("cp-2", false, newer)}, "cp-2", "cp-1"},
		"or has lost the release":           {[]gate.Host{one, host("cp-2", true, older)}, "cp-2", "cp-1"},
		"or is no node any more":            {[]gate.Host{one}, "cp-2", "cp-1"},
		"no worker, and nobody unknown":     {[]gate.Host{worker, silent, unknown}, "a", ""},
		"nobody on a site without a host":   {nil, "cp-1", ""},
		"another one of which all is known": {[]gate.Host{worker, silent, two}, "", "cp-2"},
	} {
		if got := parts.Choose(c.hosts, newer, c.now); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func ref(kind, name string) state.ObjectRef {
	return state.ObjectRef{APIVersion: "rbac.authorization.k8s.io/v1", Kind: kind, Namespace: "x", Name: name}
}

func TestAPartIsOfTheReleaseThatBroughtItAndOfNoneInBetween(t *testing.T) {
	before, err := parts.ReadMark(nil)
	if err != nil {
		t.Fatal(err)
	}
	begun := before.Begin(parts.Objects, []state.ObjectRef{ref("Role", "a")})
	done := begun.Done(parts.Objects, newer, []state.ObjectRef{ref("Role", "a")})
	for name, c := range map[string]struct {
		mark parts.Mark
		want state.Fact[string]
	}{
		"a cluster without a mark": {before, state.Known(older)},
		"cut in the middle":        {begun, state.Fact[string]{}},
		"brought":                  {done, state.Known(newer)},
		"begun anew":               {done.Begin(parts.Objects, nil), state.Fact[string]{}},
	} {
		data, err := c.mark.Data()
		if err != nil {
			t.Fatal(err)
		}
		read, err := parts.ReadMark(data)
		if got := read.Release(parts.Objects, older); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if got := read.Release(parts.Operator, older); got != state.Known(older) {
			t.Errorf("%s: the operator is of %+v", name, got)
		}
	}
}

// TestWhatAReleaseDropsIsStaleWhereverItWasCut: also what a release brought that was cut in
// the middle, after which the site went back.
func TestWhatAReleaseDropsIsStaleWhereverItWasCut(t *testing.T) {
	a, b, c := ref("Role", "a"), ref("Role", "b"), ref("Role", "c")
	kind := state.ObjectRef{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: "things.x"}
	space := state.ObjectRef{APIVersion: "v1", Kind: "Namespace", Name: "y"}
	old := parts.Mark{}.Done(parts.Objects, older, []state.ObjectRef{kind, space, a, b})
	onTheWay := old.Begin(parts.Objects, []state.ObjectRef{a, c})
	if diff := cmp.Diff([]state.ObjectRef{b}, onTheWay.Stale([]state.ObjectRef{a, c})); diff != "" {
		t.Errorf("on the way:\n%s", diff)
	}
	back := onTheWay.Begin(parts.Objects, []state.ObjectRef{kind, space, a, b})
	if diff := cmp.Diff([]state.ObjectRef{c}, back.Stale([]state.ObjectRef{kind, space, a, b})); diff != "" {
		t.Errorf("on the way back:\n%s", diff)
	}
	if got := old.Stale([]state.ObjectRef{a, b}); got != nil {
		t.Errorf("kinds and namespaces go: %v", got)
	}
	later := b
	later.APIVersion = "rbac.authorization.k8s.io/v2"
	if got := old.Stale([]state.ObjectRef{a, later}); got != nil {
		t.Errorf("another version is another object: %v", got)
	}
	if diff := cmp.Diff(onTheWay.Brought, onTheWay.Done(parts.KubeProxy, newer, nil).Brought); diff != "" {
		t.Errorf("another part changes the list:\n%s", diff)
	}
}

func TestAMarkOfALaterReleaseIsUnknown(t *testing.T) {
	if m, err := parts.ReadMark(map[string]string{"objects": newer, "list": `{"format":2}`}); !errors.Is(err, annotation.ErrNewer) || m.Releases != nil {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err := parts.ReadMark(map[string]string{"dns": newer, "list": `{"format":1,"colour":"blue"}`}); err != nil || m.Releases["dns"] != newer {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestOnlyANameIsAnArgument(t *testing.T) {
	for text, want := range map[string]bool{"objects": true, "kube-proxy": true, "": false, "--help": false, "a b": false, "a\nb": false} {
		if got := parts.Name(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
