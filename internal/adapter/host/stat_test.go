package host

import "testing"

func TestTheStatOfAProcessIsReadWhateverItsName(t *testing.T) {
	got, err := ParseStat([]byte("1 (a ) b) S 0 1 1 0 -1 4194560 3 4 5 6 7 8 9 10 20 0 1 0 4711 18 19"))
	if want := (ProcessStat{Name: "a ) b", Letter: "S", Started: 4711}); err != nil || got != want || got.Ended() {
		t.Errorf("%+v, %v", got, err)
	}
	if p := (ProcessStat{Letter: "Z"}); !p.Ended() {
		t.Error("a zombie runs")
	}
	for _, bad := range []string{"", "1 (init", "1 (init) S 0 1", ") (", "1 (a) S 0 1 1 0 -1 4194560 3 4 5 6 7 8 9 10 20 0 1 0 soon 18 19"} {
		if got, err := ParseStat([]byte(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, got)
		}
	}
}
