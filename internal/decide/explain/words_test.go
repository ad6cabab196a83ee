package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

var wide = page.Style{Wide: true}

// survivor returns a host that went on alone after a fence, with all that its
// record may hold.
func survivor() Input {
	in := pair()
	s := &in.Report.Snapshot
	s.Pacemaker.Contact = state.Known(false)
	s.Record.Value.State, s.Record.Value.Written = state.EtcdSole, time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	s.Record.Value.TakeOver = state.EtcdTakeOver{ID: "cp-1/3", Counter: 7}
	s.Record.Value.Proof = state.EtcdProof{Kind: "fenced", Detail: "its BMC read Off"}
	s.Record.Value.Forced.Who, s.Record.Value.Forced.Why = "ops", "burnt down"
	in.Report.Verdict = etcdmember.Decide(*s)
	in.Limits = []string{"the log of Pacemaker could not be read"}
	return in
}

func TestAWideExplanationHasTheRuleItsConditionAndTheRecord(t *testing.T) {
	golden.Check(t, "wide.txt", []byte(Text(Etcd(survivor()), wide)))
	in := pair()
	in.Report.Snapshot.Record = state.Fact[state.EtcdRecord]{}
	in.Report.Verdict = etcdmember.Decide(in.Report.Snapshot)
	if text := Text(Etcd(in), wide); !strings.HasSuffix(text, "Record\n  unreadable\n") {
		t.Error(text)
	}
	in = survivor()
	in.Report.Snapshot.Record.Value = state.EtcdRecord{State: state.EtcdPair, Seq: 4}
	if lines := recordLines(Etcd(in)); len(lines) != 1 {
		t.Errorf("a record without a take-over, a proof and a person: %q", lines)
	}
}

func TestAHostThatIsNotOneOfTwoHasNoRecordToShow(t *testing.T) {
	e := Etcd(Input{Source: FromFiles, Unmanaged: true})
	if narrow, wide := Text(e, page.Style{}), Text(e, wide); strings.Contains(wide, "Record") || strings.Contains(narrow, "does not answer") {
		t.Errorf("%s\n%s", narrow, wide)
	}
}

func TestOnlyAWideExplanationHasTheCondition(t *testing.T) {
	e := Etcd(survivor())
	for _, r := range etcdmember.Rules() {
		if r.ID != e.Rule {
			continue
		}
		condition := "(" + r.Section + ": " + r.When + ")"
		if r.When == "" || !strings.Contains(Text(e, wide), condition) || strings.Contains(Text(e, page.Style{}), r.When) {
			t.Errorf("rule %s: %q", r.ID, condition)
		}
		return
	}
	t.Errorf("no rule %q", e.Rule)
}

func TestEachStatusHasItsColour(t *testing.T) {
	for status, want := range map[Status]page.Colour{
		Healthy: page.Green, Degraded: page.Yellow, Waiting: page.Yellow, Stopped: page.Yellow,
		NeedsHuman: page.Red, Unknown: page.Red, Unmanaged: page.None,
	} {
		if got := status.Colour(); got != want {
			t.Errorf("%s: %q, want %q", status, got, want)
		}
	}
}

// commands returns what an administrator may type, and what is done elsewhere.
func commands(list []Advice) []string {
	var out []string
	for _, a := range list {
		if a.Does == "" {
			out = append(out, "advice without words")
		}
		word, _, _ := strings.Cut(a.Command+" ", " ")
		if a.Command == "" {
			word, _, _ = strings.Cut(a.Does, " ")
		}
		out = append(out, word)
	}
	return out
}

