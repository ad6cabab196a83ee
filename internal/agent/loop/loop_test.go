package loop

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// rig runs tasks in the bubble of a test.
type rig struct {
	*Loops
	t     *testing.T
	log   bytes.Buffer // slog writes one line at a time
	began time.Time
	stop  context.CancelFunc
	ended chan struct{}
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, ended: make(chan struct{}), began: time.Now()}
	r.Loops = New(time.Now, slog.New(slog.NewTextHandler(&r.log, nil)))
	return r
}

// start runs until the test ends it.
func start(t *testing.T, tasks ...Task) *rig {
	t.Helper()
	r := newRig(t)
	r.begin(func(ctx context.Context) { r.Run(ctx, tasks...) })
	return r
}

func (r *rig) begin(run func(context.Context)) {
	ctx, stop := context.WithCancel(r.t.Context())
	r.stop = stop
	go func() { defer close(r.ended); run(ctx) }()
	synctest.Wait()
}

// end has to be quick: the end of the agent ends each wait.
func (r *rig) end() {
	r.t.Helper()
	at := time.Now()
	r.stop()
	<-r.ended
	if took := time.Since(at); took != 0 {
		r.t.Errorf("the end took %s", took)
	}
}

// state is how the one task is doing.
func (r *rig) state() state.Loop {
	r.t.Helper()
	synctest.Wait()
	list := r.States("")
	if len(list) != 1 {
		r.t.Fatalf("%d tasks", len(list))
	}
	return list[0]
}

func (r *rig) said(text string) int { return strings.Count(r.log.String(), text) }

// steps notes when a task runs and fails while it is broken.
type steps struct {
	mu     sync.Mutex
	at     []time.Duration
	began  time.Time
	broken error
	result Result
}

func (s *steps) step(context.Context) (Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began.IsZero() {
		s.began = time.Now()
	}
	s.at = append(s.at, time.Since(s.began))
	return s.result, s.broken
}

// become changes how the next steps go.
func (s *steps) become(result Result, broken error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result, s.broken = result, broken
}

// times is when it ran, since its first run.
func (s *steps) times() []time.Duration {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.at)
}

func (s *steps) ran(t *testing.T, want ...time.Duration) {
	t.Helper()
	if at := s.times(); !slices.Equal(at, want) {
		t.Errorf("it ran at %v, want %v", at, want)
	}
}

const ms = time.Millisecond

func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func TestATaskRunsAtOnceAndThenEveryNowAndThen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s steps
		r := start(t, Task{Name: "a", Step: s.step, Every: 30 * time.Second})
		time.Sleep(65 * time.Second)
		s.ran(t, 0, 30*time.Second, 60*time.Second)
		if r.state().Runs != 3 || r.log.Len() != 0 {
			t.Errorf("%+v, %s", r.state(), r.log.String())
		}
		r.end()
	})
}

func TestATaskMayWaitBeforeItsFirstRunAndForWakesAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s steps
		wake := NewKick()
		s.began = time.Now()
		r := start(t, Task{Name: "a", Step: s.step, First: 45 * time.Second, Wake: wake})
		time.Sleep(1000 * time.Hour)
		s.ran(t, 45*time.Second)
		wake.Kick()
		s.ran(t, 45*time.Second, 1000*time.Hour)
		r.end()
	})
}

func TestRetriesAreRarerAndRarerAndBeginAnewAfterASuccess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := steps{broken: errors.New("no disk")}
		r := start(t, Task{Name: "a", Step: s.step, Every: time.Minute, Retry: 250 * ms, MaxRetry: time.Second})
		time.Sleep(4 * time.Second)
		s.ran(t, 0, 250*ms, 750*ms, 1750*ms, 2750*ms, 3750*ms)
		s.become(Result{}, nil)
		time.Sleep(time.Second)
		s.become(Result{}, errors.New("no disk again"))
		time.Sleep(59900 * ms)
		s.ran(t, 0, 250*ms, 750*ms, 1750*ms, 2750*ms, 3750*ms, 4750*ms, 64750*ms)
		time.Sleep(250 * ms)
		if got := s.times()[8]; got != 65000*ms {
			t.Errorf("after a success it was tried again at %s", got)
		}
		r.end()
	})
}

