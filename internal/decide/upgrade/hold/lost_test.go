package hold_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/cluster"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hold"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatAPlanAboutALostHostWaitsForInAnUpgrade(t *testing.T) {
	started := annotation.Record{Upgrade: "u", From: "r1", To: "r2", Started: true}
	back, closed := started, started
	back.Returning, closed.NoWayBack = true, true
	says := func(release string, step parachute.Step, raised state.Fact[bool]) state.Fact[annotation.Host] {
		h := annotation.Host{Journal: parachute.Journal{Step: step}, Raised: raised}
		h.Facts.Release = state.Fact[string]{Known: release != "", Value: release}
		return state.Known(h)
	}
	yes, no, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	nobody := state.Fact[annotation.Host]{}
	const level = "until the commit the host that stays behaves as the former minor release"
	for what, c := range map[string]struct {
		record                  state.Fact[string]
		stays                   state.Fact[annotation.Host]
		retire, install, narrow string // what each is about, empty for nothing
	}{
		"there was never an upgrade":             {state.Known(""), nobody, "", "", ""},
		"the last one is over":                   {record(t, annotation.Record{Upgrade: "u"}), says("r2", parachute.Accepted, unknown), "", "", ""},
		"nobody knows the record":                {state.Fact[string]{}, says("r1", "", yes), "nobody knows its record", "nobody knows its record", "nobody knows its record"},
		"the record is torn":                     {state.Known("{"), says("r1", "", yes), "its record, ConfigMap", "its record, ConfigMap", "its record, ConfigMap"},
		"the host that stays says nothing":       {record(t, started), nobody, "nobody knows how far", "nobody knows how far", "nobody knows how far"},
		"it runs the old release":                {record(t, started), says("r1", parachute.Returned, yes), "", "", "what is changed for a lone control plane"},
		"it runs the old release, level unknown": {record(t, started), says("r1", parachute.None, unknown), "", "", "what is changed for a lone control plane"},
		"it leaves":                              {record(t, started), says("r1", parachute.Leave, yes), "on its way to another release (leave)", "on its way", "on its way"},
		"it is about to be back":                 {record(t, started), says("r1", parachute.Returning, yes), "(returning)", "(returning)", "(returning)"},
		"it shows itself alone":                  {record(t, started), says("r2", parachute.Proving, no), "", "has not accepted", "has not accepted"},
		"it is there, of the same minor release": {record(t, started), says("r2", parachute.Accepted, yes), "", "", "what is changed for a lone control plane"},
		"it is there, at the former level":       {record(t, started), says("r2", parachute.Accepted, no), "", level, "what is changed for a lone control plane"},
		"it is there, and nobody knows how":      {record(t, started), says("r2", parachute.Accepted, unknown), "", "nobody knows as which", "what is changed for a lone control plane"},
		"nobody knows what it runs":              {record(t, started), says("", parachute.Accepted, yes), "", "nobody knows which release", "what is changed for a lone control plane"},
		"the site goes back, and it is not back": {record(t, back), says("r2", parachute.Accepted, yes), "", "goes back first", "what is changed for a lone control plane"},
		"the site goes back, and it is":          {record(t, back), says("r1", parachute.Returned, yes), "", "", "what is changed for a lone control plane"},
		"it is committed, and rises":             {record(t, closed), says("r2", parachute.Accepted, no), "", "rises to the level", "it is being committed"},
		"it is committed, and has risen":         {record(t, closed), says("r2", parachute.Accepted, yes), "", "", "it is being committed"},
	} {
		got := hold.OfLost(c.record, c.stays)
		for part, pair := range map[string][2]string{"retire": {got.Retire, c.retire}, "install": {got.Install, c.install}, "narrow": {got.Narrow, c.narrow}} {
			if (pair[0] == "") != (pair[1] == "") || !strings.Contains(pair[0], pair[1]) || pair[0] != "" && !strings.HasPrefix(pair[0], "waits for the upgrade: ") {
				t.Errorf("%s: %s is %q, want one about %q", what, part, pair[0], pair[1])
			}
		}
	}
}

const (
	oldOne = "old"
	newOne = "new"
)

// plane is one of two control planes of a model: what it runs, and what it remembers.
type plane struct {
	release, before string
	daemons         bool
	journal         parachute.Journal
	// raise is what it was told to raise; risen and kubelet are true once they are.
	raise, rises   bool
	risen, kubelet bool
}

// loss is a site of two control planes in an upgrade, of which one is lost for good. The decisions
// are the real ones; gates are open but for that of the plan.
type loss struct {
	now     time.Time
	minor   bool // the releases are of two minor releases of Kubernetes
	rec     cluster.Record
	wish    cluster.Wish
	parts   string
	running string
	planes  map[string]*plane // those that run
	nodes   map[string]bool   // those of which there is a Node
	lost    string
	last    parachute.Journal // what the lost one said last
	retired bool              // the plan took it out
	planned bool              // the plan is in force
	why     string
	wrong   []string
}

