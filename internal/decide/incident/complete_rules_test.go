package incident

import (
	"strings"
	"testing"
)

// TestAReportIsCompleteOnceBothHaveTold: while the records of one are missing, they may
// yet show that more happened.
func TestAReportIsCompleteOnceBothHaveTold(t *testing.T) {
	const trouble = paired + "0 cp-1 rule equal.no-record ask-human: why\n9 cp-1 rule equal.idle idle: well\n"
	const cut = paired + "0 cp-1 sees cp-1, ring 14\n1 cp-1 rule alone.wait ask-human: why\n9 cp-1 sees cp-1 cp-2, ring 18\n9.1 cp-1 rule equal.idle idle: well\n"
	for rule, c := range map[string]struct {
		text     string
		complete bool
	}{
		"a trouble that the other one says nothing of":       {trouble, false},
		"nor has it since the trouble began":                 {"-1 cp-2 api ready\n" + trouble, false},
		"it has":                                             {strings.Replace(trouble, "9 cp-1", "8 cp-2 api ready\n9 cp-1", 1), true},
		"a cut, and nothing of the other one since they met": {cut, false},
		"it told before they met":                            {strings.Replace(cut, "9 cp-1", "8 cp-2 api ready\n9 cp-1", 1), false},
		"it told when they met":                              {strings.Replace(cut, "9.1", "9 cp-2 sees cp-1 cp-2, ring 18\n9.1", 1), true},
		"nobody knows what one was before": {strings.Replace(strings.Replace(cut, "9.1", "9 cp-2 sees cp-1 cp-2, ring 18\n9.1 cp-2 record 5 pair equal.pair: whole\n9.1", 1),
			"-3490 cp-2 record 4 pair equal.pair-first: both are marked voters\n", "", 1), false},
	} {
		list := Assemble(scenario(t, c.text))
		if len(list) != 1 || list[0].State != Over || list[0].Complete != c.complete {
			t.Errorf("%s: %d incidents, %s, complete %t", rule, len(list), list[0].State, list[0].Complete)
		}
	}
}

// TestWhatTheOtherOneTellsLaterIsNotLost: this host had a trouble that was over, and
// its peer told only then that its data directory is lost.
func TestWhatTheOtherOneTellsLaterIsNotLost(t *testing.T) {
	const first = paired + "0 cp-1 rule equal.no-record ask-human: why\n9 cp-1 rule equal.idle idle: well\n"
	early := Reports(scenario(t, first))
	late := Reports(scenario(t, first+"8 cp-2 record 5 departing equal.lost-copy-yield: lost\n10 cp-1 record 5 sole take-over.sole: alone\n"), early)
	if len(late) != 1 || late[0].State != UnderWay || len(late[0].Failures) != 2 {
		t.Errorf("%v", titles(late))
	}
}
