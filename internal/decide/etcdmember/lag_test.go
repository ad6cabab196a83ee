package etcdmember

import "testing"

// docs/facts/loss.md#hard-cases-of-loss, L87: a host that is slower than the others becomes a
// voter only once it lacks next to nothing.
func TestL87ALearnerVotesOnceItLacksNextToNothing(t *testing.T) {
	for what, c := range map[string]struct {
		leader, learner uint64
		want            bool
	}{
		"it has all":                            {10_000_000, 10_000_000, true},
		"it has answered later than the leader": {10_000_000, 10_000_007, true},
		"a second of writes behind":             {10_000_500, 10_000_000, true},
		"as far behind as it may be":            {10_000_000 + MostBehind, 10_000_000, true},
		"one entry more":                        {10_000_001 + MostBehind, 10_000_000, false},
		"nine tenths, which is enough for etcd": {10_000_000, 9_000_000, false},
		"an etcd that is new":                   {12, 5, true},
		"a learner that has nothing yet":        {10_000_000, 0, false},
		"nothing yet, of an etcd that is new":   {12, 0, false},
	} {
		if got := MayVote(c.leader, c.learner); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