func newLoss(minor bool) *loss {
	l := &loss{
		now: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC), minor: minor, parts: oldOne, running: oldOne, planes: map[string]*plane{}, nodes: map[string]bool{},
		wish: cluster.Wish{Release: newOne, Upgrade: "u", Start: true},
	}
	for _, name := range []string{"cp-1", "cp-2"} {
		l.planes[name], l.nodes[name] = &plane{release: oldOne, daemons: true, risen: true, kubelet: true}, true
	}
	return l
}

func (l *loss) other(name string) (*plane, bool) {
	for n, p := range l.planes {
		if n != name {
			return p, p.daemons
		}
	}
	return nil, false
}

func (l *loss) site() cluster.Site {
	s := cluster.Site{Now: l.now, Record: l.rec, Wish: l.wish, Running: l.running, Raises: l.minor, SoakOff: true, MaxUnavailable: 1, PartsReturn: true}
	s.Parts = []cluster.Part{{Name: "operator", Release: state.Known(l.parts), Pending: state.Known("")}}
	if l.planned {
		s.Plan = "a plan replaces " + l.lost
	}
	for _, name := range []string{"cp-1", "cp-2"} {
		if !l.nodes[name] {
			continue
		}
		h := cluster.Host{Name: name, Whole: state.Known(true), Old: state.Known(true)}
		if p := l.planes[name]; p != nil {
			h.Present, h.Well, h.Running, h.Journal = state.Known(true), state.Known(p.daemons), state.Known(p.release), p.journal
			h.Raised, h.Servers = state.Known(p.risen && p.kubelet), state.Known(p.risen)
			if a := parachute.Next(p.journal, l.facts(name, p), l.now); a.Act == parachute.Hold {
				h.Held = a.Why
			}
		} else {
			h.Present, h.Well, h.Journal = state.Known(false), state.Known(false), l.last
		}
		s.Hosts = append(s.Hosts, h)
	}
	if l.planned {
		s.Closed = slices.DeleteFunc([]gate.Gate{{ID: "plan", Verdict: gate.Wait, Why: s.Plan}}, func(gate.Gate) bool {
			return cluster.Stage(s)&(gate.Begin|gate.Between) == 0
		})
	}
	return s
}

func (l *loss) facts(name string, p *plane) parachute.Facts {
	s := cluster.Site{Record: l.rec}
	for n, q := range l.planes {
		s.Hosts = append(s.Hosts, cluster.Host{Name: n, Running: state.Known(q.release), Journal: q.journal})
	}
	turn := s.TurnOf(name)
	turn.Raise, turn.Kubelet = p.raise, p.rises
	_, serves := l.other(name)
	f := parachute.Facts{
		Kind: parachute.OfTwo, Turn: state.Known(turn), Boot: "b", Up: time.Hour, Running: p.release, Previous: p.before, Whole: state.Known(true), Newer: state.Known(""),
		Closed: state.Known(l.rec.NoWayBack), Serves: state.Known(p.daemons), PeerServes: state.Known(serves), PeerGone: l.retired && len(l.planes) == 1,
		Released: true, Emptied: true, Quiet: !p.daemons, Timer: true, Daemons: p.daemons, Risen: state.Known(p.risen), Held: !p.kubelet, Proof: parachute.Proof{},
	}
	for _, c := range parachute.Criteria() {
		f.Proof[c.ID] = state.Known(p.daemons && (serves || c.ID != "peer-view" && c.ID != "pacemaker"))
	}
	return f
}

// host lets a control plane act once.
func (l *loss) host(name string) {
	p := l.planes[name]
	a := parachute.Next(p.journal, l.facts(name, p), l.now)
	p.journal = a.Journal
	_, serves := l.other(name)
	if !serves && (a.Act == parachute.DoLeave || a.Act == parachute.Switch) {
		l.wrong = append(l.wrong, name+" leaves for another release, and nobody else serves")
	}
	switch a.Act {
	case parachute.DoLeave:
		p.daemons = false
	case parachute.Switch:
		l.runs(p, a.Journal.To)
	case parachute.SwitchBack:
		if !serves && l.wish.Release != oldOne {
			l.wrong = append(l.wrong, name+" serves alone and returns, and nobody asked for it")
		}
		l.runs(p, a.Journal.From)
		p.daemons = true
	case parachute.Start, parachute.Undo:
		p.daemons = true
	case parachute.RaiseServers:
		p.risen = true
	case parachute.RaiseKubelet:
		p.kubelet = true
	case parachute.Rest, parachute.DoPrepare, parachute.DoEmpty, parachute.Arm, parachute.Prove, parachute.Accept, parachute.Hold:
	}
}

