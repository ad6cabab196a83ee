package confirm

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/model/state"
)

type change = func(*Situation)

// alone builds the situation of host alpha that booted alone: a pair whose peer
// beta has not been seen since, and whose BMC reads Off.
func alone(changes ...change) Situation {
	two := []state.EtcdMember{{ID: 0xa, Name: "alpha"}, {ID: 0xb, Name: "beta"}}
	s := Situation{Agent: true, BMC: BMC{Power: state.Known("Off")}, Report: state.EtcdReport{
		Wish: state.EtcdNotAsked, Since: time.Hour,
		Snapshot: state.EtcdSnapshot{
			Host: "alpha", Peer: "beta", Nonce: "n", Boot: "boot-2", Uptime: time.Hour,
			Record: state.Known(state.EtcdRecord{State: state.EtcdPair, Seq: 4, Cluster: 0xc, Member: 0xa}),
			Data:   state.Known(state.EtcdData{Copy: state.CopyWhole, Cluster: 0xc, Member: 0xa, Members: two}),
			Local:  state.EtcdLocal{Running: state.Known(false), StandIn: state.Known(state.MemberID(0))},
			Pacemaker: state.EtcdPacemaker{
				Inert: state.Known(true), Contact: state.Known(false), Ring: 3,
			},
		},
	}}
	for _, c := range changes {
		c(&s)
	}
	s.Report.Verdict = etcdmember.Decide(s.Report.Snapshot)
	return s
}

// running is the survivor of a pair that lost its peer a moment ago.
func running(s *Situation) {
	snap := &s.Report.Snapshot
	snap.Pacemaker.Inert, snap.Pacemaker.Joined = state.Known(false), time.Minute
	snap.Proofs.Heard = snap.Boot
	snap.Local.Running, snap.Local.Leader = state.Known(true), state.Known(state.MemberID(0))
	snap.Local.Members = state.Known(snap.Data.Value.Members)
}

func peerThere(s *Situation) {
	snap := &s.Report.Snapshot
	running(s)
	snap.Pacemaker.Contact = state.Known(true)
	snap.Statement = state.Known(state.EtcdStatement{
		Boot: "beta-1", Ring: snap.Pacemaker.Ring, Record: state.EtcdRecord{State: state.EtcdPair, Seq: 2, Cluster: 0xc, Member: 0xb},
		Data: state.Known(state.EtcdData{Copy: state.CopyWhole, Cluster: 0xc, Member: 0xb}), Running: state.Known(true),
		Members: snap.Local.Members, StandIn: state.Known(state.MemberID(0)),
	})
}

func record(st state.EtcdState) change {
	return func(s *Situation) {
		r := &s.Report.Snapshot.Record.Value
		r.State = st
		if st == state.EtcdTakingOver {
			r.TakeOver = state.EtcdTakeOver{ID: "t", Counter: 1}
		}
	}
}

func bmc(power string) change { return func(s *Situation) { s.BMC.Power = state.Known(power) } }
func mute(s *Situation)       { s.BMC = BMC{Problem: "no answer within 10s"} }
func tried(s *Situation)      { s.BMC.Tried = true }

func snapshot(c func(*state.EtcdSnapshot)) change {
	return func(s *Situation) { c(&s.Report.Snapshot) }
}

func twoHistories(s *Situation) {
	peerThere(s)
	s.Report.Snapshot.Record.Value.State = state.EtcdSole
	s.Report.Snapshot.Statement.Value.Record.State = state.EtcdSole
}

// peerLost is the situation of a pair that booted and met a peer without record
// and data.
func peerLost(s *Situation) {
	peerThere(s)
	snap := &s.Report.Snapshot
	snap.Proofs.Heard = ""
	snap.Local = state.EtcdLocal{Running: state.Known(false), StandIn: state.Known(state.MemberID(0))}
	snap.Statement.Value.Record = state.EtcdRecord{State: state.EtcdNone}
	snap.Statement.Value.Data, snap.Statement.Value.Running = state.Known(state.EtcdData{Copy: state.CopyNone}), state.Known(false)
}

// replaced is what the host wrote down, or is told: another machine has its place.
func replaced(s *Situation) {
	s.Replaced = "another machine takes the place of alpha since 2026-11-20T09:00:00Z, by ada"
}

func fencedByHand(s *Situation) {
	s.Report.Snapshot.Proofs.Human = state.Known(state.Confirmation{Who: "ops", Why: "burnt", Boot: "boot-2", At: time.Hour})
}

