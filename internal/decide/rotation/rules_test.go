package rotation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// What the files of a host hold is written as its trusted authorities: o is the old one,
// n the new one and x a third one, which some earlier time left.
var trusts = []string{"o", "n", "x", "on", "no", "ox", "xo", "nx", "xn", "oxn", "nox", "xon"}

func idsOf(text string) []ID {
	var out []ID
	for _, r := range text {
		out = append(out, map[rune]ID{'o': oldKey, 'n': newKey, 'x': "x-other"}[r])
	}
	return out
}

func haves() []Have {
	var out []Have
	for _, t := range trusts {
		for _, key := range []ID{oldKey, newKey, "x-other"} {
			for _, leaf := range []ID{oldKey, newKey, "x-other"} {
				for _, loaded := range []bool{false, true} {
					out = append(out, Have{Trusts: idsOf(t), Key: key, Leaf: leaf, Loaded: loaded})
				}
			}
		}
	}
	return out
}

// after returns what the files hold once a change was made. Only Load makes programs use
// them.
func (h Have) after(c Change) Have {
	switch c.Act {
	case WriteTrusts:
		h.Trusts, h.Loaded = c.Trusts, false
	case WriteKey:
		h.Key, h.Loaded = newKey, false
	case WriteLeaf:
		h.Leaf, h.Loaded = newKey, false
	case Load:
		h.Loaded = true
	case Rest:
	}
	return h
}

// TestFromWhateverFilesAHostGoesToItsPhase: in a bounded number of changes, without a
// change that takes a trusted authority out too early or signs with one that is not
// trusted here.
func TestFromWhateverFilesAHostGoesToItsPhase(t *testing.T) {
	for _, phase := range phases {
		for _, start := range haves() {
			have := start
			wish := wished(phase, "cp-1")
			if phase == Done {
				wish.Turn = ""
			}
			bad := func(rule string) {
				t.Helper()
				t.Fatalf("%s: from %+v to %+v: %s", phase, start, have, rule)
			}
			for steps := 0; ; steps++ {
				before := slices.Clone(have.Trusts)
				c := NextChange(wish, "cp-1", newKey, have)
				if !slices.Equal(before, have.Trusts) {
					bad("what it was given changed")
				}
				if c.Act == Rest {
					break
				}
				if steps == 7 {
					bad("it goes on for ever")
				}
				next := have.after(c)
				switch drops := phase == Drop || phase == Done; {
				case c.Act != WriteTrusts && c.Trusts != nil:
					bad("only the trusted ones are a list")
				case c.Act == WriteTrusts && slices.Equal(next.Trusts, have.Trusts):
					bad("a write changes something")
				case !slices.Contains(next.Trusts, newKey):
					bad("it trusts the new one before all else")
				case (c.Act == WriteKey || c.Act == WriteLeaf) && phase == Trust:
					bad("nothing is signed by the new one while others may not trust it")
				case len(next.Trusts) < len(have.Trusts) && (!drops || !have.Loaded || have.Key != newKey || have.Leaf != newKey):
					bad("one is taken out before it signs by the new one and programs use that")
				}
				have = next
			}
			report := Report{New: newKey, Trusts: have.Trusts, Signs: have.Leaf}
			if phase == Trust && start.Leaf != newKey {
				report.Trusts = append(report.Trusts, start.Leaf) // who signed by another one is not this phase's
			}
			if !have.Loaded || !report.has(phase) {
				bad("it rests, and has not done what is wished")
			}
			if phase != Trust && have.Trusts[0] != newKey {
				bad("the signing one is the first")
			}
			if phase == Trust && (have.Key != start.Key || have.Leaf != start.Leaf || len(have.Trusts) < len(start.Trusts)) {
				bad("to trust another one changes nothing else")
			}
		}
	}
}

