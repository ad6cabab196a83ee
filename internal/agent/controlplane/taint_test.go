package controlplane

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/outofservice"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/explain"
)

// world plays a host whose peer cp-2 was fenced, and the API.
type world struct {
	mu      sync.Mutex
	fence   []state.EtcdFenced
	broken  error // of the evidence
	report  state.EtcdReport
	silent  bool // the etcd keeper does not answer
	node    outofservice.Node
	refuses int // how many requests the API still fails
	unheard int // how many times the API still rejects that the node is not ready
	asked   int
	log     []string
	events  []state.Event
}

func newWorld() *world {
	return &world{
		fence: []state.EtcdFenced{{Target: "cp-2", State: "Off", Boot: "b", At: 50 * time.Minute}},
		report: state.EtcdReport{Snapshot: state.EtcdSnapshot{
			Host: "cp-1", Peer: "cp-2", Pacemaker: state.EtcdPacemaker{Contact: state.Known(false), Joined: time.Minute},
		}},
		node: outofservice.Node{Name: "cp-2", Ready: true, Annotations: map[string]string{}},
	}
}

func (w *world) NodeService(context.Context, string) (outofservice.Node, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if w.refuses > 0 {
		w.refuses--
		return outofservice.Node{}, errors.New("etcdserver: no leader")
	}
	return w.node, nil
}

// PatchNode applies the meaning of a patch. The patches themselves are tested
// elsewhere.
func (w *world) PatchNode(_ context.Context, _ string, ops []outofservice.Operation) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := outofservice.Verdict{Action: outofservice.Add, Mark: "cp-1 2026-11-20T08:50:00Z"}
	if slices.ContainsFunc(ops, func(o outofservice.Operation) bool { return o.Op == "remove" }) {
		v.Action = outofservice.Remove
	}
	if w.refuses > 0 {
		w.refuses--
		return errors.New("the server rejected our request")
	}
	w.node = outofservice.Apply(w.node, v)
	return nil
}

func (w *world) MarkUnready(_ context.Context, _, _ string, now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unheard > 0 {
		w.unheard--
		return errors.New("the server rejected our request")
	}
	w.node.Ready, w.node.ReadySince = false, now
	return nil
}

func (w *world) taints() *taints {
	now := func() time.Time { return time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC) }
	return &taints{
		host: "cp-1", api: w, now: now, log: w.logger(),
		event: func(e state.Event) { w.events = append(w.events, e) },
		boot:  func() (string, time.Duration, error) { return "b", time.Hour, nil },
		evidence: func() ([]state.EtcdFenced, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.fence, w.broken
		},
		word: func() bool { return w.report.Snapshot.Proofs.Human.Known },
		report: func(context.Context) (state.EtcdReport, error) {
			if w.silent {
				return state.EtcdReport{}, explain.ErrNoAgent
			}
			return w.report, nil
		},
	}
}

func (w *world) logger() *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// Write takes a line of the log.
func (w *world) Write(line []byte) (int, error) {
	w.log = append(w.log, string(line))
	return len(line), nil
}

func (w *world) returns() {
	w.report.Snapshot.Pacemaker.Contact = state.Known(true)
	w.report.Snapshot.Pacemaker.Joined = 55 * time.Minute
	w.node.Ready, w.node.ReadySince = true, time.Date(2026, 11, 20, 8, 58, 0, 0, time.UTC)
}

func (w *world) isTainted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.node.Taints) == 1
}

// pending does a step and reports whether there is to be another one soon.
func pending(t *testing.T, ts *taints) bool {
	t.Helper()
	r, _ := ts.step(t.Context()) // that it failed shows in what it did
	return r.Soon
}

func TestAFencedNodeIsTaintedUntilItIsBack(t *testing.T) {
	w := newWorld()
	ts := w.taints()
	if again := pending(t, ts); again || !w.isTainted() || w.node.Ready {
		t.Fatalf("again %t, %+v", again, w.node)
	}
	pending(t, ts)
	if !w.isTainted() || len(w.log) != 1 || !strings.Contains(w.log[0], "add, fenced") {
		t.Errorf("%+v, %q", w.node, w.log)
	}
	w.returns()
	if pending(t, ts); w.isTainted() || outofservice.Ours(w.node) {
		t.Errorf("%+v", w.node)
	}
	if e := w.events; len(e) != 2 || e[0].Kind != state.EventTaint || e[1].Kind != state.EventUntaint || e[0].Target != "cp-2" || e[0].Why == "" {
		t.Errorf("noted %+v", e)
	}
}

func TestTheAPIIsToldUntilItKnows(t *testing.T) {
	w := newWorld()
	w.unheard = 2
	ts := w.taints()
	for range 2 {
		if again := pending(t, ts); !again || !w.isTainted() || !w.node.Ready {
			t.Fatalf("again %t, %+v", again, w.node)
		}
	}
	if again := pending(t, ts); again || w.node.Ready {
		t.Errorf("again %t, %+v", again, w.node)
	}
}

