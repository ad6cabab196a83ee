package readdress

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// infrastructure is an API that has the annotations of the Infrastructure object alone.
type infrastructure struct {
	API
	set map[string]any
}

func (i *infrastructure) Fields(_ context.Context, r state.ObjectRef) (map[string]any, error) {
	if r.Kind != "Infrastructure" {
		return nil, nil
	}
	return map[string]any{"metadata": map[string]any{"annotations": i.set}}, nil
}

func (i *infrastructure) Merge(_ context.Context, _ state.ObjectRef, _ bool, _, patch map[string]any) (bool, error) {
	meta, _ := patch["metadata"].(map[string]any)
	set, _ := meta["annotations"].(map[string]any)
	for name, value := range set {
		if i.set[name] = value; value == nil {
			delete(i.set, name)
		}
	}
	return true, nil
}

func (i *infrastructure) Apply(context.Context, state.ObjectRef, []byte) error { return nil }

func TestOnlyTheAnnouncementOfAMoveThatIsOverIsTakenAway(t *testing.T) {
	text := func(id string) string {
		p := move(t)
		p.ID = id
		return state.FormatAnnotation(p)
	}
	const ended = `{"plan":"m","at":"to"}`
	for sentence, c := range map[string]struct {
		has   map[string]any
		stays bool
	}{
		"this one":                 {map[string]any{kube.ReaddressAnnotation: text("m"), kube.ReaddressedAnnotation: ended}, false},
		"another one":              {map[string]any{kube.ReaddressAnnotation: text("m2"), kube.ReaddressedAnnotation: ended}, true},
		"one that is unreadable":   {map[string]any{kube.ReaddressAnnotation: "{"}, true},
		"none":                     {map[string]any{}, false},
		"none, for one host alone": {map[string]any{kube.ReaddressedAnnotation: ended}, false},
	} {
		had := len(c.has)
		api := &infrastructure{set: c.has}
		must(t, Withdraw(t.Context(), api, "m"))
		if want := map[bool]int{true: had}[c.stays]; len(api.set) != want {
			t.Errorf("%s: left is %v", sentence, api.set)
		}
	}
}

// TestTheClusterSaysAtWhichPlaceItsObjectsAre: a site may keep its virtual IPs, or have none, and a worker
// sees nothing else.
func TestTheClusterSaysAtWhichPlaceItsObjectsAre(t *testing.T) {
	s := sitetest.New(t, sitetest.TwoDual)
	p := move(t)
	p.To.APIVIPs, p.To.IngressVIPs, p.To.BMCs = p.From.APIVIPs, p.From.IngressVIPs, nil
	p.To.MachineNetworks = []string{"10.0.0.0/8", "fd00::/8"}
	api := &infrastructure{set: map[string]any{"other": "stays"}}
	for _, side := range []decide.Side{decide.To, decide.From} {
		for range 2 {
			must(t, Cluster(t.Context(), api, s, p, side, nil))
		}
		in := kube.Infrastructure{Readdressed: api.set[kube.ReaddressedAnnotation].(string)}
		if got := Object(in).SideOf(p); !state.Is(got, side) || api.set["other"] != "stays" {
			t.Errorf("it is at %+v, want %s: %v", got, side, api.set)
		}
	}
}

// whole is an API that has the Infrastructure object alone, with all its fields.
type whole struct {
	infrastructure
	now map[string]any
}

func (w *whole) Fields(_ context.Context, r state.ObjectRef) (map[string]any, error) {
	if r.Kind != "Infrastructure" {
		return nil, nil
	}
	return w.now, nil
}

func (w *whole) Merge(_ context.Context, _ state.ObjectRef, _ bool, _, patch map[string]any) (bool, error) {
	patched(w.now, patch)
	return true, nil
}

// patched applies a merge patch.
func patched(to, patch map[string]any) {
	for key, value := range patch {
		inner, tree := value.(map[string]any)
		if there, _ := to[key].(map[string]any); tree && there != nil {
			patched(there, inner)
		} else {
			to[key] = value
		}
	}
}

// TestTheClusterGetsTheVIPsOfThePlanAlone: one that was added after a host got its plan would be the first
// one at the new place, where nobody can hold it. Kubeconfigs name the first.
func TestTheClusterGetsTheVIPsOfThePlanAlone(t *testing.T) {
	s := sitetest.New(t, sitetest.TwoDual)
	p := move(t)
	p.From.APIVIPs, p.From.IngressVIPs, p.From.BMCs = p.From.APIVIPs[:1], p.From.IngressVIPs[:1], nil
	p.To.APIVIPs, p.To.IngressVIPs, p.To.BMCs = p.To.APIVIPs[:1], p.To.IngressVIPs[:1], nil
	lists := func() map[string]any {
		return map[string]any{"baremetal": map[string]any{
			"apiServerInternalIPs": []any{"10.98.0.5", "fd98::5"}, "ingressIPs": []any{"10.98.0.6", "fd98::6"}, "machineNetworks": []any{"10.98.0.0/24", "fd98::/64"},
		}}
	}
	api := &whole{now: map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{}},
		"spec":     map[string]any{"platformSpec": lists()}, "status": map[string]any{"platformStatus": lists()},
	}}
	must(t, Cluster(t.Context(), api, s, p, decide.To, nil))
	for half, platform := range map[string]string{"spec": "platformSpec", "status": "platformStatus"} {
		metal := api.now[half].(map[string]any)[platform].(map[string]any)["baremetal"].(map[string]any)
		for field, want := range map[string]string{"apiServerInternalIPs": "[10.77.0.5]", "ingressIPs": "[10.77.0.6]", "machineNetworks": "[10.77.0.0/24 fd77::/64]"} {
			if got := fmt.Sprint(metal[field]); got != want {
				t.Errorf("%s.%s: %s, want %s", half, field, got, want)
			}
		}
	}
}
