package mayhold

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func report(record state.EtcdState, inert, contact state.Fact[bool]) state.Fact[state.EtcdReport] {
	s := state.EtcdSnapshot{Host: "cp-1", Peer: "cp-2", Record: state.Known(state.EtcdRecord{State: record})}
	s.Pacemaker.Inert, s.Pacemaker.Contact = inert, contact
	return state.Known(state.EtcdReport{Snapshot: s})
}

func TestHardCase40_WhoMayHoldOfTwoHosts(t *testing.T) {
	yes, no, unknown := state.Known(true), state.Known(false), state.Fact[bool]{}
	for _, c := range []struct {
		name string
		in   Facts
		want state.Fact[bool]
	}{
		{"three control planes need nobody's word", Facts{Recorded: true}, yes},
		{"before the hand-over nobody is asked", Facts{Fencing: true}, yes},
		{"a keeper without a peer has nothing to say", Facts{Fencing: true, Report: state.Known(state.EtcdReport{})}, yes},
		{"a keeper that does not answer changes nothing", Facts{Fencing: true, Recorded: true}, unknown},
		{"a pair", Facts{true, true, report(state.EtcdPair, no, yes)}, yes},
		{"the survivor, before and after the fence", Facts{true, true, report(state.EtcdPair, no, no)}, yes},
		{"the sole host", Facts{true, true, report(state.EtcdSole, no, no)}, yes},
		{"an inert host", Facts{true, true, report(state.EtcdPair, yes, no)}, no},
		{"an inert host whose record says that it went on alone", Facts{true, true, report(state.EtcdSole, yes, no)}, no},
		{"a host that came back and sees its peer", Facts{true, true, report(state.EtcdLearner, no, yes)}, yes},
		{"a host that gave its copy up", Facts{true, true, report(state.EtcdDeparting, no, yes)}, no},
		{"a host among three, which Corosync keeps no more", Facts{true, true, report(state.EtcdMajority, yes, no)}, yes},
		{"a host among three whose Corosync has ended", Facts{true, true, report(state.EtcdMajority, unknown, unknown)}, yes},
		{"a host that gave its right up, and whose peer may not have", Facts{true, true, report(state.EtcdWidening, yes, no)}, no},
		{"Corosync does not answer", Facts{true, true, report(state.EtcdPair, unknown, unknown)}, unknown},
		{"not recorded, but the keeper has a peer", Facts{true, false, report(state.EtcdPair, yes, no)}, no},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Decide(c.in); got.May != c.want || got.Reason == "" {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestAHostThatWasFencedHoldsNothingWhenItComesBack(t *testing.T) {
	if got := AtBoot(true, true); !state.Is(got.May, false) {
		t.Errorf("%+v", got)
	}
	for _, recorded := range []bool{true, false} {
		if got := AtBoot(false, recorded); !state.Is(got.May, true) {
			t.Errorf("without fencing: %+v", got)
		}
	}
	if got := AtBoot(true, false); !state.Is(got.May, true) {
		t.Errorf("a host that is being installed: %+v", got)
	}
}

func TestWhatChangesTheVerdictChangesTheMark(t *testing.T) {
	facts := []state.Fact[bool]{{}, state.Known(true), state.Known(false)}
	verdicts := map[string]Verdict{}
	for _, record := range []state.EtcdState{"", state.EtcdPair, state.EtcdSole, state.EtcdDeparting, state.EtcdLearner, state.EtcdMajority} {
		for _, inert := range facts {
			for _, contact := range facts {
				for _, peer := range []string{"", "cp-2"} {
					r := report(record, inert, contact)
					r.Value.Snapshot.Peer, r.Value.Snapshot.Record.Known = peer, record != ""
					v := Decide(Facts{true, true, r})
					if other, seen := verdicts[Mark(r.Value)]; seen && other != v {
						t.Errorf("%q: %+v and %+v", Mark(r.Value), v, other)
					}
					verdicts[Mark(r.Value)] = v
				}
			}
		}
	}
	if len(verdicts) != 18 {
		t.Errorf("%d marks: %v", len(verdicts), verdicts)
	}
}
