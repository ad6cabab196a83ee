package incident

import (
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// walked reads the records of a scenario whose clocks agree.
func walked(t *testing.T, text string) *walker {
	t.Helper()
	w := &walker{hosts: map[string]*host{}}
	for _, r := range scenario(t, text) {
		w.take(event{r, r.At})
	}
	return w
}

// TestAHostWithoutItsDataIsBackWhenItsRecordSaysThatItJoins: its peer saw it all the
// time, so no membership shows it.
func TestAHostWithoutItsDataIsBackWhenItsRecordSaysThatItJoins(t *testing.T) {
	const lost = paired + "0 cp-2 record 5 departing equal.lost-copy-yield: the data directory of this host is lost\n"
	if !walked(t, lost).isLost("cp-2") {
		t.Fatal("it is not lost")
	}
	for s, back := range map[state.EtcdState]bool{
		state.EtcdLearner: true, state.EtcdVoter: true, state.EtcdPair: true, state.EtcdWidening: true, state.EtcdMajority: true,
		state.EtcdNone: false, state.EtcdDeparting: false, state.EtcdTakingOver: false, state.EtcdSole: false,
	} {
		w := walked(t, lost+"4 cp-2 record 6 "+string(s)+" some-rule: a reason\n")
		if w.isLost("cp-2") == back {
			t.Errorf("its record says %s: lost is %t", s, w.isLost("cp-2"))
		}
	}
	if w := walked(t, paired+takeOver+"28 cp-2 record 5 learner follow.accept: joins\n"); !w.isLost("cp-2") {
		t.Error("a host whose power was lost is back when it is seen, not by its record")
	}
}

func TestAHostThatNeverHadAPeerHasLostNone(t *testing.T) {
	for rule, lost := range map[string]bool{state.EtcdRuleFirst: false, "take-over.sole": true} {
		w := walked(t, "0 cp-1 record 1 sole "+rule+": a reason\n")
		if got := w.open != nil; got != lost {
			t.Errorf("%s: an incident is open: %t", rule, got)
		}
	}
}

// TestHowManyFailuresHostsMakeThatGoTogether counts the failures of the first
// incident, and the hosts of its first failure.
func TestHowManyFailuresHostsMakeThatGoTogether(t *testing.T) {
	const stops = paired + "0 cp-2 wish stopped\n"
	const again = "cp-1 cp-2, ring 18\n"
	for rule, c := range map[string]struct {
		text            string
		failures, hosts int
	}{
		"one that stops is one failure":                           {stops, 1, 1},
		"it is wanted stopped once more: the same":                {stops + "3 cp-2 wish stopped\n", 1, 1},
		"two that stop within minutes stop together":              {stops + "299 cp-1 wish stopped\n", 1, 2},
		"at the limit they still do":                              {stops + "300 cp-1 wish stopped\n", 1, 2},
		"after it, the second is another failure":                 {stops + "301 cp-1 wish stopped\n", 2, 1},
		"a membership does not bring back what is wanted stopped": {stops + "1 cp-1 sees " + again + "2 cp-1 wish stopped\n", 1, 2},
		"once it is wanted again and seen, the next is another": {
			stops + "1 cp-2 wish started\n2 cp-1 wish stopped\n", 2, 1,
		},
		"two that boot within minutes boot together":        {paired + "300 cp-1 boots\n400 cp-2 boots\n", 1, 2},
		"one that boots and one that stops are two":         {paired + "300 cp-1 boots\n400 cp-2 wish stopped\n", 2, 1},
		"after they met, the next that boots is another":    {paired + "300 cp-1 boots\n310 cp-1 sees " + again + "320 cp-2 boots\n", 2, 1},
		"a host that boots after its fence is that failure": {paired + takeOver + "20 cp-2 boots\n", 1, 1},
	} {
		g := walked(t, c.text).groups
		if len(g) != 1 || len(g[0].failures) != c.failures || len(g[0].failures[0].hosts) != c.hosts {
			t.Errorf("%s: %d incidents, %d failures, %v", rule, len(g), len(g[0].failures), g[0].failures[0].hosts)
		}
	}
}
