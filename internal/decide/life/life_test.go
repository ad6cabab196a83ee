package life

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhoBelongsToAFormerLife(t *testing.T) {
	at := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	installed := state.Life{}
	first := state.Life{ID: "a", Began: at}
	second := state.Life{ID: "b", Began: at.Add(time.Hour)}
	for name, c := range map[string]struct {
		own   state.Life
		heard []state.Life
		want  string
	}{
		"nobody answers":                           {installed, nil, ""},
		"the other control plane":                  {installed, []state.Life{installed}, ""},
		"the other control plane, after a restore": {first, []state.Life{first, first}, ""},
		"the site was restored":                    {installed, []state.Life{first}, "prepared at 2026-11-28T10:00:00Z"},
		"it was restored twice":                    {installed, []state.Life{first, second, first}, "prepared at 2026-11-28T11:00:00Z"},
		"it was restored again":                    {first, []state.Life{second}, "prepared at 2026-11-28T11:00:00Z"},
		"a former host answers the restored one":   {second, []state.Life{first, installed}, ""},
		"a trial answers beside the living site":   {installed, []state.Life{first, installed}, ""},
	} {
		got := Succeeded(c.own, c.heard)
		if got == "" != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Two sites that answer each other never both give way.
func TestOfTwoLivesAtMostOneGivesWay(t *testing.T) {
	at := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	lives := []state.Life{{}, {ID: "a", Began: at}, {ID: "b", Began: at}, {ID: "c", Began: at.Add(time.Second)}}
	for _, a := range lives {
		for _, b := range lives {
			if Succeeded(a, []state.Life{b}) != "" && Succeeded(b, []state.Life{a}) != "" {
				t.Errorf("%+v and %+v give way to each other", a, b)
			}
		}
	}
}

func TestARestoreWaitsForEachControlPlaneOfAnotherLife(t *testing.T) {
	own := state.Life{ID: "b", Began: time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)}
	for name, c := range map[string]struct {
		heard       state.Life
		knows, want bool
	}{
		"itself, at a virtual IP that it holds":       {own, true, false},
		"the life that the installation began":        {state.Life{}, true, true},
		"one that a restore before began":             {state.Life{ID: "a", Began: own.Began.Add(-time.Hour)}, true, true},
		"one that another restore began, and later":   {state.Life{ID: "c", Began: own.Began.Add(time.Hour)}, true, true},
		"an earlier release, which knows of no lives": {state.Life{}, false, true},
	} {
		if got := Other(own, c.heard, c.knows); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
