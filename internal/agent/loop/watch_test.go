package loop

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func TestAWatchIsBegunAgainAndWorksWhenItSaysSoOrLasts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, begun := newRig(t), 0
		r.begin(func(ctx context.Context) {
			r.Watch(ctx, Watch{Name: "w", Pause: 5 * time.Second, Run: func(ctx context.Context, works func()) error {
				switch begun++; begun {
				case 1:
					return errors.New("no inotify")
				case 2:
					return nil
				case 3:
					works()
					time.Sleep(time.Second)
					return errors.New("it broke")
				}
				<-ctx.Done()
				return ctx.Err()
			}})
		})
		if st := r.state(); st.Error != "no inotify" {
			t.Errorf("%+v", st)
		}
		time.Sleep(5 * time.Second)
		if st := r.state(); st.Error != "it ended by itself" || st.Failures != 2 {
			t.Errorf("%+v", st)
		}
		time.Sleep(5 * time.Second)
		if st := r.state(); st.Error != "" {
			t.Errorf("it says that it works: %+v", st)
		}
		time.Sleep(6 * time.Second)
		if st := r.state(); st.Error != "it broke" {
			t.Errorf("%+v", st)
		}
		time.Sleep(stableAfter)
		if st := r.state(); st.Error != "" || r.Hung() != "" {
			t.Errorf("it lasts: %+v", st)
		}
		r.end()
		if r.said("msg=fails") != 2 || r.said("works again") != 2 {
			t.Error(r.log.String())
		}
	})
}

func TestFollowersOfAPartHearWhatIsNewThere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := steps{}
		r := newRig(t)
		own, other := r.Follow(""), r.Follow("network")
		kicks := func() int {
			synctest.Wait()
			n := len(own)
			if n > 0 {
				<-own
			}
			return n
		}
		r.begin(func(ctx context.Context) { r.Run(ctx, Task{Name: "a", Step: s.step, Every: time.Second}) })
		for i, c := range []struct {
			broken  error
			changed string
			want    int
		}{{nil, "", 0}, {nil, "x", 1}, {errors.New("a"), "", 1}, {errors.New("a"), "", 0}, {errors.New("b"), "", 1}, {nil, "", 1}} {
			kicks()
			s.become(Result{Changed: c.changed}, c.broken)
			time.Sleep(time.Second)
			if got := kicks(); got != c.want {
				t.Errorf("%d: %d kicks", i, got)
			}
		}
		if len(other) != 0 {
			t.Error("another part was kicked")
		}
		r.end()
	})
}

func TestAFileIsWrittenWhenWokenAndEveryNowAndThenAndItsOwnFailureWritesNoFile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var s steps
		r := newRig(t)
		wake := r.Follow("")
		r.begin(func(ctx context.Context) {
			r.Run(ctx, File("a file", wake, func() error { _, err := s.step(ctx); return err }))
		})
		for range 5 {
			wake.Kick()
			time.Sleep(10 * ms)
		}
		time.Sleep(40 * time.Second)
		s.ran(t, 0, 100*ms, 30100*ms)
		s.become(Result{}, errors.New("disk full"))
		time.Sleep(time.Minute)
		if at := s.times(); len(at) != 5 {
			t.Errorf("written at %v", at)
		}
		r.end()
	})
}

func TestTheNewestOfManyValuesIsHandedOver(t *testing.T) {
	l := NewLatest[int]()
	for i := range 10 {
		l.Put(i)
	}
	<-l.Wake
	for range 2 {
		if got := l.Get(); got != 9 || len(l.Wake) != 0 {
			t.Errorf("%d", got)
		}
	}
}

func TestANameIsTakenOnce(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("two tasks have one name")
		}
	}()
	l := New(time.Now, slog.New(slog.DiscardHandler))
	l.register(Task{Name: "a"})
	l.register(Task{Name: "a"})
}

func TestALatestThatWasTakenIsTakenOnce(t *testing.T) {
	l := NewLatest[int]()
	l.Put(1)
	l.Put(2)
	if first, second := l.Take(), l.Take(); first != 2 || second != 0 {
		t.Errorf("taken: %d, then %d", first, second)
	}
	l.Put(3)
	if got := l.Get(); got != 3 {
		t.Errorf("%d", got)
	}
}
