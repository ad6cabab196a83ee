package hold_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatTheReplacementOfOneOfThreeWaitsForInAnUpgrade(t *testing.T) {
	started := annotation.Record{Upgrade: "u", From: "r1", To: "r2", Started: true, Planes: 3}
	with := func(change func(*annotation.Record)) state.Fact[string] {
		r := started
		change(&r)
		return record(t, r)
	}
	says := func(release string, step parachute.Step, raised state.Fact[bool]) state.Fact[annotation.Host] {
		h := annotation.Host{Journal: parachute.Journal{Step: step}, Raised: raised}
		h.Facts.Release = state.Fact[string]{Known: release != "", Value: release}
		return state.Known(h)
	}
	yes, no, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	nobody := state.Fact[annotation.Host]{}
	former, there := says("r1", "", yes), says("r2", parachute.Accepted, yes)
	const level = "until the commit cp-2 behaves as the former minor release"
	for what, c := range map[string]struct {
		record          state.Fact[string]
		one, two        state.Fact[annotation.Host]
		retire, install string // what each is about, empty for nothing
	}{
		"there was never an upgrade":                {state.Known(""), nobody, nobody, "", ""},
		"the last one is over":                      {record(t, annotation.Record{Upgrade: "u"}), there, there, "", ""},
		"none, and a host goes back":                {state.Known(""), former, says("r2", parachute.Returning, yes), "cp-2 is on its way", "cp-2 is on its way"},
		"nobody knows the record":                   {state.Fact[string]{}, former, former, "nobody knows its record", "nobody knows its record"},
		"the record is torn":                        {state.Known("{"), former, former, "its record, ConfigMap", "its record, ConfigMap"},
		"nobody has counted":                        {with(func(r *annotation.Record) { r.Planes = 0 }), former, former, "an operator of an earlier release", "an operator of an earlier release"},
		"it began with two":                         {with(func(r *annotation.Record) { r.Planes = 2 }), former, former, "counts 2 control planes, since it began while one of three had no node", "`holdfast upgrade rollback`"},
		"one says nothing":                          {record(t, started), former, nobody, "nobody knows how far cp-2 is", "nobody knows how far cp-2 is"},
		"both run the old release":                  {record(t, started), former, says("r1", parachute.Returned, yes), "", ""},
		"one has its turn":                          {with(func(r *annotation.Record) { r.Turns = []string{"cp-2"} }), former, former, "cp-2 has its turn", "cp-2 has its turn"},
		"the lost one has it":                       {with(func(r *annotation.Record) { r.Turns = []string{"cp-3"} }), former, former, "", ""},
		"one leaves":                                {record(t, started), former, says("r1", parachute.Leave, yes), "cp-2 is on its way to another release (leave)", "(leave)"},
		"one shows itself":                          {record(t, started), former, says("r2", parachute.Proving, no), "(proving)", "(proving)"},
		"one is there, of one minor release":        {record(t, started), former, there, "", ""},
		"one is there, at the former level":         {record(t, started), former, says("r2", parachute.Accepted, no), "", level},
		"both are, at the former level":             {record(t, started), says("r2", parachute.Accepted, no), says("r2", parachute.Accepted, no), "", "until the commit cp-1 behaves"},
		"one is there, and nobody knows how":        {record(t, started), former, says("r2", parachute.Accepted, unknown), "", "nobody knows as which"},
		"nobody knows what one runs":                {record(t, started), former, says("", parachute.Accepted, yes), "", "nobody knows which release cp-2 runs"},
		"it goes back, of one minor release":        {with(func(r *annotation.Record) { r.Returning = true }), former, there, "", ""},
		"it goes back, and one is at the old level": {with(func(r *annotation.Record) { r.Returning = true }), former, says("r2", parachute.Accepted, no), "", level},
		"it is committed, and one rises":            {with(func(r *annotation.Record) { r.NoWayBack = true }), there, says("r2", parachute.Accepted, no), "", "cp-2 rises to the level"},
		"it is committed, and both have risen":      {with(func(r *annotation.Record) { r.NoWayBack = true }), there, there, "", ""},
	} {
		got := hold.OfLostOfThree(c.record, map[string]state.Fact[annotation.Host]{"cp-1": c.one, "cp-2": c.two})
		for part, pair := range map[string][2]string{"retire": {got.Retire, c.retire}, "install": {got.Install, c.install}} {
			if (pair[0] == "") != (pair[1] == "") || !strings.Contains(pair[0], pair[1]) || pair[0] != "" && !strings.HasPrefix(pair[0], "waits for the upgrade: ") {
				t.Errorf("%s: %s is %q, want one about %q", what, part, pair[0], pair[1])
			}
		}
	}
	if got := hold.OfLostOfThree(record(t, started), nil); got.Retire == "" || got.Install == "" {
		t.Errorf("nobody is known to stay: %+v", got)
	}
}

