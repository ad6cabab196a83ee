package keeper

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/state"
)

// site is a daemon of alpha on a real socket, with a keeper of a world that
// does nothing by itself.
type site struct {
	*daemon
	seen    podmanetcd.Seen
	failing error
	ended   chan error
}

func begin(t *testing.T, prepare func(*site)) *site {
	t.Helper()
	dir := t.TempDir()
	no := state.Known(false)
	s := &site{seen: podmanetcd.Seen{Held: no, Lives: no, StandsIn: no}, ended: make(chan error, 1)}
	s.daemon = newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, hostEffects(), records.Files{Root: dir}, filepath.Join(dir, "s"))
	s.prepare = func(p state.EtcdParameters) (*Keeper, error) {
		if _, err := p.Peer(s.Host); err != nil {
			return nil, err
		}
		if s.failing != nil {
			return nil, s.failing
		}
		k := newKeeper(t, &world{record: pairRecord(), running: true, leader: 0xa, peer: peerPair()}, state.EtcdNotAsked)
		k.SaveWish, k.Observer.Boot = s.files.WriteWish, observe.Boot
		return k, nil
	}
	s.alone = WithoutKeeper{
		See:  func() podmanetcd.Seen { return s.seen },
		End:  func(context.Context) error { s.seen.Held, s.seen.Lives = no, no; return nil },
		Note: func() error { return s.noteStop(s.files) },
	}
	if prepare != nil {
		prepare(s)
	}
	ctx, stop := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.ended <- s.serveOnly(ctx)
	}()
	t.Cleanup(func() { // its folder is removed next: it must write there no more
		stop()
		<-gone
	})
	return s
}

// serveOnly does what run does, without the keeper's loop, which would ask
// Corosync.
func (s *site) serveOnly(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	waiting.Go(func() {
		s.await(ctx)
		select {
		case <-s.again:
			cancel()
		case <-ctx.Done():
		}
	})
	return s.serve(ctx, s.socket)
}

func (s *site) order(t *testing.T, what, body string) podmanetcd.Answer {
	t.Helper()
	var a podmanetcd.Answer
	for {
		err := keeperclient.Send(t.Context(), s.socket, what, []byte(body), &a)
		if err == nil {
			return a
		}
		if !errors.Is(err, keeperclient.ErrNotRunning) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

const pairText = `{"nodes":{"alpha":"10.0.0.1","beta":"10.0.0.2"},"podManifest":"/m","backupDir":"/b","backups":3,"oom":-997}`

func keep(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestADaemonThatCannotKeepEtcdSaysWhyAndStopSucceeds(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*site)
		start   string
		want    string
	}{
		"torn parameters": {
			func(s *site) {
				keep(t, s.files.Path(state.EtcdParametersPath), `{"nodes":{"al`)
				s.failing = errors.New("no certificate")
			},
			pairText, "no certificate",
		},
		"a host of another name": {func(s *site) { s.Host = "dhcp-17" }, pairText, "does not name this host, dhcp-17"},
		"unreadable certificates": {
			func(s *site) {
				keep(t, s.files.Path(state.EtcdParametersPath), pairText)
				s.failing = errors.New("no certificate")
			},
			pairText, "no certificate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, c.prepare)
			if a := s.order(t, "start", c.start); a.Code != podmanetcd.Generic || !strings.Contains(a.Reason, c.want) {
				t.Errorf("start: %+v", a)
			}
			if r := s.report(); r.Verdict.Action != state.EtcdAskHuman || !strings.Contains(r.Problem, c.want) {
				t.Errorf("report: %+v", r)
			}
			if a := s.order(t, "stop", ""); a.Code != podmanetcd.Success {
				t.Errorf("stop: %+v", a)
			}
		})
	}
}

func TestTornParametersAreReplacedByTheNextStart(t *testing.T) {
	s := begin(t, func(s *site) { keep(t, s.files.Path(state.EtcdParametersPath), `{"nodes":{"al`) })
	if a := s.order(t, "start", pairText); a.Code != podmanetcd.Success {
		t.Errorf("start: %+v", a)
	}
	p, err := s.files.Parameters()
	if err != nil || len(p.Value.Nodes) != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	if s.cannot.Load() != nil {
		t.Errorf("still troubled: %+v", s.cannot.Load())
	}
}

func TestAnEtcdThatCannotBeKeptRunsOn(t *testing.T) {
	s := begin(t, func(s *site) {
		keep(t, s.files.Path(state.EtcdParametersPath), pairText)
		s.failing = errors.New("no certificate")
		s.seen.Held, s.seen.Lives = state.Known(true), state.Known(true)
		boot, _, err := observe.Boot()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.files.WriteWish(state.EtcdWishNote{Wish: state.EtcdStarted, Boot: boot}); err != nil {
			t.Fatal(err)
		}
	})
	for s.cannot.Load() == nil {
		s.order(t, "notify", "")
	}
	if a := s.order(t, "monitor", ""); a.Code != podmanetcd.Success || !strings.Contains(a.Reason, "no certificate") {
		t.Errorf("monitor: %+v", a)
	}
	s.seen.Held, s.seen.Lives = state.Known(false), state.Known(false)
	s.cannot.Store(&trouble{"no certificate", time.Now().Add(-time.Minute)})
	if a := s.order(t, "monitor", ""); a.Code != podmanetcd.Generic || !strings.Contains(a.Reason, "no certificate") {
		t.Errorf("and once it is down: %+v", a)
	}
}

