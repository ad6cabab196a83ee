package space

import (
	"errors"
	"testing"

	decide "github.com/holdfast/holdfast/internal/decide/etcdspace"
)

// TestWhatAKeeperSetAsideIsRemovedWhereThereIsNone: a site of two has become one of three or one, and etcd serves.
func TestWhatAKeeperSetAsideIsRemovedWhereThereIsNone(t *testing.T) {
	fails := errors.New("the disk does not do it")
	for name, c := range map[string]struct {
		shape   decide.Shape
		hosts   int
		silent  bool
		kept    error
		removed bool
	}{
		"three":                               {decide.Static, 3, false, nil, true},
		"one":                                 {decide.Static, 1, false, nil, true},
		"two":                                 {decide.Two, 2, false, nil, false},
		"three, of which one does not answer": {decide.Static, 3, true, nil, false},
		"it cannot be removed":                {decide.Static, 1, false, fails, true},
	} {
		w := newWorld(t, c.shape, c.hosts)
		h := w.hosts[0]
		h.aside, h.kept = []string{"/var/lib/etcd/given-up/x"}, c.kept
		if c.silent {
			delete(w.etcds, w.hosts[2].address)
		}
		r, err := h.step(t.Context())
		if !errors.Is(err, c.kept) || (len(h.aside) == 0) != c.removed || listed([]string{r.Changed}, "/var/lib/etcd/given-up/x") != c.removed {
			t.Errorf("%s: left %v, %q, %v", name, h.aside, r.Changed, err)
		}
		if again, err := h.step(t.Context()); !errors.Is(err, c.kept) || len(h.aside) > 0 && c.removed || again.Changed != "" {
			t.Errorf("%s, again: %q, %v", name, again.Changed, err)
		}
	}
}
