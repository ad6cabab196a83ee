package pace

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTroubleIsToldOnceAMinuteAndWhenItIsOver(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var said []string
	trouble := Trouble{Logf: func(f string, a ...any) { said = append(said, fmt.Sprintf(f, a...)) }, Now: func() time.Time { return now }}
	trouble.Hear(nil)
	for i := range 65 { // one error per second, each with another text
		trouble.Hear(fmt.Errorf("attempt %d", i))
		now = now.Add(time.Second)
	}
	trouble.Hear(context.Canceled)
	trouble.Hear(nil)
	trouble.Hear(nil)
	trouble.Hear(errors.New("again"))
	want := []string{"attempt 0", "still failing after 1m0s: attempt 60", "works again, after 1m5s", "again"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestABurstOfEventsIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		began := time.Now()
		wake <- struct{}{}
		go func() {
			time.Sleep(50 * time.Millisecond)
			wake <- struct{}{}
		}()
		if !Wait(t.Context(), wake, time.Hour, 100*time.Millisecond) || time.Since(began) != 100*time.Millisecond {
			t.Errorf("waited %s", time.Since(began))
		}
		if !Wait(t.Context(), wake, time.Second, 0) || time.Since(began) != 1100*time.Millisecond {
			t.Errorf("the event of the burst came again, after %s", time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if Wait(ctx, wake, time.Hour, 0) {
			t.Error("goes on")
		}
	})
}
