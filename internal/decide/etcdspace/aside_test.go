package etcdspace

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatAKeeperSetAsideGoesOnlyOnceEtcdServesWithoutIt(t *testing.T) {
	served := func() Facts {
		own := Member{Name: "cp-1", ID: 1, Leader: 2}
		return Facts{
			Self: "cp-1", Shape: Static, Voters: 3, Own: state.Known(own),
			Members: state.Known([]Member{own, {Name: "cp-2", ID: 2, Leader: 2}, {Name: "cp-3", ID: 3, Leader: 2}}),
		}
	}
	if !Tidies(served()) {
		t.Error("three that serve")
	}
	one := served()
	one.Voters, one.Own.Value.Leader, one.Members.Value = 1, 1, []Member{{Name: "cp-1", ID: 1, Leader: 1}}
	if !Tidies(one) {
		t.Error("one that serves")
	}
	for what, change := range map[string]func(f *Facts){
		"a keeper runs it":             func(f *Facts) { f.Shape = Two },
		"it does not answer":           func(f *Facts) { f.Own.Known = false },
		"nobody knows the voters":      func(f *Facts) { f.Members.Known = false },
		"a voter does not answer":      func(f *Facts) { f.Members.Value = f.Members.Value[:2] },
		"there is no leader":           func(f *Facts) { f.Own.Value.Leader, f.Members.Value[0].Leader = 0, 0 },
		"a voter follows another one":  func(f *Facts) { f.Members.Value[1].Leader = 3 },
		"one of them is corrupt":       func(f *Facts) { f.Members.Value[2].Corrupt = true },
		"one that is gone was corrupt": func(f *Facts) { f.GoneCorrupt = true },
		"it is no voter":               func(f *Facts) { f.Own.Value.ID = 9 },
		"there are none":               func(f *Facts) { f.Voters, f.Members.Value = 0, nil },
	} {
		f := served()
		if change(&f); Tidies(f) {
			t.Error(what)
		}
	}
}