// TestWhatItTakes tests one sentence about confirmations per line.
func TestWhatItTakes(t *testing.T) {
	for name, c := range map[string]struct {
		in   Situation
		rule string
		want Decision // only the fields that are set are compared
	}{
		"a host that was replaced leads by nobody's word":     {alone(replaced), "replaced", Decision{Need: Refuse}},
		"nor if its old peer's BMC does not answer":           {alone(mute, replaced), "replaced", Decision{Need: Refuse}},
		"nor if the living peer's BMC says On":                {alone(bmc("On"), replaced), "replaced", Decision{Need: Refuse}},
		"nor if it was a survivor":                            {alone(record(state.EtcdSole), replaced), "replaced", Decision{Need: Refuse}},
		"nor without the agent":                               {alone(replaced, func(s *Situation) { s.Agent = false }), "replaced", Decision{Need: Refuse}},
		"without the agent nobody would go on":                {alone(func(s *Situation) { s.Agent = false }), "no-agent", Decision{Need: Refuse}},
		"a host without a peer has nothing to confirm":        {alone(snapshot(func(s *state.EtcdSnapshot) { s.Peer = "" })), "no-peer", Decision{Need: Refuse}},
		"while Pacemaker stops etcd no word starts it":        {alone(snapshot(func(s *state.EtcdSnapshot) { s.Pacemaker.Leaving = true })), "leaving", Decision{Need: Refuse}},
		"unknown contact is not absence":                      {alone(snapshot(func(s *state.EtcdSnapshot) { s.Pacemaker.Contact = state.Fact[bool]{} })), "unknown", Decision{Need: Refuse}},
		"an unreadable record is not overruled":               {alone(snapshot(func(s *state.EtcdSnapshot) { s.Record = state.Fact[state.EtcdRecord]{} })), "unknown", Decision{Need: Refuse}},
		"a peer that is there needs no confirmation":          {alone(peerThere, bmc("On")), "peer-is-there", Decision{Need: Nothing}},
		"a verified survivor goes on by itself":               {alone(record(state.EtcdSole), survivor), "goes-on", Decision{Need: Nothing}},
		"what a person confirmed once is not asked again":     {alone(record(state.EtcdSole), fencedByHand), "goes-on", Decision{Need: Nothing}},
		"who goes on alone already needs nothing":             {alone(running, record(state.EtcdSole), only), "goes-on", Decision{Need: Nothing}},
		"a learner's data directory can never lead":           {alone(record(state.EtcdLearner)), "useless", Decision{Need: Refuse}},
		"a damaged copy cannot be started by a word":          {alone(snapshot(func(s *state.EtcdSnapshot) { s.Data.Value.Copy = state.CopyDamaged })), "useless", Decision{Need: Refuse}},
		"fencing gets its time first":                         {alone(running, bmc("On"), since(time.Second)), "fencing-under-way", Decision{Need: Wait}},
		"a survivor's fence at boot gets its time too":        {alone(record(state.EtcdSole), poweredOff, since(time.Second)), "fencing-under-way", Decision{Need: Wait}},
		"the BMC says Off and the record allows: a yes":       {alone(record(state.EtcdSole)), "off", Decision{Need: Confirm}},
		"the BMC says On and the record allows: off first":    {alone(record(state.EtcdSole), bmc("On")), "on", Decision{Need: Confirm, PowerOff: true}},
		"PoweringOff is not Off":                              {alone(record(state.EtcdSole), bmc("PoweringOff")), "on", Decision{Need: Confirm, PowerOff: true}},
		"off is not Off":                                      {alone(record(state.EtcdSole), bmc("off")), "on", Decision{Need: Confirm, PowerOff: true}},
		"nothing is proved: the phrase":                       {alone(record(state.EtcdSole), mute), "unproved", Decision{Need: Phrase, Phrase: "beta is off"}},
		"a pair that may be behind is forced by a phrase":     {alone(), "off", Decision{Need: Phrase, Force: true, Phrase: "lose what only beta has"}},
		"a pair that may be behind, the peer running":         {alone(bmc("On")), "on", Decision{Need: Phrase, Force: true, PowerOff: true, Phrase: "crash beta, lose what only beta has"}},
		"a pair that may be behind, and nothing is proved":    {alone(mute), "unproved", Decision{Need: Phrase, Force: true, Phrase: "beta is off, lose what only beta has"}},
		"a survivor whose fence fails, its BMC without power": {alone(running, mute), "unproved", Decision{Need: Phrase, Phrase: "beta is off"}},
		"a host that left is behind for sure":                 {alone(record(state.EtcdDeparting)), "off", Decision{Need: Phrase, Force: true, Phrase: "lose what only beta has"}},
		"asked to switch off, and still on":                   {alone(record(state.EtcdSole), bmc("On"), tried), "still-on", Decision{Need: Refuse}},
		"asked to switch off, and now off":                    {alone(record(state.EtcdSole), tried), "off", Decision{Need: Confirm}},
		"asked to switch off, and mute since":                 {alone(record(state.EtcdSole), mute, tried), "went-mute", Decision{Need: Refuse}},
		"two histories: a word does not choose":               {alone(twoHistories, bmc("On")), "two-histories", Decision{Need: Refuse}},
		"a peer that lost its disk is crashed first":          {alone(peerLost, bmc("On")), "on", Decision{Need: Phrase, PowerOff: true, Force: true, Phrase: "crash beta, lose what only beta has"}},
		"a peer in contact is not off, whatever its BMC says": {alone(peerLost), "two-truths", Decision{Need: Refuse}},
		"a peer in contact that nobody can switch off":        {alone(peerLost, mute), "cannot-switch-off", Decision{Need: Refuse}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(c.in)
			if got.Rule != c.rule || got.Need != c.want.Need || got.Force != c.want.Force || got.PowerOff != c.want.PowerOff || got.Phrase != c.want.Phrase {
				t.Errorf("under verdict %s\ngot  %+v\nwant %s %+v", c.in.Report.Verdict.Rule, got, c.rule, c.want)
			}
			if c.in.Replaced != "" && !strings.Contains(got.Reason, c.in.Replaced) {
				t.Errorf("it does not say when: %q", got.Reason)
			}
			if got.Reason == "" || (got.Phrase == "") != (got.Need != Phrase) || got.Force && len(got.Risks) < 2 {
				t.Errorf("incomplete: %+v", got)
			}
		})
	}
}

