package etcdmember

import (
	"testing"

	"github.com/holdfast/holdfast/internal/state"
)

// sentence is a statement about the protocol, and a host about which it says
// something.
type sentence struct {
	sentence string
	snapshot state.EtcdSnapshot
	action   state.EtcdAction
	rule     string
}

func prove(t *testing.T, sentences []sentence) {
	t.Helper()
	for _, c := range sentences {
		t.Run(c.sentence, func(t *testing.T) {
			got := Decide(c.snapshot)
			if got.Action != c.action || got.Rule != c.rule {
				t.Errorf("%s (%s): %s\nevidence: %q\nwant %s (%s)", got.Action, got.Rule, got.Reason, got.Evidence, c.action, c.rule)
			}
		})
	}
}
