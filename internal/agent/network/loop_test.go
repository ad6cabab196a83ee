package network

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/model/state"
)

// fakePiece does what a test says and records its calls.
type fakePiece struct {
	name      string
	reconcile func(context.Context, state.NetworkView) (string, error)
	mu        sync.Mutex
	views     []state.NetworkView
	at        []time.Time
	withdrawn int
}

func (p *fakePiece) Name() string { return p.name }

func (p *fakePiece) Reconcile(ctx context.Context, v state.NetworkView) (string, error) {
	p.mu.Lock()
	p.views, p.at = append(p.views, v), append(p.at, time.Now())
	p.mu.Unlock()
	if p.reconcile == nil {
		return "", nil
	}
	return p.reconcile(ctx, v)
}

func (p *fakePiece) Withdraw(context.Context) error { p.withdrawn++; return nil }

func (p *fakePiece) runs() int { p.mu.Lock(); defer p.mu.Unlock(); return len(p.views) }

// fakeSource hands its update function out.
type fakeSource struct {
	update func(func(*state.NetworkView))
	fail   chan error
}

func (s *fakeSource) Name() string { return "fake" }

func (s *fakeSource) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	s.update = update
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-s.fail:
		return err
	}
}

type rig struct {
	*Agent
	source *fakeSource
	log    bytes.Buffer // slog writes one line at a time
	ended  chan error
	stop   context.CancelFunc
}

// start runs an agent in the bubble of a test; the test stops it.
func start(t *testing.T, list ...Reconciler) *rig {
	t.Helper()
	r := &rig{source: &fakeSource{fail: make(chan error, 1)}, ended: make(chan error, 1)}
	r.Agent = &Agent{
		Views: NewViewStore(state.NetworkView{}), Sources: []Source{r.source}, Reconcilers: list,
		Loops: loop.New(time.Now, slog.New(slog.NewTextHandler(&r.log, nil))),
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() { r.ended <- r.Run(ctx) }()
	synctest.Wait()
	return r
}

func (r *rig) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

func redirected(v *state.NetworkView) { v.Redirected = true }

func TestAPieceSeesEachChangeOnceAndTheLatestView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakePiece{name: "p"}
		r := start(t, p)
		r.source.update(redirected)
		synctest.Wait()
		r.source.update(redirected) // nothing new
		synctest.Wait()
		if p.runs() != 2 || p.views[0].Redirected || !p.views[1].Redirected {
			t.Errorf("it saw %v", p.views)
		}
		r.end(t)
		if p.withdrawn != 1 {
			t.Errorf("withdrawn %d times", p.withdrawn)
		}
	})
}

func TestManyChangesDuringARunAreOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		p := &fakePiece{name: "p", reconcile: func(context.Context, state.NetworkView) (string, error) { <-gate; return "", nil }}
		r := start(t, p)
		for i := range 50 {
			r.source.update(func(v *state.NetworkView) { v.Settings.ControlPlanes = i + 1 })
		}
		close(gate)
		synctest.Wait()
		if p.runs() != 2 || p.views[1].Settings.ControlPlanes != 50 {
			t.Errorf("%d runs, the last saw %d", p.runs(), p.views[len(p.views)-1].Settings.ControlPlanes)
		}
		r.end(t)
	})
}

func TestAPieceIsRunEvery30sThoughNothingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakePiece{name: "p"}
		r := start(t, p)
		time.Sleep(95 * time.Second)
		synctest.Wait()
		if p.runs() != 4 {
			t.Errorf("%d runs in 95 s", p.runs())
		}
		r.end(t)
	})
}

func TestAFailingPieceIsTriedAgainLessAndLessOftenAndHindersNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		p := &fakePiece{name: "broken", reconcile: func(context.Context, state.NetworkView) (string, error) {
			if broken {
				return "", errors.New("no disk")
			}
			return "", nil
		}}
		other := &fakePiece{name: "other"}
		r := start(t, p, other)
		time.Sleep(3900 * time.Millisecond) // tries at 0, 0.25, 0.75, 1.75, 3.75 s
		synctest.Wait()
		if p.runs() != 5 || other.runs() != 1 {
			t.Errorf("%d and %d runs", p.runs(), other.runs())
		}
		if s := r.States()[0]; s.Failures != 5 || s.Error != "no disk" {
			t.Errorf("%+v", s)
		}
		broken = false
		r.source.update(redirected)
		time.Sleep(firstRetry)
		synctest.Wait()
		if s := r.States()[0]; s.Failures != 0 || s.Error != "" {
			t.Errorf("a change that mends it is not tried soon: %+v", s)
		}
		if n := strings.Count(r.log.String(), "no disk"); n != 1 {
			t.Errorf("the same error is logged %d times", n)
		}
		r.end(t)
	})
}

func TestAPieceThatHeedsItsContextIsEndedAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakePiece{name: "slow", reconcile: func(ctx context.Context, _ state.NetworkView) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}}
		r := start(t, p)
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if r.Loops.Hung() != "" || p.runs() < 2 {
			t.Errorf("hung %q, %d runs", r.Loops.Hung(), p.runs())
		}
		r.end(t)
	})
}

func TestAHungPieceKeepsTheWatchdogFromBeingFed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := &fakePiece{name: "stuck", reconcile: func(context.Context, state.NetworkView) (string, error) { <-release; return "", nil }}
		r := start(t, p)
		var fed atomic.Int32
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			_ = r.Watchdog(ctx, 5*time.Second, func() error { fed.Add(1); return nil })
			close(done)
		}()
		time.Sleep(60 * time.Second)
		synctest.Wait()
		if n := fed.Load(); n < 12 {
			t.Errorf("fed %d times in the first minute", n)
		}
		time.Sleep(40 * time.Second)
		before := fed.Load()
		time.Sleep(time.Minute)
		if more := fed.Load() - before; more != 0 || r.Loops.Hung() != "stuck" {
			t.Errorf("fed %d times more though %q hangs", more, r.Loops.Hung())
		}
		close(release)
		stop()
		<-done
		r.end(t)
	})
}

func TestASourceThatCannotGoOnEndsTheAgentAndTakesNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakePiece{name: "p"}
		r := start(t, p)
		r.source.fail <- errors.New("no netlink")
		if err := <-r.ended; err == nil || !strings.Contains(err.Error(), "source fake: no netlink") {
			t.Error(err)
		}
		if p.withdrawn != 0 {
			t.Error("withdrawn, though nobody asked the agent to end")
		}
		r.stop()
	})
}

func TestHeldAreTheVIPsAmongTheHostsAddresses(t *testing.T) {
	vip, other := netip.MustParseAddr("10.98.0.5"), netip.MustParseAddr("fd98::5")
	v := state.NetworkView{Settings: state.NetworkSettings{APIVIPs: []netip.Addr{vip, other}}}
	if got := HeldVIPs(v); got == nil || len(got) != 0 {
		t.Errorf("%v", got)
	}
	v.Addresses = []state.HostAddress{{Interface: "eth0", Prefix: netip.MustParsePrefix("10.98.0.11/24")}, {Interface: "eth0", Prefix: netip.PrefixFrom(vip, 32)}}
	if got := HeldVIPs(v); len(got) != 1 || got[0] != vip {
		t.Errorf("%v", got)
	}
}
