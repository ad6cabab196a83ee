package explain

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// incident is a file of the corpus with the parts that are explained.
type incident struct {
	name     string
	Snapshot state.EtcdSnapshot `json:"snapshot"`
	Verdict  state.EtcdVerdict  `json:"verdict"`
}

func corpus(t *testing.T) []incident {
	t.Helper()
	paths, err := filepath.Glob("../../../test/corpus/etcd/*.json")
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	var out []incident
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c := incident{name: strings.TrimSuffix(filepath.Base(path), ".json")}
		if err := json.Unmarshal(b, &c); err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

func recorded(c incident) Input {
	return Input{Source: FromSnapshot, Report: state.EtcdReport{Snapshot: c.Snapshot, Verdict: etcdmember.Decide(c.Snapshot)}}
}

func TestTheExplanationOfEveryIncidentIsTheApprovedText(t *testing.T) {
	var out strings.Builder
	for _, c := range corpus(t) {
		out.WriteString("== " + c.name + "\n" + Text(Etcd(recorded(c)), page.Style{}) + "\n")
	}
	golden.Check(t, "incidents.txt", []byte(out.String()))
}

func TestWhoeverWaitsForAPersonIsToldWhatToDo(t *testing.T) {
	rules := map[string]state.EtcdAction{}
	for _, r := range etcdmember.Rules() {
		rules[r.ID] = r.Action
		if _, ok := byRule[r.ID]; r.Action == state.EtcdAskHuman && !ok {
			t.Errorf("rule %s asks a person, and no advice is given", r.ID)
		}
	}
	for id := range byRule {
		if _, ok := rules[id]; !ok {
			t.Errorf("advice for rule %s, which does not exist", id)
		}
	}
	for _, c := range corpus(t) {
		if e := Etcd(recorded(c)); e.Status == NeedsHuman && len(e.Next) == 0 {
			t.Errorf("%s: nothing may be done", c.name)
		}
	}
}

// TestEveryAdviceOfTheProtocolIsRepeated keeps the two tables together: where the
// verdict names a command, the explanation names one of the same program.
func TestEveryAdviceOfTheProtocolIsRepeated(t *testing.T) {
	for _, c := range corpus(t) {
		e := Etcd(recorded(c))
		if next := etcdmember.Decide(c.Snapshot).Next; next != "" && !strings.Contains(Text(e, page.Style{Wide: true}), strings.TrimSuffix(next, " --help")) {
			// A learner, and a host beside another history, get another answer: no
			// confirmation makes them lead.
			if next == "holdfast quorum confirm" && len(e.Next) > 0 {
				continue
			}
			t.Errorf("%s: %q is not among what may be done", c.name, next)
		}
	}
}

// pair returns two voters that both hold everything and see each other.
func pair() Input {
	two := []state.EtcdMember{{ID: 0xa, Name: "alpha"}, {ID: 0xb, Name: "beta"}}
	s := state.EtcdSnapshot{
		Host: "alpha", Peer: "beta", Boot: "b", Uptime: 3 * time.Hour,
		Record: state.Known(state.EtcdRecord{State: state.EtcdPair, Seq: 4, Cluster: 0xc, Member: 0xa}),
		Data:   state.Known(state.EtcdData{Copy: state.CopyWhole, Cluster: 0xc, Member: 0xa, Members: two}),
		Local: state.EtcdLocal{
			Running: state.Known(true), Leader: state.Known(state.MemberID(0xb)), Members: state.Known(two), StandIn: state.Known(state.MemberID(0)),
		},
		Pacemaker: state.EtcdPacemaker{Inert: state.Known(false), Contact: state.Known(true), Ring: 3, Joined: time.Minute},
		Statement: state.Known(state.EtcdStatement{Ring: 3, Record: state.EtcdRecord{State: state.EtcdPair}}),
		Proofs:    state.EtcdProofs{Heard: "b"},
	}
	return Input{Source: FromAgent, Report: state.EtcdReport{Wish: state.EtcdStarted, Snapshot: s, Since: 90 * time.Second}}
}

// TestStatus has one line for each sentence about a status.
func TestStatus(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*state.EtcdReport)
		want   Status
		serves Service
	}{
		"two voters that see each other are healthy": {func(*state.EtcdReport) {}, Healthy, Writes},
		"a peer out of sight is a risk": {func(r *state.EtcdReport) {
			r.Snapshot.Pacemaker.Contact = state.Known(false)
			r.Snapshot.Record.Value.State = state.EtcdSole
		}, Degraded, Writes},
		"contact that is not known is a risk":        {func(r *state.EtcdReport) { r.Snapshot.Pacemaker.Contact = state.Fact[bool]{} }, Degraded, Writes},
		"a learner is a risk":                        {func(r *state.EtcdReport) { r.Snapshot.Local.Members.Value[1].Learner = true }, Degraded, Writes},
		"a peer that is not yet pair is a risk":      {func(r *state.EtcdReport) { r.Snapshot.Statement.Value.Record.State = state.EtcdVoter }, Degraded, Writes},
		"without a leader nothing is written":        {func(r *state.EtcdReport) { r.Snapshot.Local.Leader = state.Known(state.MemberID(0)) }, Waiting, ReadsOnly},
		"a stopped etcd that shall run waits":        {func(r *state.EtcdReport) { r.Snapshot.Local.Running = state.Known(false) }, Waiting, None},
		"an etcd that does not answer is not called": {func(r *state.EtcdReport) { r.Snapshot.Local.Leader = state.Fact[state.MemberID]{} }, Waiting, Unclear},
		"nothing known is unknown":                   {func(r *state.EtcdReport) { r.Snapshot.Local = state.EtcdLocal{} }, Unknown, Unclear},
		"stopped by Pacemaker": {func(r *state.EtcdReport) {
			r.Wish, r.Snapshot.Local.Running = state.EtcdStopped, state.Known(false)
		}, Stopped, None},
		"inert with a foreign record asks": {func(r *state.EtcdReport) {
			r.Snapshot.Local.Running, r.Snapshot.Pacemaker.Inert, r.Snapshot.Pacemaker.Contact = state.Known(false), state.Known(true), state.Known(false)
		}, NeedsHuman, None},
	} {
		t.Run(name, func(t *testing.T) {
			in := pair()
			c.change(&in.Report)
			in.Report.Verdict = etcdmember.Decide(in.Report.Snapshot)
			if got := Etcd(in); got.Status != c.want || got.Service != c.serves {
				t.Errorf("%s, %s (rule %s), want %s, %s", got.Status, got.Service, got.Rule, c.want, c.serves)
			}
		})
	}
}

