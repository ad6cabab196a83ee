package space

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/etcdhealth"
	decide "github.com/holdfast/holdfast/internal/decide/etcdspace"
	model "github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

const mib = 1 << 20

// world is two or one hosts with their etcd. Each host has its own agent, clock and files.
type world struct {
	t       *testing.T
	up      time.Duration
	etcds   map[string]*etcd.MemberSpace // by address
	hosts   []*hostOf
	report  state.EtcdReport
	keeper  error
	backsUp bool
	phase   model.Phase
	fails   error
	late    bool
	did     []string
}

// hostOf is one host.
type hostOf struct {
	*world
	*Agent
	name, address string
	last          *decide.Report
	annotations   map[string]string // of its node
	noAPI         error
	told          int
	note          state.EtcdDefragmentation
	wanted        state.Fact[time.Duration]
	aside         []string // what a keeper set aside
	kept          error    // why that cannot be removed
}

func (h *hostOf) drops() ([]string, error) {
	gone := h.aside
	h.aside = nil
	return gone, h.kept
}

func newWorld(t *testing.T, shape decide.Shape, hosts int) *world {
	t.Helper()
	w := &world{t: t, up: time.Hour, etcds: map[string]*etcd.MemberSpace{}}
	var list []state.EtcdMember
	var nodes []state.Node
	for i := range hosts {
		h := &hostOf{world: w, name: fmt.Sprintf("cp-%d", i+1), address: fmt.Sprintf("10.0.0.%d", i+1)}
		list = append(list, state.EtcdMember{ID: state.MemberID(i + 1), Name: h.name})
		nodes = append(nodes, state.Node{Name: h.name, Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}, Addresses: []netip.Addr{netip.MustParseAddr(h.address)}})
		w.hosts = append(w.hosts, h)
		w.etcds[h.address] = &etcd.MemberSpace{Member: state.MemberID(i + 1), Leader: 1, Size: 400 * mib, InUse: 100 * mib, Quota: 8 << 30, Revision: 1000, Index: 10, Version: "3.6.14"}
	}
	for _, h := range w.hosts {
		w.etcds[h.address].Members = list
		h.begin(shape, nodes)
		h.Nodes(nodes)
	}
	s := &w.report.Snapshot
	s.Uptime, s.Record, s.Statement = time.Hour, state.Known(state.EtcdRecord{State: state.EtcdPair}), state.Known(state.EtcdStatement{Record: state.EtcdRecord{State: state.EtcdPair}})
	s.Local.Running, s.Local.Leader = state.Known(true), state.Known(state.MemberID(1))
	w.report.Verdict.Action = state.EtcdIdle
	return w
}

// begin starts the agent of a host anew.
func (h *hostOf) begin(shape decide.Shape, nodes []state.Node) {
	view := state.NetworkView{Nodes: state.Known(nodes)}
	view.Host.NodeName = h.name
	if h.annotations == nil {
		h.annotations = map[string]string{}
	}
	h.Agent = New(Options{
		Files: h, Shape: shape, View: func() state.NetworkView { return view },
		Members: func(_ context.Context, addresses map[string]string) map[string]etcd.MemberSpace {
			out := map[string]etcd.MemberSpace{}
			for name, address := range addresses {
				if m := h.etcds[address]; m != nil {
					out[name] = *m
				}
			}
			return out
		},
		Own:     func(address string) (Etcd, error) { return client{h, h.etcds[address]}, nil },
		Keeper:  func(context.Context) (state.EtcdReport, error) { return h.report, h.keeper },
		BacksUp: func(context.Context) (bool, error) { return h.backsUp, nil },
		Backup:  func() (model.State, error) { return model.State{Phase: h.phase}, nil },
		Open:    func() (API, error) { return h, h.noAPI },
		Uptime:  func() (time.Duration, error) { return h.up, nil },
		Now:     func() time.Time { return time.Unix(0, 0).Add(h.up) },
	})
}