func TestWithoutAMaximumTheRetryStaysAndWithoutARetryItIsTheOrdinaryPause(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, u := steps{broken: errors.New("x")}, steps{broken: errors.New("x")}
		r := start(t, Task{Name: "a", Step: s.step, Every: time.Minute, Retry: time.Second}, Task{Name: "b", Step: u.step, Every: 10 * time.Second})
		time.Sleep(20500 * ms)
		if n := len(s.times()); n != 21 {
			t.Errorf("%d tries in 20 s", n)
		}
		u.ran(t, 0, 10*time.Second, 20*time.Second)
		r.end()
	})
}

func TestATaskOfWakesAloneIsNotTriedAgainByItself(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, wake := steps{broken: errors.New("x")}, NewKick()
		r := start(t, Task{Name: "a", Step: s.step, Wake: wake})
		time.Sleep(time.Hour)
		wake.Kick()
		time.Sleep(time.Hour)
		s.ran(t, 0, time.Hour)
		r.end()
	})
}

func TestAStepMayChooseItsPause(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := steps{broken: errors.New("x"), result: Result{Again: 7 * time.Second}}
		r := start(t, Task{Name: "a", Step: s.step, Every: time.Minute, Retry: time.Second})
		time.Sleep(8 * time.Second)
		s.become(Result{Again: 7 * time.Second}, nil)
		time.Sleep(7 * time.Second)
		s.ran(t, 0, 7*time.Second, 14*time.Second)
		r.end()
	})
}

func TestAStepMayAskForNoPauseAtAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		runs := 0
		r := start(t, Task{Name: "a", Every: time.Minute, Step: func(context.Context) (Result, error) {
			if runs++; runs < 3 {
				return Result{Again: -time.Second}, nil
			}
			return Result{}, nil
		}})
		if synctest.Wait(); runs != 3 {
			t.Errorf("%d runs", runs)
		}
		r.end()
	})
}

func TestAStepMayAskToRunSoonThoughNothingFailed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		wake := NewKick()
		s := steps{result: Result{Soon: true}}
		r := start(t, Task{Name: "a", Step: s.step, Wake: wake, Every: time.Minute, Retry: 100 * ms, MaxRetry: 2 * time.Second, RetryAnew: true})
		time.Sleep(4 * time.Second)
		s.ran(t, 0, 100*ms, 300*ms, 700*ms, 1500*ms, 3100*ms)
		wake.Kick() // and what follows it is quick again
		time.Sleep(150 * ms)
		s.ran(t, 0, 100*ms, 300*ms, 700*ms, 1500*ms, 3100*ms, 4000*ms, 4100*ms)
		if st := r.state(); st.Error != "" || r.log.Len() != 0 {
			t.Errorf("%+v, %s", st, r.log.String())
		}
		r.end()
	})
}

func TestABurstOfEventsIsOneRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s steps
		wake := NewKick()
		r := start(t, Task{Name: "a", Step: s.step, Wake: wake, Every: time.Hour, Debounce: 100 * ms})
		wake.Kick()
		time.Sleep(50 * ms)
		wake.Kick()
		wake.Kick()
		time.Sleep(time.Minute)
		s.ran(t, 0, 100*ms)
		r.end()
	})
}

func TestAFailingTaskMayBeWokenLessQuickly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		wake := NewKick()
		s := steps{broken: errors.New("x")}
		r := start(t, Task{Name: "a", Step: s.step, Wake: wake, Every: time.Hour, RetryDebounce: 250 * ms})
		wake.Kick()
		time.Sleep(time.Second)
		s.become(Result{}, nil)
		wake.Kick()
		time.Sleep(time.Second)
		wake.Kick()
		s.ran(t, 0, 250*ms, 1250*ms, 2*time.Second)
		r.end()
	})
}

func TestRunsMayBeKeptApartWhateverWakes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s steps
		wake := NewKick()
		r := start(t, Task{Name: "a", Step: s.step, Wake: wake, Every: time.Second, Apart: 100 * ms})
		for range 10 {
			wake.Kick()
			time.Sleep(25 * ms)
		}
		time.Sleep(time.Second)
		s.ran(t, 0, 100*ms, 200*ms, 300*ms)
		time.Sleep(100 * ms)
		s.ran(t, 0, 100*ms, 200*ms, 300*ms, 1300*ms)
		r.end()
	})
}

func TestAWakeDuringARunIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		wake, gate, runs := NewKick(), make(chan struct{}), 0
		r := start(t, Task{Name: "a", Wake: wake, Every: time.Hour, Step: func(context.Context) (Result, error) { runs++; <-gate; return Result{}, nil }})
		wake.Kick()
		gate <- struct{}{}
		synctest.Wait()
		if runs != 2 {
			t.Errorf("%d runs", runs)
		}
		close(gate)
		r.end()
	})
}