// TestAPairThatCommitsNothingSaysWhatItWaitsFor: the explanation once said "it goes
// on by itself" of two hosts that waited for each other for ever.
func TestAPairThatCommitsNothingSaysWhatItWaitsFor(t *testing.T) {
	noLeader := func(r *state.EtcdReport) {
		r.Snapshot.Local.Leader, r.Snapshot.Local.Leaderless = state.Known(state.MemberID(0)), 30*time.Minute
		r.Snapshot.Statement.Value.Running, r.Snapshot.Statement.Value.Age = state.Known(true), 29*time.Minute
	}
	for name, c := range map[string]struct {
		change func(*state.EtcdReport)
		want   string
	}{
		"the peer's etcd runs, as it said": {noLeader, "waits for the vote of beta, whose etcd runs, as it reported 29m00s ago"},
		"the peer's etcd is down": {func(r *state.EtcdReport) {
			noLeader(r)
			r.Snapshot.Local.Leaderless = 20 * time.Second
			r.Snapshot.Statement.Value.Running = state.Known(false)
		}, "waits for etcd on beta, which does not run"},
		"the peer says nothing": {func(r *state.EtcdReport) {
			noLeader(r)
			r.Snapshot.Statement = state.Fact[state.EtcdStatement]{}
		}, "waits for beta, which is in contact but does not report the state of its etcd"},
		"an etcd that its own tests find unable to work": {
			func(r *state.EtcdReport) {
				r.Snapshot.Local.Stalled, r.Snapshot.Local.Sick = 20*time.Second, "its disk does not answer"
			},
			"etcd on this host cannot work, its disk does not answer: it waits for beta",
		},
		"a leader whose disk takes nothing": {
			func(r *state.EtcdReport) { r.Snapshot.Local.Stalled = 20 * time.Second },
			"has committed nothing for 20s; it waits for a disk, its own or beta's",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := pair()
			c.change(&in.Report)
			in.Report.Verdict = etcdmember.Decide(in.Report.Snapshot)
			e := Etcd(in)
			if !strings.Contains(e.Summary, c.want) || strings.Contains(e.Summary, "by itself") || e.Status != Waiting || e.Service != ReadsOnly || len(e.Next) == 0 {
				t.Errorf("rule %s, %s, %s, %d to do: %s", e.Rule, e.Status, e.Service, len(e.Next), e.Summary)
			}
		})
	}
	in := pair()
	in.Report.Snapshot.Statement.Value.Running = state.Known(true)
	in.Report.Snapshot.Local.Leader, in.Report.Snapshot.Local.Leaderless = state.Known(state.MemberID(0)), time.Second
	in.Report.Snapshot.Local.Stalled = time.Second
	in.Report.Verdict = etcdmember.Decide(in.Report.Snapshot)
	if e := Etcd(in); !strings.Contains(e.Summary, "it goes on by itself") || len(e.Next) > 0 {
		t.Errorf("an election: %s, %+v", e.Summary, e.Next)
	}
}

