package fence

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/model/state"
)

// referee is an etcd keeper that says whose turn it is.
type referee struct {
	begin time.Time
	says  func(n int, q state.RaceRequest) (state.FenceRace, error)

	mu    sync.Mutex
	asked []state.RaceRequest
	last  time.Time
}

// judge returns a bench that asks a referee. The host's uptime starts at 42 s and
// advances.
func judge(t *testing.T, says func(n int, q state.RaceRequest) (state.FenceRace, error)) (*bench, *referee) {
	t.Helper()
	b := newBench(t, testPassword)
	r := &referee{begin: time.Now(), says: says}
	b.Boot = func() (string, time.Duration, error) { return "boot-1", 42*time.Second + time.Since(r.begin), nil }
	b.turnOf = r.turn
	return b, r
}

func (r *referee) turn(_ context.Context, q state.RaceRequest) (state.FenceRace, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked, r.last = append(r.asked, q), time.Now()
	return r.says(len(r.asked), q)
}

// cut fences cp-1 and returns the time from the begin to the power-off.
func (r *referee) cut(t *testing.T, b *bench) time.Duration {
	t.Helper()
	if code := b.call(t, "action=off", "plug=cp-1"); code != exitOK {
		t.Fatalf("exit %d: %s", code, b.err.String())
	}
	resets := b.bmc.Resets()
	if len(resets) != 1 {
		t.Fatalf("%d resets", len(resets))
	}
	if last := r.asked[len(r.asked)-1]; !last.Cut || !last.Readable || last.Target != "cp-1" || r.last.After(resets[0].At) {
		t.Errorf("the last question before the cut was %+v", last)
	}
	if n := slices.IndexFunc(r.asked, func(q state.RaceRequest) bool { return !q.Readable }); n >= 0 {
		t.Errorf("question %d says that the BMC cannot be read", n)
	}
	return resets[0].At.Sub(r.begin)
}

func TestAHostWhosePeerGivesWayDoesNotWait(t *testing.T) {
	t.Parallel()
	b, r := judge(t, func(int, state.RaceRequest) (state.FenceRace, error) {
		return state.FenceRace{Turn: state.RaceFirst, Why: "the peer is cut off"}, nil
	})
	b.dev.Delay = time.Minute
	b.write(t)
	if took := r.cut(t, b); took > 10*time.Second {
		t.Errorf("after %s", took)
	}
	if !strings.Contains(b.err.String(), "this host does not wait: the peer is cut off") {
		t.Errorf("%s", b.err.String())
	}
}

func TestAHostThatGivesWayWaitsUntilItsWordIsOver(t *testing.T) {
	t.Parallel()
	const gives = 1500 * time.Millisecond
	b, r := judge(t, func(int, state.RaceRequest) (state.FenceRace, error) {
		return state.FenceRace{Turn: state.RaceLast, Until: 42*time.Second + gives, Why: "its cable is out"}, nil
	})
	if took := r.cut(t, b); took < gives {
		t.Errorf("after %s", took)
	}
	if !r.asked[0].Cut {
		t.Errorf("without a delay the first question is the one before the cut: %+v", r.asked[0])
	}
	if n := strings.Count(b.err.String(), "waits longer than its peer"); n != 1 {
		t.Errorf("told %d times:\n%s", n, b.err.String())
	}
}

// TestATargetThatIsBackIsNotFencedForWhatIsOver has a host that waits for its turn
// while the two hosts lose and find each other, as on a network that drops many
// packets.
func TestATargetThatIsBackIsNotFencedForWhatIsOver(t *testing.T) {
	t.Parallel()
	b, _ := judge(t, func(n int, _ state.RaceRequest) (state.FenceRace, error) {
		answers := []state.Fact[bool]{{}, state.Known(false), {}}
		if n <= len(answers) {
			return state.FenceRace{There: answers[n-1]}, nil
		}
		return state.FenceRace{There: state.Known(true)}, nil
	})
	b.dev.Delay = time.Minute
	b.write(t)
	if code := b.call(t, "action=off", "plug=cp-1"); code == exitOK || !strings.Contains(b.err.String(), "a member of the cluster again") {
		t.Errorf("exit %d: %s", code, b.err.String())
	}
	if n := len(b.bmc.Resets()); n != 0 {
		t.Errorf("%d resets", n)
	}
}

