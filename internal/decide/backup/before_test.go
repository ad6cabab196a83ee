package backup

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestAStepThatCannotBeTakenBackWaitsForAYoungGoodBackup(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	control := map[string]string{state.LabelControlPlane: ""}
	node := func(name string, labels map[string]string, kept ...Brief) state.Node {
		text, err := Summary{At: now, Kept: kept}.Text()
		if err != nil {
			t.Fatal(err)
		}
		return state.Node{Name: name, Labels: labels, Ready: true, Annotations: map[string]string{Annotation: text}}
	}
	took := func(ago time.Duration, good bool) Brief { return Brief{ID: "x", Taken: now.Add(-ago), Good: good} }
	sent := func(b Brief, verified time.Time) Brief {
		b.Copies = []Copy{{Target: "nas", Verified: verified}}
		return b
	}
	lost := func(n state.Node) state.Node { n.Ready, n.Silent = false, true; return n }
	unready := func(n state.Node) state.Node { n.Ready = false; return n }
	young, lastNight := took(2*time.Hour, true), took(13*time.Hour, true)
	silent := state.Node{Name: "cp-1", Labels: control, Ready: true}
	for name, c := range map[string]struct {
		nodes []state.Node
		why   string
	}{
		"nobody tells":                         {[]state.Node{silent}, "unknown"},
		"a worker tells":                       {[]state.Node{silent, node("w", nil, took(time.Hour, true))}, "unknown"},
		"none":                                 {[]state.Node{node("cp-1", control)}, "no good backup"},
		"a bad one":                            {[]state.Node{node("cp-1", control, took(time.Hour, false))}, "no good backup"},
		"an old one":                           {[]state.Node{node("cp-1", control, took(BeforeAge+time.Second, true))}, "older than 4 hours"},
		"one of a clock that ran ahead":        {[]state.Node{node("cp-1", control, took(-BeforeAge-time.Second, true))}, "no good backup"},
		"one of a clock that is a bit ahead":   {[]state.Node{node("cp-1", control, took(-time.Minute, true))}, ""},
		"an old one, and one that seems young": {[]state.Node{node("cp-1", control, took(-time.Hour, true), took(BeforeAge+time.Second, true))}, "older than 4 hours"},
		"a young one beside one of a clock that ran ahead": {[]state.Node{node("cp-1", control, took(-90*24*time.Hour, true), took(time.Hour, true))}, ""},
		"a young one":                    {[]state.Node{node("cp-1", control, took(BeforeAge, true))}, ""},
		"a young one of the other alone": {[]state.Node{silent, node("cp-2", control, took(time.Minute, true))}, ""},
		"a young one of a host that is silent": {
			[]state.Node{node("cp-1", control, lastNight), node("cp-2", control, lastNight), lost(node("cp-3", control, young))},
			"older than 4 hours but for one on cp-3 alone, which is silent or goes",
		},
		"a young one of a host that says that it is not ready": {[]state.Node{node("cp-1", control, lastNight), unready(node("cp-3", control, young))}, ""},
		"no other one":                          {[]state.Node{silent, lost(node("cp-3", control, young))}, "no good backup but for one on cp-3 alone"},
		"a young one of a host that goes":       {[]state.Node{node("cp-1", control, lastNight), node("goes", control, young)}, "older than 4 hours but for one on goes alone"},
		"a target has it":                       {[]state.Node{node("cp-1", control, lastNight), lost(node("goes", control, sent(young, now)))}, ""},
		"a target was to have it":               {[]state.Node{node("cp-1", control, lastNight), lost(node("goes", control, sent(young, time.Time{})))}, "older than 4 hours but for"},
		"an old one of a host that is silent":   {[]state.Node{node("cp-1", control, young), lost(node("cp-3", control, lastNight))}, ""},
		"only a host that is silent ever tells": {[]state.Node{lost(node("cp-3", control, lastNight))}, "no good backup"},
	} {
		if why := BeforeOf(c.nodes, now, "goes"); (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q, want %q", name, why, c.why)
		}
	}
}