func TestAStopWithoutAPairEndsWhatRuns(t *testing.T) {
	s := begin(t, func(s *site) { s.seen.Held, s.seen.Lives = state.Known(true), state.Known(true) })
	if a := s.order(t, "stop", ""); a.Code != podmanetcd.Success || !s.seen.Nothing() {
		t.Errorf("stop: %+v, %+v", a, s.seen)
	}
	boot, _, err := observe.Boot()
	if w := s.files.Wish(boot); err != nil || w.Wish != state.EtcdStopped {
		t.Errorf("a keeper that comes does not know: %+v, %v", w, err)
	}
}

// TestAWishThatNobodyNotedIsToldByEtcd starts a daemon after somebody cleaned
// /run.
func TestAWishThatNobodyNotedIsToldByEtcd(t *testing.T) {
	for lives, want := range map[bool]state.EtcdWish{true: state.EtcdStarted, false: state.EtcdNotAsked} {
		s := begin(t, func(s *site) {
			s.seen.Lives = state.Known(lives)
			keep(t, s.files.Path(state.EtcdParametersPath), pairText)
		})
		<-s.set
		if got := s.keeper().Wish().Wish; got != want {
			t.Errorf("etcd lives %t: wish %q, want %q", lives, got, want)
		}
	}
}

func TestAStopThatNothingConfirmsHasFailed(t *testing.T) {
	s := begin(t, func(s *site) {
		s.seen.Held, s.seen.Lives = state.Known(true), state.Known(true)
		s.alone.End = func(context.Context) error { return nil }
	})
	if a := s.order(t, "stop", ""); a.Code != podmanetcd.Generic {
		t.Errorf("stop: %+v", a)
	}
}

func TestChangedParametersAreTakenWithoutAnError(t *testing.T) {
	for _, action := range []string{"start", "reload-agent"} {
		t.Run(action, func(t *testing.T) {
			s := begin(t, func(s *site) { keep(t, s.files.Path(state.EtcdParametersPath), pairText) })
			<-s.set
			if a := s.order(t, action, strings.Replace(pairText, "-997", "-5", 1)); a.Code != podmanetcd.Success {
				t.Errorf("%+v", a)
			}
			if err := <-s.ended; err != nil {
				t.Errorf("the daemon begins anew: %v", err)
			}
			p, err := s.files.Parameters()
			if err != nil || p.Value.OOM != -5 {
				t.Errorf("%+v, %v", p, err)
			}
			boot, _, _ := observe.Boot()
			if w := s.files.Wish(boot); (w.Wish == state.EtcdStarted) != (action == "start") {
				t.Errorf("wish %+v", w)
			}
		})
	}
}

func TestAFileOfAnEarlierVersionIsNoChange(t *testing.T) {
	s := begin(t, func(s *site) {
		keep(t, s.files.Path(state.EtcdParametersPath), strings.Replace(pairText, `,"oom":-997`, "", 1))
	})
	<-s.set
	if a := s.order(t, "start", pairText); a.Code != podmanetcd.Success {
		t.Errorf("%+v", a)
	}
	select {
	case <-s.again:
		t.Error("the daemon begins anew for nothing")
	default:
	}
}

func TestNoErrorOfThisHostIsOneOfTheConfiguration(t *testing.T) {
	s := begin(t, func(s *site) { keep(t, filepath.Dir(s.files.Path(state.EtcdParametersPath)), "no folder") })
	if a := s.order(t, "start", pairText); a.Code != podmanetcd.Generic {
		t.Errorf("a disk that takes nothing: %+v", a)
	}
	if a := s.order(t, "start", `{"nodes":7}`); a.Code != podmanetcd.Generic {
		t.Errorf("a request of another version: %+v", a)
	}
	if _, err := s.files.Parameters(); err == nil {
		t.Errorf("%v", err)
	}
}

func TestAPairThatDoesNotNameThisHostLeavesTheKeeperAlone(t *testing.T) {
	s := begin(t, func(s *site) { keep(t, s.files.Path(state.EtcdParametersPath), pairText) })
	<-s.set
	if a := s.order(t, "start", strings.Replace(pairText, "alpha", "gamma", 1)); a.Code != podmanetcd.Generic || !strings.Contains(a.Reason, "previous parameters of etcd") {
		t.Errorf("%+v", a)
	}
}

func TestAMonitorOfAKeeperThatHangsLooksForItself(t *testing.T) {
	s := begin(t, func(s *site) { keep(t, s.files.Path(state.EtcdParametersPath), pairText) })
	<-s.set
	if err := s.keeper().Ask(state.EtcdStarted); err != nil {
		t.Fatal(err)
	}
	if a := s.order(t, "monitor", ""); a.Code != podmanetcd.Success || a.Reason != "" {
		t.Errorf("nobody has looked yet: %+v", a)
	}
	s.Now = func() time.Time { return time.Now().Add(podmanetcd.Overdue + time.Minute) }
	if a := s.order(t, "monitor", ""); a.Code != podmanetcd.Generic || !strings.Contains(a.Reason, "has completed no round for") {
		t.Errorf("etcd is down: %+v", a)
	}
	s.seen.Held = state.Known(true)
	if a := s.order(t, "monitor", ""); a.Code != podmanetcd.Success || !strings.Contains(a.Reason, "has completed no round for") {
		t.Errorf("etcd runs: %+v", a)
	}
}

func TestAWatchThatFailsIsNoReasonToLeaveEtcdAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		tries := 0
		err := lasting(ctx, logOf(t), "it failed", func() error {
			if tries++; tries == 3 {
				stop()
			}
			return errors.New("too many open files")
		})
		if tries != 3 || !errors.Is(err, context.Canceled) {
			t.Errorf("tried %d times, %v", tries, err)
		}
	})
}
