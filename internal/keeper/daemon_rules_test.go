package keeper

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
	"github.com/holdfast/holdfast/internal/model/state"
)

// idle is a daemon of alpha whose parts do nothing by themselves. The keepers that it
// prepared are counted.
type idle struct {
	*daemon
	prepared int
	failing  error
	now      time.Time
}

func newIdle(t *testing.T) *idle {
	t.Helper()
	d := &idle{now: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	e := effects{boot: func() (string, time.Duration, error) { return "boot-2", time.Hour, nil }}
	d.daemon = newDaemon(Options{Host: "alpha", Now: func() time.Time { return d.now }, Log: logOf(t)}, e, records.Files{Root: t.TempDir()}, "")
	d.alone.See = func() podmanetcd.Seen { return podmanetcd.Seen{} }
	d.prepare = func(p state.EtcdParameters) (*Keeper, error) {
		d.prepared++
		if _, err := p.Peer(d.Host); err != nil {
			return nil, err
		}
		if d.failing != nil {
			return nil, d.failing
		}
		k := newKeeper(t, &world{}, state.EtcdNotAsked)
		k.SaveWish, k.Observer.Boot = d.files.WriteWish, d.boot
		return k, nil
	}
	return d
}

// TestParametersOfBeforeAreTakenOnceThereAreSome: none is no trouble, and torn ones are.
func TestParametersOfBeforeAreTakenOnceThereAreSome(t *testing.T) {
	d := newIdle(t)
	d.cannot.Store(&trouble{why: "before"})
	if err := d.remember(); err != nil || d.keeper() != nil || d.cannot.Load() != nil || d.prepared != 0 {
		t.Errorf("none: %v, %+v", err, d.cannot.Load())
	}
	path := d.files.Path(state.EtcdParametersPath)
	keep(t, path, "{")
	if err := d.remember(); err == nil || d.keeper() != nil || d.cannot.Load() == nil {
		t.Errorf("torn: %v, %+v", err, d.cannot.Load())
	}
	keep(t, path, pairText)
	if err := d.remember(); err != nil || d.keeper() == nil || d.cannot.Load() != nil || d.parameters.Backups != 3 {
		t.Errorf("a pair: %v, %+v", err, d.cannot.Load())
	}
	if r := d.report(); !r.At.Equal(d.now) || r.Wish != state.EtcdNotAsked {
		t.Errorf("before the first look: %+v", r)
	}
	keep(t, path, "{")
	if err := d.remember(); err != nil || d.prepared != 1 {
		t.Errorf("what is kept is not asked for again: %v, prepared %d times", err, d.prepared)
	}
	select {
	case <-d.set:
	default:
		t.Error("who waits for the pair is not told")
	}
}

// TestAHostIsAskedForItsNameWhereThePairDoesNotNameIt: at its boot it may have had none.
func TestAHostIsAskedForItsNameWhereThePairDoesNotNameIt(t *testing.T) {
	for rule, c := range map[string]struct {
		host, name string
		err        error
		want       string
		asked      bool
		kept       bool
	}{
		"the pair names it":          {"alpha", "other", nil, "alpha", false, true},
		"it has its name by now":     {"", "beta", nil, "beta", true, true},
		"it is of another pair":      {"", "gamma", nil, "gamma", true, false},
		"its name cannot be read":    {"", "beta", errors.New("no name"), "", true, false},
		"nobody can be asked for it": {"", "", nil, "", false, false},
	} {
		d, asked := newIdle(t), false
		d.Host = c.host
		if rule != "nobody can be asked for it" {
			d.Rename = func() (string, error) { asked = true; return c.name, c.err }
		}
		again, err := d.use(twoHosts(t))
		if again || d.Host != c.want || asked != c.asked || (err == nil) != c.kept || (d.keeper() != nil) != c.kept {
			t.Errorf("%s: %q, asked %t, %v", rule, d.Host, asked, err)
		}
	}
}

// TestATroubleKeepsItsBeginningWhateverTheReason.
func TestATroubleKeepsItsBeginningWhateverTheReason(t *testing.T) {
	d := newIdle(t)
	began := d.now
	for i, why := range []string{"no certificate", "no certificate", "no key"} {
		d.now = began.Add(time.Duration(i) * time.Minute)
		if err := d.troubled(errors.New(why)); err == nil || err.Error() != why {
			t.Errorf("%v", err)
		}
		if got := *d.cannot.Load(); got != (trouble{why, began}) {
			t.Errorf("%d: %+v", i, got)
		}
	}
}

// TestWhatAStartDoesWithItsParameters: the same ones change nothing, others have the
// daemon begin anew, and those of another pair are refused.
func TestWhatAStartDoesWithItsParameters(t *testing.T) {
	d := newIdle(t)
	stored := func() int {
		p, err := d.files.Parameters()
		if err != nil {
			t.Error(err)
		}
		return p.Value.OOM
	}
	p := twoHosts(t)
	if again, err := d.use(p); again || err != nil || d.keeper() == nil || stored() != -997 {
		t.Errorf("the first: %t, %v", again, err)
	}
	if again, err := d.use(p); again || err != nil {
		t.Errorf("the same: %t, %v", again, err)
	}
	p.OOM = -5
	if again, err := d.use(p); !again || err != nil || stored() != -5 || d.prepared != 1 {
		t.Errorf("others: %t, %v, prepared %d times", again, err, d.prepared)
	}
	other := twoHosts(t)
	delete(other.Nodes, "alpha")
	if again, err := d.use(other); again || err == nil || !strings.Contains(err.Error(), "the previous parameters of etcd stay in use") || stored() != -5 {
		t.Errorf("another pair's: %t, %v", again, err)
	}
	d.files.Root = filepath.Join(d.files.Path(state.EtcdParametersPath), "below")
	p.OOM = -6
	if again, err := d.use(p); again || err == nil || !strings.HasPrefix(err.Error(), "store the parameters of etcd: ") {
		t.Errorf("a disk that takes nothing: %t, %v", again, err)
	}
}

func TestAKeeperWhoseBootIsNotKnownIsNone(t *testing.T) {
	d := newIdle(t)
	d.boot = func() (string, time.Duration, error) { return "", 0, errors.New("no /proc") }
	if _, err := d.use(twoHosts(t)); err == nil || d.keeper() != nil || d.cannot.Load() == nil {
		t.Errorf("%v", err)
	}
}

// TestADaemonThatCannotKeepEtcdTriesAgain until it can, or is told to end.
func TestADaemonThatCannotKeepEtcdTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newIdle(t)
		d.failing = errors.New("no certificate")
		keep(t, d.files.Path(state.EtcdParametersPath), pairText)
		ctx, end := context.WithCancel(t.Context())
		defer end()
		done := make(chan bool, 2)
		go func() { done <- d.await(ctx) }()
		time.Sleep(3*retry + 1)
		synctest.Wait()
		if d.prepared != 4 {
			t.Errorf("tried %d times", d.prepared)
		}
		d.failing = nil
		time.Sleep(retry)
		if ok := <-done; !ok || d.prepared != 5 {
			t.Errorf("%t, tried %d times", ok, d.prepared)
		}
		empty := newIdle(t)
		go func() { done <- empty.await(ctx) }()
		time.Sleep(time.Hour)
		end()
		if <-done || empty.prepared != 0 || empty.keep(ctx) != nil {
			t.Errorf("without parameters: tried %d times", empty.prepared)
		}
		if empty.hung() != "" {
			t.Error("nothing hangs")
		}
	})
}

