package widen

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestTheFactsOfATwoThatMayBecomeThreeOpenEveryGate(t *testing.T) {
	l := newLab(t)
	l.put(state.EtcdDataDir+"/member/snap/db", "small")
	f := l.look(t.Context(), Job{Wish: &wish})
	for _, g := range replace.Closed(widen.Gates(f, wish)) {
		if g.ID != "release" { // this host has none
			t.Errorf("%+v", g)
		}
	}
	// The Node of a host that is there already would be deleted if the plan is taken back.
	l.api.node = Node{There: true, UID: "of another host"}
	if shut := replace.Closed(widen.Gates(l.look(t.Context(), Job{Wish: &wish}), wish)); !slices.ContainsFunc(shut, func(g replace.Gate) bool { return g.ID == "new" }) {
		t.Errorf("a name that is taken: %+v", shut)
	}
	l.api.node = Node{}
	l.api.Infra.Readdress = `{"id":"m1","by":"ada"}`
	if shut := replace.Closed(widen.Gates(l.look(t.Context(), Job{Wish: &wish}), wish)); !slices.ContainsFunc(shut, func(g replace.Gate) bool { return g.ID == "work" }) {
		t.Errorf("a move that is announced: %+v", shut)
	}
	l.api.Infra.Readdress = ""
	l.api.All = []state.Node{{Name: "cp-2", Labels: map[string]string{state.LabelControlPlane: ""}, Annotations: map[string]string{drain.CordonedBy: "drain-rendered-b"}}}
	if shut := replace.Closed(widen.Gates(l.look(t.Context(), Job{Wish: &wish}), wish)); !slices.ContainsFunc(shut, func(g replace.Gate) bool { return g.ID == "work" && g.Words == "cp-2 is drained" }) {
		t.Errorf("a control plane that is emptied: %+v", shut)
	}
	l.api.All = nil
	if !state.Is(f.PeerRecord, state.EtcdPair) || !state.Is(f.Behind, 3) || f.Now != noon {
		t.Errorf("%+v", f)
	}
	// An unknown fact leads to no step.
	l.mute, l.api.Fails = true, errors.New("no route")
	if f := l.look(t.Context(), Job{}); f.Record.Known || f.Voters.Known || f.Word.Known || f.Lock.Known || f.Told.Known || f.Work.Known || f.Moves.Known {
		t.Errorf("%+v", f)
	}
}

