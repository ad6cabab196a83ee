package leafcert

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/leafcert"
)

const day = 24 * time.Hour

// docs/facts/life.md#certificates, L-C8 and L-C11: all is renewed by a clock that is two
// years ahead for an hour.
func TestWhatWasRenewedByAClockThatWasAheadServesAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newControlPlane(t, identity(t), nil, "cp-1", 1, leafcert.Life)
		ahead := 2 * leafcert.Life
		h.Now = func() time.Time { return time.Now().Add(ahead) }
		stop := run(t.Context(), h)
		time.Sleep(time.Hour)
		stop()
		renewed := h.renewed.all()
		if len(renewed) != len(h.leaves()) {
			t.Fatalf("renewed %v", renewed)
		}
		ahead = 0
		h.valid()
		stop = run(t.Context(), h)
		time.Sleep(time.Hour)
		stop()
		if diff := cmp.Diff(renewed, h.renewed.all()); diff != "" {
			t.Errorf("renewed once more: %s", diff)
		}
		time.Sleep(leafcert.Life * 11 / 4) // they end a quarter of a year later
		if _, err := h.step(t.Context()); err != nil {
			t.Error(err)
		}
		for _, l := range h.leaves() {
			if c, _ := h.present(l); time.Until(c.NotAfter) < leafcert.Life-day {
				t.Errorf("%s ends at %s", l.Path, c.NotAfter)
			}
		}
	})
}

// docs/facts/life.md#certificates, L-C37: the timers of a machine stand still while it is
// suspended.
func TestTheWallClockCountsAfterASuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asleep atomic.Int64
		h := newControlPlane(t, identity(t), nil, "cp-1", 1, leafcert.Life)
		h.Now = func() time.Time { return time.Now().Add(time.Duration(asleep.Load())) }
		defer run(t.Context(), h)()
		time.Sleep(time.Hour)
		if got := h.renewed.all(); len(got) != 0 {
			t.Fatalf("renewed before its time: %v", got)
		}
		asleep.Store(int64(400 * day))
		time.Sleep(2 * every)
		for _, l := range h.leaves() {
			if c, _ := h.present(l); !c.NotAfter.After(h.Now()) {
				t.Errorf("%s ended at %s, and it is %s", l.Path, c.NotAfter, h.Now())
			}
		}
	})
}

// docs/facts/life.md#certificates, L-C42.
func TestAnAgentThatStartsAgainAndAgainRenewsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newControlPlane(t, identity(t), nil, "cp-1", 1, time.Hour)
		time.Sleep(45 * time.Minute)
		total := 0
		for range 20 {
			fresh := New(h.Options)
			fresh.end = h.endPod
			if _, err := fresh.step(t.Context()); err != nil {
				t.Fatal(err)
			}
			total += len(fresh.renewed.all())
		}
		if total != len(h.leaves()) || h.restarts[leafcert.Scheduler] != 1 {
			t.Errorf("%d renewals of %d files, the scheduler was restarted %d times", total, len(h.leaves()), h.restarts[leafcert.Scheduler])
		}
	})
}