func survivor(s *Situation) {
	poweredOff(s)
	s.Report.Snapshot.Proofs.Fenced = state.Known(state.EtcdFenced{Target: "beta", State: "Off", Boot: "boot-2", At: time.Minute})
}

func poweredOff(s *Situation) { s.Report.Snapshot.Proofs.Power = state.Known("Off") }

func only(s *Situation) {
	s.Report.Snapshot.Local.Members = state.Known([]state.EtcdMember{{ID: 0xa, Name: "alpha"}})
	s.Report.Snapshot.Local.Leader = state.Known(state.MemberID(0xa))
}

func since(d time.Duration) change { return func(s *Situation) { s.Report.Since = d } }

func TestEveryRuleIsReached(t *testing.T) {
	text := thisFile(t)
	for _, r := range Rules() {
		if !strings.Contains(text, `"`+r.ID+`"`) {
			t.Errorf("no test expects rule %s", r.ID)
		}
		if r.When == "" || r.Why == "" {
			t.Errorf("rule %s does not say when or why", r.ID)
		}
	}
}

// TestAConfirmationIsOnlyAskedForWhereTheProtocolUsesIt goes through states of a
// host. A confirmation that is offered must change the protocol's verdict into a
// step, and force may be asked for only if a plain confirmation is not enough.
func TestAConfirmationIsOnlyAskedForWhereTheProtocolUsesIt(t *testing.T) {
	asked := 0
	for _, s := range everySituation() {
		d := Decide(s)
		if d.Need != Confirm && d.Need != Phrase {
			continue
		}
		asked++
		word := func(force bool) state.EtcdVerdict {
			snap := s.Report.Snapshot
			snap.Pacemaker.Contact = state.Known(false)
			snap.Proofs.Human = state.Known(state.Confirmation{Who: "ops", Why: "x", Boot: snap.Boot, At: snap.Uptime + time.Second, Force: force})
			return etcdmember.Decide(snap)
		}
		if got := word(d.Force); !goesOn(got) {
			t.Errorf("%s: after the confirmation the protocol says %s", d.Rule, got.Rule)
		}
		if d.Force && goesOn(word(false)) {
			t.Errorf("%s: forced where it need not be", d.Rule)
		}
		if !s.BMC.Power.Known && d.Need != Phrase {
			t.Errorf("%s: a mere yes although nothing is proved", d.Rule)
		}
		if s.BMC.Power.Known && s.BMC.Power.Value != "Off" && !d.PowerOff {
			t.Errorf("%s: a peer whose BMC says %s is not switched off", d.Rule, s.BMC.Power.Value)
		}
	}
	if asked < 100 {
		t.Errorf("only %d situations ask for a word", asked)
	}
}

func everySituation() []Situation {
	states := []state.EtcdState{
		state.EtcdNone, state.EtcdLearner, state.EtcdVoter, state.EtcdPair, state.EtcdTakingOver, state.EtcdSole, state.EtcdDeparting,
	}
	powers := []change{bmc("Off"), bmc("On"), bmc(""), mute}
	hosts := []change{func(*Situation) {}, running, peerThere, twoHistories, peerLost, func(s *Situation) { running(s); only(s) }}
	copies := []state.CopyState{state.CopyNone, state.CopyWhole, state.CopyDamaged}
	var out []Situation
	for _, st := range states {
		for _, p := range powers {
			for _, h := range hosts {
				for _, c := range copies {
					data := snapshot(func(s *state.EtcdSnapshot) { s.Data.Value.Copy = c })
					out = append(out, alone(h, record(st), p, data), alone(h, record(st), p, data, tried))
				}
			}
		}
	}
	return out
}

func thisFile(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("confirm_test.go")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
