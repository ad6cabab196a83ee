package mayhold

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestEachVerdictHasItsReason(t *testing.T) {
	yes, no, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	unreadable := report(state.EtcdDeparting, no, yes)
	unreadable.Value.Snapshot.Record.Known = false
	mute := report(state.EtcdPair, no, yes)
	mute.Known = false
	for _, c := range []struct {
		in   Facts
		want string
	}{
		{Facts{}, "hosts of this cluster do not fence each other"},
		{Facts{Fencing: true}, "the pair is not set up yet"},
		{Facts{Fencing: true, Report: mute}, "the pair is not set up yet"},
		{Facts{Fencing: true, Recorded: true, Report: mute}, "the etcd keeper does not answer"},
		{Facts{Fencing: true, Recorded: true}, "the etcd keeper does not answer"},
		{Facts{true, true, report(state.EtcdDeparting, no, yes)}, "this host has left the pair"},
		{Facts{true, true, unreadable}, "this host has quorum"},
		{Facts{true, true, report(state.EtcdPair, yes, no)}, "this host has not seen its peer since boot, and the peer may have gone on without it"},
		{Facts{true, true, report(state.EtcdPair, unknown, no)}, "Corosync does not answer"},
		{Facts{true, true, report(state.EtcdPair, no, no)}, "this host has quorum"},
	} {
		if got := Decide(c.in); got.Reason != c.want {
			t.Errorf("%+v: %q, want %q", c.in, got.Reason, c.want)
		}
	}
}

func TestARecordThatCannotBeReadIsNoDeparture(t *testing.T) {
	left := report(state.EtcdDeparting, state.Known(false), state.Known(true)).Value
	unread := left
	unread.Snapshot.Record.Known = false
	if Mark(left) == Mark(unread) {
		t.Error("both have the same mark")
	}
}

func TestBeforeAnythingIsKnownTheReasonIsSaid(t *testing.T) {
	for _, c := range []struct {
		fencing, recorded bool
		want              string
	}{
		{true, true, "nothing has been determined in this boot yet"},
		{true, false, "the pair is not set up yet"},
		{false, true, "hosts of this cluster do not fence each other"},
		{false, false, "hosts of this cluster do not fence each other"},
	} {
		if got := AtBoot(c.fencing, c.recorded); got.Reason != c.want {
			t.Errorf("%+v: %q", c, got.Reason)
		}
	}
}
