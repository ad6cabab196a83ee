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
		return state.Node{Name: name, Labels: labels, Annotations: map[string]string{Annotation: text}}
	}
	took := func(ago time.Duration, good bool) Brief { return Brief{ID: "x", Taken: now.Add(-ago), Good: good} }
	silent := state.Node{Name: "cp-1", Labels: control}
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
	} {
		if why := Before(NewestOf(c.nodes, now), now); (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q, want %q", name, why, c.why)
		}
	}
}