// trio is a site of three control planes in an upgrade, of which one is lost for good. It is the model
// of loss, with an etcd that has members and a majority.
type trio struct {
	loss
	// voters are the members of etcd: true for a voter, false for a learner.
	voters map[string]bool
	// second is true if the second one of those that stay serves the installation.
	second bool
}

var three = []string{"cp-1", "cp-2", "cp-3"}

func newTrio(minor, second bool) *trio {
	l := &trio{loss: *newLoss(minor), voters: map[string]bool{}, second: second}
	for _, name := range three {
		l.planes[name], l.nodes[name] = &plane{release: oldOne, daemons: true, risen: true, kubelet: true}, true
		l.voters[name] = true
	}
	return l
}

// majority reports whether etcd has one, without a host.
func (l *trio) majority(without string) bool {
	all, up := 0, 0
	for name, votes := range l.voters {
		if !votes {
			continue
		}
		all++
		if p := l.planes[name]; p != nil && p.daemons && name != without {
			up++
		}
	}
	return up > all/2
}

func (l *trio) serves(name string) bool {
	p := l.planes[name]
	return p != nil && p.daemons && l.voters[name] && l.majority("")
}

func (l *trio) site() cluster.Site {
	s := cluster.Site{Now: l.now, Record: l.rec, Wish: l.wish, Running: l.running, Raises: l.minor, SoakOff: true, MaxUnavailable: 1, PartsReturn: true}
	s.Parts = []cluster.Part{{Name: "operator", Release: state.Known(l.parts), Pending: state.Known("")}}
	for _, name := range three {
		if !l.nodes[name] {
			continue
		}
		h := cluster.Host{Name: name, Whole: state.Known(true), Old: state.Known(true)}
		if p := l.planes[name]; p != nil {
			h.Present, h.Well, h.Running, h.Journal = state.Known(true), state.Known(l.serves(name)), state.Known(p.release), p.journal
			h.Raised, h.Servers = state.Known(p.risen && p.kubelet), state.Known(p.risen)
			if a := parachute.Next(p.journal, l.facts(name, p), l.now); a.Act == parachute.Hold {
				h.Held = a.Why
			}
		} else {
			h.Present, h.Well, h.Journal = state.Known(false), state.Known(false), l.last
		}
		s.Hosts = append(s.Hosts, h)
	}
	return s
}

func (l *trio) facts(name string, p *plane) parachute.Facts {
	s := cluster.Site{Record: l.rec}
	serve, others, silent := 0, 0, 0
	for _, n := range three {
		if q := l.planes[n]; q != nil {
			s.Hosts = append(s.Hosts, cluster.Host{Name: n, Running: state.Known(q.release), Journal: q.journal})
		}
		switch {
		case n == name || !l.nodes[n]:
			continue
		case l.planes[n] == nil:
			silent++ // who is lost gives no answer, not even a refusal
		case l.serves(n):
			serve++
		}
		others++
	}
	f := parachute.Facts{
		Kind: parachute.OfMore, Boot: "b", Up: time.Hour, Running: p.release, Previous: p.before, Whole: state.Known(true), Newer: state.Known(""),
		Serves: state.Known(l.serves(name)), PeerServes: state.Fact[bool]{Known: serve > 0 || silent == 0, Value: serve > 0},
		Spare: state.Fact[bool]{Known: serve > 1 || silent == 0, Value: serve > 1}, Few: others == 1,
		Released: true, Emptied: true, Quiet: !p.daemons, Timer: true, Daemons: p.daemons, Risen: state.Known(p.risen), Held: !p.kubelet, Proof: parachute.Proof{},
	}
	if l.majority("") { // the API answers
		turn := s.TurnOf(name)
		turn.Raise, turn.Kubelet = p.raise, p.rises
		f.Turn, f.Closed = state.Known(turn), state.Known(l.rec.NoWayBack)
	}
	for _, c := range parachute.Criteria() {
		f.Proof[c.ID] = state.Known(l.serves(name) && (serve > 0 || c.ID != "peer-view"))
	}
	return f
}

