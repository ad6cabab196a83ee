package backup

import (
	"slices"
	"testing"
	"time"
)

func TestWhatCopiesThatWereCutOffLeftIsFoundAndNothingElse(t *testing.T) {
	id := func(n int) string { return NewID("cp-1", time.Date(2026, 11, n, 3, 17, 0, 0, time.UTC)) }
	entry := func(n int, at ...string) Entry {
		e := Entry{ID: id(n), Site: "shop", Host: "cp-1", Good: true}
		for _, t := range at {
			e = e.WithCopy(Copy{Target: t, Verified: time.Unix(1, 0)})
		}
		return e
	}
	bad, other := entry(6), entry(7)
	bad.Good, other.Site = false, "shop-2"
	have := []Entry{entry(1), entry(2, "nas"), entry(3, "far"), entry(4), bad, other}
	files := map[string]int64{}
	for _, name := range []string{
		id(1) + ".tar.age",        // this host has the original: it is cut off
		id(2) + ".tar.age",        // the host knows that it was read back here: somebody else removed its entry
		id(3) + ".tar.age",        // another target has it, so this one is cut off
		id(4) + ".tar.age",        // this one is sent now
		id(5) + ".tar.age",        // of a former host of the name
		id(6) + ".tar.age",        // its original is bad
		id(7) + ".tar.age",        // of a site of another name
		id(8) + ".tar.age",        // whole
		id(8) + ".json",           //
		id(9) + ".tar.age.part",   // half
		id(9) + ".json.part",      // half
		id(4) + ".tar.age.part",   // half, and sent now
		"notes.part", "x.tar.age", // of somebody else
		"sub/" + id(9) + ".part",     // not in the folder itself
		id(9) + ".tar.part", "probe", // no name of ours
	} {
		files["shop/cp-1/"+name] = 1
	}
	files["shop/cp-2/"+id(9)+".tar.age.part"] = 1 // of another host
	var want []string
	for _, name := range []string{id(1) + ".tar.age", id(3) + ".tar.age", id(4) + ".tar.age.part", id(9) + ".json.part", id(9) + ".tar.age.part"} {
		want = append(want, "shop/cp-1/"+name)
	}
	if got := CutOff(files, entry(4), "nas", have); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