// TestWithoutItsTurnAHostChangesNothing, whatever its files hold, unless the rotation is
// over: then it mends itself.
func TestWithoutItsTurnAHostChangesNothing(t *testing.T) {
	for _, have := range haves() {
		for _, turn := range []string{"", "cp-2", "cp-10", "CP-1"} {
			for _, phase := range []Phase{Trust, Sign, Drop} {
				if c := NextChange(wished(phase, turn), "cp-1", newKey, have); c.Act != Rest || c.Trusts != nil {
					t.Errorf("%s of %q: %+v does %+v", phase, turn, have, c)
				}
			}
			if c := NextChange(Wish{Turn: turn}, "cp-1", newKey, have); c.Act != Rest {
				t.Errorf("nothing is wished: %+v does %+v", have, c)
			}
			wish := wished(Done, turn)
			own := wished(Drop, "cp-1")
			if got, want := NextChange(wish, "cp-1", newKey, have), NextChange(own, "cp-1", newKey, have); got.Act != want.Act || !slices.Equal(got.Trusts, want.Trusts) {
				t.Errorf("after a rotation: %+v does %+v, and in its turn %+v", have, got, want)
			}
		}
	}
}

// TestWhatAHostReportsReachesAPhaseAndTheOnesBefore: never a later one without an earlier.
func TestWhatAHostReportsReachesAPhaseAndTheOnesBefore(t *testing.T) {
	for _, list := range append(trusts, "") {
		for _, signs := range []ID{oldKey, newKey, "x-other", ""} {
			for _, fresh := range []ID{"", newKey} {
				r := Report{New: fresh, Trusts: idsOf(list), Signs: signs}
				both := fresh != "" && slices.Contains(r.Trusts, newKey) && slices.Contains(r.Trusts, signs)
				for p, want := range map[Phase]bool{
					Trust: both, Sign: both && signs == newKey, Drop: list == "n" && signs == newKey && fresh != "", Done: list == "n" && signs == newKey && fresh != "",
				} {
					if got := r.has(p); got != want {
						t.Errorf("%+v: %s %v, want %v", r, p, got, want)
					}
				}
			}
		}
	}
}

// reports are what a control plane may say, by words: its files as trusts/signs, of the
// present wish or of another one, and whether it has a problem.
var said = []string{"", "o/o", "on/o", "no/n", "n/n", "on/n", "other on/o", "other n/n", "busy"}

func reportOf(word string, w Wish) *Report {
	if word == "" {
		return nil
	}
	r := &Report{Of: w.Name(), New: newKey}
	if w.Phase == "" {
		r.New = ""
	}
	if rest, other := strings.CutPrefix(word, "other "); other {
		word, r.Of = rest, "another"
	}
	if word == "busy" {
		r.Problem = "programs read their files"
		return r
	}
	files, signs, _ := strings.Cut(word, "/")
	r.Trusts, r.Signs = list(files), list(signs)[0]
	return r
}

// TestInEveryStateOfTwoHostsARotationKeepsItsRules: each report of both, each phase, each
// turn, and for each authority what else keeps it from going on.
func TestInEveryStateOfTwoHostsARotationKeepsItsRules(t *testing.T) {
	steps := map[string]int{}
	for _, authority := range []Authority{ServiceAccountKey, FrontProxyCA, KubernetesCA} {
		for _, phase := range append(phases, "") {
			for _, turn := range []string{"", "cp-1", "cp-2", "cp-9"} {
				for _, signed := range []time.Time{{}, began, began.Add(-26 * time.Hour)} {
					for _, first := range said {
						for _, second := range said {
							for hindrance := range 14 {
								if hindrance > 7 && authority != KubernetesCA {
									continue
								}
								s := Seen{Authority: authority, Wish: world{phase: phase, turn: turn}.wish(), Now: began, Salt: slices.Repeat([]byte{7}, saltBytes)}
								if s.Wish.Signed = signed; authority == KubernetesCA && phase != "" {
									s.Wish.Trusted = signed
								}
								s.Hosts = []Host{{Name: "cp-1", Ready: true, ControlPlanes: 2, Report: reportOf(first, s.Wish)}, {Name: "cp-2", Ready: true, ControlPlanes: 2, Report: reportOf(second, s.Wish)}}
								hinder(&s, hindrance)
								for _, begin := range []bool{false, true} {
									step := Next(s, begin)
									for _, rule := range brokenBy(s, begin, step) {
										t.Fatalf("%s, %s of %q, signed %s, cp-1 %q, cp-2 %q, hindrance %d, begin %v: %+v: broken: %s", authority, phase, turn, signed, first, second, hindrance, begin, step, rule)
									}
									steps[string(step.Kind)+" "+string(step.Wish.Phase)]++
								}
							}
						}
					}
				}
			}
		}
	}
	for _, kind := range []string{"refuse ", "wait ", "hold ", "clean ", "inform ", "settled ", "ask trust", "ask sign", "ask drop", "ask done"} {
		if steps[kind] < 10 {
			t.Errorf("%s: %d of %v", kind, steps[kind], steps)
		}
	}
}

