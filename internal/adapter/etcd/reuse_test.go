package etcd

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

// docs/facts/loss.md#hard-cases-of-loss, L16: etcd makes the id of a member from its URL and the
// second. It refuses an id that it has removed, so whoever adds the same host at once is refused
// until the second is over, and no member ever comes back under an id that cannot start.
func TestL16AMemberThatIsAddedAtOnceAfterItsRemovalGetsAnotherId(t *testing.T) {
	n, _ := founded(t, newAuthority(t, t.TempDir()))
	other := newNode(t, "beta", n.authority)
	removed := map[state.MemberID]bool{}
	for range 4 {
		var id state.MemberID
		eventually(t, "add", func(ctx context.Context) (err error) {
			if id, err = n.etcd.AddLearner(ctx, other.peerURL()); err == nil && removed[id] {
				return errors.New("etcd gave an id that it has removed")
			}
			return err
		})
		l, err := n.etcd.Status(t.Context())
		must(t, err)
		if m, listed := find(l, id); !listed || !m.Learner || len(l.Members) != 2 {
			t.Fatalf("member %s is not listed as the learner that it is: %+v", id, l.Members)
		}
		must(t, n.etcd.RemoveMember(t.Context(), id))
		removed[id] = true
	}
	if len(removed) != 4 {
		t.Errorf("%d ids for 4 members: %v", len(removed), removed)
	}
}
