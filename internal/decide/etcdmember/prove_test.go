package etcdmember

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// sentence is a statement about the protocol, with a host that proves it.
type sentence struct {
	sentence string
	snapshot state.EtcdSnapshot
	action   state.EtcdAction
	rule     string
}

func prove(t *testing.T, sentences []sentence) {
	t.Helper()
	for _, c := range sentences {
		t.Run(c.sentence, func(t *testing.T) {
			got := Decide(c.snapshot)
			if got.Action != c.action || got.Rule != c.rule {
				t.Errorf("%s (%s): %s\nevidence: %q\nwant %s (%s)", got.Action, got.Rule, got.Reason, got.Evidence, c.action, c.rule)
			}
		})
	}
}

// TestWhatEachVerdictHolds compares everything that the sentences lead to: the
// record that is written, the member that a step is about, and the command for an
// administrator.
func TestWhatEachVerdictHolds(t *testing.T) {
	var b strings.Builder
	for _, c := range slices.Concat(protocol(), leavingSentences(), aloneSentences(), leadingSentences(), followingSentences(), equalsSentences(), unusualSentences(), stallSentences(), fullDiskSentences(), wideningSentences()) {
		v := Decide(c.snapshot)
		fmt.Fprintf(&b, "%s\n  %s (%s)", c.sentence, v.Action, v.Rule)
		if v.Member != 0 || v.Seq != 0 {
			fmt.Fprintf(&b, " of member %s, %d", v.Member, v.Seq)
		}
		if v.Next != "" {
			fmt.Fprintf(&b, ", next %q", v.Next)
		}
		b.WriteString("\n")
		if v.Record != nil {
			fmt.Fprintf(&b, "  %s\n", written(*v.Record))
		}
	}
	golden.Check(t, "verdicts.txt", []byte(b.String()))
}

func written(r state.EtcdRecord) string {
	s := fmt.Sprintf("%s %d, member %s of %s, at %s", r.State, r.Seq, r.Member, r.Cluster, r.Written.Format(time.RFC3339))
	for _, part := range []struct {
		is   bool
		text string
	}{
		{r.Yields != 0, "yields " + r.Yields.String()},
		{r.Paired != state.EtcdPairing{}, fmt.Sprintf("paired with record %d of %s", r.Paired.Seq, r.Paired.Member)},
		{r.Third != 0, "third " + r.Third.String()},
		{r.TakeOver != state.EtcdTakeOver{}, fmt.Sprintf("take-over %d %s", r.TakeOver.Counter, r.TakeOver.ID)},
		{r.Proof != state.EtcdProof{}, fmt.Sprintf("%s: %s", r.Proof.Kind, r.Proof.Detail)},
		{r.Proof.Member != 0, "given up: " + r.Proof.Member.String()},
		{r.Forced != state.EtcdForced{}, fmt.Sprintf("forced by %s, %s, at %s", r.Forced.Who, r.Forced.Why, r.Forced.At.Format(time.RFC3339))},
	} {
		if part.is {
			s += "; " + part.text
		}
	}
	return s
}

// like returns the host of another sentence with changes.
func like(name string, changes ...change) state.EtcdSnapshot {
	all := protocol()
	k := slices.IndexFunc(all, func(c sentence) bool { return c.sentence == name })
	if k < 0 {
		panic("no sentence " + name)
	}
	s := all[k].snapshot
	for _, c := range changes {
		c(&s)
	}
	return s
}

var (
	gamma         = state.EtcdMember{ID: 0xd, Name: "gamma"}
	newcomer      = state.EtcdMember{ID: 0xd, Learner: true}
	namelessVoter = state.EtcdMember{ID: 0xd}
	alphaLearner  = state.EtcdMember{ID: 0xa, Name: "alpha", Learner: true}
	betaLearner   = state.EtcdMember{ID: 0xb, Name: "beta", Learner: true}
	betaInSync    = state.EtcdMember{ID: 0xb, Name: "beta", Learner: true, InSync: true}
)

func named(m state.EtcdMember) state.EtcdMember { m.Name = "named"; return m }

func marks(m state.EtcdMember, seq uint64) state.EtcdMember { m.Marked = seq; return m }