// hinder puts something in the way of a rotation.
func hinder(s *Seen, what int) {
	switch what {
	case 1:
		s.Hosts[1].Ready = false
	case 2:
		s.Hosts[0].NoRoot = true
	case 3:
		s.Hosts[1].Renews = true
	case 4:
		s.Hosts[0].ControlPlanes = 3
	case 5:
		s.Absent = []string{"worker-1", "worker-2"}
	case 6:
		s.Tokens = []string{"shop/a", "shop/b"}
	case 7:
		s.Published = []ID{oldKey}
		if s.Wish.Phase == Drop {
			s.Published = []ID{oldKey, newKey}
		}
	case 8:
		s.Followers = []Host{{Name: "worker-1", Ready: true, Report: s.Hosts[0].Report}}
	case 9:
		s.Stale = []string{"shop/kube-root-ca.crt"}
	case 10:
		s.StaleInfo = true
	case 11:
		if s.Hosts[0].Report != nil {
			s.Hosts[0].Report.ByPerson = true
		}
	case 12:
		if s.Hosts[1].Report != nil {
			s.Hosts[1].Report.Unable = "it is of before"
		}
	case 13:
		s.Former = []string{"kube-flannel/a"}
	}
}

// brokenBy returns the rules that a step breaks, of which most are what the phases
// promise.
func brokenBy(s Seen, begin bool, step Step) []string {
	var out []string
	rule := func(holds bool, words string) {
		if !holds {
			out = append(out, words)
		}
	}
	before, after := s.Wish, step.Wish
	whole := true
	behind := map[string]bool{}
	var names []string
	for _, h := range s.all() {
		whole = whole && h.Ready && h.Report != nil && h.Report.Unable == "" && !h.NoRoot && !h.Renews && h.ControlPlanes <= len(s.Hosts)
		if h.Report == nil || h.Report.Of != before.Name() || !h.Report.has(before.Phase) {
			behind[h.Name] = true
			names = append(names, h.Name)
		}
	}
	rule(step.Why != "", "each step says why")
	rule((step.Kind == Ask) == (after.Phase != ""), "a wish is written when it is asked for, and never else")
	rule(step.Drops == (step.Kind == Ask && before.Phase == Sign && after.Phase == Drop), "the step that cannot be undone says so")
	if !whole {
		rule(step.Kind == Refuse && !before.Running() || step.Kind == Wait && before.Running(), "nothing goes on while a control plane is missing, and none begins")
		return out
	}
	rule(step.Kind != Refuse || !before.Running(), "what is under way is not refused")
	if !before.Running() {
		rule(step.Kind != Ask || begin && after.Phase == Trust && after.Signed.IsZero() && after.Began.Equal(began) && len(after.Salt) == saltBytes && after.Name() != before.Name(), "a rotation begins when somebody wants it, as a new one")
		rule(step.Kind != Hold && step.Kind != Clean, "without a rotation nothing is held or cleaned")
		return out
	}
	rule(step.Kind != Settled, "what is under way is not settled")
	byPerson := map[string]bool{}
	for _, h := range s.all() {
		byPerson[h.Name] = h.Report.ByPerson && h.Report.Of == before.Name()
	}
	rule(step.Signs == (step.Kind == Ask && s.Authority == KubernetesCA && before.Phase == Trust && after.Phase == Sign), "the step before which people do something says so")
	if behind[before.Turn] {
		rule((step.Kind == Hold) == byPerson[before.Turn], "a person is waited for by ending the command, and nobody else")
		rule((step.Kind == Wait || step.Kind == Hold) && strings.Contains(step.Why, before.Turn), "whoever has its turn is waited for, by name")
		return out
	}
	spreads := s.Authority == KubernetesCA
	if step.Kind == Clean {
		rule(before.Phase == Drop && len(behind) == 0 && step.Keep == newKey && len(s.Published) > 1, "the old one is taken from the API once nobody trusts it")
	}
	if step.Kind == Hold {
		late := before.Signed.Add(TokenLife).After(s.Now)
		rule(spreads && before.Phase == Trust && s.Former != nil && strings.Contains(step.Why, s.Former[0]) || s.Authority == ServiceAccountKey && before.Phase == Sign && !before.Signed.IsZero() && (late || s.Absent != nil || s.Tokens != nil), "only tokens are waited for by the clock")
		for _, name := range append(slices.Clone(s.Absent), s.Tokens...) {
			rule(late || strings.Contains(step.Why, name), "who may hold an old token is named")
		}
	}
	if step.Kind == Inform {
		rule(spreads && len(behind) == 0 && s.StaleInfo && s.Stale == nil && (before.Phase == Trust || before.Phase == Drop), "hosts that join are told what all control planes trust")
	}
	if step.Kind != Ask {
		return out
	}
	rule(after.Name() == before.Name() && after.Began.Equal(before.Began), "a rotation keeps its key and its time")
	if len(behind) > 0 {
		rule(after.Phase == before.Phase && after.Turn == names[0] && after.Signed.Equal(before.Signed), "the next one behind has its turn, and nothing else changes")
		return out
	}
	switch after.Phase {
	case Trust:
		rule(spreads && before.Phase == Trust && before.Trusted.IsZero() && after.Trusted.Equal(s.Now) && s.Stale == nil && !s.StaleInfo, "all trust it, so it goes on, or it is written down since when")
	case Sign:
		rule(before.Phase == Trust && (s.Published == nil || slices.Contains(s.Published, newKey)) || before.Phase == Sign && before.Signed.IsZero() && after.Signed.Equal(s.Now), "all sign once all trust, and the API has published it")
		rule(!spreads || before.Phase == Sign || !before.Trusted.IsZero() && !s.Now.Before(before.Trusted.Add(spread)) && s.Stale == nil && !s.StaleInfo && s.Former == nil, "who follows it by itself has read it before it signs")
	case Drop:
		rule(!spreads || !s.Now.Before(before.Signed.Add(spread)), "who follows its certificate has read it before the old one is dropped")
		rule(before.Phase == Sign && !before.Signed.IsZero() && after.Signed.Equal(before.Signed), "it is dropped once it was written down that nobody signs by it")
		rule(s.Authority != ServiceAccountKey || !s.Now.Before(before.Signed.Add(TokenLife)) && s.Absent == nil && s.Tokens == nil, "no token of it is left")
	case Done:
		rule(s.Stale == nil && !s.StaleInfo || !spreads, "it is over once pods and hosts that join know the new one alone")
		rule(before.Phase == Drop && after.Turn == "" && len(s.Published) < 2, "it is over once nobody trusts the old one, and the API does not publish it")
	}
	then := s
	then.Wish = after
	left := then.behind()
	rule(after.Phase == Done || after.Turn == before.Turn && slices.Contains(left, after.Turn) || after.Phase == before.Phase || len(left) == 0 && after.Turn == "" || len(left) > 0 && after.Turn == left[0], "the turn is of one that has something to do")
	return out
}

