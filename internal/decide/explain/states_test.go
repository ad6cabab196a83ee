package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/confirm"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

// everyState calls a function with each combination of what matters to an explanation
// of one of two hosts, with the protocol's own verdict.
func everyState(f func(in Input)) {
	tri := []state.Fact[bool]{{}, state.Known(false), state.Known(true)}
	leaders := []state.Fact[state.MemberID]{{}, state.Known(state.MemberID(0)), state.Known(state.MemberID(0xa))}
	records := []state.EtcdState{state.EtcdNone, state.EtcdLearner, state.EtcdVoter, state.EtcdPair, state.EtcdTakingOver, state.EtcdSole, state.EtcdDeparting}
	for _, running := range tri {
		for _, leader := range leaders {
			for _, contact := range tri {
				for _, own := range records {
					for _, peer := range append([]state.EtcdState{""}, records...) {
						for variant := range 6 {
							f(oneState(running, leader, contact, own, peer, variant))
						}
					}
				}
			}
		}
	}
}

// oneState is one of those states. The variants are a stall, a learner, a member alone,
// a host that leaves and a peer that leaves.
func oneState(running state.Fact[bool], leader state.Fact[state.MemberID], contact state.Fact[bool], own, peer state.EtcdState, variant int) Input {
	in := pair()
	s := &in.Report.Snapshot
	s.Local.Running, s.Local.Leader, s.Pacemaker.Contact = running, leader, contact
	s.Record.Value.State = own
	s.Statement.Known = peer != ""
	s.Statement.Value.Record.State = peer
	s.Local.Members.Value = slices.Clone(s.Local.Members.Value)
	switch variant {
	case 1:
		s.Local.Stalled = time.Minute
	case 2:
		s.Local.Members.Value[1].Learner = true
	case 3:
		s.Local.Members.Value = s.Local.Members.Value[:1]
	case 4:
		s.Pacemaker.Leaving = true
	case 5:
		s.Statement.Value.Leaving = true
	}
	in.Report.Verdict = etcdmember.Decide(*s)
	return in
}

// told describes a state for the message of a failure.
func told(in Input) string {
	s := in.Report.Snapshot
	return fmt.Sprintf("running %v, leader %v, contact %v, record %s, the peer's %v %s, members %v, stalled %s, leaving %t %t: %s",
		s.Local.Running, s.Local.Leader, s.Pacemaker.Contact, s.Record.Value.State, s.Statement.Known, s.Statement.Value.Record.State,
		s.Local.Members.Value, s.Local.Stalled, s.Pacemaker.Leaving, s.Statement.Value.Leaving, in.Report.Verdict.Rule)
}

// safe reports whether either host may fail, written down once more: two voters that
// see each other, both records a pair, nobody leaves, and etcd commits.
func safe(s state.EtcdSnapshot) bool {
	for _, m := range s.Local.Members.Value {
		if m.Learner {
			return false
		}
	}
	l := s.Local
	commits := l.Running.Known && l.Running.Value && l.Leader.Known && l.Leader.Value != 0 && l.Stalled <= 5*time.Second
	see := s.Pacemaker.Contact.Known && s.Pacemaker.Contact.Value && s.Statement.Known
	pair := s.Record.Value.State == state.EtcdPair && s.Statement.Value.Record.State == state.EtcdPair
	return commits && see && pair && len(l.Members.Value) == 2 && !s.Pacemaker.Leaving && !s.Statement.Value.Leaving
}

// TestWhatIsSaidInEveryState: nobody is told that all is well where it is not, that
// writes are taken where none are, or to type what the protocol would not use.
func TestWhatIsSaidInEveryState(t *testing.T) {
	seen := make(map[Status]int)
	everyState(func(in Input) {
		e := Etcd(in)
		s := in.Report.Snapshot
		seen[e.Status]++
		fail := func(why string) { t.Fatalf("%s: %s\n%s, %s: %s", why, told(in), e.Status, e.Service, e.Summary) }
		switch {
		case (e.Status == Healthy) != (safe(s) && in.Report.Verdict.Action != state.EtcdAskHuman):
			fail("healthy is not where either host may fail")
		case e.Status == Degraded && e.Service != Writes:
			fail("degraded without writes")
		case (e.Status == NeedsHuman) != (in.Report.Verdict.Action == state.EtcdAskHuman):
			fail("a person is asked, and the protocol does not ask, or the other way round")
		case e.Status == NeedsHuman && len(e.Next) == 0:
			fail("a person is asked, and not told what to do")
		case strings.HasPrefix(e.Summary, "takes writes") && (s.Local.Leader.Value == 0 || !state.Is(s.Local.Running, true) || s.Local.Stalled > 5*time.Second):
			fail("it is said to take writes")
		case e.Summary == "" || e.Data == "" || strings.Contains(e.Summary+e.Data, "%!"):
			fail("words are missing")
		}
		for _, a := range e.Next {
			forced := strings.HasPrefix(a.Command, "holdfast quorum confirm")
			effect, _ := confirm.Would(s)
			if forced && effect == confirm.Useless {
				fail("a confirmation is offered that nothing would use")
			}
			if strings.HasPrefix(a.Command, "mv ") && e.Rule != "two-histories" {
				fail("a record is to be moved away")
			}
		}
	})
	for _, status := range []Status{Healthy, Degraded, Waiting, NeedsHuman, Unknown, Stopped} {
		if seen[status] == 0 {
			t.Errorf("no state is %s: %v", status, seen)
		}
	}
}