// Changes of this host.

func led(id state.MemberID) change {
	return func(s *state.EtcdSnapshot) { s.Local.Leader = state.Known(id) }
}

func dataMember(id state.MemberID) change {
	return func(s *state.EtcdSnapshot) { s.Data.Value.Member = id }
}

func leavingFor(d time.Duration) change {
	return func(s *state.EtcdSnapshot) { s.Pacemaker.Leaving, s.Pacemaker.LeavingFor = true, d }
}

func halted(s *state.EtcdSnapshot)         { s.Local.Running = state.Known(false) }
func runningUnknown(s *state.EtcdSnapshot) { s.Local.Running.Known = false }
func leaderUnknown(s *state.EtcdSnapshot)  { s.Local.Leader.Known = false }
func standInUnknown(s *state.EtcdSnapshot) { s.Local.StandIn.Known = false }
func inertUnknown(s *state.EtcdSnapshot)   { s.Pacemaker.Inert.Known = false }
func unreadable(s *state.EtcdSnapshot)     { s.Record.Known = false }
func copyUnknown(s *state.EtcdSnapshot)    { s.Data.Known = false }
func copyDamaged(s *state.EtcdSnapshot)    { s.Data.Value.Copy = state.CopyDamaged }
func iForced(s *state.EtcdSnapshot)        { s.Record.Value.Forced.Who = "ops" }

func proven(s *state.EtcdSnapshot) {
	s.Record.Value.Proof = state.EtcdProof{Kind: state.ProofFenced, Detail: "before"}
}

func pairedBefore(s *state.EtcdSnapshot) {
	s.Record.Value.Paired = state.EtcdPairing{Member: 0xb, Seq: 2}
}

// Changes of the proofs.

func noFence(s *state.EtcdSnapshot)    { s.Proofs.Fenced.Known = false }
func nobodySays(s *state.EtcdSnapshot) { s.Proofs.Human.Known = false }
func anonymous(s *state.EtcdSnapshot)  { s.Proofs.Human.Value.Who = "" }
func sameMoment(s *state.EtcdSnapshot) { s.Pacemaker.Joined = 2 * time.Minute }

func bootless(s *state.EtcdSnapshot) {
	s.Boot, s.Proofs.Fenced.Value.Boot, s.Proofs.Human.Value.Boot, s.Proofs.Heard = "", "", "", ""
}

// Changes of the peer and of its statement.

func peerMember(id state.MemberID) change {
	return func(s *state.EtcdSnapshot) { s.Statement.Value.Record.Member = id }
}

func peerYields(id state.MemberID) change {
	return func(s *state.EtcdSnapshot) { s.Statement.Value.Record.Yields = id }
}

func peerStandIn(id state.MemberID) change {
	return func(s *state.EtcdSnapshot) { s.Statement.Value.StandIn = state.Known(id) }
}

func peerPaired(s *state.EtcdSnapshot) {
	s.Statement.Value.Record.Paired = state.EtcdPairing{Member: 0xa, Seq: 4}
}

func peerRunning(s *state.EtcdSnapshot)     { s.Statement.Value.Running = state.Known(true) }
func peerHalted(s *state.EtcdSnapshot)      { s.Statement.Value.Running = state.Known(false) }
func peerUnknown(s *state.EtcdSnapshot)     { s.Statement.Value.Running.Known = false }
func peerLeaves(s *state.EtcdSnapshot)      { s.Statement.Value.Leaving = true }
func peerCopyUnknown(s *state.EtcdSnapshot) { s.Statement.Value.Data.Known = false }
func peerCopyDamaged(s *state.EtcdSnapshot) { s.Statement.Value.Data.Value.Copy = state.CopyDamaged }
func stateless(s *state.EtcdSnapshot)       { s.Statement.Value.Record.State = "" }
func unsaid(s *state.EtcdSnapshot)          { s.Statement.Known = false }
func unread(s *state.EtcdSnapshot)          { s.Statement.Value.SeenSeq = 3 }
func noRing(s *state.EtcdSnapshot)          { s.Statement.Value.Ring, s.Pacemaker.Ring = 0, 0 }
