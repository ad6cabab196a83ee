package keeper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/model/state"
)

// deaf is a process that does not end when killed.
type deaf struct {
	*world
	release chan struct{}
	// heeds is true if Kill heeds its context.
	heeds bool
}

func (d deaf) Kill(ctx context.Context) error {
	if d.heeds {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	<-d.release
	return nil
}

// frozenPair runs a keeper whose etcd froze and has to be ended; end stops the
// keeper.
func frozenPair(t *testing.T, d deaf) (k *Keeper, end func()) {
	t.Helper()
	k = newKeeper(t, d.world, state.EtcdStarted)
	k.Process = d
	meet(k)
	k.turn(t.Context())
	d.frozen, d.mute = true, true
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { _ = k.Run(ctx); close(ended) }()
	return k, func() { cancel(); <-ended }
}

func TestAnEndThatDoesNotComeEndsTheRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{record: pairRecord(), running: true, leader: 0xa, peer: peerPair()}
		k, end := frozenPair(t, deaf{world: w, heeds: true})
		time.Sleep(time.Minute)
		synctest.Wait()
		if r, _ := k.Report(); !strings.Contains(r.Problem, "killing etcd's process took longer than 10s") || k.Hung() != "" {
			t.Errorf("problem %q, hung %q", r.Problem, k.Hung())
		}
		end()
	})
}

func TestAKeeperThatHangsIsNamedAndTheWatchdogStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{record: pairRecord(), running: true, leader: 0xa, peer: peerPair()}
		d := deaf{world: w, release: make(chan struct{})}
		k, end := frozenPair(t, d)
		var fed atomic.Int32
		ctx, stop := context.WithCancel(t.Context())
		watched := make(chan struct{})
		go func() {
			_ = host.Watchdog(ctx, 10*time.Second, k.Hung, func() error { fed.Add(1); return nil }, slog.New(slog.DiscardHandler))
			close(watched)
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		before := fed.Load()
		if k.Hung() != "killing etcd's process" || before == 0 {
			t.Errorf("hung %q, fed %d times", k.Hung(), before)
		}
		time.Sleep(time.Minute)
		if fed.Load() != before {
			t.Errorf("fed %d times more though the loop hangs", fed.Load()-before)
		}
		close(d.release)
		time.Sleep(time.Minute)
		synctest.Wait()
		if k.Hung() != "" || fed.Load() == before {
			t.Errorf("the loop goes on: hung %q, fed %d times", k.Hung(), fed.Load())
		}
		stop()
		<-watched
		end()
	})
}

func TestADiskThatHangsLeavesTheLookUnknownAndTheLoopGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{record: pairRecord(), running: true, leader: 0xa, peer: peerPair()}
		k := newKeeper(t, w, state.EtcdStarted)
		release := make(chan struct{})
		k.Observer.Record = func() (state.EtcdRecord, error) { <-release; return w.record, nil }
		k.Observer.Sources = limited(k.Observer.Sources)
		meet(k)
		for range 3 {
			began := time.Now()
			k.turn(t.Context())
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("a round took %s", took)
			}
		}
		if r, _ := k.Report(); r.Verdict.Rule != "unknown.record" || len(w.did) > 0 {
			t.Errorf("%+v, did %q", r.Verdict, w.did)
		}
		close(release)
	})
}

// etcdProcess returns a process whose lock and state the test decides.
func etcdProcess(t *testing.T) *process {
	t.Helper()
	return &process{files: records.Files{Root: t.TempDir()}, effects: effects{
		boot:        func() (string, time.Duration, error) { return "boot-2", time.Hour, nil },
		freeSpace:   func(string) (uint64, error) { return 1 << 40, nil },
		restrictOOM: func() (bool, error) { return false, nil },
		locked:      func(string) (bool, error) { return false, nil },
		look:        func(context.Context) (podman.Process, error) { return podman.Process{}, nil },
		adopt:       func(context.Context, string, podman.Process) (string, error) { return "", errors.New("no answer") },
		stop:        func(context.Context, time.Duration) error { return nil },
		kill:        func(context.Context) error { return nil },
	}}
}

func TestAnEndThatLeavesTheDataHeldHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := etcdProcess(t)
		for name, end := range map[string]func(context.Context) error{"stop": p.Stop, "kill": p.Kill} {
			looks := 0
			p.locked = func(string) (bool, error) { looks++; return looks < 3, nil } // one of its threads is still ending
			if err := end(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			p.locked = func(string) (bool, error) { return true, nil }
			if err := end(t.Context()); err == nil || !strings.Contains(err.Error(), "still holds its data") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestEtcdIsDownOnlyWhereNothingCanTakeItsData(t *testing.T) {
	p := etcdProcess(t)
	if held, err := p.held(); held || err != nil {
		t.Errorf("nothing is there: %t, %v", held, err)
	}
	p.look = func(context.Context) (podman.Process, error) { return podman.Process{Running: true, PID: 7}, nil }
	if held, err := p.held(); held || err == nil {
		t.Errorf("its process lives and opens its data: %t, %v", held, err)
	}
	p.look = func(context.Context) (podman.Process, error) { return podman.Process{}, nil }
	keep(t, p.files.Path(StaticPodPath), "")
	if held, err := p.held(); held || err == nil {
		t.Errorf("kubelet may start it at any moment: %t, %v", held, err)
	}
	p.locked = func(string) (bool, error) { return true, nil }
	if held, err := p.held(); !held || err != nil {
		t.Errorf("kubelet runs it: %t, %v", held, err)
	}
}

func TestAnEtcdThatKubeletMayStartPromisesNothing(t *testing.T) {
	w := &world{record: pairRecord(), peer: peerPair(), foreign: true}
	k := newKeeper(t, w, state.EtcdNotAsked)
	p := etcdProcess(t)
	keep(t, p.files.Path(StaticPodPath), "")
	k.Observer.Held = p.held
	meet(k)
	k.turn(t.Context())
	if len(w.published) != 1 || w.published[0].Running.Known {
		t.Errorf("the peer was told %+v", w.published)
	}
}

func TestAStartThatFailsLeavesNoProcess(t *testing.T) {
	p := etcdProcess(t)
	var did []string
	p.look = func(context.Context) (podman.Process, error) { return podman.Process{Running: true, PID: 7}, nil }
	p.kill = func(ctx context.Context) error { did = append(did, "kill"); return ctx.Err() }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.await(ctx, nil); !errors.Is(err, context.Canceled) || !slices.Equal(did, []string{"kill"}) {
		t.Errorf("did %q, %v", did, err)
	}
}