// host lets a control plane act once.
func (l *trio) host(name string) {
	p := l.planes[name]
	before := p.journal.Step
	a := parachute.Next(p.journal, l.facts(name, p), l.now)
	p.journal = a.Journal
	if stops := a.Act == parachute.DoLeave || a.Act == parachute.SwitchBack && p.daemons; stops && l.majority("") && !l.majority(name) && !l.wanted(a.Act, before) {
		l.wrong = append(l.wrong, fmt.Sprintf("%s stops etcd (%s, %s): %s", name, before, a.Act, a.Why))
	}
	switch a.Act {
	case parachute.DoLeave:
		p.daemons = false
	case parachute.Switch:
		l.runs(p, a.Journal.To)
	case parachute.SwitchBack:
		l.runs(p, a.Journal.From)
		p.daemons = true
	case parachute.Start, parachute.Undo:
		p.daemons = true
	case parachute.RaiseServers:
		if !slices.ContainsFunc(three, func(n string) bool { return n != name && l.serves(n) }) {
			l.wrong = append(l.wrong, name+" restarts its API server, and nobody else serves")
		}
		p.risen = true
	case parachute.RaiseKubelet:
		p.kubelet = true
	case parachute.Rest, parachute.DoPrepare, parachute.DoEmpty, parachute.Arm, parachute.Prove, parachute.Accept, parachute.Hold:
	}
}

// wanted reports whether a person decides that etcd stops: with a host that has not proved itself, and
// with one of two that are left where no machine may come.
func (l *trio) wanted(act parachute.Act, before parachute.Step) bool {
	return act == parachute.SwitchBack && l.wish.Release == oldOne && (before != parachute.Accepted || l.minor && len(l.nodes) == 2)
}

// operator lets the site act once, while the API answers.
func (l *trio) operator() cluster.Step {
	if !l.majority("") {
		return cluster.Step{Why: "etcd has no majority"}
	}
	step := cluster.Next(l.site())
	switch step.Do {
	case cluster.Write:
		l.rec = step.Record
		if !l.rec.Started {
			for _, p := range l.planes {
				p.raise, p.rises, l.running = false, false, p.release
			}
		}
	case cluster.Bring:
		l.parts = step.Release
	case cluster.Raise:
		for _, name := range step.Hosts {
			l.planes[name].raise, l.planes[name].rises = true, l.planes[name].rises || step.Kubelet
		}
	case cluster.Pause:
		l.rec.Rollout = step.Record.Rollout
	case cluster.Rest, cluster.Fetch, cluster.Await:
	}
	return step
}

// stay are the control planes that are left.
func (l *trio) stay() []string { return slices.Sorted(maps.Keys(l.planes)) }

// replaces lets the command take its next step, and a person who reads what it waits for.
func (l *trio) replaces(person func(*trio)) {
	if !l.majority("") {
		return
	}
	text, err := annotation.Encode(annotation.RecordOf(l.rec))
	if err != nil {
		l.wrong = append(l.wrong, err.Error())
		return
	}
	words := map[string]state.Fact[annotation.Host]{}
	for name, p := range l.planes {
		said := annotation.Host{Journal: p.journal, Raised: state.Known(p.risen && p.kubelet)}
		said.Facts.Release = state.Known(p.release)
		words[name] = state.Known(said)
	}
	waits := hold.OfLostOfThree(state.Known(text), words)
	_, member := l.voters[l.lost]
	switch {
	case !l.retired && waits.Retire != "":
		l.why = waits.Retire
	case member:
		if !l.majority(l.lost) {
			l.wrong = append(l.wrong, "the member is taken out while not both others serve")
		}
		delete(l.voters, l.lost)
	case !l.retired:
		l.retired = true
		delete(l.nodes, l.lost)
	case waits.Install != "":
		l.why = waits.Install
		if strings.Contains(waits.Install, "`holdfast upgrade rollback`") {
			person(l)
		}
	default:
		from := l.planes[l.stay()[0]]
		if l.second {
			from = l.planes[l.stay()[1]]
		}
		l.planes[l.lost] = &plane{release: from.release, daemons: true, risen: true, kubelet: true}
		l.nodes[l.lost], l.voters[l.lost], l.lost, l.retired = true, false, "", false
	}
}

