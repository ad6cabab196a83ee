package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// explore plays everything. It returns how many worlds end how, and the first thing that
// is wrong.
func (p play) explore(faults int) (ends map[string]int, wrong string) {
	begin := world{started: true, wish: newOne, faults: faults}
	for i := range begin.hosts[:p.n] {
		begin.hosts[i] = modelHost{on: true, daemons: true}
	}
	ends = map[string]int{}
	known := map[world]ending{}
	seen := map[world]bool{begin: true}
	for todo := []world{begin}; len(todo) > 0; {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		next, why := p.moves(w)
		end := p.settle(w, known)
		for _, bad := range []string{p.wrong(w), why, end.wrong} {
			if bad != "" {
				return ends, fmt.Sprintf("%s: %+v", bad, w)
			}
		}
		ends[end.end]++
		for _, n := range next {
			if !seen[n] {
				seen[n] = true
				todo = append(todo, n)
			}
		}
	}
	return ends, ""
}

// plays are the scenarios, with how many faults each may have.
func plays() map[string]struct {
	play
	faults int
} {
	type one = struct {
		play
		faults int
	}
	return map[string]one{
		"one host":                       {play{n: 1, table: rules}, 3},
		"one host, bad release":          {play{n: 1, bad: [3]int{1}, table: rules}, 2},
		"one host, half bad":             {play{n: 1, bad: [3]int{2}, table: rules}, 2},
		"two hosts":                      {play{n: 2, table: rules}, 2},
		"two hosts, bad release":         {play{n: 2, bad: [3]int{1, 1}, table: rules}, 2},
		"two hosts, half bad":            {play{n: 2, bad: [3]int{2, 2}, table: rules}, 2},
		"two hosts, a part crashes":      {play{n: 2, crash: true, table: rules}, 2},
		"two hosts, a dead operator":     {play{n: 2, dead: true, table: rules}, 2},
		"two hosts, bad on the leader":   {play{n: 2, bad: [3]int{1, 0}, table: rules}, 2},
		"two hosts, bad once accepted":   {play{n: 2, sickens: true, table: rules}, 2},
		"three hosts":                    {play{n: 3, table: rules}, 1},
		"three hosts, bad on the second": {play{n: 3, bad: [3]int{0, 2, 0}, table: rules}, 1},
		"one host, minor":                {play{n: 1, minor: true, table: rules}, 3},
		"two hosts, minor":               {play{n: 2, minor: true, table: rules}, 2},
		"two hosts, minor, half bad":     {play{n: 2, minor: true, bad: [3]int{0, 2}, table: rules}, 2},
		"three hosts, minor":             {play{n: 3, minor: true, table: rules}, 1},
	}
}

// TestWhateverHappensAnUpgradeEndsOrPausesWithAReason plays every order of moves: power
// cuts, hosts that hear nothing of each other, facts that are not known, deadlines, a bad
// release and a person who goes back.
func TestWhateverHappensAnUpgradeEndsOrPausesWithAReason(t *testing.T) {
	for what, s := range plays() {
		t.Run(what, func(t *testing.T) {
			ends, wrong := s.explore(s.faults)
			if wrong != "" {
				t.Fatal(wrong)
			}
			if ends["idle old"] == 0 || (ends["idle new"] == 0) != (s.crash || s.dead || s.bad != [3]int{}) {
				t.Errorf("ends: %v", ends)
			}
			t.Log(ends)
		})
	}
}

// TestTheModelFindsALevelThatRisesTooEarly has kubelets rise with the servers of each host.
func TestTheModelFindsALevelThatRisesTooEarly(t *testing.T) {
	table := slices.Clone(rules)
	i := slices.IndexFunc(table, func(r rule) bool { return r.name == "commit goes on" })
	table[i].answer = func(s Site) (Step, bool) {
		step, ok := s.raise()
		step.Kubelet = step.Do == Raise
		return step, ok
	}
	if _, wrong := (play{n: 2, minor: true, table: table}).explore(0); !strings.HasPrefix(wrong, "kubelet of ") {
		t.Errorf("it finds %q", wrong)
	}
	if _, wrong := (play{n: 1, minor: true, table: table}).explore(0); wrong != "" {
		t.Errorf("of one host: %s", wrong)
	}
}

// TestEachRuleOfAnUpgradeIsNeeded leaves out one rule after the other: something goes
// wrong then, or no upgrade is ever complete. What the model does not have, the table of
// situations shows.
func TestEachRuleOfAnUpgradeIsNeeded(t *testing.T) {
	for i, r := range rules {
		if slices.Contains([]string{"paused", "fetch", "gates", "resume", "backup", "backup of the commit", "last gates", "plan"}, r.name) {
			continue // TestTheNextStepOfAnUpgradeIsApproved
		}
		found := ""
		for _, p := range []play{{}, {bad: [3]int{1, 0}}, {bad: [3]int{0, 2}}, {crash: true}, {dead: true}, {sickens: true}} {
			p.n, p.table = 2, slices.Delete(slices.Clone(rules), i, i+1)
			faults := 1
			if p.sickens {
				faults = 2 // and a person who goes back
			}
			ends, wrong := p.explore(faults)
			if wrong == "" && (ends["idle old"] == 0 || p.bad == [3]int{} && !p.crash && !p.dead && ends["idle new"] == 0) {
				wrong = fmt.Sprintf("ends: %v", ends)
			}
			if found = wrong; found != "" {
				break
			}
		}
		what, _, _ := strings.Cut(found, ": {")
		t.Logf("without %q: %s", r.name, what)
		if found == "" {
			t.Errorf("without the rule %q nothing is wrong", r.name)
		}
	}
}