func (l *loss) runs(p *plane, release string) {
	p.before, p.release = p.release, release
	p.risen, p.kubelet = !l.minor || release == oldOne, !l.minor || release == oldOne
}

// operator lets the site act once.
func (l *loss) operator() cluster.Step {
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

// plan lets the plan take its next step, and a person who reads what it waits for.
func (l *loss) plan(person func(*loss)) {
	stay := l.planes["cp-1"]
	if l.lost == "cp-1" {
		stay = l.planes["cp-2"]
	}
	r := annotation.RecordOf(l.rec)
	text, err := annotation.Encode(r)
	if err != nil {
		l.wrong = append(l.wrong, err.Error())
		return
	}
	said := annotation.Host{Journal: stay.journal, Raised: state.Known(stay.risen && stay.kubelet)}
	said.Facts.Release = state.Known(stay.release)
	waits := hold.OfLost(state.Known(text), state.Known(said))
	switch {
	case !l.retired && waits.Retire == "":
		l.planned, l.retired, l.nodes[l.lost] = true, true, false
	case l.retired && waits.Install != "":
		l.why = waits.Install
		if strings.Contains(waits.Install, "`holdfast upgrade rollback`") {
			person(l)
		}
	case l.retired:
		if l.minor && stay.release == newOne && (!stay.risen || !stay.kubelet) {
			l.wrong = append(l.wrong, "a kubelet of the new minor release comes beside an API server that behaves as the old one")
		}
		l.planes[l.lost] = &plane{release: stay.release, daemons: true, risen: true, kubelet: true}
		l.nodes[l.lost], l.planned, l.retired = true, false, false
		l.lost = ""
	}
}

func (l *loss) round() cluster.Step {
	l.now = l.now.Add(15 * time.Second)
	step := l.operator()
	for _, name := range []string{"cp-1", "cp-2"} {
		if l.planes[name] != nil {
			l.host(name)
		}
	}
	return step
}

func (l *loss) String() string {
	out := fmt.Sprintf("record %+v, parts %s, plan: %v %v %s, wish %+v", l.rec, l.parts, l.planned, l.retired, l.why, l.wish)
	for name, p := range l.planes {
		out += fmt.Sprintf("\n  %s: %+v", name, *p)
	}
	return out
}

// TestU17_AHostThatIsLostForGoodInAnUpgradeIsReplacedAndTheUpgradeEnds plays it at each moment of
// an upgrade, of the same and of another minor release of Kubernetes, with each of both hosts, and
// with a person who goes on or goes back.
func TestU17_AHostThatIsLostForGoodInAnUpgradeIsReplacedAndTheUpgradeEnds(t *testing.T) {
	wishes := map[string]func(*loss){
		"goes on":   func(l *loss) { l.wish.Commit = l.parts == newOne },
		"goes back": func(l *loss) { l.wish.Release = oldOne },
	}
	for _, minor := range []bool{false, true} {
		for _, lost := range []string{"cp-1", "cp-2"} {
			for what, person := range wishes {
				for at := range 60 {
					l := newLoss(minor)
					for i := range at {
						if i == 40 {
							l.wish.Commit = true
						}
						l.round()
					}
					whole := !l.rec.Started && at > 0
					l.lost, l.last = lost, l.planes[lost].journal
					delete(l.planes, lost)
					var step cluster.Step
					for range 300 {
						if step = l.round(); l.lost == "" && !l.rec.Started {
							break
						}
						if l.lost != "" {
							l.plan(person)
						} else if l.rec.Started {
							person(l)
						}
					}
					a, b := l.planes["cp-1"], l.planes["cp-2"]
					name := fmt.Sprintf("%s is lost after %d looks, another minor release: %v, a person %s", lost, at, minor, what)
					switch {
					case len(l.wrong) > 0:
						t.Errorf("%s: %s", name, strings.Join(slices.Compact(l.wrong), "; "))
					case a == nil || b == nil:
						t.Errorf("%s: it is not replaced: %s\n%s\n%s", name, l.why, step.Why, l)
					case l.rec.Started && !whole:
						t.Errorf("%s: the upgrade does not end: %s\n%s", name, step.Why, l)
					case a.release != b.release || !a.journal.Step.AtRest() || !b.journal.Step.AtRest():
						t.Errorf("%s: hosts differ: %s\n%s", name, step.Why, l)
					}
					if t.Failed() {
						t.FailNow()
					}
				}
			}
		}
	}
}