// TestWhereTheKeeperIsSilentNothingIsSaidToBeWell: files tell of a moment that is over,
// and a confirmation would reach nobody.
func TestWhereTheKeeperIsSilentNothingIsSaidToBeWell(t *testing.T) {
	everyState(func(in Input) {
		in.Source = FromFiles
		e := Etcd(in)
		if e.Status != Unknown || len(e.Next) == 0 || e.Next[0].Command != "systemctl start podman-etcd" {
			t.Fatalf("%s: %s %+v", told(in), e.Status, e.Next)
		}
		for _, a := range e.Next {
			if strings.Contains(a.Command, "quorum confirm") {
				t.Fatalf("%s: %+v", told(in), a)
			}
		}
	})
}

// TestAPeerThatSaysNothingOfItsEtcdIsWaitedForAsThat, and not as one that runs or does
// not.
func TestAPeerThatSaysNothingOfItsEtcdIsWaitedForAsThat(t *testing.T) {
	for running, want := range map[state.Fact[bool]]string{
		{}:                 "it waits for beta, which is in contact but does not report the state of its etcd",
		state.Known(false): "it waits for etcd on beta, which does not run",
		state.Known(true):  "it waits for the vote of beta, whose etcd runs, as it reported",
	} {
		in := pair()
		s := &in.Report.Snapshot
		s.Local.Leader, s.Local.Leaderless = state.Known(state.MemberID(0)), time.Minute
		s.Statement.Value.Running, s.Statement.Value.Age = running, 0
		in.Report.Verdict.Action = state.EtcdWait
		if got := awaited(in, ReadsOnly); !strings.HasPrefix(got, want) {
			t.Errorf("%+v: %q", running, got)
		}
	}
}

// TestAPeerThatSaidNothingNowIsNotQuoted: what it said before is not of now.
func TestAPeerThatSaidNothingNowIsNotQuoted(t *testing.T) {
	in := pair()
	s := &in.Report.Snapshot
	s.Local.Leader, s.Local.Leaderless = state.Known(state.MemberID(0)), time.Minute
	s.Statement.Known, s.Statement.Value.Running = false, state.Known(true)
	in.Report.Verdict.Action = state.EtcdWait
	if got := awaited(in, ReadsOnly); got != "it waits for beta, which is in contact but does not report the state of its etcd" {
		t.Error(got)
	}
}

// TestAHostThatAsksWhileItTakesWritesSaysBoth: a question is no outage.
func TestAHostThatAsksWhileItTakesWritesSaysBoth(t *testing.T) {
	in := pair()
	in.Report.Verdict = state.EtcdVerdict{Action: state.EtcdAskHuman, Rule: "take-over.too-many"}
	if e := Etcd(in); e.Status != NeedsHuman || e.Summary != "takes writes; it waits for beta or for an administrator" {
		t.Errorf("%s: %s", e.Status, e.Summary)
	}
}

// TestAPartOfAnExplanationThatIsEmptyHasNoTitle, in the narrow and in the wide form.
func TestAPartOfAnExplanationThatIsEmptyHasNoTitle(t *testing.T) {
	if got := list(""); len(got) != 0 {
		t.Errorf("%q", got)
	}
	whole := Etcd(pair())
	bare := whole
	bare.Reason, bare.Data, bare.Evidence, bare.Next, bare.Problems, bare.Limits = "", "", nil, nil, nil, nil
	for _, style := range []page.Style{{}, wide} {
		if a, b := titles(Text(whole, style)), titles(Text(bare, style)); b >= a || strings.Contains(Text(bare, style), "\n  \n") {
			t.Errorf("%d parts of %d:\n%s", b, a, Text(bare, style))
		}
	}
}

// titles counts the lines that begin at the margin, beside the first one.
func titles(text string) int {
	n := -1
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, " ") {
			n++
		}
	}
	return n
}
