package pacemakerstatus

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// saw is one reading of etcd's record and of the membership.
func saw(s state.EtcdState, id string, written time.Time, members ...string) Input {
	var r state.EtcdReport
	r.Snapshot.Record = state.Known(state.EtcdRecord{State: s, Written: written, TakeOver: state.EtcdTakeOver{ID: id, Counter: 1}})
	return Input{Host: "cp-1", Etcd: state.Known(r), Membership: state.Known(state.Membership{Members: members})}
}

// follow applies one reading after the other, a minute apart.
func follow(looks ...Input) Report {
	var r Report
	for i, in := range looks {
		r.TakeOver, r.Lost = r.Follow(in, noon.Add(time.Duration(i)*time.Minute))
	}
	return r
}

func TestATakeOverIsMeasuredFromTheLossToTheRecord(t *testing.T) {
	written := noon.Add(time.Minute + 9*time.Second)
	paired := written.Add(10 * time.Minute)
	looks := []Input{
		saw(state.EtcdPair, "", noon.Add(-time.Hour), "cp-1", "cp-2"),
		saw(state.EtcdPair, "", noon.Add(-time.Hour), "cp-1"), // lost here
		{Host: "cp-1"}, // nothing answers
		saw(state.EtcdTakingOver, "a", written.Add(-time.Second), "cp-1"),
		saw(state.EtcdSole, "a", written, "cp-1"),
		saw(state.EtcdSole, "a", written.Add(time.Hour), "cp-1"), // written again
		saw(state.EtcdSole, "a", written.Add(time.Hour), "cp-1", "cp-2"),
		saw(state.EtcdPair, "a", paired, "cp-1", "cp-2"),
		saw(state.EtcdPair, "a", paired.Add(time.Hour), "cp-1", "cp-2"),
	}
	r := follow(looks...)
	took, alone := r.TakeOver.Took()
	if took != 9*time.Second || alone != 10*time.Minute || r.TakeOver.Counter != 1 || !r.Lost.IsZero() {
		t.Errorf("%s, %s, %+v", took, alone, r)
	}
	if took, alone := follow(looks[:5]...).TakeOver.Took(); took != 9*time.Second || alone != 0 {
		t.Errorf("while it is alone: %s, %s", took, alone)
	}
	again := follow(append(looks, saw(state.EtcdTakingOver, "b", paired.Add(2*time.Hour), "cp-1"))...)
	if took, _ := again.TakeOver.Took(); again.TakeOver.ID != "b" || took != 0 {
		t.Errorf("the next one begins anew: %+v", again.TakeOver)
	}
}

func TestATakeOverWhoseBeginNobodySawHasNoDuration(t *testing.T) {
	late := follow(saw(state.EtcdSole, "a", noon.Add(-time.Hour), "cp-1"), saw(state.EtcdSole, "a", noon.Add(-time.Hour), "cp-1"))
	if took, alone := late.TakeOver.Took(); took != 0 || alone != 0 || late.TakeOver.Alone.IsZero() {
		t.Errorf("the agent was started afterwards: %s, %s, %+v", took, alone, late)
	}
	quick := follow( // the peer was back before the record was read
		saw(state.EtcdPair, "", noon.Add(-time.Hour), "cp-1"), saw(state.EtcdSole, "a", noon.Add(20*time.Second), "cp-1", "cp-2"))
	if took, _ := quick.TakeOver.Took(); took != 20*time.Second {
		t.Errorf("%s, %+v", took, quick)
	}
	if r := follow(saw(state.EtcdNone, "", noon, "cp-1", "cp-2"), saw(state.EtcdPair, "old", noon, "cp-1", "cp-2")); !r.TakeOver.Alone.IsZero() || !r.TakeOver.Pair.IsZero() {
		t.Errorf("a take-over of before this software: %+v", r)
	}
}
