package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/eventlog"
	"github.com/holdfast/holdfast/internal/adapter/observe/member"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/mayhold"
	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/state"
)

// asked is the answer of a daemon to one request.
func asked(t *testing.T, d *daemon, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	d.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	return w
}

func answerIn(t *testing.T, w *httptest.ResponseRecorder) (a podmanetcd.Answer) {
	t.Helper()
	if err := json.NewDecoder(bytes.NewReader(w.Body.Bytes())).Decode(&a); err != nil {
		t.Errorf("%q: %v", w.Body.String(), err)
	}
	return a
}

// TestEachRequestHasItsPath: a path that nobody serves is not found.
func TestEachRequestHasItsPath(t *testing.T) {
	d := newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, hostEffects(), records.Files{Root: t.TempDir()}, "")
	d.alone.See = func() podmanetcd.Seen { return podmanetcd.Seen{} }
	d.alone.End = func(context.Context) error { return nil }
	for request, want := range map[string]int{
		"GET /report": 200, "GET /" + keeperclient.MembershipPath: 503, "POST /monitor": 200, "POST /notify": 200, "POST /start": 200,
		"POST /stop": 200, "POST /reload-agent": 200, "POST /" + state.RaceRequestPath: 400, "POST /" + state.HeardRequestPath: 400,
		"GET /stop": 405, "POST /promote": 404,
	} {
		method, path, _ := strings.Cut(request, " ")
		w := asked(t, d, method, path, "")
		if w.Code != want {
			t.Errorf("%s: %d", request, w.Code)
		}
		if kind := w.Header().Get("Content-Type"); want == 200 && (kind != "application/json" || w.Body.Len() == 0) {
			t.Errorf("%s: %q of %s", request, w.Body.String(), kind)
		}
	}
}

func TestANoticeOfPacemakerWakesTheKeeper(t *testing.T) {
	k := newKeeper(t, &world{}, state.EtcdStarted)
	d := newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, hostEffects(), records.Files{Root: t.TempDir()}, "")
	d.kept.Store(k)
	if a := answerIn(t, asked(t, d, http.MethodPost, "/notify", "")); a != (podmanetcd.Answer{}) {
		t.Errorf("%+v", a)
	}
	select {
	case <-k.wake:
	default:
		t.Error("it sleeps on")
	}
}

// TestWhatIsWrongWithARequestIsAFailureInOneLine: and nothing is wished for then.
func TestWhatIsWrongWithARequestIsAFailureInOneLine(t *testing.T) {
	for _, path := range []string{"/start", "/reload-agent"} {
		d := newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, hostEffects(), records.Files{Root: t.TempDir()}, "")
		d.prepare = func(state.EtcdParameters) (*Keeper, error) {
			return nil, errors.Join(errors.New("no certificate"), errors.New("no key"))
		}
		if a := answerIn(t, asked(t, d, http.MethodPost, path, pairText)); a.Code != podmanetcd.Generic || a.Reason != "no certificate; no key" {
			t.Errorf("%s: %+v", path, a)
		}
		w := httptest.NewRecorder()
		d.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, torn{}))
		if a := answerIn(t, w); a.Code != podmanetcd.Generic || a.Reason != "the connection ended" {
			t.Errorf("%s: %+v", path, a)
		}
	}
}

type torn struct{}

func (torn) Read([]byte) (int, error) { return 0, errors.New("the connection ended") }

