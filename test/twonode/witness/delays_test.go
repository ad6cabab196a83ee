package witness

import (
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestADelayIsFromWhatTheHostLoggedToWhatTheAPIShowed(t *testing.T) {
	r := recording("cp-1", "cp-2", 0)
	alone := state.MembershipEvent(state.Known(state.Membership{Members: []string{"cp-1"}, Ring: 14, Quorate: true}))
	pair := state.RecordEvent(state.EtcdRecord{State: state.EtcdPair}, state.EtcdVerdict{})
	journal := []Line{
		{At: at(-5), Host: "cp-1", Message: "Members[1]: an earlier time"}, // from an earlier loss
		{At: at(1.8), Host: "cp-1", Message: "[QUORUM] Members[1]: 1"},
		{At: at(1.9), Host: "cp-1", Event: alone},
		{At: at(19.5), Host: "cp-1", Message: "notice: Node cp-2 state is now member"},
		{At: at(23.1), Host: "cp-1", Event: pair},
		{At: at(23.4), Host: "cp-2", Event: pair},
		{At: at(30), Host: "cp-2", Event: pair}, // later
	}
	got := map[string]Delay{}
	for _, d := range Delays(r.Versions, journal, []string{"cp-1", "cp-2"}, [][2]time.Time{{at(0.5), at(3.5)}}) {
		got[d.Subject+" "+d.Value] = d
	}
	for what, want := range map[string]struct{ event, long float64 }{
		"node cp-2: Online False Offline":   {1.8, 0.5}, // the API could not be written before 3.5
		"cluster: Redundant False PeerLost": {1.9, 0.5},
		"node cp-2: Online True Online":     {19.5, 0.5},
		"cluster: Redundant True Redundant": {23.4, 0.6},
	} {
		d, there := got[what]
		if !there || !d.Event.Equal(at(want.event)) || (d.Long()-at(want.long).Sub(start)).Abs() > time.Millisecond {
			t.Errorf("%s: %+v, which is %s", what, d, d.Long())
		}
	}
	if len(got) != 4 {
		t.Errorf("%d delays: %v", len(got), got)
	}
	if len(Delays(r.Versions, nil, []string{"cp-1", "cp-2"}, nil)) != 0 {
		t.Error("a delay without a cause")
	}
}

func TestTheCostOfAnAgentIsThatOfEachOfItsBoots(t *testing.T) {
	costs := []Cost{
		{at(-20), "cp-1", "/proc/1/root", 10 * time.Second}, // before
		{at(0), "cp-1", "/proc/1/root", 11 * time.Second},
		{at(5), "cp-1", "/proc/1/root", 12 * time.Second},
		{at(8), "cp-1", "/proc/2/root", 500 * time.Millisecond}, // it has booted
		{at(10), "cp-1", "/proc/2/root", 1500 * time.Millisecond},
		{at(2), "cp-2", "/proc/3/root", 3 * time.Second},
	}
	if used, ok := usage("usage_usec 1500\nuser_usec 1000\n"); !ok || used != 1500*time.Microsecond {
		t.Errorf("%s, %v", used, ok)
	}
	got := Spent(costs, at(0), at(10))
	if got["cp-1"] != 200 || got["cp-2"] != 0 {
		t.Errorf("%v", got)
	}
}

func TestEventsAreReadAndWhatIsNonePassedOver(t *testing.T) {
	got := Events("cp-1", []byte(`{"at":"2026-11-20T09:00:01.8Z","kind":"record","state":"pair"}
{}
{"at":"2026-11-20T09:00:02Z","ki`))
	if len(got) != 1 || got[0].Host != "cp-1" || got[0].Event.State != state.EtcdPair || !got[0].At.Equal(got[0].Event.At) {
		t.Errorf("%+v", got)
	}
}

func TestTheJournalIsReadAndWhatIsNoTextIsPassedOver(t *testing.T) {
	got := Journal("cp-1", []byte(`{"__REALTIME_TIMESTAMP":"1795510801800000","MESSAGE":"Members[1]: 1"}
{"__REALTIME_TIMESTAMP":"1795510801900000","MESSAGE":[255]}
torn`))
	if len(got) != 1 || got[0].Host != "cp-1" || got[0].Message != "Members[1]: 1" || !got[0].At.Equal(time.UnixMicro(1795510801800000)) {
		t.Errorf("%+v", got)
	}
}
