package keeper

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/model/state"
)

// pairOn is what beta says as one of a pair, in a membership.
func pairOn(ring uint64) state.EtcdStatement {
	st := *peerPair()
	st.Ring = ring
	return st
}

// together begins a play with a pair of which both hosts are well.
func (p *play) together() {
	p.recorded(pairRecord())
	p.begin()
	p.say("Pacemaker asks for etcd, and both hosts are there", func() {
		p.peerSays(pairOn(7))
		p.sees(7, true, "alpha", "beta")
		p.reaches <- state.Reach{State: state.ReachYes, Why: "the gateway answers"}
		p.ask(state.EtcdStarted)
	}, 12*time.Second)
}

// has changes what the local etcd says.
func (p *play) has(leader state.MemberID, commits error, members ...state.EtcdMember) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Leader, p.commits = leader, commits
	if len(members) > 0 {
		p.status.Members = members
	}
}

var errLost = errors.New("no leader")

// TestThePlayOfALostPeer: beta is lost, is fenced, and comes back with nothing.
func TestThePlayOfALostPeer(t *testing.T) {
	playOut(t, "lost-peer", func(p *play) {
		p.together()
		p.say("beta is lost", func() { p.has(0, errLost); p.sees(8, true, "alpha") }, 14*time.Second)
		p.say("beta was fenced", func() { p.power, p.powerErr = state.PowerOff, nil; p.fenced(p.now()) }, time.Second)
		p.say("the stand-in's vote makes alpha the leader, and beta is removed", func() {
			p.has(0xa, nil, both[0])
			p.mu.Lock()
			p.standIn.Last = &etcd.StandInResult{Outcome: "led", MS: map[string]float64{"committing": 40}}
			p.mu.Unlock()
		}, 8*time.Second)
		if r := p.d.report(); r.StandInOutcome != "led" || r.StandIn != "led; writes worked after 40ms" || r.Reach.State != state.ReachYes {
			p.t.Errorf("%q, %q, %+v", r.StandInOutcome, r.StandIn, r.Reach)
		}
		back := state.EtcdStatement{
			Boot: "p2", Ring: 10, Running: state.Known(false), StandIn: state.Known(state.MemberID(0)), SeenSeq: 6,
			Record: state.EtcdRecord{State: state.EtcdLearner, Seq: 3, Cluster: 0xc}, Data: state.Known(state.EtcdData{Copy: state.CopyNone}),
		}
		p.say("beta is back with nothing", func() { p.peerSays(back); p.sees(10, true, "alpha", "beta") }, 2*time.Second)
		back.Record.Member, back.Record.Seq, back.Running = 0xd, 4, state.Known(true)
		back.Data = state.Known(state.EtcdData{Copy: state.CopyWhole, Cluster: 0xc, Member: 0xd})
		p.say("its learner runs and applies the data, which takes a while", func() {
			p.has(0xa, nil, both[0], state.EtcdMember{ID: 0xd, Name: "beta", Learner: true, InSync: true})
			p.peerSays(back)
		}, 5*time.Second)
		p.say("it has applied them", func() { p.mu.Lock(); p.peerApplied = p.status.RaftIndex; p.mu.Unlock() }, 2*time.Second)
		back.Record.State, back.Record.Seq = state.EtcdVoter, 5
		back.Members = state.Known([]state.EtcdMember{both[0], {ID: 0xd, Name: "beta"}})
		p.say("it knows that it is a voter", func() { p.peerSays(back) }, 2*time.Second)
	})
}

// TestThePlayOfALeave: Pacemaker stops alpha alone, and later starts it again.
func TestThePlayOfALeave(t *testing.T) {
	playOut(t, "leave", func(p *play) {
		p.together()
		st := pairOn(7)
		p.say("Pacemaker stops etcd of alpha", func() { p.ask(state.EtcdStopped) }, 4*time.Second)
		st.Leads, st.SeenSeq = true, 5
		p.say("beta has read that alpha departs", func() { p.peerSays(st) }, time.Second)
		st.Record.State, st.Record.Seq, st.SeenSeq = state.EtcdSole, 3, 5
		st.Members = state.Known(both[1:])
		p.say("beta removed it", func() { p.has(0xb, nil, both[1]); p.peerSays(st) }, 4*time.Second)
		p.say("Pacemaker starts etcd of alpha", func() { p.ask(state.EtcdStarted) }, 3*time.Second)
	})
}

