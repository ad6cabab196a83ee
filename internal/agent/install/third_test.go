package install

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/install/configserver"
)

// thirdRun plays a host that asks at the door.
type thirdRun struct {
	third
	did    []string
	answer configserver.Entry
	fails  error
	given  bool
	voted  bool
	clock  time.Time
}

func newThirdRun() *thirdRun {
	r := &thirdRun{clock: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}
	r.third = third{
		enter:   func(context.Context) (configserver.Entry, error) { return r.answer, r.fails },
		prepare: func(context.Context) error { r.did = append(r.did, "prepare"); return nil },
		give: func(_ context.Context, pod []byte) error {
			r.did = append(r.did, "give "+string(pod))
			r.given = true
			return nil
		},
		has: func() (bool, error) { return r.given, nil }, votes: func(context.Context) bool { return r.voted }, now: func() time.Time { return r.clock },
	}
	return r
}

func (r *thirdRun) steps(t *testing.T, n int) (done bool, waiting string) {
	t.Helper()
	for range n {
		var err error
		if done, waiting, err = r.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return done, waiting
}

func TestAControlPlaneOfAnInstallationNeedsNoPlan(t *testing.T) {
	r := newThirdRun()
	if done, _ := r.steps(t, 1); !done || r.needed || len(r.did) > 0 {
		t.Errorf("%t, needed %t, %q", done, r.needed, r.did)
	}
}

func TestAThirdHostPreparesOnceStartsEtcdByThePlanAndEndsWithItsVote(t *testing.T) {
	r := newThirdRun()
	r.answer = configserver.Entry{Needed: true, Waits: "etcd lists cp-3 as a learner"}
	if done, waiting := r.steps(t, 5); done || waiting != "etcd lists cp-3 as a learner" || !slices.Equal(r.did, []string{"prepare"}) {
		t.Errorf("%t, %q, %q", done, waiting, r.did)
	}
	r.clock = r.clock.Add(prepareAnew + time.Second) // its token has ended
	r.steps(t, 2)
	r.answer.Pod = []byte("pod")
	if done, _ := r.steps(t, 3); done || !slices.Equal(r.did, []string{"prepare", "prepare", "give pod"}) {
		t.Errorf("%t, %q", done, r.did)
	}
	r.fails = errors.New("the plan for cp-3 is taken back")
	if done, waiting := r.steps(t, 1); done || waiting != "etcd of this host waits for its vote (the plan for cp-3 is taken back)" {
		t.Errorf("%t, %q", done, waiting)
	}
	r.voted = true
	if done, _ := r.steps(t, 1); !done || !r.needed {
		t.Errorf("%t, needed %t", done, r.needed)
	}
	// It was cut off after etcd had started, and the server is away.
	again := newThirdRun()
	again.given, again.voted, again.fails = true, true, errors.New("no route")
	if done, _ := again.steps(t, 1); !done || !again.needed || len(again.did) > 0 {
		t.Errorf("after a cut: %t, needed %t, %q", done, again.needed, again.did)
	}
}

func TestAThirdHostThatIsRefusedBeginsNothing(t *testing.T) {
	r := newThirdRun()
	r.fails = errors.New("refused")
	if done, _, err := r.step(t.Context()); done || err == nil || len(r.did) > 0 {
		t.Errorf("%t, %v, %q", done, err, r.did)
	}
}

// TestAnInstallationNamesItselfOnce: a boot keeps the text, and a new disk has another one.
func TestAnInstallationNamesItselfOnce(t *testing.T) {
	root := t.TempDir()
	first, err := ownInstallation(root)
	again, unread := ownInstallation(root)
	anew, failed := ownInstallation(t.TempDir())
	if err := errors.Join(err, unread, failed); err != nil || first == "" || again != first || anew == first {
		t.Errorf("%q, again %q, anew %q: %v", first, again, anew, err)
	}
}
