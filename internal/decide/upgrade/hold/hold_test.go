package hold_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

func record(t *testing.T, r annotation.Record) state.Fact[string] {
	t.Helper()
	text, err := annotation.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	return state.Known(text)
}

// nodes are hosts as NAME RELEASE STEP; a release of - is unknown. Those whose names begin
// with cp are control planes, which are not ready here, and those with off are workers that
// are away.
func nodes(t *testing.T, hosts ...string) []corev1.Node {
	t.Helper()
	var out []corev1.Node
	for _, text := range hosts {
		f := strings.Fields(text)
		var h annotation.Host
		if f[1] != "-" {
			h.Facts.Release = state.Known(f[1])
		}
		if len(f) > 2 {
			h.Journal.Step = parachute.Step(f[2])
		}
		said, err := annotation.Encode(h)
		if err != nil {
			t.Fatal(err)
		}
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f[0], Labels: map[string]string{}, Annotations: map[string]string{annotation.HostOf: said}}}
		if strings.HasPrefix(f[0], "cp") {
			n.Labels[state.LabelControlPlane] = ""
		} else if !strings.HasPrefix(f[0], "off") {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}
		out = append(out, n)
	}
	return out
}

func TestWhatOfOtherWorkWaitsForTheUpgrade(t *testing.T) {
	started := annotation.Record{Upgrade: "u", From: "r1", To: "r2", Started: true}
	with := func(change func(*annotation.Record)) state.Fact[string] {
		r := started
		change(&r)
		return record(t, r)
	}
	const commit = "waits for the upgrade: commit it or go back first (`holdfast upgrade commit`, `holdfast upgrade rollback`)"
	torn := nodes(t, "cp-1 r1", "cp-2 r1")
	torn[1].Annotations[annotation.HostOf] = "{"
	for what, c := range map[string]struct {
		record        state.Fact[string]
		nodes         []corev1.Node
		away, rewrite string
	}{
		"there was never one":          {state.Known(""), nodes(t, "cp-1 r1", "cp-2 r1"), "", ""},
		"the last one is over":         {record(t, annotation.Record{Upgrade: "u", Turns: []string{"cp-1"}}), nodes(t, "cp-1 r2 accepted", "cp-2 r2 accepted"), "", ""},
		"hosts differ without one":     {state.Known(""), nodes(t, "cp-1 r1", "cp-2 r2"), "", ""},
		"a host says nothing readable": {state.Known(""), torn, "", ""},
		"a host is on its way alone":   {state.Known(""), nodes(t, "cp-1 r1", "cp-2 r2 returning"), "waits for the upgrade: cp-2 at work", "waits for the upgrade: cp-2 at work"},
		"nobody knows the record":      {state.Fact[string]{}, nodes(t, "cp-1 r1"), "waits for the upgrade: nobody knows its record", "waits for the upgrade: nobody knows its record"},
		"it is asked for":              {record(t, started), nodes(t, "cp-1 r1", "cp-2 r1"), "", commit},
		"a host has its turn":          {with(func(r *annotation.Record) { r.Turns = []string{"cp-2"} }), nodes(t, "cp-1 r1", "cp-2 r1"), "waits for the upgrade: cp-2 at work", "waits for the upgrade: cp-2 at work"},
		"the first one is there":       {record(t, started), nodes(t, "cp-1 r1", "cp-2 r2 accepted"), "waits for the upgrade: 1 of 2 hosts run the new release", "waits for the upgrade: 1 of 2 hosts run the new release"},
		"nobody knows what one runs":   {record(t, started), nodes(t, "cp-1 -", "cp-2 r2 accepted"), "waits for the upgrade: 1 of 2 hosts run the new release", "waits for the upgrade: 1 of 2 hosts run the new release"},
		"the site soaks":               {record(t, started), nodes(t, "cp-1 r2 accepted", "cp-2 r2 accepted"), "", commit},
		"a worker is not there yet":    {record(t, started), nodes(t, "cp-1 r2 accepted", "w-1 r1"), "waits for the upgrade: 1 of 2 hosts run the new release", "waits for the upgrade: 1 of 2 hosts run the new release"},
		"a worker is away":             {record(t, started), nodes(t, "cp-1 r2 accepted", "off-1 r1"), "", commit},
		"it is away at its work":       {record(t, started), nodes(t, "cp-1 r2 accepted", "off-1 r1 armed"), "waits for the upgrade: off-1 at work", "waits for the upgrade: off-1 at work"},
		"it goes back":                 {with(func(r *annotation.Record) { r.Returning = true }), nodes(t, "cp-1 r1 returned", "cp-2 r1 returned"), "waits for the upgrade: the site goes back to its former release", "waits for the upgrade: the site goes back to its former release"},
		"it is being committed":        {with(func(r *annotation.Record) { r.NoWayBack = true }), nodes(t, "cp-1 r2 accepted"), "waits for the upgrade: it is being committed", "waits for the upgrade: it is being committed"},
		"no node is known":             {record(t, started), nil, "", commit},
	} {
		if got := hold.Of(c.record, c.nodes); got.Away != c.away || got.Rewrite != c.rewrite || got.AtWork != map[bool]string{true: c.away}[strings.HasSuffix(c.away, " at work") || strings.Contains(c.away, "nobody knows")] {
			t.Errorf("%s: %+v", what, got)
		}
	}
	for _, text := range []string{"{", `{"format":99}`, `{"started":true}`} {
		if got := hold.Of(state.Known(text), nil); got.Away == "" || got.Away != got.Rewrite || got.AtWork != got.Away || !strings.Contains(got.Away, "ConfigMap kube-system/holdfast-upgrade") {
			t.Errorf("a record that cannot be read, %s: %+v", text, got)
		}
	}
}
