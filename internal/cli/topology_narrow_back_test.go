package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/narrow"
	"github.com/holdfast/holdfast/internal/model/state"
)

// newLostCarrierRun is one run on cp-2 that says that cp-1, which carries the plan, is lost. Somebody deleted the
// lock.
func newLostCarrierRun(t *testing.T, agent func(n int, g *growthRun)) *growthRun {
	t.Helper()
	g := newNarrowRun(t, agent)
	g.file, g.abort, g.gone = "", true, "m1"
	g.effects.name = func() (string, error) { return "cp-2", nil }
	g.effects.locked = func(context.Context) (string, error) { return "", nil }
	return g
}

// TestAnotherMachineUnderTheNameOfALostCarrierIsSaidToTheAgent, which else refuses the word, since etcd serves
// there. Before this host knows the carrier's machine, the age of its Node says so, and the name is typed.
func TestAnotherMachineUnderTheNameOfALostCarrierIsSaidToTheAgent(t *testing.T) {
	begun := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for sentence, c := range map[string]struct {
		known    bool // this host has the site of two
		uuid     string
		made     time.Time
		typed    string
		replaced bool
		want     string
	}{
		"the same machine":                   {known: true, uuid: "m1", made: begun.Add(time.Hour), typed: "m1"},
		"another one":                        {known: true, uuid: "m9", made: begun.Add(time.Hour), typed: "m1", replaced: true},
		"another one, whose number is typed": {known: true, uuid: "m9", made: begun.Add(time.Hour), typed: "m9", want: "m9 is not its UUID"},
		"a younger Node":                     {uuid: "m9", made: begun.Add(time.Hour), typed: "cp-1", replaced: true},
		"a younger Node, by its number":      {uuid: "m9", made: begun.Add(time.Hour), typed: "m9", want: "type its name instead"},
		"an older Node":                      {uuid: "m1", made: begun.Add(-time.Hour), typed: "m1"},
	} {
		g := newLostCarrierRun(t, func(_ int, g *growthRun) {
			if w := narrowWish(t, g); !w.Abort || !w.Lost || w.Replaced != c.replaced {
				t.Errorf("%s: the wish: %+v", sentence, w)
			}
			p := narrowPlan("p1", narrow.Aborted)
			p.Taken = "cp-2"
			put(t, g.store.PutNarrowPlan(p))
		})
		g.gone = c.typed
		g.effects.planes = func(context.Context) ([]planeFacts, error) {
			return []planeFacts{{Name: "cp-1", Machine: state.Machine{UUID: c.uuid}, Created: c.made}}, nil
		}
		p := narrowPlan("p1", narrow.Preparing)
		p.Begun = begun
		put(t, g.store.PutNarrowPlan(p))
		if c.known {
			site, err := g.effects.here()
			put(t, err, g.store.PutNarrowTarget(replacement.NarrowTarget{Plan: "p1", Site: site, Devices: []state.FencingDevice{{Target: "cp-1", UUID: "m1"}, {Target: "cp-2", UUID: "m2"}}}))
		}
		err := g.run(t.Context())
		if c.want == "" && err != nil || c.want != "" && (exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", sentence, err)
		}
		if said := strings.Contains(g.r.errs.String(), "another machine has the name cp-1"); said != c.replaced {
			t.Errorf("%s: %s", sentence, g.r.errs.String())
		}
	}
}

// TestAWordThatTheAgentDroppedEndsItsCommand, which else would follow a plan that nobody takes over.
func TestAWordThatTheAgentDroppedEndsItsCommand(t *testing.T) {
	for sentence, drop := range map[string]func(g *growthRun) error{
		"it is gone":    func(g *growthRun) error { return g.store.DropNarrowWish() },
		"another abort": func(g *growthRun) error { return g.store.PutNarrowWish(narrow.Wish{ID: "p1", Abort: true}) },
	} {
		g := newLostCarrierRun(t, func(n int, g *growthRun) {
			if n > 1 {
				t.Fatalf("%s: the command waits", sentence)
			}
			put(t, drop(g))
		})
		put(t, g.store.PutNarrowPlan(narrowPlan("p1", narrow.Preparing)))
		if err := g.run(t.Context()); exitOfReplace(err) != command.ExitRefused || !strings.Contains(err.Error(), "the word that cp-1 is lost counts no more") {
			t.Errorf("%s: %v", sentence, err)
		}
	}
	// The agent took the plan over, and has no more need of the wish.
	g := newLostCarrierRun(t, func(n int, g *growthRun) {
		p := narrowPlan("p1", map[bool]narrow.Stage{true: narrow.TakingBack, false: narrow.Aborted}[n == 1])
		p.Taken = "cp-2"
		put(t, g.store.PutNarrowPlan(p), g.store.DropNarrowWish())
	})
	put(t, g.store.PutNarrowPlan(narrowPlan("p1", narrow.Preparing)), g.run(t.Context()))
}