func TestTheLockHasThePlanAndWhatTheOtherHostTells(t *testing.T) {
	l := newLab(t)
	job := l.job(widen.Coming)
	l.do(widen.CopyPlan, job)
	if l.api.marks[Annotation] != "cp-1 p1" {
		t.Errorf("no Node names the plan: %v", l.api.marks)
	}
	job.Plan.Stage = widen.LettingIn
	l.do(widen.CopyPlan, job)
	l.do(widen.PutWord, job)
	l.do(widen.Tell, job)
	f := l.look(t.Context(), job)
	if c := f.Lock.Value; c.ID != "p1" || c.Plan.Stage != widen.LettingIn || c.Plan.Newcomer != newcomer {
		t.Errorf("%+v", f.Lock)
	}
	if p := f.Told.Value; p.Stage != widen.LettingIn || p.Word != job.Plan.Word() || p.Record != state.EtcdPair || !p.Target {
		t.Errorf("%+v", f.Told)
	}
	if words := replace.InForce(l.api.Maps[replace.LockNamespace+"/"+replace.LockName]); !strings.Contains(words, "brings cp-3 as the third control plane; to follow it, on cp-1: sudo holdfast topology apply") {
		t.Error(words)
	}
	l.do(widen.DropLock, job)
	if f := l.look(t.Context(), job); f.Lock.Value.ID != "" || l.api.marks[Annotation] != "" {
		t.Errorf("%+v, %v", f.Lock, l.api.marks)
	}
	// The host that wrote the lock is lost, for a while or with its Node.
	for _, lost := range []string{"", "cp-1"} {
		l.do(widen.CopyPlan, job)
		l.api.lost, l.Host = lost, "cp-2"
		l.do(widen.DropLock, job)
		l.Host, l.api.lost = "cp-1", ""
		if f := l.look(t.Context(), job); f.Lock.Value.ID != "" || (l.api.marks[Annotation] != "") != (lost != "") {
			t.Errorf("lost %q: %+v, %v", lost, f.Lock, l.api.marks)
		}
	}
	// Another plan's lock is only known by its ID, and is not written into.
	text, _ := json.Marshal(replace.Plan{ID: "p9", New: replace.New{Name: "cp-2"}})
	l.api.Maps[replace.LockNamespace+"/"+replace.LockName] = map[string]string{replace.LockKey: "p9", replace.LockCopy: string(text)}
	f = l.look(t.Context(), job)
	if f.Lock.Value != (widen.Copy{ID: "p9"}) {
		t.Errorf("%+v", f.Lock)
	}
	if shut := replace.Closed(widen.Gates(f, wish)); !slices.ContainsFunc(shut, func(g replace.Gate) bool {
		return g.ID == "work" && strings.Contains(g.Words, "is under way: the plan p9")
	}) {
		t.Errorf("the gate does not say what goes on: %+v", shut)
	}
	for _, act := range []widen.Act{widen.CopyPlan, widen.Tell} {
		if err := l.world().Do[act](t.Context(), job); err == nil {
			t.Errorf("%s wrote into the lock of another plan", act)
		}
	}
}

func TestAWordIsSaidOnceTheKeeperHasReadIt(t *testing.T) {
	l := newLab(t)
	job := l.job(widen.LettingIn)
	l.do(widen.PutWord, job)
	if w, err := l.files.Third(); err != nil || w.Value != (state.EtcdThirdWord{Plan: "p1", Host: "cp-3", Address: netip.MustParseAddr("192.0.2.13"), Member: 7}) {
		t.Errorf("%+v, %v", w, err)
	}
	l.do(widen.DropWord, job)
	if w, err := l.files.Third(); err != nil || w.Value.Plan != "" {
		t.Errorf("%+v, %v", w, err)
	}
	l.mute = true
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if err := l.putWord(ctx, job); err == nil {
		t.Error("a keeper that does not answer counts as told")
	}
}

func TestOnlyALearnerOfThePlanComesAndGoes(t *testing.T) {
	l := newLab(t)
	job := l.job(widen.Coming)
	l.do(widen.AddLearner, job)
	if err := l.addLearner(t.Context(), job); !errors.Is(err, errMembers) {
		t.Errorf("another learner is added: %v", err)
	}
	// While the host comes only a member goes whose machine was installed anew, and never the next one.
	for _, former := range []state.MemberID{0, 6} {
		job.Plan.Former = former
		if err := l.dropLearner(t.Context(), job); !errors.Is(err, errMembers) {
			t.Errorf("the former member is %s, and 7 is removed: %v", former, err)
		}
	}
	job.Plan.Former, job.Plan.Third = 7, 0
	l.do(widen.DropLearner, job)
	if want := []string{"adds https://192.0.2.13:2380", "removes 7"}; !slices.Equal(l.ring.Did, want) {
		t.Errorf("%q", l.ring.Did)
	}
	job = l.job(widen.TakingBack)
	for sentence, m := range map[string]state.EtcdMember{
		"a voter":                    {ID: 7, Name: "cp-3"},
		"the other host's":           {ID: 8, Name: "cp-2", Learner: true},
		"one that is not the plan's": {ID: 8, Learner: true},
	} {
		l.ring.Now.Members = []state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}, m}
		if err := l.dropLearner(t.Context(), job); !errors.Is(err, errMembers) {
			t.Errorf("%s is removed: %v", sentence, err)
		}
	}
	// The copy of the other host may be older than the member: it knows it by its name.
	job.Plan.Third, l.ring.Did = 0, nil
	l.ring.Now.Members[2] = state.EtcdMember{ID: 7, Name: "cp-3", Learner: true}
	l.do(widen.DropLearner, job)
	if want := []string{"removes 7"}; !slices.Equal(l.ring.Did, want) {
		t.Errorf("%q", l.ring.Did)
	}
}

