package handover

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// machine is a host, as far as the set-up of two nodes changes it. Decide, Ready
// and Superseded are the real functions; a few lines here stand for the hosts,
// Pacemaker and the etcd keepers.
type machine struct {
	name           string
	off            int  // ticks until it has booted
	static, pod    bool // kubelet's manifest, podman's
	conf, runs     bool // Corosync: configured, and running
	boots, kubelet bool // at boot: Corosync and Pacemaker, and kubelet
	since          int  // when boots was set
	record         state.EtcdState
	listed         bool // as a voter
	met, heard     bool // since boot: the peer, and that it had not gone on alone
	finished       bool
}

type play struct {
	t          *testing.T
	at         int
	m          [2]*machine
	configured bool // the CIB has the devices: who is lost is fenced
	jobs       []Job
	age        map[string]int // of running Jobs, in ticks in which their host was up
	begun      bool
	halfAct    bool // the operator is ended in the middle of its next act
	steps      []string
}

const tick = 10 * time.Second

func newPlay(t *testing.T) *play {
	p := &play{t: t, age: map[string]int{}}
	for i := range p.m {
		p.m[i] = &machine{name: fmt.Sprintf("cp-%d", i+1), static: true, kubelet: true, record: state.EtcdNone, listed: true}
	}
	return p
}

func (p *play) peer(m *machine) *machine {
	if m == p.m[0] {
		return p.m[1]
	}
	return p.m[0]
}

func (m *machine) up() bool { return m.off == 0 }

// contact reports whether both hosts are in one membership.
func (p *play) contact() bool {
	return p.m[0].up() && p.m[1].up() && p.m[0].runs && p.m[1].runs
}

func (p *play) kubeletRuns(m *machine) bool {
	return m.up() && (m.kubelet || p.configured && m.met)
}

// apiServes reports whether a host's own API server serves: it asks the etcd of its
// host alone.
func (p *play) apiServes(m *machine) bool { return p.etcdRuns(m) && p.writable() }

// works reports whether Jobs run on a host: its kubelet asks the API server of its
// own host alone.
func (p *play) works(m *machine) bool { return p.kubeletRuns(m) && p.apiServes(m) }

func (p *play) leads(m *machine) bool { return m.up() && m.record == state.EtcdSole }

func (p *play) etcdRuns(m *machine) bool {
	if !m.up() || !m.listed {
		return false
	}
	if m.static {
		return p.kubeletRuns(m)
	}
	return m.pod && p.configured && m.met
}

// writable reports whether the API can write.
func (p *play) writable() bool {
	listed, runs := 0, 0
	for _, m := range p.m {
		if m.listed {
			listed++
		}
		if p.etcdRuns(m) {
			runs++
		}
	}
	return runs*2 > listed
}

// cut takes a host's power. With forgets, settings that systemd got in the last
// moments had not reached the disk.
func (p *play) cut(m *machine, ticks int, forgets bool) {
	m.off, m.runs, m.met, m.heard = ticks, false, false, false
	if forgets && p.at-m.since < 3 {
		m.boots = false
	}
}

func (p *play) tick() {
	p.at++
	for _, m := range p.m {
		if m.off > 0 {
			if m.off--; m.off == 0 {
				m.runs = m.conf && m.boots
			}
		}
	}
	for _, m := range p.m {
		m.met = m.met || p.contact()
		m.heard = m.heard || p.contact() && p.peer(m).record != state.EtcdSole
	}
	p.pacemaker()
	p.agents()
	p.keepers()
	p.work()
	if p.writable() {
		p.operate()
	}
}

// pacemaker fences a lost host; a host that has recorded pair goes on alone.
func (p *play) pacemaker() {
	for _, m := range p.m {
		lost := p.peer(m)
		if !p.configured || !m.up() || !m.runs || lost.up() || m.record != state.EtcdPair || !m.heard || !p.etcdRuns(m) || !lost.listed {
			continue
		}
		m.record, lost.listed = state.EtcdSole, false
		if lost.off > 5 {
			lost.off = 5 // the fence switches it on again
		}
	}
}

// agents plays the agents, which take etcd from a kubelet that holds up its host.
func (p *play) agents() {
	for _, m := range p.m {
		if m.up() && m.static && Superseded(p.report(m)) {
			if m.record == state.EtcdSole || p.etcdRuns(m) {
				p.t.Errorf("an etcd that counts is taken away on %s", m.name)
			}
			m.static = false
		}
	}
}

