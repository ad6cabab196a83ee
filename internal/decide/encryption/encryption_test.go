package encryption_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/encryption"
)

type keys = encryption.Keys

func hosts(loaded ...keys) []encryption.Host {
	var out []encryption.Host
	for i, k := range loaded {
		out = append(out, encryption.Host{Name: fmt.Sprintf("cp-%d", i+1), Ready: true, ControlPlanes: len(loaded), Loaded: k})
	}
	return out
}

func TestWhatIsNext(t *testing.T) {
	gone := hosts(keys{1}, keys{1})
	gone[1].Ready = false
	without := func(k keys) []encryption.Host { return hosts(k, k)[:1] }
	mute := hosts(keys{1}, keys{1})
	mute[0].ControlPlanes, mute[1].ControlPlanes = 0, 0
	keeps := hosts(keys{2}, keys{2, 1})
	keeps[1].Kept = true
	all := hosts(keys{2, 1}, keys{2, 1})
	all[0].Kept, all[1].Kept = true, true
	worker := append(hosts(keys{2}, keys{2}), encryption.Host{Name: "worker-1", Ready: true, Joins: true, Loaded: keys{2, 1}, Kept: true})
	echo := append(without(keys{2}), encryption.Host{Name: "worker-1", Ready: true, Joins: true, Loaded: keys{2}})
	still := hosts(keys{2, 1}, keys{2, 1})
	still[1].Kept = true
	for name, c := range map[string]struct {
		seen  encryption.Seen
		begin bool
		want  encryption.Kind
		keys  keys
		why   string
	}{
		"nothing is under way":                 {encryption.Seen{Wish: keys{2}, Hosts: hosts(keys{2}, keys{2})}, false, encryption.Done, keys{2}, "key 2"},
		"never rotated, as installed":          {encryption.Seen{Hosts: hosts(keys{1}, keys{1})}, false, encryption.Done, keys{1}, "key 1"},
		"a rotation begins":                    {encryption.Seen{Wish: keys{2}, Hosts: hosts(keys{2}, keys{2})}, true, encryption.Ask, keys{2, 3}, "read key 3"},
		"the first one begins":                 {encryption.Seen{Hosts: hosts(keys{1}, keys{1})}, true, encryption.Ask, keys{1, 2}, "read key 2"},
		"clear text is left":                   {encryption.Seen{Hosts: hosts(keys{0}, keys{0})}, true, encryption.Ask, keys{0, 1}, "read key 1"},
		"one has not read it yet":              {encryption.Seen{Wish: keys{1, 2}, Hosts: hosts(keys{1, 2}, keys{1})}, true, encryption.Wait, keys{1, 2}, "cp-2"},
		"all read it":                          {encryption.Seen{Wish: keys{1, 2}, Hosts: hosts(keys{1, 2}, keys{1, 2})}, true, encryption.Ask, keys{2, 1}, "write with key 2"},
		"an interrupted one goes on":           {encryption.Seen{Wish: keys{1, 2}, Hosts: hosts(keys{1, 2}, keys{1, 2})}, false, encryption.Ask, keys{2, 1}, "write with key 2"},
		"one does not write with it yet":       {encryption.Seen{Wish: keys{2, 1}, Hosts: hosts(keys{1, 2}, keys{2, 1})}, false, encryption.Wait, keys{2, 1}, "cp-1"},
		"all write with it":                    {encryption.Seen{Wish: keys{2, 1}, Hosts: hosts(keys{2, 1}, keys{2, 1})}, false, encryption.Rewrite, keys{2, 1}, "key 2"},
		"an older rewriting does not count":    {encryption.Seen{Wish: keys{3, 2}, Rewritten: 2, Hosts: hosts(keys{3, 2})}, false, encryption.Rewrite, keys{3, 2}, "key 3"},
		"all is rewritten":                     {encryption.Seen{Wish: keys{2, 1}, Rewritten: 2, Hosts: hosts(keys{2, 1}, keys{2, 1})}, false, encryption.Ask, keys{2}, "key 1 is dropped"},
		"clear text is dropped":                {encryption.Seen{Wish: keys{1, 0}, Rewritten: 1, Hosts: hosts(keys{1, 0})}, false, encryption.Ask, keys{1}, "clear text is dropped"},
		"the old one is dropped by one only":   {encryption.Seen{Wish: keys{2}, Rewritten: 2, Hosts: hosts(keys{2}, keys{2, 1})}, true, encryption.Wait, keys{2}, "cp-2"},
		"a control plane is away":              {encryption.Seen{Hosts: gone}, true, encryption.Refuse, nil, "bring it back, or if it is gone for good: holdfast host replace cp-2"},
		"it is away in the middle":             {encryption.Seen{Wish: keys{1, 2}, Hosts: append(hosts(keys{1, 2}), gone[1])}, false, encryption.Refuse, nil, "cp-2 not ready"},
		"a host is being installed":            {encryption.Seen{Wish: keys{1}, Hosts: hosts(keys{1}, nil)}, true, encryption.Refuse, nil, "cp-2 does not report"},
		"nobody is there":                      {encryption.Seen{Wish: keys{1}}, true, encryption.Refuse, nil, "no control plane"},
		"they do not agree and nobody wished":  {encryption.Seen{Hosts: hosts(keys{1}, keys{2})}, true, encryption.Refuse, nil, "cp-1 key 1, cp-2 key 2"},
		"one has no Node":                      {encryption.Seen{Wish: keys{1}, Hosts: without(keys{1})}, true, encryption.Refuse, nil, "only 1 of 2 control planes have a Node"},
		"its Node went, and all read it":       {encryption.Seen{Wish: keys{1, 2}, Hosts: without(keys{1, 2})}, false, encryption.Refuse, nil, "only 1 of 2 control planes have a Node"},
		"its Node went, and all write it":      {encryption.Seen{Wish: keys{2, 1}, Hosts: without(keys{2, 1})}, false, encryption.Refuse, nil, "only 1 of 2 control planes have a Node"},
		"its Node went, all is rewritten":      {encryption.Seen{Wish: keys{2, 1}, Rewritten: 2, Hosts: without(keys{2, 1})}, false, encryption.Refuse, nil, "only 1 of 2 control planes have a Node"},
		"nobody says how many there are":       {encryption.Seen{Wish: keys{1}, Hosts: mute}, true, encryption.Refuse, nil, "how many the site has"},
		"a plan is in force":                   {encryption.Seen{Wish: keys{1}, Hosts: hosts(keys{1}, keys{1}), AtWork: "the plan p1"}, true, encryption.Refuse, nil, "the plan p1"},
		"in the middle of a rotation":          {encryption.Seen{Wish: keys{1, 2}, Hosts: hosts(keys{1, 2}, keys{1, 2}), AtWork: "the plan p1"}, false, encryption.Refuse, nil, "the plan p1"},
		"before all is rewritten":              {encryption.Seen{Wish: keys{2, 1}, Hosts: hosts(keys{2, 1}, keys{2, 1}), AtWork: "the plan p1"}, false, encryption.Refuse, nil, "the plan p1"},
		"before the old one is dropped":        {encryption.Seen{Wish: keys{2, 1}, Rewritten: 2, Hosts: hosts(keys{2, 1}, keys{2, 1}), AtWork: "the plan p1"}, false, encryption.Refuse, nil, "the plan p1"},
		"without a rotation":                   {encryption.Seen{Wish: keys{1}, Hosts: hosts(keys{1}, keys{1}), AtWork: "the plan p1"}, false, encryption.Done, keys{1}, "key 1"},
		"one keeps what others dropped":        {encryption.Seen{Wish: keys{2}, Rewritten: 2, Hosts: keeps}, false, encryption.Ask, keys{2, 1}, "cp-2 may have written with key 1"},
		"one keeps, and a plan is in force":    {encryption.Seen{Wish: keys{2}, Rewritten: 2, Hosts: keeps, AtWork: "the plan p1"}, false, encryption.Ask, keys{2, 1}, "cp-2 may have written with key 1"},
		"a worker says that it keeps one":      {encryption.Seen{Wish: keys{2}, Rewritten: 2, Hosts: worker}, false, encryption.Wait, keys{2}, "worker-1"},
		"a worker does not count":              {encryption.Seen{Wish: keys{2}, Rewritten: 2, Hosts: echo}, true, encryption.Refuse, nil, "only 1 of 2 control planes have a Node"},
		"each keeps one, and there is no wish": {encryption.Seen{Hosts: all}, false, encryption.Ask, keys{2, 1}, "may have written with key 1"},
		"one keeps one, and there is no wish":  {encryption.Seen{Hosts: keeps}, false, encryption.Ask, keys{2, 1}, "cp-2 may have written with key 1"},
		"it kept it, and is to read it":        {encryption.Seen{Wish: keys{2, 1}, Hosts: still}, false, encryption.Wait, keys{2, 1}, "cp-2"},
		"a wish that is none":                  {encryption.Seen{Wish: keys{1, 2, 3}, Hosts: hosts(keys{1})}, true, encryption.Refuse, nil, "do not agree"},
	} {
		got := encryption.Next(c.seen, c.begin)
		if got.Kind != c.want || c.keys != nil && !slices.Equal(got.Keys, c.keys) || !strings.Contains(got.Why, c.why) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// In whatever order hosts take a wish in, and wherever the rotation is
// interrupted: each host can read what any host writes and everything stored,
// and the rotation ends with one key.
func TestEveryHostCanAlwaysReadWhatAnyHasWritten(t *testing.T) {
	for start := range 3 {
		walk(t, encryption.Seen{Hosts: hosts(keys{start}, keys{start}, keys{start})}, map[int]bool{start: true}, start, map[string]bool{})
	}
}

// walk tries everything that may happen next. written holds the keys with which
// stored data may have been written.
func walk(t *testing.T, s encryption.Seen, written map[int]bool, start int, been map[string]bool) {
	at := fmt.Sprint(s, written)
	if been[at] {
		return
	}
	been[at] = true
	now := map[int]bool{}
	for n := range written {
		now[n] = true
	}
	for _, h := range s.Hosts {
		now[h.Loaded[0]] = true
	}
	for _, h := range s.Hosts {
		for n := range now {
			if !slices.Contains(h.Loaded, n) {
				t.Fatalf("%s cannot read key %d: %v", h.Name, n, s)
			}
		}
	}
	for i, h := range s.Hosts { // each API server loads the wanted keys in its own time
		if s.Wish != nil && !slices.Equal(h.Loaded, s.Wish) {
			next := s
			next.Hosts = slices.Clone(s.Hosts)
			next.Hosts[i].Loaded = s.Wish
			walk(t, next, now, start, been)
		}
	}
	step := encryption.Next(s, s.Agreed()[0] == start) // the command runs, for the first time or again
	next := s
	switch step.Kind {
	case encryption.Ask:
		next.Wish = step.Keys
		walk(t, next, now, start, been)
	case encryption.Rewrite:
		walk(t, s, now, start, been) // the rewriting is interrupted
		next.Rewritten = step.Keys[0]
		walk(t, next, map[int]bool{step.Keys[0]: true}, start, been)
	case encryption.Done:
		if !slices.Equal(step.Keys, keys{start + 1}) {
			t.Fatalf("it ends with %v", step.Keys)
		}
	case encryption.Refuse:
		t.Fatalf("%v: %s", s, step.Why)
	case encryption.Wait:
	}
}

func TestKeysAreReadBack(t *testing.T) {
	for _, text := range []string{"0", "1", "12", "1,2", "2,1", "0,1"} {
		got, err := encryption.Parse(text)
		if err != nil || got.String() != text {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"", ",", "1,1", "1,2,3", "-1", "one", "1, 2"} {
		if got, err := encryption.Parse(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestNobodyWishesEncryptionAway(t *testing.T) {
	for _, c := range []struct {
		have, wish keys
		ok         bool
	}{
		{keys{1}, keys{1, 2}, true},
		{keys{1, 2}, keys{2, 1}, true},
		{keys{2, 1}, keys{2}, true},
		{keys{1}, keys{3}, true},
		{keys{0}, keys{0, 1}, true},
		{keys{0, 1}, keys{1, 0}, true},
		{keys{0, 1}, keys{0}, true},
		{keys{1}, keys{0}, false},
		{keys{1}, keys{0, 1}, false},
		{keys{1, 0}, keys{0, 1}, false},
		{keys{1}, nil, false},
		{keys{1}, keys{1, 1}, false},
	} {
		if err := encryption.Accept(c.have, c.wish); (err == nil) != c.ok {
			t.Errorf("%v, wished %v: %v", c.have, c.wish, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("2,1")
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := encryption.Parse(text); err == nil {
			if again, err := encryption.Parse(got.String()); err != nil || !slices.Equal(got, again) {
				t.Errorf("%q: %v %v", text, again, err)
			}
		}
	})
}