func TestAHostSaysHowFarItReaches(t *testing.T) {
	in := pair()
	if text := strings.Join(Etcd(in).Evidence, "\n"); strings.Contains(text, "own network") {
		t.Errorf("nobody looked: %s", text)
	}
	in.Report.Reach = state.Reach{State: state.ReachNo, Why: "the cable of the machine network carries no signal"}
	if text := strings.Join(Etcd(in).Evidence, "\n"); !strings.Contains(text, "own network: cut off, the cable of the machine network carries no signal") {
		t.Error(text)
	}
}

func TestAHostThatIsNotOneOfTwoIsNoFailure(t *testing.T) {
	e := Etcd(Input{Source: FromFiles, Unmanaged: true})
	if e.Status != Unmanaged || len(e.Next) != 0 {
		t.Errorf("%+v", e)
	}
}

func TestAPlainTextHasNoEscapesAndKeepsToThePage(t *testing.T) {
	for _, c := range corpus(t) {
		text := Text(Etcd(recorded(c)), page.Style{})
		if strings.Contains(text, "\x1b") {
			t.Errorf("%s: colour without a terminal", c.name)
		}
		for line := range strings.Lines(text) {
			if len(line) > page.Narrow+1 && strings.Contains(strings.TrimSpace(line), "  ") {
				t.Errorf("%s: %q", c.name, line)
			}
		}
		if !strings.Contains(Text(Etcd(recorded(c)), page.Style{Colour: true}), "\x1b[1m") {
			t.Errorf("%s: no colour on a terminal", c.name)
		}
	}
}

func TestDurationsAreSaidAsAPersonSaysThem(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"},
		{-time.Second, "0s"},
		{1500 * time.Millisecond, "1.5s"},
		{9 * time.Second, "9s"},
		{42 * time.Second, "42s"},
		{192 * time.Second, "3m12s"},
		{65 * time.Minute, "1h05m"},
		{76 * time.Hour, "3d4h"},
	} {
		if got := page.Duration(c.d); got != c.want {
			t.Errorf("%v: %s, want %s", c.d, got, c.want)
		}
	}
}

// TestAHistoryThatIsGivenUpJoinsTheOther proves the advice for two histories, and
// for an unreadable record: a host whose record was moved away gives its data
// directory up to a peer that leads.
func TestAHistoryThatIsGivenUpJoinsTheOther(t *testing.T) {
	in := pair()
	s := in.Report.Snapshot
	s.Record = state.Known(state.EtcdRecord{State: state.EtcdNone})
	s.Local.Members = state.Known(s.Data.Value.Members[:1])
	s.Local.Leader = state.Known(state.MemberID(0xa))
	s.Statement.Value = state.EtcdStatement{
		Ring: 3, Leads: true, Record: state.EtcdRecord{State: state.EtcdSole, Seq: 9, Cluster: 0xd, Member: 0xb}, Running: state.Known(true),
		Members: state.Known([]state.EtcdMember{{ID: 0xb, Name: "beta"}}), StandIn: state.Known(state.MemberID(0)),
		Data: state.Known(state.EtcdData{Copy: state.CopyWhole, Cluster: 0xd, Member: 0xb}),
	}
	steps := []string{}
	for range 4 {
		v := etcdmember.Decide(s)
		steps = append(steps, v.Rule)
		switch v.Action {
		case state.EtcdStop:
			s.Local = state.EtcdLocal{Running: state.Known(false), StandIn: state.Known(state.MemberID(0))}
		case state.EtcdWriteRecord:
			s.Record = state.Known(*v.Record)
		case state.EtcdEmpty:
			s.Data = state.Known(state.EtcdData{Copy: state.CopyNone})
		default:
		}
	}
	if got := strings.Join(steps, " "); got != "follow.removed follow.give-up follow.empty follow.await" {
		t.Error(got)
	}
}

