package install

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sink is a server that fails while fail is set.
type sink struct {
	got  []string
	fail atomic.Bool
}

func (s *sink) send(_ context.Context, data []byte) error {
	if s.fail.Load() {
		return errors.New("no answer")
	}
	s.got = append(s.got, string(data))
	return nil
}

func (s *sink) want(t *testing.T, what string, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, s.got); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
	s.got = nil
}

func TestAReporterSendsTheNewestStateAndRepeatsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		r := newReporter(s.send)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.run(ctx)

		time.Sleep(2 * reportAgain)
		s.want(t, "before the first state")
		r.publish([]byte("one"))
		s.want(t, "a new state is sent at once", "one")
		time.Sleep(reportAgain + time.Second)
		s.want(t, "an unchanged state is sent again", "one")

		s.fail.Store(true)
		r.publish([]byte("two"))
		synctest.Wait()
		r.publish([]byte("three"))
		synctest.Wait()
		s.fail.Store(false)
		time.Sleep(retryAfter + time.Second)
		s.want(t, "after a failure only the newest counts", "three")
	})
}

func TestPublishingNeverWaitsForTheServer(t *testing.T) {
	r := newReporter(func(context.Context, []byte) error { return nil })
	for _, state := range []string{"one", "two", "three"} { // nobody reads
		r.publish([]byte(state))
	}
	if got := string(<-r.latest); got != "three" {
		t.Errorf("got %s", got)
	}
}

func TestTheLastStateIsTriedForAWhileOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		r := newReporter(s.send)
		s.fail.Store(true)
		time.AfterFunc(10*time.Second, func() { s.fail.Store(false) })
		r.flush(t.Context(), []byte("complete"))
		s.want(t, "when the server is back", "complete")

		s.fail.Store(true)
		start := time.Now()
		r.flush(t.Context(), []byte("complete"))
		if took := time.Since(start); took != reportLast {
			t.Errorf("gave up after %s", took)
		}
	})
}