// TestAMemberIsFencedWhereThatIsAskedFor keeps the target a member all the time:
// a resource on it does not stop.
func TestAMemberIsFencedWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	b, r := judge(t, func(int, state.RaceRequest) (state.FenceRace, error) {
		return state.FenceRace{There: state.Known(true)}, nil
	})
	b.dev.Delay = 700 * time.Millisecond
	b.write(t)
	r.cut(t, b)
}

func TestADaemonThatDiesLeavesTheOrderAndWhatWasPromised(t *testing.T) {
	t.Parallel()
	const gives, delay = 800 * time.Millisecond, 700 * time.Millisecond
	b, r := judge(t, func(n int, _ state.RaceRequest) (state.FenceRace, error) {
		if n > 1 {
			return state.FenceRace{Turn: state.RaceFirst}, errors.New("nobody listens")
		}
		return state.FenceRace{Turn: state.RaceLast, Until: 42*time.Second + gives}, nil
	})
	b.dev.Delay = delay
	b.write(t)
	if took := r.cut(t, b); took < gives+delay {
		t.Errorf("after %s", took)
	}
}

func TestWhereNobodyTellsTheTurnTheOrderDecides(t *testing.T) {
	t.Parallel()
	b, r := judge(t, func(int, state.RaceRequest) (state.FenceRace, error) {
		return state.FenceRace{Turn: state.RaceFirst}, errors.New("nobody listens")
	})
	b.dev.Delay = 700 * time.Millisecond
	b.write(t)
	if took := r.cut(t, b); took < b.dev.Delay {
		t.Errorf("after %s", took)
	}
}

func TestAPersonTakesNoPartInARace(t *testing.T) {
	t.Parallel()
	b, r := judge(t, func(int, state.RaceRequest) (state.FenceRace, error) {
		return state.FenceRace{Turn: state.RaceLast}, nil
	})
	if code := b.run(t.Context(), options{action: "off", target: "cp-1", powerTimeout: time.Minute, byHand: true}); code != exitOK || len(r.asked) != 0 {
		t.Errorf("exit %d, asked %+v", code, r.asked)
	}
}

// waiting returns a fence that waits and asks turnOf.
func waiting(turnOf func(context.Context, state.RaceRequest) (state.FenceRace, error)) *attempt {
	return &attempt{Agent: &Agent{Err: io.Discard, turnOf: turnOf}}
}

func TestAWaitEndsOnceItIsThisHostsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		f := waiting(func(context.Context, state.RaceRequest) (state.FenceRace, error) {
			if time.Since(begin) > 2*time.Second {
				return state.FenceRace{Turn: state.RaceFirst}, nil
			}
			return state.FenceRace{Turn: state.RaceOrder}, nil
		})
		if err := f.pause(t.Context(), fencing.Decision{Step: fencing.Hold, Wait: time.Minute}); err != nil || time.Since(begin) > 2*time.Second+2*turnInterval {
			t.Errorf("after %s, %v", time.Since(begin), err)
		}
	})
}

func TestADaemonThatHangsDelaysNoFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := waiting(func(ctx context.Context, _ state.RaceRequest) (state.FenceRace, error) {
			<-ctx.Done()
			return state.FenceRace{}, ctx.Err()
		})
		begin := time.Now()
		if err := f.pause(t.Context(), fencing.Decision{Step: fencing.Hold, Wait: time.Second}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < time.Second || took > time.Second+turnTime {
			t.Errorf("a second took %s", took)
		}
	})
}

func TestAWaitOfAnythingElseAsksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := waiting(func(context.Context, state.RaceRequest) (state.FenceRace, error) {
			t.Error("asked")
			return state.FenceRace{}, nil
		})
		begin := time.Now()
		if err := f.pause(t.Context(), fencing.Decision{Step: fencing.Again, Wait: time.Second}); err != nil || time.Since(begin) != time.Second {
			t.Errorf("after %s, %v", time.Since(begin), err)
		}
	})
}