// TestThePlayOfASiteThatIsSwitchedOff: both are told to stop, so neither leaves.
func TestThePlayOfASiteThatIsSwitchedOff(t *testing.T) {
	playOut(t, "both-stop", func(p *play) {
		p.together()
		p.say("Pacemaker of both is told to stop", func() { p.stops = true; p.ask(state.EtcdStopped) }, 4*time.Second)
	})
}

// TestThePlayOfAnEtcdThatEnds: it is started again at once, and data with which it ends
// again and again count as damaged unless the disk is full.
func TestThePlayOfAnEtcdThatEnds(t *testing.T) {
	playOut(t, "etcd-ends", func(p *play) {
		p.together()
		p.say("etcd ends by itself", p.exits, 3*time.Second)
		p.say("it ends, and each start fails beside a full disk", func() { p.fails, p.free = errors.New("no space"), 1<<20; p.exits() }, 20*time.Second)
		p.say("there is room", func() { p.free = 1 << 40 }, 20*time.Second)
		p.say("beta goes on alone and does not list alpha any more", func() {
			p.fails = nil
			st := pairOn(7)
			st.Record.State, st.Record.Seq, st.Leads, st.SeenSeq, st.Members = state.EtcdSole, 3, true, 5, state.Known(both[1:])
			p.peerSays(st)
		}, 3*time.Second)
	})
}

// TestThePlayOfAnEtcdThatHangs: a suspended process is ended and started again, one that
// waits for its disk is left alone, and what the disk test finds is told to beta.
func TestThePlayOfAnEtcdThatHangs(t *testing.T) {
	playOut(t, "etcd-hangs", func(p *play) {
		p.together()
		p.say("a signal suspends etcd", func() { p.mu.Lock(); p.process.Letter, p.mute, p.commits = "T", true, errLost; p.mu.Unlock() }, 1500*time.Millisecond)
		p.say("it is well again", func() { p.mu.Lock(); p.mute, p.commits = false, nil; p.mu.Unlock() }, 3*time.Second)
		p.say("nothing is committed, and the disk refuses writes", func() { p.has(0xa, errLost); p.block = os.ErrPermission }, 10*time.Second)
		p.say("the process waits for the disk", func() { p.block, p.blocked = nil, true }, 10*time.Second)
		if p.d.keeper().Observer.Memory.Quarantine() == 0 {
			p.t.Error("the stall is not remembered")
		}
	})
}

// TestThePlayOfAManifestThatChanges: etcd is restarted in place once all has been well
// for a while.
func TestThePlayOfAManifestThatChanges(t *testing.T) {
	playOut(t, "new-manifest", func(p *play) {
		p.together()
		p.say("a newer manifest lies there", func() { keep(p.t, p.root+"/pod.yaml", podOf(p.t, "etcd-image-2")) }, 3*time.Second)
	})
}

// TestThePlayOfASurvivorThatBootsAlone: it went on alone before, and the peer is off.
func TestThePlayOfASurvivorThatBootsAlone(t *testing.T) {
	playOut(t, "boots-alone", func(p *play) {
		p.data.Members = both[:1]
		p.has(0xa, nil, both[0])
		p.recorded(state.EtcdRecord{State: state.EtcdSole, Seq: 6, Cluster: 0xc, Member: 0xa})
		p.watchFails = 1
		p.begin()
		p.say("Corosync has not seen beta", func() { p.sees(3, false, "alpha") }, 5*time.Second)
		p.say("the BMC of beta says Off", func() { p.power, p.powerErr = state.PowerOff, nil }, 5*time.Second)
		p.say("Pacemaker asks for etcd", func() { p.ask(state.EtcdStarted) }, 8*time.Second)
	})
}

// TestThePlayOfAPeerThatYields: it says over another network that it is cut off, so it is
// fenced at once, unless somebody told Pacemaker not to act.
func TestThePlayOfAPeerThatYields(t *testing.T) {
	playOut(t, "peer-yields", func(p *play) {
		p.together()
		st := pairOn(7)
		st.Addresses = append(st.Addresses, lan("192.0.2.2"), lan("198.51.100.2"))
		p.say("beta names its addresses", func() { p.peerSays(st) }, 4*time.Second)
		p.say("beta is lost, and Pacemaker is in maintenance", func() {
			p.barred = errors.New("maintenance")
			p.peerMute, p.gives = false, time.Minute
			p.has(0, errLost)
			p.sees(8, true, "alpha")
		}, time.Second)
		p.say("maintenance ends", func() { p.barred = nil }, 2*time.Second)
	})
}