// TestAStopSucceedsOnceNeitherEtcdNorAStandInRuns: what is unknown runs.
func TestAStopSucceedsOnceNeitherEtcdNorAStandInRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no, yes := state.Known(false), state.Known(true)
		none, one := state.Known(state.MemberID(0)), state.Known(state.MemberID(7))
		for rule, c := range map[string]struct {
			wish    state.EtcdWish
			running state.Fact[bool]
			standIn state.Fact[state.MemberID]
			ok      bool
		}{
			"nothing runs":                         {state.EtcdStopped, no, none, true},
			"etcd runs":                            {state.EtcdStopped, yes, none, false},
			"nobody knows whether it does":         {state.EtcdStopped, state.Fact[bool]{}, none, false},
			"a stand-in votes":                     {state.EtcdStopped, no, one, false},
			"nobody knows whether it does so":      {state.EtcdStopped, no, state.Fact[state.MemberID]{}, false},
			"a look from before Pacemaker's stop":  {state.EtcdStarted, no, none, false},
			"a look from before Pacemaker's start": {state.EtcdNotAsked, no, none, false},
		} {
			k := newKeeper(t, &world{}, state.EtcdStarted)
			d := newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, effects{}, records.Files{Root: t.TempDir()}, "")
			d.kept.Store(k)
			k.report.Wish, k.report.Snapshot.Local.Running, k.report.Snapshot.Local.StandIn = c.wish, c.running, c.standIn
			k.report.Snapshot.Record = state.Known(state.EtcdRecord{State: state.EtcdSole})
			k.report.Verdict.Reason, k.report.Problem = "it waits", "the disk hangs"
			d.alone.See = func() podmanetcd.Seen { return podmanetcd.Seen{} }
			began := time.Now()
			a := answerIn(t, asked(t, d, http.MethodPost, "/stop", ""))
			if took := time.Since(began); c.ok && (a != podmanetcd.Answer{} || took != 0) ||
				!c.ok && (a.Code != podmanetcd.Generic || a.Reason != "etcd did not stop: it waits the disk hangs" || took != StopLimit) {
				t.Errorf("%s: %+v after %s", rule, a, took)
			}
			if k.Wish().Wish != state.EtcdStopped {
				t.Errorf("%s: Pacemaker's wish is %s", rule, k.Wish().Wish)
			}
		}
	})
}

// TestAStopWaitsAMomentUntilThePeerKnows that this host left: once Pacemaker ends, nobody tells it.
func TestAStopWaitsAMomentUntilThePeerKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		departs := state.EtcdSnapshot{
			Record:    state.Known(state.EtcdRecord{State: state.EtcdDeparting, Seq: 4, Member: 0xa}),
			Local:     state.EtcdLocal{Running: state.Known(false), StandIn: state.Known(state.MemberID(0))},
			Pacemaker: state.EtcdPacemaker{Contact: state.Known(true), Ring: 7},
			Statement: state.Known(state.EtcdStatement{Ring: 7, SeenSeq: 3, Record: state.EtcdRecord{State: state.EtcdPair, Member: 0xb}}),
		}
		read := departs
		read.Statement.Value.SeenSeq = 4
		for rule, c := range map[string]struct {
			later state.EtcdReport
			want  time.Duration
		}{
			"the peer reads it":           {state.EtcdReport{Wish: state.EtcdStopped, Snapshot: read}, 3 * time.Second},
			"the peer never reads it":     {state.EtcdReport{Wish: state.EtcdStopped, Snapshot: departs}, etcdmember.ToldLimit},
			"Pacemaker starts etcd again": {state.EtcdReport{Wish: state.EtcdStarted, Snapshot: departs}, 3 * time.Second},
		} {
			k := newKeeper(t, &world{}, state.EtcdStarted)
			d := newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, effects{}, records.Files{Root: t.TempDir()}, "")
			d.kept.Store(k)
			k.report = state.EtcdReport{Wish: state.EtcdStopped, Snapshot: departs}
			began := time.Now()
			go func() {
				time.Sleep(3 * time.Second)
				k.mu.Lock()
				defer k.mu.Unlock()
				k.report = c.later
				close(k.changed)
				k.changed = make(chan struct{})
			}()
			a := answerIn(t, asked(t, d, http.MethodPost, "/stop", ""))
			if took := time.Since(began); a != (podmanetcd.Answer{}) || took != c.want {
				t.Errorf("%s: %+v after %s", rule, a, took)
			}
		}
	})
}

func TestAStopThatCannotBeNotedHasFailed(t *testing.T) {
	k := newKeeper(t, &world{}, state.EtcdStarted)
	k.SaveWish = func(state.EtcdWishNote) error { return errors.New("no space") }
	d := newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, effects{}, records.Files{Root: t.TempDir()}, "")
	d.kept.Store(k)
	if a := answerIn(t, asked(t, d, http.MethodPost, "/stop", "")); a.Code != podmanetcd.Generic || !strings.Contains(a.Reason, "no space") {
		t.Errorf("%+v", a)
	}
}