// TestWhatThePeersFenceAnswersIsTold: a step that failed has its reason.
func TestWhatThePeersFenceAnswersIsTold(t *testing.T) {
	failed := errors.New("no answer")
	e := effects{
		fencingAllowed: func(context.Context, string) error { return failed },
		fence:          func(context.Context, string, time.Duration, bool) error { return failed },
		confirmOff:     func(context.Context, string) error { return failed },
		grantQuorum:    func(context.Context) error { return failed },
		stopStandIn:    func(context.Context) error { return failed },
		startStandIn:   nil,
	}
	o, s := other{e, "beta"}, standIn{effects: e}
	for what, do := range map[string]func(context.Context) error{
		"may fence": o.MayFence, "fence": func(ctx context.Context) error { return o.Fence(ctx, false) },
		"confirm off": o.ConfirmOff, "grant quorum": o.GrantQuorum, "stop the stand-in": s.Stop,
	} {
		if err := do(t.Context()); !errors.Is(err, failed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestWhatTheLockOfTheDataPromises: a no is one only where nothing can take them.
func TestWhatTheLockOfTheDataPromises(t *testing.T) {
	failed := errors.New("it failed")
	for rule, c := range map[string]struct {
		held    bool
		err     error
		foreign bool
		process podman.Process
		unseen  error
		want    bool
		fails   string
	}{
		"nothing is there":              {},
		"etcd holds them":               {held: true, want: true},
		"the lock cannot be read":       {err: failed, fails: "it failed"},
		"kubelet may start one":         {foreign: true, fails: "kubelet may start etcd at any moment"},
		"a process may take them":       {process: podman.Process{Running: true, PID: 7}, fails: "etcd process 7 runs but has not locked its data yet"},
		"nobody knows whether one runs": {process: podman.Process{Running: true}, unseen: failed, fails: "it failed"},
	} {
		p := etcdProcess(t)
		p.locked = func(dir string) (bool, error) { return c.held, errors.Join(c.err, p.isIt(dir)) }
		p.look = func(context.Context) (podman.Process, error) { return c.process, c.unseen }
		if c.foreign {
			keep(t, p.files.Path(StaticPodPath), "")
		}
		held, err := p.held()
		if held != c.want || (err == nil) != (c.fails == "") || err != nil && err.Error() != c.fails {
			t.Errorf("%s: %t, %v", rule, held, err)
		}
	}
}

// TestAStopThatPacemakerMadeWithoutTheKeeperKeepsEtcdDown in its boot.
func TestAStopThatPacemakerMadeWithoutTheKeeperKeepsEtcdDown(t *testing.T) {
	for rule, c := range map[string]struct {
		note state.EtcdWishNote
		boot error
		want bool
	}{
		"it stopped etcd":               {state.EtcdWishNote{Wish: state.EtcdStopped, Boot: "boot-2"}, nil, true},
		"it started etcd":               {state.EtcdWishNote{Wish: state.EtcdStarted, Boot: "boot-2"}, nil, false},
		"it did so in another boot":     {state.EtcdWishNote{Wish: state.EtcdStopped, Boot: "boot-1"}, nil, false},
		"nobody knows which boot it is": {state.EtcdWishNote{Wish: state.EtcdStopped, Boot: "boot-2"}, errors.New("no /proc"), false},
	} {
		p := etcdProcess(t)
		p.boot = func() (string, time.Duration, error) { return "boot-2", 0, c.boot }
		if err := p.files.WriteWish(c.note); err != nil {
			t.Fatal(err)
		}
		if got := p.stopped(); got != c.want {
			t.Errorf("%s: %t", rule, got)
		}
	}
}

// TestAStartedEtcdGetsTheTimeToOpenItsData while it runs, or nobody knows better.
func TestAStartedEtcdGetsTheTimeToOpenItsData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for rule, c := range map[string]struct {
			process podman.Process
			unseen  error
			limit   time.Duration
			want    error
		}{
			"it opens them in time":  {podman.Process{Running: true}, nil, time.Minute, nil},
			"it cannot be looked at": {podman.Process{}, errors.New("no /proc"), time.Minute, nil},
			"the time is over":       {podman.Process{Running: true}, nil, time.Second, context.DeadlineExceeded},
		} {
			p, looks, began := etcdProcess(t), []time.Duration{}, time.Now()
			p.locked = func(string) (bool, error) {
				looks = append(looks, time.Since(began))
				return time.Since(began) >= 2*time.Second, nil
			}
			p.look = func(context.Context) (podman.Process, error) { return c.process, c.unseen }
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			if err := p.awaitHeld(ctx); !errors.Is(err, c.want) || time.Since(began) != min(2*time.Second, c.limit) {
				t.Errorf("%s: %v after %s", rule, err, time.Since(began))
			}
			cancel()
			if !slices.Contains(looks, 500*time.Millisecond) {
				t.Errorf("%s: looked at %v", rule, looks)
			}
		}
	})
}

// TestAnEndedProcessGetsTheTimeToCloseItsFiles: for releaseTime, unless we are told to end.
func TestAnEndedProcessGetsTheTimeToCloseItsFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for rule, c := range map[string]struct {
			closes time.Duration
			limit  time.Duration
			took   time.Duration
			want   string
		}{
			"it closes them":                    {releaseTime - 10*time.Millisecond, time.Minute, releaseTime - 10*time.Millisecond, ""},
			"it closes them at the last moment": {releaseTime, time.Minute, releaseTime, ""},
			"it does not":                       {time.Hour, time.Minute, releaseTime + 10*time.Millisecond, "still holds its data"},
			"we are told to end":                {time.Hour, time.Second, time.Second, "deadline exceeded"},
		} {
			p, began := etcdProcess(t), time.Now()
			p.locked = func(string) (bool, error) { return time.Since(began) < c.closes, nil }
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			err := p.released(ctx, nil)
			cancel()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || time.Since(began) != c.took {
				t.Errorf("%s: %v after %s", rule, err, time.Since(began))
			}
		}
	})
}