// TestEachRuleThatMayLastHasItsAdvice has each rule's advice by the first word of
// each command.
func TestEachRuleThatMayLastHasItsAdvice(t *testing.T) {
	peersOwn := []string{"ssh"}
	start, fence, backup := []string{"switch"}, []string{"holdfast", "pcs"}, []string{"etcdutl"}
	services := []string{"systemctl", "journalctl"}
	noLeader := []string{"ssh", "ss", "journalctl", "journalctl"}
	confirmed := []string{"holdfast", "holdfast"}
	for rule, want := range map[string][]string{
		"unknown.record": {"cat", "ssh", "mv"}, "unknown.local": services, "unknown.data": services, "unknown.members": services,
		"alone.no-copy": append(start, backup...), "alone.damaged": append(start, backup...), "alone.removed": append(start, backup...),
		"alone.fence-first": slices.Concat(fence, start, confirmed), "alone.unproved": slices.Concat(start, fence, confirmed),
		"alone.wait": append(start, confirmed...), "gone.ask-fence": append(fence, confirmed...), "gone.fence-again": append(fence, confirmed...),
		"gone.fence-promised": append(fence, confirmed...), "gone.unproved": append(fence, confirmed...),
		"gone.not-heard": append(start, confirmed...), "gone.not-eligible": slices.Concat(start, confirmed, backup), "gone.sole-alone": start,
		"take-over.no-copy": backup, "take-over.not-a-voter": backup, "take-over.too-many": append(start, "etcdctl", "holdfast"),
		"two-histories": {"ssh", "mv"}, "lead.no-copy": backup, "lead.removed": backup, "equal.two-clusters": backup, "equal.no-record": {"ssh", "ssh", "etcdutl"},
		"equal.peer-lost": append(confirmed, backup...), "equal.both-yielded": backup, "equal.unusable": backup,
		"equal.idle": noLeader, "silent.run": noLeader, "stall.own": noLeader, "stall.wait": noLeader, "stall.unmarked": noLeader,
		"stall.both": {"repair", "journalctl", "ssh"}, "silent.wait": peersOwn, "equal.unknown": peersOwn, "equal.unusable-wait": peersOwn,
		"follow.wait": peersOwn, "follow.unknown": peersOwn, "lead.unproved": peersOwn,
		"gone.widening": append(start, confirmed...), "majority.no-copy": append(peersOwn, backup...), "majority.wait": append(start, "holdfast"),
	} {
		in := pair()
		s := &in.Report.Snapshot
		s.Pacemaker.Contact = state.Known(false)
		s.Local.Leader, s.Local.Leaderless = state.Known(state.MemberID(0)), time.Minute
		in.Report.Verdict = state.EtcdVerdict{Rule: rule, Action: state.EtcdWait}
		list := advice(in, Waiting)
		if got := commands(list); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", rule, got, want)
		}
		for _, a := range list {
			if line := a.Command + " " + a.Does; strings.Contains(line, "etcdctl ") && !authenticated(line) {
				t.Errorf("%s: etcd refuses %q", rule, line)
			}
		}
	}
	if len(byRule) != 43 {
		t.Errorf("%d rules have advice: add the new one's above", len(byRule))
	}
}

// authenticated reports whether a line of etcdctl names an address and certificates. Without
// them etcd answers nobody.
func authenticated(line string) bool {
	return !slices.ContainsFunc([]string{"--endpoints ", "--cacert ", "--cert ", "--key "}, func(option string) bool { return !strings.Contains(line, option) })
}

// A removal takes two of three votes, and one is there: the peer has to come back first.
func TestAmongThreeVotersThePeerIsBroughtBackBeforeTheThirdIsRemoved(t *testing.T) {
	in := pair()
	s := &in.Report.Snapshot
	s.Pacemaker.Contact, s.Local.Leader, s.Local.Leaderless = state.Known(false), state.Known(state.MemberID(0)), time.Minute
	s.Local.Members.Value = append(slices.Clone(s.Local.Members.Value), state.EtcdMember{ID: 0xd})
	in.Report.Verdict = state.EtcdVerdict{Rule: "take-over.too-many", Action: state.EtcdAskHuman}
	next := Etcd(in).Next
	if len(next) != 3 || !strings.HasPrefix(next[0].Does, "switch beta on") || next[1].Command != etcdmember.RemoveCommand(0xd) ||
		!strings.Contains(next[1].Does, "once etcd takes writes again") || !strings.HasSuffix(next[2].Does, SiteRestorePage) {
		t.Errorf("%+v", next)
	}
	s.Local.Leader, s.Local.Leaderless = state.Known(state.MemberID(0xa)), 0
	removals := 0
	for _, a := range Etcd(in).Next {
		if strings.Contains(a.Command, "member remove") {
			removals++
		}
	}
	if removals != 1 {
		t.Errorf("%d removals while it takes writes: %+v", removals, Etcd(in).Next)
	}
}

func TestAStoppedHostIsToldWhyAndHowItEnds(t *testing.T) {
	in := pair()
	in.Report.Wish, in.Report.Snapshot.Local.Running = state.EtcdStopped, state.Known(false)
	if got := Etcd(in); got.Status != Stopped || len(got.Next) != 3 || got.Next[0].Command != "pcs status" || got.Next[1].Command != "pcs node unstandby alpha" {
		t.Errorf("%+v", got)
	}
	// Nobody but a person has it stopped for as long, on one host or on both.
	in.Report.Snapshot.Pacemaker.Leaving, in.Report.Snapshot.Pacemaker.LeavingFor = true, 5*time.Minute
	in.Report.Snapshot.Statement.Value.Leaving = true
	in.Report.Verdict = etcdmember.Decide(in.Report.Snapshot)
	if got := Etcd(in); got.Status != Stopped {
		t.Errorf("a host that leaves: %+v", got)
	}
	in.Report.Snapshot.Pacemaker.LeavingFor++
	if got := Etcd(in); got.Status != NeedsHuman || len(got.Next) != 3 || got.Next[2].Command != "pcs resource enable etcd" || !strings.Contains(got.Summary, "until an administrator") {
		t.Errorf("%+v", got)
	}
}

