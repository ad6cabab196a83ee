package incident

import (
	"strings"
	"testing"
	"time"
)

// TestAnAgentThatStartsMinutesAfterItsHostIsNoWrongClock: a release that does not start its agent
// leaves a host in Corosync's membership for minutes, until the former release is back and notes it.
// That host's clock is right, and its entries are not moved.
func TestAnAgentThatStartsMinutesAfterItsHostIsNoWrongClock(t *testing.T) {
	const late = paired + `
0 cp-2 wish stopped
2.1 cp-2 record 5 departing leave.depart: this host leaves, the peer stays
2.2 cp-1 record 5 sole equal.peer-departs: the peer leaves
6 cp-1 sees cp-1, ring 14
20 cp-2 boots
27 cp-1 sees cp-1 cp-2, ring 18
500 cp-2 sees cp-1 cp-2, ring 18
501 cp-2 record 7 voter follow.promoted: a voter
502 cp-1 record 7 pair lead.pair: the peer holds everything
503 cp-2 record 8 pair equal.pair: this host holds everything
504 cp-1 rule equal.idle idle: all is as it should be
504 cp-2 rule equal.idle idle: all is as it should be
`
	c := read(scenario(t, late))
	for b, d := range c.ahead {
		if d != 0 {
			t.Errorf("the clock of %s is %s ahead in boot %q", b.host, d, b.id)
		}
	}
	list := Assemble(scenario(t, late))
	if len(list) != 1 || strings.Contains(list[0].Words(), "the clock of cp-2") {
		t.Fatalf("%d incidents: %s", len(list), list[0].Words())
	}
	if long := list[0].Long(); long < 500*time.Second || long > 510*time.Second {
		t.Errorf("it lasted %s", long)
	}
}

// TestAClockThatIsAheadIsStillSeen where the agent starts as usual, and where the beginning of the
// boot is not known.
func TestAClockThatIsAheadIsStillSeen(t *testing.T) {
	meets := func(host, boot string, clock, up float64) Record {
		r := at(host, boot, clock, up)
		r.Kind, r.Members, r.Ring = Members, []string{"cp-1", "cp-2"}, 18
		return r
	}
	boots := at("cp-2", "b", -15, 0.001)
	boots.Kind = Booted
	for what, c := range map[string]struct {
		records []Record
		want    time.Duration
	}{
		"the agent starts as usual":            {[]Record{boots, meets("cp-1", "a", 0, 900), meets("cp-2", "b", 30, 45)}, 30 * time.Second},
		"it starts minutes later":              {[]Record{boots, meets("cp-1", "a", 0, 900), meets("cp-2", "b", 400, 415)}, 0},
		"by more than its boot lasts":          {[]Record{boots, meets("cp-1", "a", 0, 900), meets("cp-2", "b", 1000, 200)}, 1000 * time.Second},
		"the beginning of the boot is unknown": {[]Record{meets("cp-1", "a", 0, 90000), meets("cp-2", "b", 400, 90400)}, 400 * time.Second},
	} {
		if got := read(c.records).ahead[boot{"cp-2", "b"}]; got != c.want {
			t.Errorf("%s: ahead by %s, want %s", what, got, c.want)
		}
	}
}
