package deleted

import (
	"testing"
	"time"
)

func TestAnObjectIsMadeAgainByWhoeverSawItLast(t *testing.T) {
	thrice := []time.Time{now.Add(-9 * time.Minute), now.Add(-time.Minute), now}
	for name, c := range map[string]struct {
		o    Object
		want bool
	}{
		"it is there":                         {Object{There: true, Kept: true, Seen: true}, false},
		"it was seen a moment ago":            {Object{Kept: true, Seen: true}, true},
		"nobody has a copy":                   {Object{Seen: true, Gone: time.Hour}, false},
		"the host was off, and another makes": {Object{Kept: true, Gone: Late - 1}, false},
		"the host was off, and nobody does":   {Object{Kept: true, Gone: Late}, true},
		"somebody deletes it again and again": {Object{Kept: true, Seen: true, Made: thrice}, false},
		"and stopped to":                      {Object{Kept: true, Seen: true, Made: []time.Time{now.Add(-Within), now, now}}, true},
	} {
		if got := c.o.Again(now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOfWhatIsSignedOnlyTheContentIsKept(t *testing.T) {
	for _, m := range ConfigMaps() {
		got := m.Keep(map[string]string{"kubeconfig": "a", "jws-kubeconfig-abcdef": "old", "x": "y"})
		if m.Name == "cluster-info" && (len(got) != 1 || got["kubeconfig"] != "a") || m.Name != "cluster-info" && len(got) != 3 {
			t.Errorf("%s: %v", m.Name, got)
		}
	}
}
