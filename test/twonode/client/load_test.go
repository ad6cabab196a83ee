package client

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// fake is a store in memory that can misbehave on demand.
type fake struct {
	mu       sync.Mutex
	revision int64
	values   map[string]string
	events   []Event
	down     bool
	lose     bool // acknowledge a write but forget it
	skip     bool // send nothing to watches
	lost     bool // a watch cannot be resumed
}

func (f *fake) write(_ context.Context, key, value string) (int64, Outcome, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return 0, Unknown, errors.New("down")
	}
	f.revision++
	if !f.lose {
		f.values[key] = value
	}
	if !f.skip {
		f.events = append(f.events, Event{Key: key, Value: value, Revision: f.revision})
	}
	return f.revision, OK, nil
}

func (f *fake) read(_ context.Context, key string) (string, int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return "", 0, errors.New("down")
	}
	return f.values[key], f.revision, nil
}

func (f *fake) watch(ctx context.Context, after int64, see func(key, value string, revision int64)) error {
	for ctx.Err() == nil {
		f.mu.Lock()
		events, down, lost := f.events, f.down, f.lost
		f.mu.Unlock()
		if lost {
			return errLost
		}
		if down {
			return errors.New("down")
		}
		for _, e := range events {
			if e.Revision > after {
				see(e.Key, e.Value, e.Revision)
				after = e.Revision
			}
		}
		_ = host.Sleep(ctx, time.Millisecond)
	}
	return ctx.Err()
}

func (f *fake) newest(context.Context) (int64, error) { return 0, errLost }

func (f *fake) close() {}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// play runs a load on a fake for two seconds, with a change in between.
func play(t *testing.T, change func(*fake)) (History, error) {
	t.Helper()
	var h History
	var err error
	synctest.Test(t, func(t *testing.T) {
		f := &fake{values: map[string]string{}}
		rec := NewRecorder()
		shape := Shape{Targets: []Target{{Name: "a"}, {Name: "b"}}, Writers: 2}.withDefaults()
		l := start(t.Context(), rec, shape, []store{f, f}, "k", 0)
		time.Sleep(time.Second)
		change(f)
		time.Sleep(time.Second)
		err = l.Stop(t.Context())
		h = rec.Copy()
	})
	return h, err
}

func TestALoadOnAStoreThatKeepsItsWordPasses(t *testing.T) {
	h, err := play(t, func(f *fake) {
		f.set(func() { f.down = true })
		time.Sleep(500 * time.Millisecond)
		f.set(func() { f.down = false })
	})
	if err = errors.Join(err, Check(h)); err != nil {
		t.Error(err)
	}
	gap := h.Gap("", time.Second, 3*time.Second)
	if gap.Length < 500*time.Millisecond || gap.Length > 600*time.Millisecond || len(h.Broken["a"]) == 0 {
		t.Errorf("gap %v, watches broke at %v", gap, h.Broken)
	}
	if len(h.Ops) < 100 || len(h.Final) != 2 {
		t.Errorf("%d operations, final state %v", len(h.Ops), h.Final)
	}
}

func TestALoadFindsAStoreThatBreaksItsWord(t *testing.T) {
	cases := map[string]struct {
		change func(*fake)
		want   string
	}{
		"forgets a write":               {func(f *fake) { f.set(func() { f.lose = true }) }, "not linearizable"},
		"tells watches nothing":         {func(f *fake) { f.set(func() { f.skip = true }) }, "is missing"},
		"goes back":                     {func(f *fake) { f.set(func() { f.revision -= 50 }) }, "given out twice"},
		"compacts what was not watched": {func(f *fake) { f.set(func() { f.lost = true }) }, "gone"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h, err := play(t, c.change)
			if err = errors.Join(err, Check(h)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want something with %q", err, c.want)
			}
		})
	}
}

func TestAStoreThatStaysDownIsAnError(t *testing.T) {
	if _, err := play(t, func(f *fake) { f.set(func() { f.down = true }) }); err == nil {
		t.Error("the end could not be read, and nobody minded")
	}
}
