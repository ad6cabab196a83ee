package observe

import "testing"

func TestABootIsNamedByItsFirstProcess(t *testing.T) {
	line := "1 (a ) b) S 0 1 1 0 -1 4194560 3 4 5 6 7 8 9 10 20 0 1 0 4711 18 19"
	if got, err := startTime([]byte(line)); err != nil || got != "4711" {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"", "1 (init", "1 (init) S 0 1"} {
		if got, err := startTime([]byte(bad)); err == nil {
			t.Errorf("%q was read as %q", bad, got)
		}
	}
	a, before, err := Boot()
	if err != nil {
		t.Fatal(err)
	}
	b, after, _ := Boot()
	if a != b || after < before {
		t.Errorf("%s at %s, then %s at %s", a, before, b, after)
	}
}
