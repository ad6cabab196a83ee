package vote

import (
	"errors"
	"reflect"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

const (
	dead uint64 = 0xa
	live uint64 = 0xb
)

// msg returns a message of the survivor.
func msg(kind raftpb.MessageType, term, logTerm, index, commit uint64, entries ...raftpb.Entry) raftpb.Message {
	return raftpb.Message{Type: kind, From: live, To: dead, Term: term, LogTerm: logTerm, Index: index, Commit: commit, Entries: entries}
}

func entry(term, index uint64) raftpb.Entry { return raftpb.Entry{Term: term, Index: index} }

func change(t *testing.T, kind raftpb.ConfChangeType, id uint64) raftpb.Entry {
	t.Helper()
	data, err := (&raftpb.ConfChange{Type: kind, NodeID: id}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return raftpb.Entry{Type: raftpb.EntryConfChange, Term: 3, Index: 8, Data: data}
}

// answer returns a message of the fenced member.
func answer(kind raftpb.MessageType, term uint64, set ...func(*raftpb.Message)) raftpb.Message {
	m := raftpb.Message{Type: kind, From: dead, To: live, Term: term}
	for _, f := range set {
		f(&m)
	}
	return m
}

func at(index uint64) func(*raftpb.Message) { return func(m *raftpb.Message) { m.Index = index } }

func rejecting(hint uint64) func(*raftpb.Message) {
	return func(m *raftpb.Message) { m.Reject, m.RejectHint = true, hint }
}

// step is one message and the expected answers.
type step struct {
	in   raftpb.Message
	want []raftpb.Message
}

func granted(term uint64) []raftpb.Message {
	return []raftpb.Message{answer(raftpb.MsgVoteResp, term)}
}

func acked(term, index uint64) []raftpb.Message {
	return []raftpb.Message{answer(raftpb.MsgAppResp, term, at(index))}
}

func asked(term, index, hint uint64) []raftpb.Message {
	return []raftpb.Message{answer(raftpb.MsgAppResp, term, at(index), rejecting(hint))}
}

func TestAnswers(t *testing.T) {
	foreign := msg(raftpb.MsgVote, 4, 3, 9, 0)
	foreign.From = 0xc
	misled := msg(raftpb.MsgVote, 4, 3, 9, 0)
	misled.To = 0xc
	beat := msg(raftpb.MsgHeartbeat, 4, 0, 0, 0)
	beat.Context = []byte("read")
	for name, steps := range map[string][]step{
		"a vote is granted to the survivor":         {{msg(raftpb.MsgVote, 4, 3, 9, 0), granted(4)}},
		"asked twice in a term, it is the same one": {{msg(raftpb.MsgVote, 4, 3, 9, 0), granted(4)}, {msg(raftpb.MsgVote, 4, 3, 9, 0), granted(4)}},
		"no vote in a term below one that was seen": {{msg(raftpb.MsgVote, 4, 3, 9, 0), granted(4)}, {msg(raftpb.MsgVote, 3, 3, 9, 0), nil}},
		"no vote for anybody else":                  {{foreign, nil}},
		"no vote in another member's name":          {{misled, nil}},
		"a pre-vote is granted and binds to no term": {
			{msg(raftpb.MsgPreVote, 9, 3, 9, 0), []raftpb.Message{answer(raftpb.MsgPreVoteResp, 9)}},
			{msg(raftpb.MsgVote, 4, 3, 9, 0), granted(4)},
		},
		"a heartbeat is answered with its context": {{beat, []raftpb.Message{answer(raftpb.MsgHeartbeatResp, 4, func(m *raftpb.Message) { m.Context = []byte("read") })}}},
		"no heartbeat of a past term is answered":  {{msg(raftpb.MsgVote, 5, 3, 9, 0), granted(5)}, {beat, nil}},
		"a leader shows what is not committed before it is acknowledged": {
			{msg(raftpb.MsgVote, 4, 3, 9, 0), granted(4)},
			{msg(raftpb.MsgApp, 4, 3, 9, 6, entry(4, 10)), asked(4, 9, 6)},
			{msg(raftpb.MsgApp, 4, 3, 6, 6, entry(3, 7), entry(3, 8), entry(3, 9), entry(4, 10)), acked(4, 10)},
			{msg(raftpb.MsgApp, 4, 4, 10, 10), acked(4, 10)},
		},
		"what is committed needs not be shown": {{msg(raftpb.MsgApp, 4, 3, 9, 9, entry(4, 10)), acked(4, 10)}},
		"a gap is asked for":                   {{msg(raftpb.MsgApp, 4, 3, 9, 9, entry(4, 10)), acked(4, 10)}, {msg(raftpb.MsgApp, 4, 4, 12, 10, entry(4, 13)), asked(4, 12, 10)}},
		"a leader that insists is believed": {
			{msg(raftpb.MsgApp, 4, 3, 9, 6), asked(4, 9, 6)},
			{msg(raftpb.MsgApp, 4, 3, 9, 6), asked(4, 9, 6)},
			{msg(raftpb.MsgApp, 4, 3, 9, 6), asked(4, 9, 6)},
			{msg(raftpb.MsgApp, 4, 3, 9, 6), acked(4, 9)},
		},
		"an append that comes again is acknowledged again": {
			{msg(raftpb.MsgApp, 4, 3, 9, 9, entry(4, 10)), acked(4, 10)},
			{msg(raftpb.MsgApp, 4, 3, 9, 9, entry(4, 10)), acked(4, 10)},
		},
		"an old leader's append is not acknowledged": {{msg(raftpb.MsgVote, 5, 3, 9, 0), granted(5)}, {msg(raftpb.MsgApp, 4, 3, 9, 9), nil}},
		"a snapshot is not taken":                    {{msg(raftpb.MsgSnap, 4, 0, 0, 0), nil}},
		"leadership is not taken":                    {{msg(raftpb.MsgTimeoutNow, 4, 0, 0, 0), nil}},
		"a proposal is not forwarded":                {{msg(raftpb.MsgProp, 4, 0, 0, 0), nil}},
		"a read is not served":                       {{msg(raftpb.MsgReadIndex, 4, 0, 0, 0), nil}},
	} {
		t.Run(name, func(t *testing.T) {
			v := New(Config{Self: dead, Survivor: live})
			for i, s := range steps {
				got, err := v.Step(s.in)
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got, s.want) {
					t.Errorf("step %d: %v answered with %v, want %v", i, s.in.Type, got, s.want)
				}
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	led := msg(raftpb.MsgApp, 4, 3, 7, 7)
	add := func(e raftpb.Entry) raftpb.Message { m := led; m.Entries = []raftpb.Entry{e}; return m }
	broken := change(t, raftpb.ConfChangeRemoveNode, dead)
	broken.Data = []byte{0xff}
	joint := raftpb.Entry{Type: raftpb.EntryConfChangeV2, Term: 3, Index: 8}
	for name, c := range map[string]struct {
		least uint64
		in    []raftpb.Message
		want  string
	}{
		"a log shorter than it is known to have been gets no vote":     {10, []raftpb.Message{msg(raftpb.MsgVote, 4, 3, 9, 0)}, LogShort},
		"a log shorter than it is known to have been gets no pre-vote": {10, []raftpb.Message{msg(raftpb.MsgPreVote, 4, 3, 9, 0)}, LogShort},
		"a log as long as it was gets the vote":                        {9, []raftpb.Message{msg(raftpb.MsgVote, 4, 3, 9, 0)}, ""},
		"a log that lost what was acknowledged gets no vote":           {0, []raftpb.Message{msg(raftpb.MsgApp, 4, 3, 9, 9, entry(4, 10)), msg(raftpb.MsgVote, 5, 4, 9, 0)}, LogShort},
		"a log that lost a term gets no vote":                          {0, []raftpb.Message{msg(raftpb.MsgApp, 4, 3, 9, 9, entry(4, 10)), msg(raftpb.MsgVote, 5, 3, 10, 0)}, LogShort},
		"a survivor that was leaving is not kept":                      {0, []raftpb.Message{add(change(t, raftpb.ConfChangeRemoveNode, live))}, Membership},
		"no other voter is made":                                       {0, []raftpb.Message{add(change(t, raftpb.ConfChangeAddNode, 0xc))}, Membership},
		"no change of several members is committed":                    {0, []raftpb.Message{add(joint)}, Membership},
		"no change that cannot be read is committed":                   {0, []raftpb.Message{add(broken)}, Membership},
		"the fenced member may be removed":                             {0, []raftpb.Message{add(change(t, raftpb.ConfChangeRemoveNode, dead))}, ""},
		"a learner may be added":                                       {0, []raftpb.Message{add(change(t, raftpb.ConfChangeAddLearnerNode, 0xc))}, ""},
		"a member may change its address":                              {0, []raftpb.Message{add(change(t, raftpb.ConfChangeUpdateNode, live))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := New(Config{Self: dead, Survivor: live, Least: c.least})
			var err error
			for _, m := range c.in {
				_, err = v.Step(m)
			}
			if got := code(err); got != c.want {
				t.Fatalf("got %q (%v), want %q", got, err, c.want)
			}
			if c.want == "" {
				return
			}
			if answers, again := v.Step(msg(raftpb.MsgVote, 9, 9, 99, 0)); answers != nil || !errors.Is(again, err) {
				t.Errorf("after the refusal it answers %v, %v", answers, again)
			}
		})
	}
}

func code(err error) string {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Code
	}
	return ""
}

func TestARefusedEntryIsNotAcknowledgedByALaterOne(t *testing.T) {
	v := New(Config{Self: dead, Survivor: live})
	bad := msg(raftpb.MsgApp, 4, 3, 7, 7, change(t, raftpb.ConfChangeRemoveNode, live))
	for _, m := range []raftpb.Message{bad, msg(raftpb.MsgApp, 4, 3, 8, 7, entry(4, 9)), msg(raftpb.MsgHeartbeat, 4, 0, 0, 0)} {
		if got, err := v.Step(m); got != nil || err == nil {
			t.Errorf("%v was answered with %v", m.Type, got)
		}
	}
}

func TestTheNudgeClaimsNoLeadership(t *testing.T) {
	v := New(Config{Self: dead, Survivor: live, Nudge: true})
	if got := v.Ask(); len(got) != 1 || got[0].Type != raftpb.MsgPreVote || got[0].Term != 1 {
		t.Fatalf("the question is %v", got)
	}
	told := msg(raftpb.MsgPreVoteResp, 7, 0, 0, 0)
	told.Reject = true
	got, err := v.Step(told)
	want := []raftpb.Message{answer(raftpb.MsgPreVoteResp, 8), answer(raftpb.MsgTimeoutNow, 7)}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if _, err := v.Step(msg(raftpb.MsgHeartbeat, 8, 0, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if got := v.Ask(); got != nil {
		t.Errorf("a leader is asked %v", got)
	}
}

func TestWithoutNudgeNothingIsSaidUnasked(t *testing.T) {
	v := New(Config{Self: dead, Survivor: live})
	if got := v.Ask(); got != nil {
		t.Errorf("it asks %v", got)
	}
	if got, err := v.Step(msg(raftpb.MsgPreVoteResp, 7, 0, 0, 0)); got != nil || err != nil {
		t.Errorf("it says %v, %v", got, err)
	}
}

func TestProgress(t *testing.T) {
	v := New(Config{Self: dead, Survivor: live})
	for i, s := range []struct {
		in   raftpb.Message
		want Progress
	}{
		{msg(raftpb.MsgVote, 4, 3, 9, 0), Progress{Term: 4}},
		{msg(raftpb.MsgApp, 4, 3, 9, 6, entry(4, 10)), Progress{Term: 4, Leading: true}},
		{msg(raftpb.MsgApp, 4, 3, 6, 6, entry(3, 7), entry(3, 8), entry(3, 9), entry(4, 10)), Progress{Term: 4, Leading: true, Last: 10, Tail: 3}},
		{msg(raftpb.MsgApp, 4, 4, 10, 10), Progress{Term: 4, Leading: true, Committing: true, Last: 10, Tail: 3}},
		{msg(raftpb.MsgVote, 5, 4, 10, 0), Progress{Term: 5, Last: 10, Tail: 3}},
	} {
		if _, err := v.Step(s.in); err != nil {
			t.Fatal(err)
		}
		if v.Progress() != s.want {
			t.Errorf("step %d: %+v, want %+v", i, v.Progress(), s.want)
		}
	}
}

func TestAnInsistingLeaderIsNoted(t *testing.T) {
	v := New(Config{Self: dead, Survivor: live})
	for range insistence + 1 {
		if _, err := v.Step(msg(raftpb.MsgApp, 4, 3, 9, 6)); err != nil {
			t.Fatal(err)
		}
	}
	if !v.Progress().Unseen {
		t.Error("what was not seen is not told")
	}
}
