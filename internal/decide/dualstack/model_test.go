package dualstack

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The model is a site of two control planes and a worker. It is comparable, so that each state
// is visited once.
const hosts = 3

var names = [hosts]string{"cp-1", "cp-2", "w-1"}

func modelPlan() *Plan {
	p := &Plan{
		ID: "p", At: time.Unix(1, 0), Machines: "fd98::/64", Pods: config.ClusterNetworkEntry{CIDR: "fd44::/56", HostPrefix: 64}, Services: "fd96::/112",
		Hosts: map[string]Host{},
	}
	for i, n := range names {
		p.Hosts[n] = Host{ControlPlane: i < 2, Share: netip.MustParsePrefix(fmt.Sprintf("fd44:0:0:%x::/64", 0xff-i))}
	}
	return p
}

var thePlan = modelPlan()

// modelHost is a host. Its files, programs and Node are either of one family or of both.
type modelHost struct {
	off bool
	// plan, stage, begun and settled are on its disk; changed is how old the change of its
	// files is: "" none, "now" in this boot, "before".
	plan, begun, settled bool
	stage                Stage
	changed              string
	told                 Stage
	toldPlan             bool
	toldBegun, toldEnd   bool
	// serve is true if the files of the API server and controller manager have both families,
	// starting while these programs start. act is true if it has decided to change them.
	serve, starting, act bool
	// files are those of kubelet and the container runtime, runs what these were started with,
	// and both what the Node says. gone is true while somebody has deleted the Node.
	files, runs, both, gone bool
	shares                  int
	// kept is the number of the control plane that has a copy of the Node on its disk, counted from 1.
	// The worker is cordoned: if the Node was deleted by a carrier that was cut, it does not come back.
	kept           int
	wish           bool // a planned reboot
	fits           bool
	burnt, retired bool // its machine is gone for good; a person took it out of the cluster
}

type model struct {
	hosts                 [hosts]modelHost
	announced             bool
	begun                 bool // in the announcement
	ever                  bool // it has begun, whatever became of its announcement
	noted, route, objects bool
	work, degraded        bool // an upgrade goes on; the redundancy is not whole
	aborted, deleted      bool
	faults                int
	bad                   string
}

func newModel() model {
	h := modelHost{shares: 1, fits: true}
	m := model{hosts: [hosts]modelHost{h, h, h}, announced: true, work: true, degraded: true}
	m.hosts[2].fits = false
	return m
}

// answers reports whether the API answers.
func (m model) answers() bool {
	return !m.hosts[0].off && !m.hosts[0].starting || !m.hosts[1].off && !m.hosts[1].starting
}

func (m model) facts(i int) Facts {
	h := m.hosts[i]
	f := Facts{Host: names[i], Journal: Journal{Stage: h.stage, Begun: h.begun, Settled: h.settled}, Boot: "now"}
	f.Journal.Changed = h.changed
	if h.plan {
		f.Plan = thePlan
	}
	f.Serves = state.Known(h.serve && !h.starting)
	if !m.answers() {
		return f
	}
	a := Announced{}
	if m.announced {
		a = Announced{ID: "p", Begun: m.begun}
	}
	f.Announced = state.Known(a)
	for k, o := range m.hosts {
		if o.retired {
			f.Retired = append(f.Retired, names[k])
		}
	}
	carries := h.plan && f.Carrier() == names[i]
	if carries {
		f.Noted, f.Routed, f.Work, f.Whole, f.Others = state.Known(m.noted), state.Known(m.route), state.Known(""), state.Known(""), state.Known("")
	}
	if carries && m.work {
		f.Work = state.Known("an upgrade")
	}
	if carries && m.degraded {
		f.Whole = state.Known("no fencing")
	}
	seen := map[string]Seen{}
	for k, o := range m.hosts {
		s := Seen{Stage: o.told, Begun: o.toldBegun, Settled: o.toldEnd, Ready: !o.off, Both: o.both}
		if o.toldPlan {
			s.Plan = "p"
		}
		if !o.fits {
			s.Lacks = "no address"
		}
		if carries {
			s.Shares = o.shares
			if o.gone && o.kept == i+1 {
				f.Kept = append(f.Kept, names[k])
			}
		}
		if !o.gone {
			seen[names[k]] = s
		}
	}
	f.Nodes = state.Known(seen)
	if i < 2 {
		other := m.hosts[1-i]
		f.Carried = state.Known(other.retired || !other.off && !other.starting)
	}
	return f
}