func (h *hostOf) Last() (decide.Report, error) {
	if h.last == nil {
		return decide.Report{}, fs.ErrNotExist
	}
	return *h.last, nil
}
func (h *hostOf) Write(r decide.Report) error            { h.last = &r; return nil }
func (h *hostOf) Note(n state.EtcdDefragmentation) error { h.note = n; return nil }
func (h *hostOf) RemoveNote() error                      { h.note = state.EtcdDefragmentation{}; return nil }
func (h *hostOf) Wanted() state.Fact[time.Duration]      { return h.wanted }
func (h *hostOf) DropAside() ([]string, error)           { return h.drops() }
func (h *hostOf) RemoveWanted() error                    { h.wanted = state.Fact[time.Duration]{}; return nil }

// Annotate writes to the node of the host, which the watch brings at once.
func (h *hostOf) Annotate(_ context.Context, node, name, value string) error {
	if node != h.name || name != decide.Annotation {
		h.t.Errorf("%s writes %s to %s", h.name, name, node)
	}
	for _, m := range h.etcds {
		if len(m.NoSpace) > 0 {
			h.t.Error("it writes to an API that takes no writes")
		}
	}
	h.told++
	h.annotated(name, value)
	return nil
}

func (h *hostOf) annotated(name, value string) {
	h.annotations[name] = value
	h.Nodes([]state.Node{{Name: h.name, Annotations: maps.Clone(h.annotations)}})
}

// says returns what the host says at its node.
func (h *hostOf) says() decide.Host {
	h.t.Helper()
	out := decide.HostOf(h.name, h.annotations)
	if out.Silent != "" {
		h.t.Fatal(out.Silent)
	}
	return out
}

func (w *world) noted(format string, a ...any) { w.did = append(w.did, fmt.Sprintf(format, a...)) }

// client is the member of a host.
type client struct {
	h *hostOf
	m *etcd.MemberSpace
}

func (c client) Defragment(ctx context.Context) error {
	deadline, limited := ctx.Deadline()
	if !limited || time.Until(deadline) > etcdhealth.DefragmentMost || !etcdhealth.Defragments(c.h.note, c.h.up) || c.h.last.Journal.Failed == 0 {
		c.h.t.Errorf("it begins without a limit, a note or a journal: %+v, %+v", c.h.note, c.h.last)
	}
	c.h.noted("defragment %s", c.h.name)
	if c.h.late {
		expired, stop := context.WithDeadline(ctx, time.Now())
		defer stop()
		return expired.Err()
	}
	if c.h.fails == nil {
		c.m.Size = c.m.InUse
	}
	return c.h.fails
}

func (c client) MoveLeader(_ context.Context, to state.MemberID) error {
	c.h.noted("move from %s", c.h.name)
	for _, m := range c.h.etcds {
		m.Leader = to
	}
	return nil
}

func (c client) Compact(_ context.Context, r int64) error {
	c.h.noted("compact %d", r)
	for _, m := range c.h.etcds {
		m.InUse /= 4
	}
	return nil
}

func (c client) Compacted(_ context.Context, r int64) (bool, error) {
	return listed(c.h.did, fmt.Sprintf("compact %d", r+1)), nil
}

func (c client) DisarmNoSpace(_ context.Context, ids []state.MemberID) error {
	c.h.noted("disarm %v", ids)
	for _, m := range c.h.etcds {
		m.NoSpace = nil
	}
	return nil
}

func listed(list []string, text string) bool {
	return strings.Contains(strings.Join(list, "\n"), text)
}

// plays has each agent look in turn for a time.
func (w *world) plays(lasts time.Duration) {
	w.t.Helper()
	for end := w.up + lasts; w.up < end; w.up += soon {
		for _, h := range w.hosts {
			if _, err := h.step(w.t.Context()); err != nil && w.fails == nil && !w.late {
				w.t.Errorf("%s: %v", h.name, err)
			}
		}
	}
}

func (w *world) expect(want ...string) {
	w.t.Helper()
	if fmt.Sprint(w.did) != fmt.Sprint(want) {
		w.t.Errorf("%q, want %q", w.did, want)
	}
}