func TestALostVoterIsRemovedWhileTheOtherHostServes(t *testing.T) {
	l := newLab(t)
	job := l.job(widen.TakingBack)
	three := []state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}, {ID: 7, Name: "cp-3"}}
	l.ring.Now.Members = three
	if f := l.look(t.Context(), job); f.PeerServes.Known || f.ThirdServes.Known {
		t.Errorf("a plan without a lost voter asks: %+v, %+v", f.PeerServes, f.ThirdServes)
	}
	job.Plan.Gone = true
	delete(l.others, "cp-3")
	if f := l.look(t.Context(), job); f.PeerServes != state.Known(true) || f.ThirdServes != state.Known(false) {
		t.Errorf("%+v, %+v", f.PeerServes, f.ThirdServes)
	}
	l.now = func() time.Time { return noon.Add(50 * time.Second) }
	if f := l.look(t.Context(), job); f.Silent != 50*time.Second {
		t.Errorf("silent for %s", f.Silent)
	}
	l.others["cp-3"] = l.others["cp-2"]
	if f := l.look(t.Context(), job); f.Silent != 0 || f.ThirdServes != state.Known(true) {
		t.Errorf("it serves again: silent for %s", f.Silent)
	}
	delete(l.others, "cp-3")
	if f := l.look(t.Context(), job); f.Silent != 0 {
		t.Errorf("silent for %s, from this look on", f.Silent)
	}
	l.do(widen.DropVoter, job)
	if want := []string{"removes 7"}; !slices.Equal(l.ring.Did, want) {
		t.Errorf("%q", l.ring.Did)
	}
	l.ring.Did = nil
	if err := l.dropVoter(t.Context(), job); !errors.Is(err, errMembers) {
		t.Errorf("it is removed once more: %v", err)
	}
	l.ring.Now.Members = []state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}, {ID: 7, Name: "cp-3", Learner: true}}
	if err := l.dropVoter(t.Context(), job); !errors.Is(err, errMembers) {
		t.Errorf("a learner is removed: %v", err)
	}
	l.ring.Now.Members = three
	delete(l.others, "cp-2")
	if err := l.dropVoter(t.Context(), job); err == nil || len(l.ring.Did) > 0 {
		t.Errorf("the other host does not serve: %v, %q", err, l.ring.Did)
	}
}

func TestWhatTheClusterHasOfTheThirdHostGoesAndItsNameIsClosed(t *testing.T) {
	l := newLab(t)
	job := l.job(widen.TakingBack)
	l.api.node = Node{There: true, UID: "u3", MachineID: "id3"}
	l.do(widen.DropNew, job)
	if want := []string{"pods of cp-3", "node cp-3 u3"}; !slices.Equal(l.api.Did, want) {
		t.Errorf("%q", l.api.Did)
	}
	if g := l.api.Graves["cp-3"]; !g.Open() || g.UID != "u3" || g.Machine != "id3" || g.System != "new" || !g.ControlPlane {
		t.Errorf("%+v", g)
	}
	if f := l.look(t.Context(), job); !state.Is(f.Given, false) || !state.Is(f.Node, false) {
		t.Errorf("%+v, %+v", f.Given, f.Node)
	}
	l.do(widen.GiveName, job) // of the next plan
	if f := l.look(t.Context(), job); !state.Is(f.Given, true) {
		t.Errorf("%+v", f.Given)
	}
}

