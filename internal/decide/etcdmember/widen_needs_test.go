package etcdmember

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// changed plays the table with one rule changed.
func changed(t *testing.T, id string, change func(*rule)) {
	t.Helper()
	for i := range table {
		for k := range table[i].rules {
			if r := &table[i].rules[k]; r.id == id {
				was := *r
				t.Cleanup(func() { *r = was })
				change(r)
				return
			}
		}
	}
	t.Fatalf("no rule %s", id)
}

func off(r *rule) { r.when = func(*view) bool { return false } }

// TestEachNeedOfTheThirdMemberIsNecessary takes one rule out, or one need of a rule, and shows that the
// walks of the model go wrong then.
func TestEachNeedOfTheThirdMemberIsNecessary(t *testing.T) {
	if testing.Short() {
		t.Skip("hack/mutate asks what the sentences alone notice")
	}
	for name, c := range map[string]struct {
		rule   string
		change func(*rule)
		losses bool
		hint   uint64 // a walk that went wrong when this was written; others follow
	}{
		"nobody begins":      {"widen.begin", off, false, 0},
		"nobody goes back":   {"widen.back", off, false, 0},
		"nobody agrees":      {"widen.majority", off, false, 0},
		"a voter stays away": {"widen.follow", off, false, 0},
		"nobody starts":      {"majority.start", off, false, 0},
		"nobody comes back":  {"majority.back", off, false, 0},
		"nobody promotes":    {"majority.promote", off, false, 0},
		"one step instead of two": {"widen.begin", func(r *rule) {
			r.fill = func(v *view, out *state.EtcdVerdict) {
				writeWidening(v, out)
				out.Record.State = state.EtcdMajority
			}
		}, false, 398},
		"the peer is not asked": {"majority.promote", func(r *rule) {
			r.when = func(v *view) bool {
				m, _ := v.lists(v.own.Third)
				return v.iLead() && v.works() && v.wanted() && v.own.Third == v.third() && m.InSync
			}
		}, false, 2204},
		"a pair among three": {"equal.pair-first", func(r *rule) {
			r.when = func(v *view) bool {
				return v.in(state.EtcdVoter) && marked(v.self, v.own.Seq) && v.peerMarked()
			}
		}, false, 15198},
	} {
		t.Run(name, func(t *testing.T) {
			changed(t, c.rule, c.change)
			seed, w, _ := walks(c.hint, 10, c.losses)
			if w == nil {
				seed, w, _ = walks(0, 20_000, c.losses)
			}
			if w == nil {
				t.Fatal("no walk goes wrong: the need can be spared, or the model does not see it")
			}
			t.Logf("seed %d: %s", seed, w.bad)
		})
	}
}

// lone is the history in which a host that is widening loses its data, while its peer is in majority.
func lone() *wideWorld {
	w := newWide()
	w.hosts[0].word, w.hosts[1].word = true, true
	w.hosts[0].rec, w.hosts[1].rec = state.EtcdMajority, state.EtcdWidening
	for i := range w.hosts {
		w.look(i)
	}
	turn := func(i int) { w.look(i); w.act(i, nil) }
	turn(0) // it leads
	w.cut(1)
	w.hosts[1].lost = true
	w.boot(1)
	for range 12 {
		turn(1)
		turn(0)
		for n := range 6 {
			w.raft(n)
		}
	}
	return w
}

func TestWhoIsWideningGivesALostCopyUpSinceNoThirdMemberVotes(t *testing.T) {
	if w := lone(); w.bad != "" || w.taken != 0 {
		t.Errorf("%s\n%s", w.bad, w)
	}
	t.Run("one that gave its copy up is waited for", func(t *testing.T) {
		changed(t, "majority.back", func(r *rule) { r.when = func(v *view) bool { return v.calledOff() && v.peerRuns() } })
		if w := lone(); w.taken == 0 {
			t.Errorf("the need can be spared\n%s", w)
		}
	})
	t.Run("a peer that is only widening is enough", func(t *testing.T) {
		changed(t, "majority.promote", func(r *rule) {
			r.when = func(v *view) bool { return v.iLead() && v.works() && v.wanted() && v.peerWidens(v.own.Third) }
		})
		if w := lone(); w.bad == "" {
			t.Errorf("the need can be spared\n%s", w)
		}
	})
}