func TestAPairIsDefragmentedOneAfterTheOther(t *testing.T) {
	w := newWorld(t, decide.Two, 2)
	w.plays(decide.Apart)
	w.expect()
	w.plays(10 * time.Second)
	w.expect("defragment cp-2", "move from cp-1")
	w.plays(decide.Apart + 10*time.Second)
	w.expect("defragment cp-2", "move from cp-1", "defragment cp-1")
	w.plays(time.Hour)
	w.expect("defragment cp-2", "move from cp-1", "defragment cp-1")
	for _, h := range w.hosts {
		if h.note.Until != 0 || h.last.Journal.Failed != 0 || h.last.Journal.Last == 0 || h.last.Verdict.Rule != "rest" {
			t.Errorf("%s: %+v, %+v", h.name, h.note, h.last)
		}
	}
}

func TestAFullPairIsMendedWithoutAPerson(t *testing.T) {
	w := newWorld(t, decide.Two, 2)
	for _, m := range w.etcds {
		m.Size, m.InUse, m.NoSpace = 8<<30, 8<<30-10*mib, []state.MemberID{1, 2}
	}
	w.plays(decide.CompactBehind + 5*time.Minute)
	w.expect("compact 1000", "defragment cp-2", "move from cp-1", "defragment cp-1", "disarm [1 2]")
}

// etcd keeps the alarm of a member that is removed, and the copy of who joins in its place has it too.
func TestTheAlarmOfAMemberThatWasRemovedIsTakenBack(t *testing.T) {
	w := newWorld(t, decide.Two, 2)
	for _, m := range w.etcds {
		m.Size, m.InUse, m.NoSpace = 200*mib, 180*mib, []state.MemberID{7}
	}
	h := w.hosts[0]
	if _, err := h.step(t.Context()); err != nil {
		t.Error(err)
	}
	w.expect("disarm [7]")
	if s := h.last.Summary; strings.Join(s.NoSpace, "") != "a member that was removed" {
		t.Errorf("%+v", s)
	}
}

func TestTheAlarmsOfAllMembersAreTakenBackOfThoseThatAreListedOrNot(t *testing.T) {
	w := newWorld(t, decide.Two, 2)
	for _, m := range w.etcds {
		m.Size, m.InUse, m.NoSpace = 8<<30, 8<<30-10*mib, []state.MemberID{7, 2}
	}
	w.plays(time.Minute)
	h := w.hosts[0]
	if s := h.last.Summary; strings.Join(s.NoSpace, ", ") != "cp-2, a member that was removed" || gathered(h.Agent)["holdfast_etcd_no_space"] != 1 {
		t.Errorf("%+v", s)
	}
	w.plays(decide.CompactBehind + 5*time.Minute)
	w.expect("compact 1000", "defragment cp-2", "move from cp-1", "defragment cp-1", "disarm [2 7]")
}

// TestAFullEtcdOfThreeIsMendedWithoutTheHostThatIsLost: nobody can write that it is replaced, before.
func TestAFullEtcdOfThreeIsMendedWithoutTheHostThatIsLost(t *testing.T) {
	w := newWorld(t, decide.Static, 3)
	for _, m := range w.etcds {
		m.Size, m.InUse, m.NoSpace = 8<<30, 6<<30-10*mib, []state.MemberID{1, 2, 3}
	}
	lost := w.etcds["10.0.0.3"]
	delete(w.etcds, "10.0.0.3")
	w.plays(decide.Lost - time.Minute)
	w.expect()
	w.etcds["10.0.0.3"] = lost // its silence begins anew
	w.plays(soon)
	w.did = nil
	delete(w.etcds, "10.0.0.3")
	w.plays(decide.Lost - time.Minute)
	w.expect()
	w.plays(time.Minute + decide.Apart + 10*time.Second)
	w.expect("compact 1000", "defragment cp-2", "move from cp-1")
	blocked := w.etcds["10.0.0.2"] // it is silent for a short time, as if it were defragmented
	delete(w.etcds, "10.0.0.2")
	w.plays(time.Minute)
	w.expect("compact 1000", "defragment cp-2", "move from cp-1")
	w.etcds["10.0.0.2"] = blocked
	w.plays(2 * time.Minute)
	w.expect("compact 1000", "defragment cp-2", "move from cp-1", "defragment cp-1", "disarm [1 2 3]")
}

