package dualstack

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast/holdfast/internal/decide/replace"
)

// objects is an API with a Node and the lock.
type objects struct {
	API
	node  *corev1.Node
	lock  map[string]string
	fails error
}

func (o objects) Node(context.Context, string) (*corev1.Node, error) { return o.node, o.fails }

func (o objects) ConfigMap(context.Context, string, string) (map[string]string, error) {
	return o.lock, o.fails
}

// TestTheCopyOfANodeIsNeededWhileItsNodeIsGone, or was made again by its host.
func TestTheCopyOfANodeIsNeededWhileItsNodeIsGone(t *testing.T) {
	node := func(uid string, deleted bool, shares ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w-1", UID: types.UID(uid)}, Spec: corev1.NodeSpec{PodCIDRs: shares}}
		if deleted {
			n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		return n
	}
	for sentence, c := range map[string]struct {
		now   *corev1.Node
		fails error
		want  bool
	}{
		"it is as it was kept":       {node("u1", false, "10.128.2.0/23"), nil, true},
		"it has both shares":         {node("u2", false, "10.128.2.0/23", "fd44::/64"), nil, true},
		"its host made it again":     {node("u2", false, "10.128.2.0/23"), nil, false},
		"it is being deleted":        {node("u1", true, "10.128.2.0/23"), nil, false},
		"it is gone":                 {nil, nil, false},
		"the API does not answer":    {nil, errors.New("no route"), false},
		"the API answers and breaks": {node("u1", false, "10.128.2.0/23"), errors.New("no route"), false},
	} {
		got, err := Carrier{API: objects{node: c.now, fails: c.fails}}.Stands(t.Context(), node("u1", false, "10.128.2.0/23"))
		if got != c.want || (err != nil) != (c.fails != nil) {
			t.Errorf("%s: %v, %v", sentence, got, err)
		}
	}
}

func TestTheCarrierKnowsWhichOtherPlanHasTheLock(t *testing.T) {
	for id, want := range map[string]string{"": "", "p": "", "q": "the plan q of ada replaces cp-2"} {
		lock := map[string]string{replace.LockKey: id, replace.LockWords: "the plan q of ada replaces cp-2"}
		if id == "" {
			lock = nil
		}
		if got, err := (Carrier{API: objects{lock: lock}}).Others(t.Context(), plan()); got != want || err != nil {
			t.Errorf("%q: %q, %v", id, got, err)
		}
	}
}
