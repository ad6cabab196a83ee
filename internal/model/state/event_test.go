package state

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestAnEventIsReadBackAsItWasWritten(t *testing.T) {
	verdict := EtcdVerdict{Action: EtcdWriteRecord, Rule: "take-over.announce", Reason: "the peer cannot act"}
	for _, e := range []Event{
		MembershipEvent(Known(Membership{Ring: 20, Members: []string{"cp-1", "cp-2"}, Quorate: true})),
		MembershipEvent(Fact[Membership]{}),
		DecisionEvent(verdict),
		RecordEvent(EtcdRecord{State: EtcdTakingOver, Seq: 5}, verdict),
		WishEvent(EtcdStopped),
		AskFenceEvent("cp-2"),
		RestartEvent("it answers nothing"),
		TaintEvent("cp-2", true, "the host was fenced"),
		TaintEvent("cp-2", false, "the node is back"),
		{Kind: EventMissed, Count: 3},
	} {
		e.Boot, e.Up, e.At = "b-7", 90*time.Second, time.Date(2026, 11, 20, 9, 0, 1, 800, time.UTC)
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back Event
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, e) || !reflect.DeepEqual(e.Bounded(), e) {
			t.Errorf("%s is read as %+v, %v", text, back, err)
		}
	}
}

// TestNoEventIsLongerThanItsBound tries the worst text: each byte of it takes
// six in JSON.
func TestNoEventIsLongerThanItsBound(t *testing.T) {
	long := strings.Repeat("\x01ä", 5000)
	e := Event{Boot: long, Kind: EventKind(long), Rule: long, Action: EtcdAction(long), State: EtcdState(long), Wish: EtcdWish(long), Target: long, Why: long}
	for range 1000 {
		e.Members = append(e.Members, long)
	}
	b := e.Bounded()
	text, err := json.Marshal(b)
	if err != nil || len(text) > 32<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if len(b.Why) > maxEventText || !strings.HasSuffix(b.Why, "ä ...") && !strings.HasSuffix(b.Why, "\x01 ...") {
		t.Errorf("%d bytes: %q", len(b.Why), b.Why[len(b.Why)-8:])
	}
	if !reflect.DeepEqual(b.Bounded(), b) {
		t.Error("what is within its bounds is changed")
	}
}