func TestEtcdStopsOnlyWhileTheTwoOthersServeInThatMoment(t *testing.T) {
	l := newLab(t)
	job := l.job(widen.Handing)
	for sentence, change := range map[string]func(){
		"one is silent":       func() { delete(l.others, "cp-3") },
		"one is a learner":    func() { l.others["cp-3"] = etcd.MemberStatus{Serves: true, Leader: 1, Learner: true} },
		"one knows no leader": func() { l.others["cp-3"] = etcd.MemberStatus{Serves: true} },
		"one has an alarm":    func() { l.others["cp-3"] = etcd.MemberStatus{Serves: true, Leader: 1, Errors: []string{"NOSPACE"}} },
		"nobody knows where":  func() { l.put(state.EtcdParametersPath, "{") },
	} {
		was := l.others
		l.others = map[string]etcd.MemberStatus{"cp-2": was["cp-2"], "cp-3": was["cp-3"]}
		change()
		if err := l.stopEtcd(t.Context(), job); err == nil || l.halted > 0 {
			t.Errorf("%s: %v, stopped %d times", sentence, err, l.halted)
		}
		l.others = was
		l.put(state.EtcdParametersPath, `{"nodes":{"cp-1":"192.0.2.11","cp-2":"192.0.2.12"}}`)
	}
	l.ring.Now.Members = append(l.ring.Now.Members, state.EtcdMember{ID: 7, Name: "cp-3"})
	l.ring.Did = nil
	l.do(widen.StopEtcd, job)
	if l.halted != 1 || !slices.Equal(l.ring.Did, []string{"moves the lead to 2"}) {
		t.Errorf("stopped %d times, %q", l.halted, l.ring.Did)
	}
}

func TestEtcdStopsWithoutAThirdMemberOnceSomebodySaidThatItIsLost(t *testing.T) {
	l := newLab(t)
	job := l.job(widen.Handing)
	job.Plan.Gone, job.Plan.Third = true, 7
	l.ring.Now.Members = append([]state.EtcdMember{{ID: 7, Name: "cp-3"}}, l.ring.Now.Members...)
	was := l.others
	l.others = nil
	if err := l.stopEtcd(t.Context(), job); err == nil || l.halted > 0 {
		t.Errorf("the peer is silent, too: %v, stopped %d times", err, l.halted)
	}
	l.others = map[string]etcd.MemberStatus{"cp-2": was["cp-2"]}
	l.ring.Did = nil
	l.do(widen.StopEtcd, job)
	if l.halted != 1 || !slices.Equal(l.ring.Did, []string{"moves the lead to 2"}) {
		t.Errorf("stopped %d times, %q", l.halted, l.ring.Did)
	}
}

func TestAStopIsThePlansOnlyInMaintenance(t *testing.T) {
	l := newLab(t)
	job := l.job(widen.Handing)
	l.put(state.EtcdWishPath, `{"wish":"stopped","boot":"boot-1"}`)
	if f := l.look(t.Context(), job); !state.Is(f.Halted, false) || !state.Is(f.Maintained, false) {
		t.Errorf("Pacemaker stops etcd: %+v, %+v", f.Halted, f.Maintained)
	}
	l.cib = cib("true")
	if f := l.look(t.Context(), job); !state.Is(f.Halted, true) || !state.Is(f.Maintained, true) || f.Lock.Known {
		t.Errorf("%+v, %+v, and the API was asked: %t", f.Halted, f.Maintained, f.Lock.Known)
	}
	l.boot = func() (string, error) { return "boot-2", nil }
	if f := l.look(t.Context(), job); !state.Is(f.Halted, false) || !f.Lock.Known {
		t.Errorf("of the boot before: %+v", f.Halted)
	}
	l.cib = "no xml"
	if f := l.look(t.Context(), job); f.Halted.Known || f.Maintained.Known {
		t.Errorf("Pacemaker is away: %+v, %+v", f.Halted, f.Maintained)
	}
	l.do(widen.Maintain, job)
	if !slices.Contains(l.commands, "pcs property set maintenance-mode=true") {
		t.Errorf("%q", l.commands)
	}
}