func TestWithoutAProofNobodyIsAsked(t *testing.T) {
	w := newWorld()
	w.fence = nil
	if again := pending(t, w.taints()); again || w.asked != 0 {
		t.Errorf("again %t, %d requests", again, w.asked)
	}
}

func TestAnotherHostsMarkIsRemovedAfterAReboot(t *testing.T) {
	w := newWorld()
	w.fence = nil // it was of an earlier boot
	w.node = outofservice.Apply(w.node, outofservice.Verdict{Action: outofservice.Add, Mark: "cp-1 2026-11-20T08:50:00Z"})
	w.returns()
	ts := w.taints()
	if !ts.noteMarked([]outofservice.Node{{Name: "other"}, w.node}) {
		t.Fatal("the mark was not seen")
	}
	if pending(t, ts); w.isTainted() {
		t.Errorf("%+v", w.node)
	}
}

func TestNoTaintWhileSomethingIsUnknown(t *testing.T) {
	for name, change := range map[string]func(*world){
		"the agent of etcd does not answer": func(w *world) { w.silent = true },
		"the API answers errors":            func(w *world) { w.refuses = 1 },
		"the peer is in contact still": func(w *world) {
			w.report.Snapshot.Pacemaker.Contact = state.Known(true)
			w.fence[0].At = time.Hour - time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			change(w)
			if again := pending(t, w.taints()); !again || w.isTainted() {
				t.Errorf("again %t, %+v", again, w.node.Taints)
			}
		})
	}
}

func TestAPersonsWordTaintsThePeerToo(t *testing.T) {
	w := newWorld()
	w.fence = nil
	w.report.Snapshot.Proofs.Human = state.Known(state.Confirmation{Who: "ops", Boot: "b", At: 50 * time.Minute})
	if pending(t, w.taints()); !w.isTainted() {
		t.Errorf("%+v", w.node)
	}
}

func TestBrokenEvidenceDoesNotHideTheOther(t *testing.T) {
	w := newWorld()
	w.broken = errors.New("evidence cp-3.json: unexpected end")
	r, err := w.taints().step(t.Context())
	if !w.isTainted() || len(w.log) != 1 || !errors.Is(err, w.broken) || r.Again != taintResync {
		t.Errorf("%+v, %q, %v, %+v", w.node, w.log, err, r)
	}
}

func TestTheTaintComesAsSoonAsTheAPITakesWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.fence = nil
		ctx, cancel := context.WithCancel(t.Context())
		wake := loop.NewKick()
		done := make(chan struct{})
		go func() { defer close(done); loop.New(time.Now, w.logger()).Run(ctx, w.taints().task(wake)) }()
		time.Sleep(time.Minute)
		w.mu.Lock()
		if w.asked != 0 {
			t.Errorf("%d requests while nothing had happened", w.asked)
		}
		w.fence, w.refuses = newWorld().fence, 3
		w.mu.Unlock()
		wake.Kick()
		start := time.Now()
		for !w.isTainted() && time.Since(start) < time.Minute {
			time.Sleep(50 * time.Millisecond)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v after three refusals", took)
		}
		cancel()
		<-done
		if errs := slices.DeleteFunc(slices.Clone(w.log), func(l string) bool { return !strings.Contains(l, "no leader") }); len(errs) != 1 {
			t.Errorf("the same error was logged %d times", len(errs))
		}
	})
}

func TestWithoutAccessToTheAPINothingIsLookedAtAndNobodyIsTold(t *testing.T) {
	w := newWorld()
	ts := w.taints()
	ts.api, ts.open = nil, func() (nodeAPI, error) { return nil, fs.ErrNotExist }
	if r, err := ts.step(t.Context()); err != nil || r.Again != time.Second || w.asked != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	ts.open = func() (nodeAPI, error) { return nil, errors.New("not understood") }
	if r, err := ts.step(t.Context()); err == nil || r.Again != time.Second {
		t.Errorf("%+v, %v", r, err)
	}
	ts.open = func() (nodeAPI, error) { return w, nil }
	if pending(t, ts); !w.isTainted() {
		t.Errorf("%+v", w.node)
	}
}

func TestEachProofWakesAndNothingElseDoes(t *testing.T) {
	for file, wakes := range map[string]bool{"fenced/cp-2.json": true, "confirmation.json": true, "progress.json": false} {
		t.Run(file, func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			wake := loop.NewKick()
			go func() {
				_ = evidenceEvents(ctx, wake.Kick, filepath.Join(dir, "fenced"), filepath.Join(dir, "confirmation.json"))
			}()
			<-wake // it watches
			if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			limit := 20 * time.Second
			if !wakes {
				limit = 200 * time.Millisecond
			}
			select {
			case <-wake:
				if !wakes {
					t.Error("it woke")
				}
			case <-time.After(limit):
				if wakes {
					t.Error("it did not wake")
				}
			}
		})
	}
}

func TestTheOwnAPIServerIsAsked(t *testing.T) {
	for own, want := range map[string]string{"10.98.0.11": "https://10.98.0.11:6443", "fd98::11": "https://[fd98::11]:6443"} {
		if got := ownServer(netip.MustParseAddr(own)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