// TestWhoListensIsToldOfAChangeOnly: for as long as listenFor.
func TestWhoListensIsToldOfAChangeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, effects{}, records.Files{Root: t.TempDir()}, "")
		began := time.Now()
		mark := asked(t, d, http.MethodGet, "/report?"+keeperclient.MarkParameter+"=other", "")
		if took := time.Since(began); took != 0 || !strings.Contains(mark.Body.String(), "not-set-up") {
			t.Errorf("%s after %s", mark.Body, took)
		}
		began = time.Now()
		r := d.next(t.Context(), mayhold.Mark(d.report()))
		if took := time.Since(began); took != listenFor || r.Verdict.Rule != "not-set-up" {
			t.Errorf("%s after %s", r.Verdict.Rule, took)
		}
	})
}

// TestASocketThatCannotBeMadeIsToldWithItsReason.
func TestASocketThatCannotBeMadeIsToldWithItsReason(t *testing.T) {
	dir := t.TempDir()
	keep(t, filepath.Join(dir, "file"), "")
	keep(t, filepath.Join(dir, "folder", "x"), "")
	for path, want := range map[string]string{
		"file/s":                    "not a directory",
		"folder":                    "directory not empty",
		strings.Repeat("long/", 40): "invalid argument",
		strings.Repeat("long", 80):  "file name too long",
	} {
		d := newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, effects{}, records.Files{}, "")
		if err := d.serve(t.Context(), filepath.Join(dir, path)); err == nil || !strings.HasPrefix(err.Error(), "socket of the daemon: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestOnlyRootMayAskTheDaemon(t *testing.T) {
	s := begin(t, nil)
	s.order(t, "notify", "")
	for path, want := range map[string]os.FileMode{s.socket: 0o600 | os.ModeSocket} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
}

// TestASocketIsLostOnceAnotherFileIsThere, and not when the daemon ends.
func TestASocketIsLostOnceAnotherFileIsThere(t *testing.T) {
	dir := t.TempDir()
	for rule, c := range map[string]struct {
		change func(path string) error
		lost   bool
	}{
		"it stays":               {func(string) error { return nil }, false},
		"it is removed":          {os.Remove, true},
		"another is moved there": {func(path string) error { return os.Rename(filepath.Join(dir, "other"), path) }, true},
	} {
		path := filepath.Join(dir, "s")
		keep(t, path, "")
		keep(t, filepath.Join(dir, "other"), "")
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithTimeout(t.Context(), 3*socketLook)
			defer end()
			time.AfterFunc(socketLook/2, func() {
				if err := c.change(path); err != nil {
					t.Error(err)
				}
			})
			began := time.Now()
			if got := lost(ctx, path); got != c.lost || got && time.Since(began) != socketLook {
				t.Errorf("%s: %t after %s", rule, got, time.Since(began))
			}
		})
	}
	if !lost(t.Context(), filepath.Join(dir, "none")) {
		t.Error("one that was never there")
	}
}