// step lets a host look, tell and act. cut is how the act ends: 0 it is done, 1 the power is cut
// before anything, 2 after the effect and before the journal, 3 between the two requests that make
// a Node anew.
func (m model) step(i, cut int) model {
	h := &m.hosts[i]
	if h.off || cut == 3 && (h.act || Decide(m.facts(i)).Act != Share) {
		return m
	}
	if m.announced && m.answers() && !h.plan {
		h.plan, h.stage, h.begun, h.settled, h.changed = true, Kept, false, false, ""
	}
	if h.act {
		h.act = false
		return m.serves(i, cut)
	}
	s := Decide(m.facts(i))
	if m.answers() && s.Act != Drop {
		h.told, h.toldPlan, h.toldBegun, h.toldEnd = h.stage, h.plan, h.begun, h.settled
	}
	if s.Act == Serve && m.hosts[1-i].off && !m.hosts[1-i].retired {
		m.bad = "the last API server starts anew" // afterwards a power cut of the other one may come at any time
	}
	if s.Act == Serve && cut == 0 {
		h.act = true
		return m
	}
	if cut == 1 && s.Act != Wait && s.Act != Idle {
		return m.down(i)
	}
	return m.does(i, s, cut)
}

// serves changes the files of the API server and the controller manager.
func (m model) serves(i, cut int) model {
	h := &m.hosts[i]
	if cut == 1 {
		return m.down(i)
	}
	if m.hosts[1-i].starting {
		m.bad = "both API servers start anew at once"
	}
	h.serve, h.starting = true, true
	if !m.ever {
		m.bad = "files change before the plan has begun"
	}
	if cut == 2 {
		return m.down(i)
	}
	return m
}

func (m model) does(i int, s Step, cut int) model { //nolint:cyclop // one case for each act
	h := &m.hosts[i]
	effect := true
	switch s.Act {
	case Idle, Wait:
		return m
	case Serve:
		return m.serves(i, cut)
	case Drop:
		if m.begun && m.announced {
			m.bad = "a host forgets a plan that goes on"
		}
		if h.stage != Over && h.serve {
			m.bad = "a host forgets the plan half way"
		}
		h.plan, h.stage, h.begun, h.settled, h.changed, h.told, h.toldPlan, h.toldBegun, h.toldEnd = false, "", false, false, "", "", false, false, false
	case Heed:
		h.begun = true
	case Mark:
		h.stage = Served
	case Begin:
		if !m.announced {
			break // somebody took it back
		}
		m.begin()
	case Publish:
		m.announced, m.begun = true, true
	case Note:
		m.noted = true
	case Share:
		k := slices.Index(names[:], s.Host)
		if cut == 3 {
			m.hosts[k].gone, m.hosts[k].kept = true, i+1
			return m.down(i)
		}
		m.share(k)
	case Route:
		m.route = true
		for k, o := range m.hosts {
			if o.shares != 2 && !o.retired {
				m.bad = "the pod network gets both families before " + names[k] + " has two shares"
			}
		}
	case Write:
		m.write(i)
		if cut == 2 {
			return m.down(i)
		}
		h.stage, h.changed = Written, "now"
	case Boot:
		h.wish = true
	case Arrive:
		if !h.both {
			m.bad = "a host has arrived whose Node has one family"
		}
		h.stage = Over
	case Settle:
		m.objects = true
		for _, o := range m.hosts {
			if o.told != Over && !o.retired {
				m.bad = "the objects change before all hosts are done"
			}
		}
		if cut == 2 {
			return m.down(i)
		}
		h.settled = true
	case Withdraw:
		m.announced, m.begun = false, false
	default:
		effect = false
	}
	if !effect {
		m.bad = "nobody says how to " + string(s.Act)
	}
	if cut == 2 {
		return m.down(i)
	}
	return m
}