// keepers plays the etcd keepers, which bring records forward while they see each
// other.
func (p *play) keepers() {
	if !p.contact() || !p.configured {
		return
	}
	for _, m := range p.m {
		peer := p.peer(m)
		switch {
		case m.record == state.EtcdNone && p.etcdRuns(m) && p.etcdRuns(peer):
			m.record = state.EtcdVoter
		case m.record == state.EtcdVoter && p.etcdRuns(m) && p.etcdRuns(peer) && peer.record != state.EtcdNone:
			m.record = state.EtcdPair
		case m.record == state.EtcdSole && peer.record == state.EtcdVoter && peer.listed:
			m.record = state.EtcdPair
		case m.static: // kubelet starts etcd again and again
		case peer.record == state.EtcdSole && !m.listed && m.record != state.EtcdLearner:
			m.record = state.EtcdLearner
		case peer.record == state.EtcdSole && m.record == state.EtcdLearner && m.pod:
			m.record, m.listed = state.EtcdVoter, true // emptied, joined, promoted
		}
	}
}

// report returns the report of the etcd keeper on a host.
func (p *play) report(m *machine) state.EtcdReport {
	peer := p.peer(m)
	r := state.EtcdReport{Wish: state.EtcdNotAsked}
	if p.configured && p.contact() {
		r.Wish = state.EtcdStarted
	}
	record := state.EtcdRecord{State: m.record, Member: 1}
	if m.record == state.EtcdLearner {
		record.Member = 0
	}
	s := &r.Snapshot
	s.Peer, s.Record, s.Pacemaker.Contact, s.Pacemaker.Ring = peer.name, state.Known(record), state.Known(p.contact()), 1
	if p.contact() {
		s.Statement = state.Known(state.EtcdStatement{
			Ring: 1, Record: state.EtcdRecord{State: peer.record}, Running: state.Known(p.etcdRuns(peer)), Leads: p.leads(peer),
		})
	}
	var members []state.EtcdMember
	for i, o := range p.m {
		if o.listed {
			members = append(members, state.EtcdMember{ID: state.MemberID(i + 1)})
		}
	}
	s.Local = state.EtcdLocal{Running: state.Known(p.etcdRuns(m)), Members: state.Known(members), Leader: state.Known(state.MemberID(0))}
	if p.writable() {
		s.Local.Leader.Value = 1
	}
	return r
}

// patience is the number of ticks that a step waits.
const patience = 18

// work makes each running Job's host do the next part of its step. A Job whose host
// was down has failed when that host is back.
func (p *play) work() {
	for i := range p.jobs {
		j := &p.jobs[i]
		if j.State != JobRunning {
			continue
		}
		m := p.m[0]
		if strings.HasSuffix(j.Name, "cp-2") {
			m = p.m[1]
		}
		age := p.age[j.Name]
		p.age[j.Name]++
		switch {
		case !m.up():
			p.age[j.Name] = -1000 // its container is gone
		case age < 0 && !p.works(m): // the API does not know yet
		case age < 0 || age > patience:
			j.State, j.Ended, j.Failure = JobFailed, p.now(), "cut off"
		case p.carryOut(m, strings.TrimPrefix(j.Name, "two-node-"), age):
			j.State, j.Ended = JobSucceeded, p.now()
		}
	}
}

func (p *play) carryOut(m *machine, step string, age int) (done bool) {
	peer := p.peer(m)
	switch {
	case strings.HasPrefix(step, "auth"):
		return enter(p, m, age)
	case strings.HasPrefix(step, "fencing"):
		return age > 0
	case step == "setup":
		return p.setUp(m, peer, age)
	case strings.HasPrefix(step, "manifest"):
		m.pod, m.boots, m.since = true, true, -enough // on the disk
		return true
	case strings.HasPrefix(step, "hand-over"):
		if r := p.report(m); m.static {
			if m.record == state.EtcdSole && Ready(r) == "" {
				p.t.Errorf("the only member is stopped on %s", m.name)
			}
			m.static = Ready(r) != ""
			return false
		}
		return Voting(p.report(m)) == ""
	}
	switch age { // finish
	case 0:
		m.boots, m.since = true, -enough // on the disk
	default:
		m.kubelet, m.finished = false, true
	}
	return age > 0
}

// enter plays what one host does by itself.
func enter(p *play, m *machine, age int) (done bool) {
	switch {
	case !m.conf:
		m.conf = true
	case !m.boots:
		m.boots, m.since = true, p.at
	case !m.runs:
		m.runs = true
	default:
		return age > 0
	}
	return false
}

// setUp is cut off wherever one of the hosts is absent. It starts nothing on the
// other one.
func (p *play) setUp(m, peer *machine, age int) (done bool) {
	if !peer.up() || !m.conf || !peer.conf {
		return false
	}
	switch {
	case !m.boots:
		m.boots, m.since = true, p.at
	case !m.runs:
		m.runs = true
	case !p.contact():
	case !p.configured:
		p.configured = true
	default:
		return age > 0
	}
	return false
}