func TestKubeletsFileNamesAllThreeMembersAndOnceItIsGivenTheKeeperIsNotAsked(t *testing.T) {
	l := newLab(t)
	job := l.job(widen.Handing)
	if f := l.look(t.Context(), job); !state.Is(f.Pod, false) || !state.Is(f.Kubelets, false) {
		t.Errorf("%+v", f.Pod)
	}
	l.do(widen.PutPod, job)
	if f := l.look(t.Context(), job); !state.Is(f.Pod, true) || !state.Is(f.Kubelets, false) {
		t.Errorf("%+v", f.Pod)
	}
	l.do(widen.GivePod, job)
	l.mute = true
	l.ring.Now.Members = append(l.ring.Now.Members, state.EtcdMember{ID: 7, Name: "cp-3"})
	l.do(widen.PutWord, job) // there is no keeper to wait for
	f := l.look(t.Context(), job)
	if !state.Is(f.Kubelets, true) || !state.Is(f.Serves, true) || !state.Is(f.Voters, 3) || !state.Is(f.PeerServes, true) || !state.Is(f.ThirdServes, true) || f.Word.Value != job.Plan.Word() {
		t.Errorf("%+v", f)
	}
}

// TestAComingMemberIsMeasuredByThePlan: its word names no member yet, so the etcd keeper asks nobody.
func TestAComingMemberIsMeasuredByThePlan(t *testing.T) {
	for sentence, c := range map[string]struct {
		id   state.MemberID
		has  uint64
		err  error
		own  uint64
		want state.Fact[uint64]
	}{
		"it lacks some":          {7, 900, nil, 1000, state.Known(uint64(100))},
		"it has more by now":     {7, 1001, nil, 1000, state.Known(uint64(0))},
		"another member answers": {8, 1000, nil, 1000, state.Fact[uint64]{}},
		"it is silent":           {7, 1000, errors.New("refused"), 1000, state.Fact[uint64]{}},
		"this etcd serves not":   {7, 0, nil, 0, state.Fact[uint64]{}},
	} {
		l := newLab(t)
		l.ring.Now.RaftIndex = c.own
		l.applied = func(_ context.Context, url string) (state.MemberID, uint64, error) {
			if url != "https://192.0.2.13:2379" {
				t.Errorf("asked %s", url)
			}
			return c.id, c.has, c.err
		}
		if f := l.look(t.Context(), l.job(widen.Coming)); f.Behind != c.want {
			t.Errorf("%s: %+v", sentence, f.Behind)
		}
	}
}

func TestTheThirdHostIsReadyOnceItsNodeIsAndItsAPIServerAnswers(t *testing.T) {
	l := newLab(t)
	job := l.job(widen.LettingIn)
	for _, c := range []struct {
		node    Node
		address string
		want    state.Fact[bool]
	}{
		{Node{There: true}, "192.0.2.13", state.Known(false)},
		{Node{There: true, Ready: true}, "192.0.2.13", state.Known(true)},
		{Node{There: true, Ready: true}, "192.0.2.14", state.Known(false)},
	} {
		l.api.node, job.Plan.New.Address = c.node, c.address
		l.statuses = func(context.Context, map[string]string) map[string]etcd.MemberStatus { return l.others }
		if f := l.look(t.Context(), job); f.Ready != c.want {
			t.Errorf("%+v: %+v", c, f.Ready)
		}
	}
}

