package incident

import (
	"testing"
	"time"
)

// TestOnlyAProofMakesTheOtherOneTheLostHost: who was lost first may have gone on alone,
// by a fence that it proved. What a person says of it is no such proof.
func TestOnlyAProofMakesTheOtherOneTheLostHost(t *testing.T) {
	const cut = lost + "1.9 cp-2 sees cp-2, ring 14\n"
	for rule, c := range map[string]struct{ text, lost string }{
		"a proven fence":                          {"3 cp-2 off cp-1\n", "cp-1"},
		"a fence that failed":                     {"3 cp-2 not-off cp-1\n", "cp-2"},
		"a person confirms":                       {"3 cp-2 person ops cp-1 I see it\n", "cp-2"},
		"a person forces":                         {"3 cp-2 person-forces ops cp-1 I see it\n", "cp-2"},
		"the survivor's proof of what was known":  {"3 cp-1 off cp-2\n", "cp-2"},
		"a proof after a person":                  {"3 cp-2 person-forces ops cp-1 I see it\n4 cp-2 off cp-1\n", "cp-1"},
		"each proves it of the other: the latter": {"3 cp-2 off cp-1\n4 cp-1 off cp-2\n", "cp-2"},
	} {
		f := Assemble(scenario(t, cut+c.text))[0].Failures[0]
		if len(f.Hosts) != 1 || f.Hosts[0] != c.lost || f.By == c.lost {
			t.Errorf("%s: %v is lost, %s went on", rule, f.Hosts, f.By)
		}
	}
}

// TestWhoseMeasurementCounts: a host that was away measures its own way back. One that
// ran all the time is a client as any other.
func TestWhoseMeasurementCounts(t *testing.T) {
	const wrote = "9 cp-1 wrote cp-2 7s\n"
	for rule, c := range map[string]struct {
		text   string
		counts bool
	}{
		"it lost its power":               {lost + "5 cp-2 boots\n" + wrote, false},
		"it was cut off":                  {lost + "1.9 cp-2 sees cp-2, ring 14\n" + wrote, false},
		"nobody knows":                    {lost + wrote, false},
		"it booted":                       {paired + "5 cp-2 boots\n" + wrote, false},
		"both booted":                     {paired + "5 cp-2 boots\n6 cp-1 boots\n" + wrote, false},
		"its etcd was stopped in order":   {paired + "0 cp-2 wish stopped\n" + wrote, true},
		"it lost its data directory":      {paired + "0 cp-2 record 5 departing equal.lost-copy-yield: lost\n" + wrote, true},
		"its etcd waited for a person":    {paired + "0 cp-2 rule equal.no-record ask-human: why\n" + wrote, true},
		"it ended before the failure was": {paired + "-1 cp-1 wrote cp-2 7s\n0 cp-2 wish stopped\n", false},
	} {
		m := phase(t, c.text, 0, PhaseClients)
		if m.At.IsZero() == c.counts || c.counts && m.Host != "cp-2" {
			t.Errorf("%s: %+v", rule, m)
		}
	}
}

// TestABootHasTheClockOfItsLastRecord: a clock that is set back makes earlier records
// look later, and it is right at the end. The order in which records are read tells
// nothing.
func TestABootHasTheClockOfItsLastRecord(t *testing.T) {
	records := []Record{at("cp-1", "a", 7200, 10), at("cp-1", "a", 20, 20), at("cp-1", "a", 30, 30), at("cp-1", "a", 7215, 15)}
	for n := range records {
		turned := append(append([]Record{}, records[n:]...), records[:n]...)
		c := read(turned)
		for _, r := range turned {
			if want := began.Add(r.Up); !c.at(r).Equal(want) {
				t.Errorf("from the %d. record: %s of uptime are at %s, want %s", n, r.Up, c.at(r), want)
			}
		}
		if b := (boot{"cp-1", "a"}); c.latest[b] != 30*time.Second || c.moved[b] != 2*time.Hour {
			t.Errorf("from the %d. record: the last is at %s, moved by %s", n, c.latest[b], c.moved[b])
		}
	}
}