func (p *play) now() time.Time { return now.Add(time.Duration(p.at) * tick) }

// look returns what the operator sees, which remembers nothing.
func (p *play) look() Snapshot {
	s := two()
	s.Now, s.Jobs, s.Begun = p.now(), slices.Clone(p.jobs), p.begun
	for i, m := range p.m {
		s.Nodes[i].Ready = p.works(m)
		s.Nodes[i].Etcd = MemberUnknown
		if p.etcdRuns(m) {
			s.Nodes[i].Etcd = MemberHealthy
		}
	}
	return s
}

func (p *play) operate() {
	d := Decide(p.look())
	p.begun = p.begun || d.Begin
	p.jobs = slices.DeleteFunc(p.jobs, func(j Job) bool { return slices.Contains(d.Delete, j.Name) })
	if p.halfAct && len(d.Delete)+len(d.Create) > 0 {
		p.halfAct = false
		return
	}
	for _, w := range d.Create {
		p.steps = append(p.steps, w.Name)
		p.jobs = append(p.jobs, Job{Name: w.Name, Key: w.Key, State: JobRunning, Attempt: w.Attempt})
		p.age[w.Name] = 0
	}
}

// whole returns what is missing, nothing once the set-up is complete.
func (p *play) whole() string {
	var bad []string
	for _, m := range p.m {
		if !m.up() || m.record != state.EtcdPair || !m.listed || m.static || !m.boots || m.kubelet || !m.finished {
			bad = append(bad, fmt.Sprintf("%+v", *m))
		}
	}
	if c := Decide(p.look()).Conditions[0]; c.Status {
		bad = append(bad, c.Message)
	}
	return strings.Join(bad, "\n")
}

// enough is the number of ticks after which the set-up must be complete: an hour.
const enough = 360

// run plays until all is complete after the last harm.
func (p *play) run(last int, harm func(*play)) (ticks int) {
	for p.at < enough {
		if harm != nil {
			harm(p)
		}
		if p.tick(); p.whole() == "" && p.at > last+1 {
			return p.at
		}
	}
	p.t.Errorf("not whole after %d ticks:\n%s\nthe last Jobs: %v", p.at, p.whole(), p.steps[max(0, len(p.steps)-12):])
	return p.at
}

// harms are the faults that can hit an installation between two steps, or in one.
var harms = map[string]func(*play, *machine){
	"fence":                               func(p *play, m *machine) { p.cut(m, 5, false) },
	"power cut, switched on late":         func(p *play, m *machine) { p.cut(m, 40, false) },
	"power cut, of which the disk is old": func(p *play, m *machine) { p.cut(m, 5, true) },
	"power cut of both": func(p *play, m *machine) {
		p.cut(m, 5, true)
		p.cut(p.peer(m), 7, true)
	},
	"restart of the operator in its act": func(p *play, _ *machine) { p.halfAct = true },
}

func TestASetUpThatIsStruckAnywhereComesToItsEnd(t *testing.T) {
	calm := newPlay(t).run(0, nil)
	if calm > 40 {
		t.Fatalf("undisturbed it takes %d ticks", calm)
	}
	for name, harm := range harms {
		for first := range calm + 2 {
			for host := range 2 {
				t.Run(fmt.Sprintf("%s at %d on cp-%d", name, first, host+1), func(t *testing.T) {
					newPlay(t).run(first, func(p *play) {
						if p.at == first {
							harm(p, p.m[host])
						}
					})
				})
			}
		}
	}
}

// A second fault comes while the first is being repaired.
func TestASetUpThatIsStruckTwiceComesToItsEnd(t *testing.T) {
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range harms {
			if !yield(name) {
				return
			}
		}
	})
	for first := 0; first < 40; first += 8 {
		for _, later := range []int{1, 3, 8, 21} {
			second := first + later
			for i := range 2 * len(names) * 2 * len(names) {
				a, b := names[i%len(names)], names[i/len(names)%len(names)]
				hostA, hostB := i/len(names)/len(names)%2, i/len(names)/len(names)/2
				p := newPlay(t)
				p.run(second, func(p *play) {
					switch p.at {
					case first:
						harms[a](p, p.m[hostA])
					case second:
						harms[b](p, p.m[hostB])
					}
				})
				if t.Failed() {
					t.Fatalf("%s of cp-%d at %d, %s of cp-%d at %d", a, hostA+1, first, b, hostB+1, second)
				}
			}
		}
	}
}