// TestABackupRestoredOnBothHostsStarts proves what the page about restoring says:
// two whole data directories of one new cluster, and no record on either host.
func TestABackupRestoredOnBothHostsStarts(t *testing.T) {
	in := pair()
	s := in.Report.Snapshot
	s.Record = state.Known(state.EtcdRecord{State: state.EtcdNone})
	s.Local = state.EtcdLocal{Running: state.Known(false), StandIn: state.Known(state.MemberID(0))}
	s.Statement.Value = state.EtcdStatement{
		Ring: 3, Record: state.EtcdRecord{State: state.EtcdNone}, Running: state.Known(false), StandIn: state.Known(state.MemberID(0)),
		Data: state.Known(state.EtcdData{Copy: state.CopyWhole, Cluster: 0xc, Member: 0xb}),
	}
	if v := etcdmember.Decide(s); v.Rule != "equal.adopt" {
		t.Errorf("%s: %s", v.Rule, v.Reason)
	}
}

func TestAStandInThatIsDoneIsNoProblem(t *testing.T) {
	for outcome, want := range map[state.StandInOutcome]int{
		state.StandInDone: 0, state.StandInNothingToDo: 0, state.StandInRefused: 1, state.StandInUnfinished: 1,
	} {
		if got := problems(state.EtcdReport{StandInOutcome: outcome, StandIn: "done; writes worked after 91ms"}); len(got) != want {
			t.Errorf("%q: %v", outcome, got)
		}
	}
	if got := problems(state.EtcdReport{}); len(got) > 0 {
		t.Errorf("without a stand-in: %v", got)
	}
}

func TestAdviceOfAStandInIsGivenOnlyWhileTheTakeOverIsNotOver(t *testing.T) {
	r := state.EtcdReport{StandInOutcome: state.StandInUnfinished, StandIn: "unfinished, cut-off: if this lasts, stop etcd, run etcd-standin settle"}
	for _, c := range []struct {
		state  state.EtcdState
		leader state.MemberID
		vote   state.MemberID
		says   bool
	}{
		{state.EtcdTakingOver, 0, 0, true},
		{state.EtcdTakingOver, 7, 0, true},
		{state.EtcdPair, 0, 0, true},
		{state.EtcdSole, 7, 9, true},
		{state.EtcdPair, 7, 0, false},
		{state.EtcdSole, 7, 0, false},
	} {
		s := &r.Snapshot
		s.Record = state.Known(state.EtcdRecord{State: c.state})
		s.Local.Running, s.Local.Leader, s.Local.StandIn = state.Known(true), state.Known(c.leader), state.Known(c.vote)
		if got := problems(r); (len(got) > 0) != c.says {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// docs/facts/loss.md#hard-cases-of-loss, L4: a host whose place another machine has is not told how
// it could serve again, neither by a confirmation nor by its peer or its keeper.
func TestL4AReplacedHostIsToldToStayOff(t *testing.T) {
	const since = "another machine takes the place of alpha since 2026-11-20T09:00:00Z, by ada"
	booted := pair()
	snap := &booted.Report.Snapshot
	snap.Local.Running, snap.Pacemaker.Inert, snap.Pacemaker.Contact = state.Known(false), state.Known(true), state.Known(false)
	booted.Report.Verdict = etcdmember.Decide(*snap)
	if text := Text(Etcd(booted), page.Style{Wide: true}); !strings.Contains(text, "holdfast quorum confirm") {
		t.Fatalf("it could serve by a confirmation:\n%s", text)
	}
	for _, source := range []Source{FromAgent, FromFiles} {
		in := booted
		in.Source, in.Replaced = source, since
		e := Etcd(in)
		if e.Status != NeedsHuman || !strings.Contains(e.Summary, since) || len(e.Next) != 1 || e.Next[0].Command != "" {
			t.Errorf("%s: %+v", source, e)
		}
		if text := Text(e, page.Style{Wide: true}); strings.Contains(text, "confirm") || strings.Contains(text, "start podman-etcd") || !strings.Contains(text, "replace-host.md") {
			t.Errorf("%s:\n%s", source, text)
		}
	}
}