// TestWhatIsSeenWithoutTheKeeper: what hangs or fails stays unknown.
func TestWhatIsSeenWithoutTheKeeper(t *testing.T) {
	failed := errors.New("it failed")
	yes, no := state.Known(true), state.Known(false)
	for rule, c := range map[string]struct {
		harm func(*play, *effects)
		want podmanetcd.Seen
	}{
		"nothing runs":         {func(*play, *effects) {}, podmanetcd.Seen{Held: no, Lives: no, StandsIn: no}},
		"etcd runs":            {func(p *play, _ *effects) { p.process.Running, p.holds = true, true }, podmanetcd.Seen{Held: yes, Lives: yes, StandsIn: no}},
		"a stand-in votes":     {func(p *play, _ *effects) { p.standIn.Member = 7 }, podmanetcd.Seen{Held: no, Lives: no, StandsIn: yes}},
		"kubelet's":            {func(p *play, _ *effects) { keep(p.t, p.d.files.Path(StaticPodPath), "") }, podmanetcd.Seen{Held: no, Lives: no, StandsIn: no, Foreign: true}},
		"the lock is not read": {func(_ *play, e *effects) { e.locked = func(string) (bool, error) { return true, failed } }, podmanetcd.Seen{Lives: no, StandsIn: no}},
		"the process is not": {func(_ *play, e *effects) {
			e.look = func(context.Context) (podman.Process, error) { return podman.Process{Running: true}, failed }
		}, podmanetcd.Seen{Held: no, StandsIn: no}},
		"nor the stand-in": {func(p *play, e *effects) {
			e.standIn = func() (etcd.StandIn, error) { return etcd.StandIn{Member: 7}, failed }
		}, podmanetcd.Seen{Held: no, Lives: no}},
		"the disk hangs": {func(p *play, e *effects) {
			e.locked = func(string) (bool, error) { time.Sleep(time.Minute); return false, nil }
		}, podmanetcd.Seen{Lives: no, StandsIn: no}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPlay(t)
			e := p.effects()
			c.harm(p, &e)
			if got := e.see(p.d.files)(); got != c.want {
				t.Errorf("%s: %+v", rule, got)
			}
			time.Sleep(time.Hour) // until what hangs has ended
		})
	}
}

// TestBothAreEndedWithoutTheKeeper, though one of them fails, and in their time.
func TestBothAreEndedWithoutTheKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did []string
		e := effects{
			stopStandIn: func(context.Context) error { did = append(did, "stand-in"); return errors.New("one") },
			stop: func(ctx context.Context, grace time.Duration) error {
				if did = append(did, "etcd"); grace != stopGrace {
					t.Errorf("it gets %s", grace)
				}
				<-ctx.Done()
				return errors.New("two")
			},
		}
		began := time.Now()
		if err := e.endAlone(t.Context()); err == nil || err.Error() != "one\ntwo" || !slices.Equal(did, []string{"stand-in", "etcd"}) || time.Since(began) != endTime {
			t.Errorf("%v after %s, did %v", err, time.Since(began), did)
		}
	})
}

func TestAStopWithoutTheKeeperIsNotedForTheNext(t *testing.T) {
	files := records.Files{Root: t.TempDir()}
	e := effects{boot: func() (string, time.Duration, error) { return "boot-2", time.Hour, nil }}
	if err := e.withoutKeeper(files).Note(); err != nil || files.Wish("boot-2") != (state.EtcdWishNote{Wish: state.EtcdStopped, At: time.Hour, Boot: "boot-2"}) {
		t.Errorf("%v, %+v", err, files.Wish("boot-2"))
	}
	e.boot = func() (string, time.Duration, error) { return "", 0, errors.New("no /proc") }
	if err := e.noteStop(files); err == nil || err.Error() != "store Pacemaker's request: no /proc" {
		t.Errorf("%v", err)
	}
	if e := hostEffects().withoutKeeper(files); e.See == nil || e.End == nil || OnThisHost().See == nil {
		t.Error("a part is missing")
	}
}

// TestEachQuestionThatHangsLeavesItsFactUnknown: the loop goes on without it.
func TestEachQuestionThatHangsLeavesItsFactUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func() { time.Sleep(time.Hour) }
		s := limited(member.Sources{
			Record:  func() (state.EtcdRecord, error) { hang(); return state.EtcdRecord{}, nil },
			Held:    func() (bool, error) { hang(); return true, nil },
			StandIn: func() (state.MemberID, error) { hang(); return 7, nil },
			Human:   func() (state.Fact[state.Confirmation], error) { hang(); return state.Fact[state.Confirmation]{}, nil },
		})
		for what, ask := range map[string]func() error{
			"the record":       func() error { _, err := s.Record(); return err },
			"the lock":         func() error { _, err := s.Held(); return err },
			"the stand-in":     func() error { _, err := s.StandIn(); return err },
			"the confirmation": func() error { _, err := s.Human(); return err },
		} {
			began := time.Now()
			if err := ask(); err == nil || time.Since(began) != fileTime {
				t.Errorf("%s: %v after %s", what, err, time.Since(began))
			}
		}
		time.Sleep(2 * time.Hour) // until all of it has ended
	})
}