// etcd names the member 0 if it does not know which one of two differs.
func TestNothingIsDoneForSpaceWhileTheAlarmCORRUPTIsRaisedWhoeverRaisedIt(t *testing.T) {
	for _, id := range []state.MemberID{0, 2, 7} {
		w := newWorld(t, decide.Two, 2)
		for _, m := range w.etcds {
			m.Corrupt = []state.MemberID{id}
		}
		w.plays(3 * time.Minute)
		if w.expect(); w.hosts[0].last.Verdict.Rule != "corrupt" {
			t.Errorf("member %d: %+v", id, w.hosts[0].last.Verdict)
		}
	}
}

// While etcd takes no writes, nobody can write that a drain is over, and nobody waits for an upload.
func TestAFullPairIsMendedWhateverNodesSayAndDuringAnUpload(t *testing.T) {
	w := newWorld(t, decide.Two, 2)
	for _, m := range w.etcds {
		m.Size, m.InUse, m.NoSpace = 8<<30, 8<<30-10*mib, []state.MemberID{1, 2}
	}
	nodes := w.hosts[0].View().Nodes.Value
	nodes[0].Annotations = map[string]string{drain.CordonedBy: "x"}
	w.backsUp, w.phase = true, model.PhaseSnapshot
	w.plays(decide.CompactBehind + 5*time.Minute)
	w.expect()
	w.phase = model.PhaseSend
	w.plays(5 * time.Minute)
	w.expect("compact 1000", "defragment cp-2", "move from cp-1", "defragment cp-1", "disarm [1 2]")
}

func TestNothingIsDoneWhileSomethingElseIsAtWork(t *testing.T) {
	for what, harm := range map[string]func(w *world){
		"a backup":                   func(w *world) { w.backsUp = true },
		"the keeper does not answer": func(w *world) { w.keeper = errors.New("no socket") },
		"the peer is a voter":        func(w *world) { w.report.Snapshot.Statement.Value.Record.State = state.EtcdVoter },
		"they joined just now":       func(w *world) { w.report.Snapshot.Pacemaker.Joined = time.Hour - time.Minute },
		"a take-over":                func(w *world) { w.report.Verdict.Action = state.EtcdAskFence },
		"a member is away":           func(w *world) { delete(w.etcds, "10.0.0.2") },
		"a stranger answers":         func(w *world) { w.etcds["10.0.0.2"].Member = 7 },
		"a learner": func(w *world) {
			for _, m := range w.etcds {
				m.Members = append(m.Members, state.EtcdMember{ID: 9, Name: "cp-3", Learner: true})
			}
			w.report.Snapshot.Local.Members = state.Known(w.etcds["10.0.0.1"].Members)
		},
	} {
		w := newWorld(t, decide.Two, 2)
		harm(w)
		w.plays(3 * time.Minute)
		if len(w.did) != 0 {
			t.Errorf("%s: %q", what, w.did)
		}
	}
}

func TestAHostGivesUpAfterThreeFailures(t *testing.T) {
	w := newWorld(t, decide.Two, 2)
	w.fails = errors.New("no space left on device")
	w.plays(2 * time.Hour)
	w.expect("defragment cp-2", "defragment cp-2", "defragment cp-2")
	if r := w.hosts[1].last; r.Verdict.Rule != "given-up" || !strings.Contains(r.Verdict.Why, "no space left") || etcdhealth.Defragments(w.hosts[1].note, w.up) {
		t.Errorf("%+v", r)
	}
}

func TestANoteStaysIfEtcdIsLate(t *testing.T) {
	w := newWorld(t, decide.Two, 2)
	w.late = true
	w.plays(time.Minute)
	w.expect("defragment cp-2")
	n := w.hosts[1].note
	if n.Until == 0 || !etcdhealth.Defragments(n, n.Began) || etcdhealth.Defragments(n, n.Began+etcdhealth.DefragmentMost) {
		t.Errorf("%+v", n)
	}
}

// TestAnAgentThatEndsInADefragmentation: the next one reads that it failed.
func TestAnAgentThatEndsInADefragmentation(t *testing.T) {
	w := newWorld(t, decide.Two, 2)
	h := w.hosts[1]
	h.last = &decide.Report{Journal: decide.Journal{Failed: decide.MaxFailures - 1}.Begin(w.up)}
	w.plays(time.Hour)
	w.expect()
	if h.last.Verdict.Rule != "given-up" || !strings.Contains(h.last.Verdict.Why, "the agent ended") {
		t.Errorf("%+v", h.last)
	}
}