func TestWithoutItsKeeperTheKeeperIsStartedFirst(t *testing.T) {
	in := pair()
	in.Source = FromFiles
	if got := commands(Etcd(in).Next); !slices.Equal(got, []string{"systemctl", "journalctl"}) {
		t.Errorf("%q", got)
	}
	in.Report.Snapshot.Record = state.Fact[state.EtcdRecord]{}
	if got := commands(Etcd(in).Next); !slices.Equal(got, []string{"systemctl", "journalctl", "cat", "ssh", "mv"}) {
		t.Errorf("without a record: %q", got)
	}
}

func TestAPeerWithPowerIsLookedForAndNotSwitchedOn(t *testing.T) {
	for _, c := range []struct {
		power   state.Fact[string]
		contact state.Fact[bool]
		bmc     string
		want    string
	}{
		{state.Known("On"), state.Known(false), "", "beta has power (its BMC reads On)"},
		{state.Known(state.PowerOff), state.Known(false), "", "switch beta on (at its BMC):"},
		{state.Known(state.PowerOff), state.Known(false), "10.0.0.9", "switch beta on (at its BMC, 10.0.0.9):"},
		{state.Fact[string]{}, state.Known(false), "", "switch beta on"},
		{state.Known("On"), state.Fact[bool]{}, "", "switch beta on"},
		{state.Known("On"), state.Known(true), "", "switch beta on"},
	} {
		in := pair()
		in.BMC, in.Report.Snapshot.Proofs.Power, in.Report.Snapshot.Pacemaker.Contact = c.bmc, c.power, c.contact
		if got := startPeer(in); !strings.HasPrefix(got[0].Does, c.want) {
			t.Errorf("%+v: %q", c, got[0].Does)
		}
	}
}

