package encryption_test

import (
	"slices"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/encryption"
)

func TestWhatAHostTakesForAWish(t *testing.T) {
	for what, c := range map[string]struct {
		have  keys
		kept  bool
		wish  keys
		want  keys
		keeps bool
	}{
		"nothing changes":                  {keys{1}, false, keys{1}, keys{1}, false},
		"all are to read a new one":        {keys{1}, false, keys{1, 2}, keys{1, 2}, false},
		"all are to write with it":         {keys{1, 2}, false, keys{2, 1}, keys{2, 1}, false},
		"the old one is dropped":           {keys{2, 1}, false, keys{2}, keys{2}, false},
		"it wrote with the one that went":  {keys{1, 2}, false, keys{2}, keys{2, 1}, true},
		"its file is of long ago":          {keys{1}, false, keys{3}, keys{3, 1}, true},
		"it keeps that on":                 {keys{2, 1}, true, keys{2}, keys{2, 1}, true},
		"others read it again":             {keys{2, 1}, true, keys{2, 1}, keys{2, 1}, false},
		"an older copy of etcd is back":    {keys{2, 1}, true, keys{1}, keys{1, 2}, true},
		"the wish was deleted":             {keys{2, 1}, true, nil, keys{2, 1}, true},
		"there was never one":              {keys{1}, false, nil, keys{1}, false},
		"its file was taken away":          {nil, false, keys{2}, keys{2}, false},
		"a rotation that it did not begin": {keys{1}, false, keys{3, 2}, keys{3, 2}, false},
	} {
		if got, keeps := encryption.Follow(c.have, c.kept, c.wish); !slices.Equal(got, c.want) || keeps != c.keeps {
			t.Errorf("%s: %v %v, want %v %v", what, got, keeps, c.want, c.keeps)
		}
	}
}

func TestWhatAHostTellsOfItsKeysIsReadBack(t *testing.T) {
	for _, kept := range []bool{false, true} {
		text := encryption.Told(keys{2, 1}, kept)
		if got, said, err := encryption.ParseTold(text); err != nil || said != kept || !slices.Equal(got, keys{2, 1}) {
			t.Errorf("%s: %v %v %v", text, got, said, err)
		}
		if _, err := encryption.Parse(text); (err != nil) != kept { // as earlier releases read it: they hold
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", " kept", "2,1 kept kept", "2,1kept"} {
		if got, _, err := encryption.ParseTold(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestWhatAHostWroteWithADroppedKeyIsWrittenAnew: cp-2 comes with keys of before, and writes. It can
// read that all the while, and in the end everybody can.
func TestWhatAHostWroteWithADroppedKeyIsWrittenAnew(t *testing.T) {
	for _, older := range []keys{{1}, {1, 2}} {
		s := encryption.Seen{Wish: keys{2}, Rewritten: 2, Hosts: hosts(keys{2}, older)}
		stored := map[int]bool{2: true, older[0]: true}
		for steps := 0; ; steps++ {
			for i, h := range s.Hosts {
				s.Hosts[i].Loaded, s.Hosts[i].Kept = encryption.Follow(h.Loaded, h.Kept, s.Wish)
				stored[s.Hosts[i].Loaded[0]] = true
			}
			for key := range stored {
				if !slices.Contains(s.Hosts[1].Loaded, key) {
					t.Fatalf("%v: nobody can read key %d: %+v", older, key, s)
				}
			}
			step := encryption.Next(s, false)
			switch step.Kind {
			case encryption.Ask:
				if s.Wish = step.Keys; step.Again {
					s.Rewritten = 0
				}
			case encryption.Rewrite:
				s.Rewritten, stored = step.Keys[0], map[int]bool{step.Keys[0]: true}
			case encryption.Refuse, encryption.Wait:
				t.Fatalf("%v: %+v", older, step)
			case encryption.Done:
			}
			if step.Kind == encryption.Done || steps > 9 {
				break
			}
		}
		if len(stored) != 1 || !stored[2] || !slices.Equal(s.Hosts[0].Loaded, keys{2}) || !slices.Equal(s.Hosts[1].Loaded, keys{2}) {
			t.Errorf("%v: %v is stored, %+v", older, stored, s)
		}
	}
}