// TestWhoeverIsInTheWayIsNamed, all of one kind at once, and what is hardest to mend
// first.
func TestWhoeverIsInTheWayIsNamed(t *testing.T) {
	kinds := []struct {
		what   string
		change func(*Host)
	}{
		{"not ready", func(h *Host) { h.Ready = false }},
		{"does not report its authorities", func(h *Host) { h.Report = nil }},
		{"cannot derive a new key", func(h *Host) { h.NoRoot = true }},
		{"control planes have a Node", func(h *Host) { h.ControlPlanes = 4 }},
		{"renewing certificates now", func(h *Host) { h.Renews = true }},
	}
	for i, a := range kinds {
		for j, b := range kinds {
			s := at(Wish{}, "o/o", "o/o", "o/o")
			for n := range s.Hosts {
				s.Hosts[n].ControlPlanes = 3
			}
			a.change(&s.Hosts[0])
			b.change(&s.Hosts[2])
			first := kinds[min(i, j)]
			got := Next(s, true)
			if got.Kind != Refuse || !strings.Contains(got.Why, first.what) {
				t.Errorf("%s and %s: %+v", a.what, b.what, got)
			}
			if first.what == "control planes have a Node" {
				if got.Why != "only 3 of 4 control planes have a Node" {
					t.Errorf("%s", got.Why)
				}
				continue
			}
			if strings.Contains(got.Why, "cp-1") != (first.what == a.what) || strings.Contains(got.Why, "cp-3") != (first.what == b.what) || strings.Contains(got.Why, "cp-2") {
				t.Errorf("%s and %s: %s", a.what, b.what, got.Why)
			}
		}
	}
}

