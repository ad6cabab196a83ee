package encryption_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/encryption"
)

// absent is a cluster of which control planes go away and come back at any moment. known
// holds the keys with which anything that is stored may have been written.
type absent struct {
	seen  encryption.Seen
	known [8]bool
}

// TestAControlPlaneThatWasAwayCanReadEverythingWhenItIsBack plays a rotation of two
// control planes, each of which goes away and comes back whenever it likes: it loads no
// keys meanwhile, and can read what the others wrote.
func TestAControlPlaneThatWasAwayCanReadEverythingWhenItIsBack(t *testing.T) {
	been, ended, refused := map[string]bool{}, 0, 0
	var walk func(absent)
	walk = func(a absent) {
		at := fmt.Sprint(a)
		if been[at] {
			return
		}
		been[at] = true
		for _, h := range a.seen.Hosts {
			if h.Ready {
				a.known[h.Loaded[0]] = true // it writes
			}
		}
		for _, h := range a.seen.Hosts {
			for key, stored := range a.known {
				if stored && !slices.Contains(h.Loaded, key) {
					t.Fatalf("%s cannot read what key %d wrote: %+v", h.Name, key, a.seen)
				}
			}
		}
		for i, h := range a.seen.Hosts {
			next := a
			next.seen.Hosts = slices.Clone(a.seen.Hosts)
			next.seen.Hosts[i].Ready = !h.Ready // it goes away, or is back
			walk(next)
			if h.Ready && a.seen.Wish != nil {
				next.seen.Hosts[i].Ready, next.seen.Hosts[i].Loaded = true, a.seen.Wish
				walk(next)
			}
		}
		next := a
		agreed := a.seen.Agreed()
		switch step := encryption.Next(a.seen, slices.Equal(agreed, keys{1})); step.Kind {
		case encryption.Ask:
			next.seen.Wish = step.Keys
			walk(next)
		case encryption.Rewrite:
			next.seen.Rewritten, next.known = step.Keys[0], [8]bool{}
			next.known[step.Keys[0]] = true
			walk(next)
		case encryption.Done:
			ended++
		case encryption.Refuse:
			refused++
			if !slices.ContainsFunc(a.seen.Hosts, func(h encryption.Host) bool { return !h.Ready }) {
				t.Fatalf("all are there, and it is refused: %s", step.Why)
			}
		case encryption.Wait:
		}
	}
	start := absent{seen: encryption.Seen{Hosts: hosts(keys{1}, keys{1})}}
	start.known[1] = true
	walk(start)
	if ended == 0 || refused == 0 {
		t.Errorf("it ended %d times and was refused %d times", ended, refused)
	}
}

// TestNoStepIsDecidedWithoutEveryControlPlane: whoever is not ready, or does not tell its
// keys, keeps the rotation where it is.
func TestNoStepIsDecidedWithoutEveryControlPlane(t *testing.T) {
	lists := []keys{{1}, {1, 2}, {2, 1}, {2}}
	for _, wish := range lists {
		for _, mute := range []bool{false, true} {
			for i := range 3 {
				s := encryption.Seen{Wish: wish, Rewritten: 2, Hosts: hosts(wish, wish, wish)}
				if mute {
					s.Hosts[i].Loaded = nil
				} else {
					s.Hosts[i].Ready = false
				}
				for _, begin := range []bool{false, true} {
					if step := encryption.Next(s, begin); step.Kind != encryption.Refuse || step.Keys != nil || step.Why == "" {
						t.Errorf("wish %v, host %d mute %t: %+v", wish, i, mute, step)
					}
				}
			}
		}
	}
}