func TestALoneMemberWaitsForAPerson(t *testing.T) {
	w := newWorld(t, decide.Static, 1)
	w.plays(5 * time.Minute)
	w.expect()
	h := w.hosts[0]
	if h.last.Verdict.Rule != "alone" || h.last.IfAsked.Step != decide.Defragment {
		t.Errorf("%+v", h.last)
	}
	h.wanted = state.Known(decide.WishLasts)
	w.plays(soon)
	w.expect()
	h.wanted = state.Known(time.Second)
	w.plays(time.Minute)
	w.expect("defragment cp-1")
	if h.wanted.Known {
		t.Error("the wish is still there")
	}
}

// alone makes cp-1 the only member, whose host goes on alone.
func (w *world) alone() {
	delete(w.etcds, "10.0.0.2")
	w.etcds["10.0.0.1"].Members = w.etcds["10.0.0.1"].Members[:1]
	w.report.Snapshot.Record = state.Known(state.EtcdRecord{State: state.EtcdSole})
	w.report.Snapshot.Statement.Known = false
}

// TestOneWishMendsAFullHostThatGoesOnAlone: it is asked for before old versions can be compacted, so
// that the first defragmentation does not do.
func TestOneWishMendsAFullHostThatGoesOnAlone(t *testing.T) {
	w := newWorld(t, decide.Two, 2)
	w.alone()
	m, h := w.etcds["10.0.0.1"], w.hosts[0]
	m.Size, m.InUse, m.NoSpace = 8<<30, 7<<30, []state.MemberID{1}
	w.plays(time.Minute)
	w.expect()
	if why := h.last.Verdict.Why; !strings.Contains(why, "sudo touch "+state.EtcdDefragmentWantedPath) {
		t.Errorf("it does not say how to ask: %s", why)
	}
	h.wanted = state.Known(time.Second)
	w.plays(decide.CompactBehind + time.Minute)
	w.expect("defragment cp-1", "compact 1000", "defragment cp-1", "disarm [1]")
	if h.wanted.Known || len(m.NoSpace) > 0 {
		t.Errorf("%v, %v", h.wanted, m.NoSpace)
	}
}

func TestAWishEndsWithAFailureAlsoWhileTheAlarmIsRaised(t *testing.T) {
	w := newWorld(t, decide.Two, 2)
	w.alone()
	m, h := w.etcds["10.0.0.1"], w.hosts[0]
	m.Size, m.InUse, m.NoSpace = 8<<30, 7<<30, []state.MemberID{1}
	h.wanted, w.fails = state.Known(time.Second), errors.New("no space left on device")
	w.plays(time.Minute)
	if w.expect("defragment cp-1"); h.wanted.Known {
		t.Error("the wish is still there")
	}
}

// TestAFullPairIsMendedThatNoMarkerCanMakeAPair: one host was lost and came back, and etcd takes no marker.
func TestAFullPairIsMendedThatNoMarkerCanMakeAPair(t *testing.T) {
	w := newWorld(t, decide.Two, 2)
	for _, m := range w.etcds {
		m.Size, m.InUse, m.NoSpace = 8<<30, 8<<30-10*mib, []state.MemberID{1, 2}
	}
	w.report.Snapshot.Record.Value.State, w.report.Snapshot.Statement.Value.Record.State = state.EtcdSole, state.EtcdVoter
	w.report.Verdict.Action = state.EtcdMark
	w.plays(decide.CompactBehind + 5*time.Minute)
	w.expect("compact 1000", "defragment cp-2", "move from cp-1", "defragment cp-1", "disarm [1 2]")
}

func TestAWishThatLeadsToNothingIsForgotten(t *testing.T) {
	w := newWorld(t, decide.Static, 1)
	w.etcds["10.0.0.1"].InUse = w.etcds["10.0.0.1"].Size
	w.hosts[0].wanted = state.Known(time.Second)
	w.plays(soon)
	if w.expect(); w.hosts[0].wanted.Known {
		t.Error("the wish is still there")
	}
}