func TestWhenThePeerWasLastInContact(t *testing.T) {
	s := pair().Report.Snapshot
	for _, c := range []struct {
		contact state.Fact[bool]
		joined  time.Duration
		want    string
	}{
		{state.Known(true), time.Hour, "beta has been in contact for 2h00m"},
		{state.Fact[bool]{}, time.Hour, "unknown whether beta is in contact"},
		{state.Known(false), 0, "beta has not been in contact since this host booted 3h00m ago"},
		{state.Known(false), time.Hour, "beta is out of contact; it last joined 2h00m ago"},
	} {
		s.Pacemaker.Contact, s.Pacemaker.Joined = c.contact, c.joined
		if got := LastContact(s); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestAStallIsOneOnceAnElectionHadItsTime(t *testing.T) {
	l := pair().Report.Snapshot.Local
	for _, c := range []struct {
		stalled time.Duration
		want    Service
	}{{0, Writes}, {election, Writes}, {election + 1, ReadsOnly}} {
		if l.Stalled = c.stalled; service(l) != c.want {
			t.Errorf("%s: %s", c.stalled, service(l))
		}
	}
}

func TestWhatAHostWaitsForWhenItSeesNoPeer(t *testing.T) {
	for _, c := range []struct {
		contact state.Fact[bool]
		want    string
	}{
		{state.Known(false), "it waits for beta, or for a proof that beta is off"},
		{state.Fact[bool]{}, "it waits until it knows whether beta is in contact"},
	} {
		in := pair()
		s := &in.Report.Snapshot
		s.Pacemaker.Contact, s.Local.Leader, s.Local.Leaderless = c.contact, state.Known(state.MemberID(0)), time.Minute
		in.Report.Verdict.Action = state.EtcdWait
		if got := awaited(in, ReadsOnly); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestWhoseDataAreNewer has one line for each sentence about the two directories.
func TestWhoseDataAreNewer(t *testing.T) {
	for name, c := range map[string]struct {
		state, peer  state.EtcdState
		there, heard bool
		want         string
	}{
		"a host without a record":         {state.EtcdNone, state.EtcdPair, true, true, "unknown: this host has no record; its data directory is whole"},
		"a learner":                       {state.EtcdLearner, state.EtcdSole, true, true, "beta's: this data directory is, or will be, a learner's"},
		"a voter of a moment ago":         {state.EtcdVoter, state.EtcdSole, true, true, "beta's, if they differ"},
		"a host that left":                {state.EtcdDeparting, state.EtcdSole, true, true, "beta's: this host left the cluster"},
		"a survivor":                      {state.EtcdSole, state.EtcdPair, true, true, "this host's: it went on alone"},
		"a survivor that sees nobody":     {state.EtcdSole, state.EtcdSole, false, true, "this host's: it went on alone"},
		"two survivors":                   {state.EtcdSole, state.EtcdSole, true, true, "both: each host went on alone and holds what the other lacks; this one at an unrecorded time"},
		"a take-over beside a survivor":   {state.EtcdTakingOver, state.EtcdSole, true, true, "both: "},
		"a pair beside a survivor":        {state.EtcdPair, state.EtcdSole, true, true, "beta's: it went on alone while this host was away"},
		"a pair":                          {state.EtcdPair, state.EtcdPair, true, true, "neither: both hosts hold every acknowledged write"},
		"a pair that lost its peer":       {state.EtcdPair, state.EtcdPair, false, true, "neither, up to the last contact with beta"},
		"a pair that booted alone":        {state.EtcdPair, state.EtcdPair, false, false, "unknown: both held everything, but beta may have gone on alone"},
		"a pair beside one that yielded":  {state.EtcdPair, state.EtcdVoter, true, true, "neither, up to the last contact"},
		"a survivor's word of no contact": {state.EtcdPair, state.EtcdSole, false, true, "neither, up to the last contact"},
	} {
		s := pair().Report.Snapshot
		s.Record.Value.State, s.Statement.Value.Record.State, s.Pacemaker.Contact = c.state, c.peer, state.Known(c.there)
		if !c.heard {
			s.Proofs.Heard = "another boot"
		}
		if got := Newest(s); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := Newest(state.EtcdSnapshot{}); got != "unknown: the record of this host cannot be read" {
		t.Error(got)
	}
}

// TestWhyAPairIsNotSafe has one line for each reason.
func TestWhyAPairIsNotSafe(t *testing.T) {
	for want, change := range map[string]func(*state.EtcdSnapshot){
		"this host is leaving": func(s *state.EtcdSnapshot) { s.Pacemaker.Leaving = true },
		"beta is absent":       func(s *state.EtcdSnapshot) { s.Pacemaker.Contact = state.Known(false) },
		"one member is still a learner": func(s *state.EtcdSnapshot) {
			s.Local.Members.Value = []state.EtcdMember{{ID: 0xa}, {ID: 0xb, Learner: true}}
		},
		"beta is not a voter yet":                         func(s *state.EtcdSnapshot) { s.Local.Members.Value = s.Local.Members.Value[:1] },
		"not both hosts are known to hold everything yet": func(*state.EtcdSnapshot) {},
	} {
		s := pair().Report.Snapshot
		change(&s)
		if got := unsafe(s); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// L32, L15.
func TestAMemberThatBelongsToNeitherHostMakesAPairUnsafe(t *testing.T) {
	in := pair()
	if Etcd(in).Status != Healthy {
		t.Fatal(Etcd(in).Status)
	}
	in.Report.Snapshot.Local.Members.Value = append(slices.Clone(in.Report.Snapshot.Local.Members.Value), state.EtcdMember{ID: 0xd})
	e := Etcd(in)
	if e.Status != Degraded || !strings.Contains(e.Summary, "member d, which belongs to neither host") || len(e.Next) == 0 || !strings.HasSuffix(e.Next[0].Command, "member remove d") {
		t.Errorf("%+v", e)
	}
}

func TestWhatSomebodyDeletedOnTheHostIsAProblemWithItsCommand(t *testing.T) {
	in := pair()
	in.Deleted = []state.Deleted{{What: "x", Problem: "corosync.conf is gone", Meaning: "It meets nobody.", Command: "sudo y"}, {What: "z", Problem: "z is gone"}}
	e := Etcd(in)
	if len(e.Problems) != 2 || !strings.Contains(e.Problems[0], "corosync.conf is gone. It meets nobody.") || len(e.Next) != 1 || e.Next[0].Command != "sudo y" {
		t.Errorf("%+v", e)
	}
}

func TestWhatRunsWithoutItsKeeper(t *testing.T) {
	for _, c := range []struct {
		source  Source
		running state.Fact[bool]
		want    string
	}{
		{FromFiles, state.Known(true), "etcd runs here, but the etcd keeper"},
		{FromFiles, state.Known(false), "etcd does not run here, and the etcd keeper"},
		{FromFiles, state.Fact[bool]{}, "it is unknown whether etcd runs here"},
		{FromAgent, state.Known(true), "it is unknown whether etcd runs here"},
	} {
		in := pair()
		in.Source, in.Report.Snapshot.Local.Running = c.source, c.running
		if got := unseen(in); !strings.HasPrefix(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestTheFirstLines has what an administrator reads first, by status.
func TestTheFirstLines(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Input)
		want   string
	}{
		"healthy": {func(*Input) {}, "etcd on alpha: healthy for 1m30s\n  takes writes as one of two voters; either host may fail\n\nWhose data are newer\n  neither"},
		"stopped": {func(in *Input) {
			in.Report.Wish, in.Report.Snapshot.Local.Running = state.EtcdStopped, state.Known(false)
		}, "etcd on alpha: stopped for 1m30s\n  etcd is stopped here, as Pacemaker requested\n"},
		"leaving": {func(in *Input) {
			in.Report.Snapshot.Pacemaker.Leaving, in.Report.Snapshot.Local.Running = true, state.Known(false)
		}, "etcd on alpha: stopped"},
		"leaving, and it still runs":    {func(in *Input) { in.Report.Snapshot.Pacemaker.Leaving = true }, "etcd on alpha: degraded for 1m30s\n  takes writes, but is not safe: this host is leaving"},
		"its peer is leaving":           {func(in *Input) { in.Report.Snapshot.Statement.Value.Leaving = true }, "etcd on alpha: degraded"},
		"nothing heard":                 {func(in *Input) { in.Report.Snapshot.Statement.Known = false }, "etcd on alpha: degraded"},
		"a record that cannot be read":  {func(in *Input) { in.Report.Snapshot.Record.Known = false }, "etcd on alpha: degraded"},
		"a learner by its record":       {func(in *Input) { in.Report.Snapshot.Record.Value.State = state.EtcdVoter }, "etcd on alpha: degraded"},
		"asked to stop, and it runs":    {func(in *Input) { in.Report.Wish = state.EtcdStopped }, "etcd on alpha: healthy"},
		"no answer of a running etcd":   {func(in *Input) { in.Report.Snapshot.Local.Leader.Known = false }, "etcd on alpha: waiting"},
		"no name":                       {func(in *Input) { in.Report.Snapshot.Host = "" }, "etcd on this host: healthy"},
		"a rule of this moment":         {func(in *Input) { in.Report.Since = 0 }, "etcd on alpha: healthy\n"},
		"a recorded snapshot":           {func(in *Input) { in.Source = FromSnapshot }, "etcd on alpha: healthy for 1m30s\n  takes writes as one of two voters; either host may fail\n  Based on a recorded snapshot"},
		"files alone":                   {func(in *Input) { in.Source = FromFiles }, "etcd on alpha: unknown for 1m30s\n  etcd runs here, but the etcd keeper, which watches over it, does not answer\n  The etcd keeper (podman-etcd) does not answer"},
		"a host that is not one of two": {func(in *Input) { in.Source, in.Unmanaged = FromFiles, true }, "etcd on alpha: unmanaged\n  the etcd keeper does not run etcd on this host: the host is not in"},
	} {
		in := pair()
		c.change(&in)
		if text := Text(Etcd(in), wide); !strings.HasPrefix(text, c.want) || !in.Unmanaged && Etcd(in).Peer != "beta" {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestAStepThatFailedIsAProblem(t *testing.T) {
	in := pair()
	in.Report.Problem, in.Report.At = "no space left on the disk", time.Unix(7, 0)
	e := Etcd(in)
	if text := Text(e, wide); !strings.Contains(text, "Problems\n  the last step failed: no space left on the disk\n") || !e.At.Equal(in.Report.At) {
		t.Error(text)
	}
	if e := Etcd(pair()); len(e.Problems) > 0 || strings.Contains(Text(e, wide), "Problems") || strings.Contains(Text(e, wide), "rule ,") {
		t.Errorf("%+v", e)
	}
}

func TestHowFarAHostReachesIsSaidInWords(t *testing.T) {
	for reach, want := range map[state.ReachState]string{
		state.ReachYes: "own network: reachable, so", state.ReachNo: "own network: cut off, so", state.ReachUnknown: "own network: unknown whether it is reachable, so",
	} {
		in := pair()
		in.Report.Reach = state.Reach{State: reach, Why: "so"}
		if e := Etcd(in); !slices.Contains(e.Evidence, want) {
			t.Errorf("%q", e.Evidence)
		}
	}
}