// skewed says which kubelet is newer than an API server that it may reach.
func (l *trio) skewed() string {
	for name, p := range l.planes {
		for other, q := range l.planes {
			behavesNew := q.release == newOne && q.risen
			if l.minor && p.release == newOne && p.kubelet && !behavesNew {
				return "kubelet of " + name + " is newer than what the API server of " + other + " behaves as"
			}
		}
	}
	return ""
}

func (l *trio) round() cluster.Step {
	l.now = l.now.Add(15 * time.Second)
	step := l.operator()
	for _, name := range three {
		if l.planes[name] != nil {
			l.host(name)
		}
		if votes, member := l.voters[name]; member && !votes && l.lost == "" {
			l.voters[name] = true // it has caught up
		}
	}
	if why := l.skewed(); why != "" {
		l.wrong = append(l.wrong, why)
	}
	return step
}

// ended says what is wrong with the end; empty for nothing.
func (l *trio) ended() string {
	if len(l.wrong) > 0 {
		return strings.Join(slices.Compact(l.wrong), "; ")
	}
	if l.lost != "" {
		return "it is not replaced: " + l.why
	}
	if l.rec.Started {
		return "the upgrade does not end"
	}
	for _, name := range three {
		if p := l.planes[name]; p.release != l.planes["cp-1"].release || !p.journal.Step.AtRest() || !l.serves(name) {
			return "hosts differ, or do not serve"
		}
	}
	return ""
}

// plays has a host lost after some looks, and a person who does something where the command or the
// upgrade asks; hasty is one who does it at once.
func (l *trio) plays(lost string, at int, hasty bool, person func(*trio)) (last cluster.Step) {
	for i := range at {
		if i == 60 {
			l.wish.Commit = true
		}
		l.round()
	}
	l.lost, l.last = lost, l.planes[lost].journal
	delete(l.planes, lost)
	if hasty {
		person(l)
	}
	for range 400 {
		if last = l.round(); len(l.wrong) > 0 || l.lost == "" && !l.rec.Started && l.voters[lost] {
			break
		}
		if l.lost != "" {
			l.replaces(person)
		} else if l.rec.Started {
			person(l)
		}
	}
	return last
}

// TestU17_OneOfThreeThatIsLostForGoodInAnUpgradeIsReplacedAndTheUpgradeEnds plays it at each look of
// an upgrade, of the same and of another minor release of Kubernetes, with each of three hosts, with
// each of the other two as the one that serves the installation, and with a person who goes on, goes
// back once asked, or goes back at once.
func TestU17_OneOfThreeThatIsLostForGoodInAnUpgradeIsReplacedAndTheUpgradeEnds(t *testing.T) {
	back := func(l *trio) {
		if l.rec.Started && !l.rec.NoWayBack {
			l.wish.Release = oldOne
		}
	}
	// If only one of both runs the new release, and keeps its level, a person who goes on has to go back.
	on := func(l *trio) {
		a, b := l.planes[l.stay()[0]], l.planes[l.stay()[1]]
		if l.lost != "" && a.release != b.release {
			back(l)
		}
		l.wish.Commit = l.wish.Release == newOne && l.parts == newOne
	}
	ends := map[string]int{}
	for what, person := range map[string]func(*trio){"goes on": on, "goes back": back, "goes back at once": back} {
		for _, minor := range []bool{false, true} {
			for i, lost := range three {
				for at := range 75 {
					l := newTrio(minor, (at+i)%2 == 1)
					step := l.plays(lost, at, strings.HasSuffix(what, "at once"), person)
					if wrong := l.ended(); wrong != "" {
						t.Fatalf("%s is lost after %d looks, another minor release: %v, the second one serves: %v, a person %s: %s: %s\n%s", lost, at, minor, l.second, what, wrong, step.Why, &l.loss)
					}
					ends[what+", "+l.planes["cp-1"].release]++
				}
			}
		}
	}
	if ends["goes on, "+newOne] == 0 || ends["goes back, "+oldOne] == 0 {
		t.Errorf("ends: %v", ends)
	}
	t.Log(ends)
}