func (m *model) begin() {
	m.begun, m.ever = true, true
	if m.work {
		m.bad = "the plan begins beside other work"
	}
	if m.degraded {
		m.bad = "the plan begins while the redundancy is not whole"
	}
	for k, o := range m.hosts {
		switch {
		case o.retired:
		case !o.fits:
			m.bad = "the plan begins though " + names[k] + " lacks an address"
		case !o.plan:
			m.bad = "the plan begins though " + names[k] + " does not have it"
		case o.off:
			m.bad = "the plan begins though " + names[k] + " is away"
		}
	}
}

func (m *model) share(k int) {
	h := &m.hosts[k]
	if h.off && !h.gone {
		m.bad = "the Node of a host that is away is made anew"
	}
	h.shares, h.gone, h.kept = 2, false, 0
	if !m.noted {
		m.bad = "a Node has two shares, and a control plane that joins would know one family"
	}
	for i, o := range m.hosts[:2] {
		if (!o.serve || o.starting) && !o.retired {
			m.bad = "a Node has two shares, and the controller manager of " + names[i] + " ends because of that"
		}
	}
}

func (m *model) write(i int) {
	h := &m.hosts[i]
	h.files = true
	if !m.route {
		m.bad = names[i] + " boots with two families, and the pod network has one"
	}
	for k, o := range m.hosts {
		if k != i && !o.retired && (o.stage == Written || o.files && !o.both) {
			m.bad = "two hosts change at once"
		}
	}
}

// down is a power cut; the host comes back by the event up.
func (m model) down(i int) model {
	m.hosts[i].off, m.hosts[i].starting, m.hosts[i].act = true, false, false
	return m
}

// up starts a host, by what its files say then.
func (m model) up(i int) model {
	h := &m.hosts[i]
	h.off, h.wish = false, false
	if h.changed == "now" {
		h.changed = "before"
	}
	h.runs = h.files
	if m.route && h.shares != 2 {
		m.bad = names[i] + " starts with one share, and the pod network has two families: its daemon ends"
	}
	return m
}

// world returns what happens by itself.
func (m model) world() (out []model) {
	for i, h := range m.hosts {
		switch {
		case h.retired:
		case h.burnt: // a person takes it out
			n := m
			n.hosts[i].retired, n.hosts[i].gone = true, true
			for k := range n.hosts {
				if n.hosts[k].kept == i+1 { // the copy is gone with its disk: a person has kubelet register
					n.hosts[k].kept = 0
				}
			}
			out = append(out, n)
		case h.off:
			out = append(out, m.up(i))
		case h.starting:
			n := m
			n.hosts[i].starting = false
			out = append(out, n)
		case h.gone && (i < 2 || h.kept == 0): // its agent makes it again, as it was
			n := m
			n.hosts[i].gone = false
			out = append(out, n)
		case h.both != h.runs:
			n := m
			n.hosts[i].both = h.runs
			out = append(out, n)
		case h.wish && (i == 2 || m.hosts[1-i].retired || !m.hosts[1-i].off && !m.hosts[1-i].starting):
			out = append(out, m.down(i).up(i))
		}
	}
	return out
}

// mishaps returns what may happen, each some times.
func (m model) mishaps(most int) (out []model) {
	if m.work {
		n := m
		n.work = false
		out = append(out, n)
	}
	if m.degraded {
		n := m
		n.degraded = false
		out = append(out, n)
	}
	if !m.hosts[2].fits {
		n := m
		n.hosts[2].fits = true
		out = append(out, n)
	}
	if m.announced && !m.begun && !m.aborted && m.answers() { // --abort
		n := m
		n.announced, n.aborted = false, true
		out = append(out, n)
	}
	if m.faults >= most {
		return out
	}
	m.faults++
	if m.begun && m.announced && !m.deleted && m.answers() { // by hand
		n := m
		n.announced, n.begun, n.deleted = false, false, true
		out = append(out, n)
	}
	for i, h := range m.hosts {
		if !h.off {
			out = append(out, m.down(i), m.step(i, 1), m.step(i, 2), m.step(i, 3))
			n := m
			n.hosts[i].gone = true
			out = append(out, n)
			if i == 2 || !m.hosts[1-i].burnt {
				n := m.down(i)
				n.hosts[i].burnt = true
				out = append(out, n)
			}
		}
	}
	return out
}
