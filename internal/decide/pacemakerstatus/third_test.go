package pacemakerstatus

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAPairIsRedundantWhileAThirdHostComes: its learner says nothing against the two, and once it votes
// any one of the three may be lost. In between no host takes over.
func TestAPairIsRedundantWhileAThirdHostComes(t *testing.T) {
	comes := func(s *state.EtcdSnapshot, m state.EtcdMember) {
		s.Local.Members.Value = append(s.Local.Members.Value, m)
		s.Third = state.EtcdThird{Coming: true, Word: state.Known(state.EtcdThirdWord{Plan: "p1", Host: "cp-3", Member: m.ID})}
	}
	records := func(s *state.EtcdSnapshot, st state.EtcdState) { s.Record.Value.State, s.Record.Value.Third = st, 7 }
	for sentence, c := range map[string]struct {
		change func(*state.EtcdSnapshot)
		want   metav1.ConditionStatus
	}{
		"it learns":                    {func(s *state.EtcdSnapshot) { comes(s, state.EtcdMember{ID: 7, Name: "cp-3", Learner: true}) }, metav1.ConditionTrue},
		"it was added and not started": {func(s *state.EtcdSnapshot) { comes(s, state.EtcdMember{ID: 7, Learner: true}) }, metav1.ConditionTrue},
		"nobody takes over": {func(s *state.EtcdSnapshot) {
			comes(s, state.EtcdMember{ID: 7, Name: "cp-3", Learner: true})
			records(s, state.EtcdMajority)
		}, metav1.ConditionFalse},
		"it votes, and this host does not know that nobody takes over": {func(s *state.EtcdSnapshot) {
			comes(s, state.EtcdMember{ID: 7, Name: "cp-3"})
			records(s, state.EtcdWidening)
		}, metav1.ConditionFalse},
		"three vote": {func(s *state.EtcdSnapshot) {
			comes(s, state.EtcdMember{ID: 7, Name: "cp-3"})
			records(s, state.EtcdMajority)
		}, metav1.ConditionTrue},
		"a learner that nobody brings": {func(s *state.EtcdSnapshot) {
			s.Local.Members.Value = append(s.Local.Members.Value, state.EtcdMember{ID: 7, Name: "cp-3", Learner: true})
		}, metav1.ConditionFalse},
	} {
		in := input(t, "healthy")
		in.Etcd = report(c.change)
		if got := Find(Status(in).Conditions, Redundant); got.Status != c.want {
			t.Errorf("%s: %s, %s", sentence, got.Status, got.Message)
		}
	}
}