func TestADoorOpensForTheMachineThatThePlanNames(t *testing.T) {
	l := newLab(t)
	var relayed []string
	ask := func(hostName, name string, machine string) (string, bool, error) {
		d := l.door(hostName, &relayed)
		entry, mine, err := d.Ask(t.Context(), claims(name), []byte(`{"machine":{"UUID":"`+machine+`"},"address":"192.0.2.13","arch":"amd64"}`))
		return string(entry.Pod) + entry.Waits, mine, err
	}
	if _, mine, err := ask("cp-1", "cp-3", "new"); mine || err != nil {
		t.Errorf("no plan: %t, %v", mine, err)
	}
	put := func(stage widen.Stage, third state.MemberID) {
		p := l.job(stage).Plan
		if p.Third = third; third == 0 {
			p.Newcomer = replace.Newcomer{}
		}
		if err := l.doors().PutWidenPlan(*p); err != nil {
			t.Fatal(err)
		}
	}
	put(widen.Coming, 0)
	if said, mine, err := ask("cp-1", "cp-3", "new"); !mine || err != nil || strings.Contains(said, "cp-3 [") {
		t.Errorf("not listed yet: %q, %t, %v", said, mine, err)
	}
	if r, err := l.doors().Request(); err != nil || r == nil || r.Machine.UUID != "new" || r.At != noon {
		t.Errorf("the request: %+v, %v", r, err)
	}
	put(widen.Coming, 7)
	if said, _, err := ask("cp-1", "cp-3", "new"); err != nil || !strings.Contains(said, "cp-3 [{cp-1 192.0.2.11} {cp-2 192.0.2.12} {cp-3 192.0.2.13}]") {
		t.Errorf("%q, %v", said, err)
	}
	if said, _, err := ask("cp-1", "cp-3", "another"); err != nil || strings.Contains(said, "cp-3 [") {
		t.Errorf("another machine: %q, %v", said, err)
	}
	// The same machine, installed anew: its etcd would start from nothing as a member that ran before.
	again := l.job(widen.Coming).Plan
	again.Newcomer.Installation = "first"
	if err := l.doors().PutWidenPlan(*again); err != nil {
		t.Fatal(err)
	}
	for text, opens := range map[string]bool{"first": true, "second": false, "": false} {
		d := l.door("cp-1", &relayed)
		entry, _, err := d.Ask(t.Context(), claims("cp-3"), []byte(`{"machine":{"UUID":"new"},"address":"192.0.2.13","installation":"`+text+`"}`))
		if f := l.look(t.Context(), Job{Plan: again}); err != nil || (len(entry.Pod) > 0) != opens || f.Asks.Installation != text {
			t.Errorf("installation %q: %+v, %v, asks %+v", text, entry, err, f.Asks)
		}
	}
	if _, mine, err := ask("cp-1", "cp-9", "new"); !mine || err == nil || !strings.Contains(err.Error(), "cp-3 comes as the third control plane") {
		t.Errorf("another name: %t, %v", mine, err)
	}
	if said, mine, err := ask("cp-2", "cp-3", "new"); said != "by the carrier" || !mine || err != nil || !slices.Equal(relayed, []string{"192.0.2.11 cp-3"}) {
		t.Errorf("the other host: %q, %v, %q", said, err, relayed)
	}
	// Its etcd ran by then: a machine that asks once more has lost its disk.
	for _, stage := range []widen.Stage{widen.LettingIn, widen.Handing, widen.Ending, widen.Dressing} {
		put(stage, 7)
		if said, mine, err := ask("cp-1", "cp-3", "new"); !mine || err != nil || strings.Contains(said, "cp-3 [") {
			t.Errorf("%s: a machine that lost its disk starts as a voter: %q, %t, %v", stage, said, mine, err)
		}
	}
	put(widen.TakingBack, 7)
	// The host that went on alone asks no lost one.
	for _, name := range names {
		if _, _, err := ask(name, "cp-3", "new"); err == nil || !strings.Contains(err.Error(), "is taken back") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(relayed) != 1 {
		t.Errorf("asked %q", relayed)
	}
	put(widen.Aborted, 7)
	if _, mine, err := ask("cp-1", "cp-3", "new"); mine || err != nil {
		t.Errorf("over: %t, %v", mine, err)
	}
}