// TestAWishSaysWhatItIsOf: what can be replaced, what is under way, and a name that tells
// two apart and shows nothing of their salts.
func TestAWishSaysWhatItIsOf(t *testing.T) {
	var can []Authority
	for _, a := range Authorities() {
		s := at(Wish{}, "o/o", "o/o")
		s.Authority = a
		if got := Next(s, true); (got.Kind == Ask) != a.Replaceable() || got.Kind != Ask && got.Kind != Refuse {
			t.Errorf("%s: %+v", a, got)
		}
		if a.Replaceable() {
			can = append(can, a)
		}
	}
	if !slices.Equal(can, Authorities()) || len(Authorities()) != 4 || Authority("").Replaceable() {
		t.Errorf("%v of %v can be replaced", can, Authorities())
	}
	names := map[string]bool{}
	for i := range byte(100) {
		w := Wish{Salt: slices.Repeat([]byte{i}, saltBytes)}
		names[w.Name()] = true
		if strings.Contains(w.Name(), fmt.Sprintf("%x", w.Salt[:4])) || len(w.Name()) != 16 {
			t.Errorf("%x is %s", w.Salt, w.Name())
		}
	}
	if len(names) != 100 {
		t.Errorf("%d names of 100 wishes", len(names))
	}
	for i, p := range phases {
		if w := (Wish{Phase: p}); w.Running() != (p != Done) {
			t.Errorf("%s: %v", p, w.Running())
		}
		for j, other := range phases {
			if p.reached(other) != (i >= j) {
				t.Errorf("%s reached %s: %v", p, other, p.reached(other))
			}
		}
	}
	for id, want := range map[string]string{"": "", "abc": "abc", "abcdefgh": "abcdefgh", "abcdefghi": "abcdefgh"} {
		if got := ID(id).Short(); got != want {
			t.Errorf("%s is %s", id, got)
		}
	}
}

// TestAWishThatLacksSomethingIsNotRead: each field of a good one changed or left out.
func TestAWishThatLacksSomethingIsNotRead(t *testing.T) {
	good := wished(Sign, "cp-1").String()
	if _, err := ParseWish([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"no phase":            strings.Replace(good, `"phase":"sign",`, "", 1),
		"an unknown phase":    strings.Replace(good, `"sign"`, `"signs"`, 1),
		"an empty phase":      strings.Replace(good, `"sign"`, `""`, 1),
		"no time":             strings.Replace(good, `"began":"2026-11-23T18:00:00Z"`, `"began":"0001-01-01T00:00:00Z"`, 1),
		"no salt":             strings.Replace(good, `"salt":"`, `"other":"`, 1),
		"a short salt":        strings.Replace(good, `"salt":"AAAA`, `"salt":"`, 1),
		"a longer salt":       strings.Replace(good, `"salt":"AAAA`, `"salt":"AAAAAAAA`, 1),
		"something behind it": good + "x",
		"half of it":          good[:len(good)/2],
	} {
		w, err := ParseWish([]byte(text))
		if text == good || err == nil || w.Phase != "" || w.Salt != nil || !strings.Contains(err.Error(), "kube-system/holdfast-authorities") {
			t.Errorf("%s: %+v, %v", what, w, err)
		}
		if err != nil && strings.Contains(err.Error(), "AAAA") {
			t.Errorf("%s: the salt is told: %v", what, err)
		}
	}
}
