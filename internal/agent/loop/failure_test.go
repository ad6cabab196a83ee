package loop

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAFailureIsToldOnceEachMinuteAndWhenItIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := steps{broken: errors.New("no disk")}
		r := start(t, Task{Name: "a", Step: s.step, Every: time.Second})
		time.Sleep(65500 * ms)
		if st := r.state(); st.Error != "no disk" || st.Failures != 66 || time.Since(st.FailingSince) != 65500*ms {
			t.Errorf("%+v", st)
		}
		s.become(Result{Changed: "mended it"}, nil)
		time.Sleep(time.Second)
		s.become(Result{}, nil)
		time.Sleep(time.Second)
		if st := r.state(); st.Error != "" || st.Failures != 0 || st.Changed != "mended it" || time.Since(st.ChangedAt) != 1500*ms {
			t.Errorf("%+v", st)
		}
		for text, times := range map[string]int{"msg=fails loop=a": 1, `msg="still fails" loop=a for=1m0s`: 1, `msg="works again" loop=a after=1m6s`: 1, `msg="mended it" loop=a`: 1} {
			if r.said(text) != times {
				t.Errorf("%q %d times in\n%s", text, r.said(text), r.log.String())
			}
		}
		r.end()
	})
}

func TestWhatIsNotSetUpYetIsNoFailure(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		early := errors.New("no account")
		s := steps{broken: early}
		r := start(t, Task{Name: "a", Step: s.step, Every: time.Minute, Retry: time.Second, NotYet: func(err error) bool { return errors.Is(err, early) }})
		time.Sleep(2500 * ms)
		s.ran(t, 0, time.Second, 2*time.Second)
		if st := r.state(); st.Error != "" || r.log.Len() != 0 {
			t.Errorf("%+v, %s", st, r.log.String())
		}
		r.end()
	})
}

func TestARunIsEndedAtItsLimitAndHasFailed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, Task{Name: "a", Every: time.Hour, Limit: time.Minute, Step: func(ctx context.Context) (Result, error) {
			<-ctx.Done()
			return Result{}, context.Cause(ctx)
		}})
		time.Sleep(61 * time.Second)
		if st := r.state(); !strings.HasPrefix(st.Error, "not done within 1m0s: ") || r.Hung() != "" || st.Took != time.Minute {
			t.Errorf("%+v, hung %q", st, r.Hung())
		}
		r.end()
	})
}

func TestATaskThatDoesNotHeedItsLimitHangs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		release := make(chan struct{})
		stuck := func(context.Context) (Result, error) { <-release; return Result{}, nil }
		r := start(t,
			Task{Name: "quick", Every: time.Hour, Limit: 2 * time.Second, Step: stuck, Spared: true},
			Task{Name: "slow", Every: time.Hour, Limit: time.Minute, Step: stuck},
			Task{Name: "endless", Every: time.Hour, Step: stuck})
		time.Sleep(90 * time.Second)
		if hung := r.Hung(); hung != "" {
			t.Errorf("%q hangs within its time", hung)
		}
		time.Sleep(time.Second)
		if hung := r.Hung(); hung != "slow" {
			t.Errorf("%q hangs", hung)
		}
		if list := r.States(""); list[0].Hangs || !list[1].Hangs || !list[2].Hangs {
			t.Errorf("%+v", list)
		}
		if r.Hung(); r.said(`msg="hangs; the others go on" loop=quick`) != 1 {
			t.Error(r.log.String())
		}
		close(release)
		if synctest.Wait(); r.Hung() != "" {
			t.Error("it hangs though it has ended")
		}
		r.end()
	})
}

func TestTheEndIsNoFailureWhereverATaskIs(t *testing.T) {
	for name, task := range map[string]Task{
		"before its first run": {First: time.Minute},
		"in a run": {Step: func(ctx context.Context) (Result, error) {
			<-ctx.Done()
			return Result{}, ctx.Err()
		}},
		"in a pause":       {Every: time.Minute},
		"between two runs": {Every: time.Minute, Apart: time.Minute},
		"while it is calm": {Every: time.Minute, Wake: NewKick(), Debounce: time.Hour},
	} {
		inBubble(t, func(t *testing.T) {
			task.Name = name
			if task.Step == nil {
				task.Step = func(context.Context) (Result, error) { return Result{}, nil }
			}
			if task.Debounce > 0 {
				k := NewKick()
				task.Wake = k
				k.Kick()
			}
			r := start(t, task)
			time.Sleep(time.Second)
			r.end()
			if st := r.state(); st.Error != "" || !st.Since.IsZero() || r.log.Len() != 0 {
				t.Errorf("%s: %+v, %s", name, st, r.log.String())
			}
		})
	}
}

func TestWhatAnInterruptedRunChangedIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, Task{Name: "a", Step: func(ctx context.Context) (Result, error) {
			<-ctx.Done()
			return Result{Changed: "wrote half"}, ctx.Err()
		}})
		if r.end(); r.said("wrote half") != 1 {
			t.Error(r.log.String())
		}
	})
}
