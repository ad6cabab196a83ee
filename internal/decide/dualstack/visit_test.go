package dualstack

import (
	"fmt"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// rests lets everything go on without a mishap, and returns what is wrong at the end.
func (m model) rests(good map[model]bool) string {
	m.work, m.degraded, m.hosts[2].fits, m.faults = false, false, true, 0
	var way []model
	for range 400 {
		if good[m] {
			break
		}
		way = append(way, m)
		before := m
		for _, n := range m.world() {
			m = n
			break
		}
		if m == before {
			for i := range hosts {
				m = m.step(i, 0)
			}
		}
		if m.bad != "" {
			return m.bad
		}
		if m == before {
			if bad := m.wrong(); bad != "" {
				return bad
			}
			break
		}
	}
	if len(way) == 400 {
		return "it never rests"
	}
	for _, n := range way {
		good[n] = true
	}
	return ""
}

// wrong says what is not right at the end, empty if all is.
func (m model) wrong() string {
	both := m.hosts[0].serve && !m.hosts[0].retired || m.hosts[1].serve && m.hosts[0].retired
	switch {
	case m.announced:
		return "the plan stays announced: " + Decide(m.facts(0)).Words + "; " + Decide(m.facts(1)).Words
	case m.objects != both || m.noted != both || m.route != both:
		return "the objects are of another kind than the hosts"
	}
	for i, h := range m.hosts {
		shares := map[bool]int{false: 1, true: 2}[both]
		if h.retired {
			continue
		}
		if h.plan || h.gone || h.shares != shares || h.both != both || h.files != both || i < 2 && h.serve != both {
			return fmt.Sprintf("%s at the end: %+v", names[i], h)
		}
	}
	return ""
}

// visit visits all states, and returns their number and the first mistake.
func visit(most int) (n int, bad string) {
	seen, good := map[model]bool{}, map[model]bool{}
	open := []model{newModel()}
	for len(open) > 0 {
		m := open[len(open)-1]
		open = open[:len(open)-1]
		if seen[m] {
			continue
		}
		seen[m] = true
		if m.bad != "" {
			return len(seen), fmt.Sprintf("%s: %+v", m.bad, m)
		}
		if bad := m.rests(good); bad != "" {
			return len(seen), fmt.Sprintf("%s: from %+v", bad, m)
		}
		open = append(open, m.world()...)
		open = append(open, m.mishaps(most)...)
		for i := range hosts {
			open = append(open, m.step(i, 0))
		}
	}
	return len(seen), ""
}

// TestASiteThatGetsASecondFamilyHasOneOrBothWhateverCutsThePower visits every state that two
// power cuts of any host, acts cut in half, the Node of a cordoned worker deleted and not made anew, a host that is lost for good and taken out, a person who takes
// the plan back and one who deletes its announcement can bring about. In none a controller manager or a daemon of the pod network
// ends because of the other family, and no two hosts are away by the plan; each state leads to
// an end with one family everywhere, or both.
func TestASiteThatGetsASecondFamilyHasOneOrBothWhateverCutsThePower(t *testing.T) {
	most := 2
	if testing.Short() {
		most = 1
	}
	n, bad := visit(most)
	if bad != "" {
		t.Fatal(bad)
	}
	t.Logf("%d states", n)
	if n < 500 {
		t.Errorf("only %d states: the model does not move", n)
	}
}

// TestEachNeedOfTheSecondFamilyIsNecessary takes one rule out, and shows that the model finds a
// mistake then, or a state without an end. Rules that are not in the list say what is waited for
// where another one would wait.
func TestEachNeedOfTheSecondFamilyIsNecessary(t *testing.T) {
	for id, why := range map[string]string{
		"gone.drop":     "a plan that was taken back stays on the hosts",
		"gone.ended":    "the carrier keeps the plan for ever",
		"gone.publish":  "a deleted announcement stops a plan half way",
		"heed":          "nobody learns that the plan has begun",
		"begin.hosts":   "it begins though a host cannot have both families",
		"begin.work":    "it begins beside other work",
		"begin.whole":   "it begins while a host is away",
		"serve.mark":    "nobody tells that a host serves",
		"serve.turn":    "both API servers start anew at once",
		"serve.carried": "the API server starts anew while the other one is away",
		"serve.all":     "a Node gets two shares before each controller manager knows them",
		"note":          "a control plane that joins knows one family",
		"share":         "no Node gets a second share",
		"share.all":     "the pod network gets both families before the Nodes",
		"route":         "the pod network keeps one family",
		"host.turn":     "two hosts change at once",
		"host.boot":     "a host never boots",
		"host.await":    "a host is done before its Node has both families",
		"host.arrive":   "no host is ever done",
		"over.other":    "another host settles",
		"over.all":      "the objects change before the hosts",
		"over.settle":   "the objects keep one family",
		"over.withdraw": "the announcement stays",
	} {
		t.Run(id, func(t *testing.T) {
			without(t, id)
			n, bad := visit(1)
			if bad == "" {
				t.Errorf("%s: none of %d states shows it", why, n)
			} else {
				t.Log(bad[:min(len(bad), 160)])
			}
		})
	}
}

// without decides by tables that lack a rule.
func without(t *testing.T, id string) {
	t.Helper()
	n := 0
	for _, table := range tables {
		for k := range table {
			if r := &table[k]; r.ID == id {
				was := *r
				t.Cleanup(func() { *r = was })
				r.When = func(Facts) bool { return false }
				n++
			}
		}
	}
	if n != 1 {
		t.Fatalf("%d rules %s", n, id)
	}
}

// The carrier holds the lock of all plans while the plan goes on, and a person can take it away for the
// replacement of a host that is lost.
func TestWhenTheCarrierHoldsTheLock(t *testing.T) {
	nodes := func(away string) state.Fact[map[string]Seen] {
		out := map[string]Seen{}
		for _, n := range names {
			out[n] = Seen{Plan: "p", Ready: n != away}
		}
		return state.Known(out)
	}
	base := Facts{Host: "cp-1", Plan: thePlan, Journal: Journal{Begun: true}, Announced: state.Known(Announced{ID: "p", Begun: true}), Nodes: nodes("")}
	for name, c := range map[string]struct {
		change func(*Facts)
		acts   []Act
		want   bool
	}{
		"it changes something": {nil, []Act{Mark, Serve, Note, Share, Route, Write, Boot, Arrive, Settle}, true},
		"it ends":              {nil, []Act{Withdraw, Drop, Idle}, false},
		"it writes the announcement, and the lock":  {nil, []Act{Publish}, false},
		"it waits, and all hosts are there":         {nil, []Act{Wait}, true},
		"it waits for a host that is lost":          {func(f *Facts) { f.Nodes = nodes("cp-2") }, []Act{Wait}, false},
		"a host is lost, and it can go on":          {func(f *Facts) { f.Nodes = nodes("cp-2") }, []Act{Note, Share, Route, Settle}, true},
		"a host is lost, and it waits for its boot": {func(f *Facts) { f.Nodes = nodes("cp-2") }, []Act{Write, Boot}, false},
		"the lost host was taken out":               {func(f *Facts) { f.Nodes, f.Retired = nodes("cp-2"), []string{"cp-2"} }, []Act{Wait}, true},
		"the API does not answer":                   {func(f *Facts) { f.Nodes = state.Fact[map[string]Seen]{} }, []Act{Wait}, false},
		"the announcement is gone":                  {func(f *Facts) { f.Announced = state.Known(Announced{}) }, []Act{Wait}, false},
		"it has not begun":                          {func(f *Facts) { f.Journal.Begun = false }, []Act{Begin, Heed, Wait}, false},
		"another host":                              {func(f *Facts) { f.Host = "w-1" }, []Act{Write, Boot, Wait}, false},
	} {
		f := base
		if c.change != nil {
			c.change(&f)
		}
		for _, act := range c.acts {
			if got := f.Locks(Step{Act: act}); got != c.want {
				t.Errorf("%s, %s: %v", name, act, got)
			}
		}
	}
}