// TestTheWatchOfTheProcessWakesAtItsEnd, and looks again for the next one.
func TestTheWatchOfTheProcessWakesAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, failed, awaits, wakes := podman.Process{}, error(nil), 0, 0
		var unwatched error
		e := effects{
			look: func(context.Context) (podman.Process, error) { return now, failed },
			awaitEnd: func(_ context.Context, pid int) error {
				if awaits++; pid != now.PID {
					t.Errorf("waits for %d", pid)
				}
				now = podman.Process{}
				return unwatched
			},
		}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.watchProcess(ctx, func() { wakes++ }) }()
		for _, c := range []struct {
			rule          string
			change        func()
			awaits, wakes int
		}{
			{"nothing runs", func() {}, 0, 0},
			{"etcd runs", func() { now = podman.Process{Running: true, PID: 7} }, 1, 1},
			{"another one runs", func() { now = podman.Process{Running: true, PID: 9} }, 1, 1},
			{"it cannot be looked at", func() { now, failed = podman.Process{Running: true, PID: 9}, errors.New("no /proc") }, 0, 0},
			{"it cannot be waited for", func() { failed, unwatched = nil, errors.New("no such call") }, 1, 0},
		} {
			awaits, wakes = 0, 0
			c.change()
			time.Sleep(unseen)
			synctest.Wait()
			if awaits != c.awaits || wakes != c.wakes {
				t.Errorf("%s: waited %d times, woke %d times", c.rule, awaits, wakes)
			}
		}
		end()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

// TestTheDaemonServesKeepsAndFeedsTheWatchdogUntilItsParametersChange.
func TestTheDaemonServesKeepsAndFeedsTheWatchdogUntilItsParametersChange(t *testing.T) {
	dir := t.TempDir()
	systemd, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "unixgram", filepath.Join(dir, "notify"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "notify"))
	t.Setenv("WATCHDOG_USEC", "100000")
	p := &play{t: t, began: time.Now(), root: dir, members: make(chan state.Fact[state.Membership], 1), reaches: make(chan state.Reach), statements: map[string]string{}}
	e := p.effects()
	e.settle = func(context.Context, string) error { return nil }
	d := newDaemon(Options{Host: "alpha", Now: time.Now, Log: logOf(t)}, e, records.Files{Root: dir}, filepath.Join(dir, "s"))
	d.events = eventlog.New(eventlog.Options{Boot: p.boot, Now: time.Now, Hear: func(error) {}, Write: func([]state.Event) error { return nil }})
	var fed atomic.Int32
	go func() {
		for text := make([]byte, 64); ; {
			n, _, err := systemd.ReadFrom(text)
			if err != nil {
				return
			}
			if string(text[:n]) == "WATCHDOG=1" {
				fed.Add(1)
			}
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- d.run(t.Context()) }()
	s := &site{daemon: d}
	keep(t, d.files.Path("/run/holdfast/etcd/x"), "")
	if a := s.order(t, "start", pairText); a != (podmanetcd.Answer{}) {
		t.Fatalf("%+v", a)
	}
	for end := time.Now().Add(time.Minute); (fed.Load() < 2 || d.report().Verdict.Rule == "") && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if r, err := keeperclient.Report(t.Context(), d.socket); err != nil || r.Verdict.Rule != "unknown.local" || fed.Load() < 2 || r.Wish != state.EtcdStarted {
		t.Errorf("%+v, %v, fed %d times", r.Verdict, err, fed.Load())
	}
	if d.hung() != "" {
		t.Errorf("%q hangs", d.hung())
	}
	if a := s.order(t, "reload-agent", strings.Replace(pairText, "-997", "-5", 1)); a != (podmanetcd.Answer{}) {
		t.Errorf("%+v", a)
	}
	if err := <-ended; !errors.Is(err, errAgain) {
		t.Errorf("%v", err)
	}
	_ = systemd.Close()
}
