package releases

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

// unit plays the unit of a host.
type unit struct {
	works  bool
	state  State
	starts []string
	err    error
}

func (u *unit) of() Unit {
	return Unit{
		Start: func(_ context.Context, request string) error {
			if u.err == nil {
				u.starts, u.works = append(u.starts, request), true
			}
			return u.err
		},
		Works: func(context.Context) (bool, error) { return u.works, nil },
		State: func() (State, error) { return u.state, nil },
	}
}

// follower returns the loop of a host of newWorld, which has heard a request.
func follower(w *world, u *unit, request string) *Agent {
	a := New(Options{Host: w.Host, Unit: u.of(), Node: func() string { return "cp-1" }, Now: func() time.Time { return time.Unix(1e9, 0) }})
	a.Nodes([]state.Node{{Name: "cp-2"}, {Name: "cp-1", Annotations: map[string]string{annotation.FetchOf: request}}})
	return a
}

func TestAHostOnWhichNothingIsWantedStartsNothing(t *testing.T) {
	for _, request := range []string{"", wants(t)} {
		u := &unit{}
		a := follower(newWorld(t), u, request)
		if got, err := a.step(t.Context()); err != nil || got.Again != 0 || len(u.starts) > 0 {
			t.Errorf("%q: %+v, %v, started for %q", request, got, err, u.starts)
		}
	}
	u := &unit{}
	a := follower(newWorld(t), u, `{"format":9,"wanted":["sha256:1"]}`)
	_, err := a.step(t.Context())
	if how, failed := a.Fetching(); !errors.Is(err, annotation.ErrNewer) || how != "" || !strings.Contains(failed, "a later release") || len(u.starts) > 0 {
		t.Errorf("%v, %q, %q", err, how, failed)
	}
}

func TestContainerdIsAskedSeldomWhileNothingIsWanted(t *testing.T) {
	for request, want := range map[string]int{"": 3, wants(t): 40} {
		w := newWorld(t)
		a := follower(w, &unit{}, request)
		now := time.Unix(1e9, 0)
		a.Now = func() time.Time { return now }
		for range 40 { // as often as the agent tells of its host, for twenty minutes
			a.Whole(t.Context())
			now = now.Add(30 * time.Second)
		}
		if w.asked > want || w.asked == 0 {
			t.Errorf("%q: asked %d times within 20 minutes, want at most %d", request, w.asked, want)
		}
	}
}

// An offer may stand for weeks. In an upgrade what a host has decides what it does.
func TestContainerdIsAskedSeldomOnceWhatIsOfferedLiesHere(t *testing.T) {
	old, next, _ := digests(t)
	request := wants(t, old, next)
	for what, c := range map[string]struct {
		fetched     bool
		turn        string
		least, most int
	}{
		"it is fetched": {false, "", 30, 40}, "it lies here": {true, "", 1, 3}, "an upgrade is under way": {true, `{"format":1}`, 30, 40},
	} {
		w := newWorld(t)
		a := follower(w, &unit{}, request)
		a.Nodes([]state.Node{{Name: "cp-1", Annotations: map[string]string{annotation.FetchOf: request, annotation.TurnOf: c.turn}}})
		if c.fetched {
			if err := w.Do(t.Context(), request); err != nil {
				t.Fatal(err)
			}
		}
		now := time.Unix(1e9, 0)
		a.Now = func() time.Time { return now }
		w.asked = 0
		for range 40 { // as often as the agent tells of its host, for twenty minutes
			a.Whole(t.Context())
			now = now.Add(30 * time.Second)
		}
		if w.asked < c.least || w.asked > c.most {
			t.Errorf("%s: asked %d times within 20 minutes, want %d to %d", what, w.asked, c.least, c.most)
		}
	}
}

// TestAReleaseIsReadOnceForEachListing: its index is parsed and hashed, twice a minute on each host.
func TestAReleaseIsReadOnceForEachListing(t *testing.T) {
	_, next, _ := digests(t)
	w := newWorld(t)
	a := follower(w, &unit{}, "")
	now := time.Unix(1e9, 0)
	a.Now = func() time.Time { return now }
	if err := w.Do(t.Context(), wants(t, next)); err != nil {
		t.Fatal(err)
	}
	a.Whole(t.Context())
	about, err := a.About(next)
	if err != nil {
		t.Fatal(err)
	}
	store, err := w.open(next)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(store.Dir()); err != nil {
		t.Fatal(err)
	}
	if again, err := a.About(next); err != nil || !reflect.DeepEqual(again, about) {
		t.Errorf("%+v, %v, before %+v", again, err, about)
	}
	now = now.Add(keepEvery)
	a.Whole(t.Context())
	if again, err := a.About(next); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a release that is gone: %+v, %v", again, err)
	}
}

// TestADiskThatHangsHoldsUpNobodyWhoHearsOfNodes: the watch of nodes is the network's, too.
func TestADiskThatHangsHoldsUpNobodyWhoHearsOfNodes(t *testing.T) {
	_, next, _ := digests(t)
	w := newWorld(t)
	a := follower(w, &unit{}, "")
	if err := w.Do(t.Context(), wants(t, next)); err != nil {
		t.Fatal(err)
	}
	a.Whole(t.Context())
	store, err := w.open(next)
	if err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(store.Dir(), "index.json") // a pipe in its place is read until its writer ends
	if err := errors.Join(os.Remove(index), unix.Mkfifo(index, 0o600)); err != nil {
		t.Fatal(err)
	}
	reads := make(chan struct{})
	go func() { defer close(reads); _, _ = a.About(next) }()
	disk, err := os.OpenFile(index, os.O_WRONLY, 0) // waits until somebody reads
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{})
	go func() { defer close(heard); a.Nodes([]state.Node{{Name: "cp-1"}}) }()
	select {
	case <-heard:
	case <-time.After(10 * time.Second):
		t.Error("it waits for the disk")
	}
	if err := disk.Close(); err != nil {
		t.Error(err)
	}
	<-reads
	<-heard
}

func TestTheAgentHasTheUnitFetchAndTellsHowFarItIs(t *testing.T) {
	old, next, _ := digests(t)
	w, u := newWorld(t), &unit{}
	request := wants(t, old, next)
	a := follower(w, u, request)
	select {
	case <-a.Task().Wake:
	default:
		t.Fatal("the annotation does not wake it")
	}
	if got, err := a.step(t.Context()); err != nil || got.Again != follow || len(u.starts) != 1 || u.starts[0] != request {
		t.Fatalf("%+v, %v, started for %q", got, err, u.starts)
	}
	u.state = State{Request: request, Doing: "fetches " + next}
	if got, err := a.step(t.Context()); err != nil || got.Again != follow || len(u.starts) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if how, failed := a.Fetching(); how != "fetches "+next || failed != "" {
		t.Errorf("%q, %q", how, failed)
	}
	if err := w.Do(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	u.works, u.state = false, State{Request: request}
	got, err := a.step(t.Context())
	if err != nil || got.Again != keepEvery || got.Changed == "" {
		t.Errorf("%+v, %v", got, err)
	}
	if how, failed := a.Fetching(); how != "" || failed != "" || len(a.Whole(t.Context()).Value) != 2 {
		t.Errorf("%q, %q, %v", how, failed, a.Whole(t.Context()))
	}
	if got, err := a.step(t.Context()); err != nil || got.Again != keepEvery || len(u.starts) != 1 {
		t.Errorf("it is fetched again: %+v, %v", got, err)
	}
	// What is lost later is fetched again.
	for name := range w.images {
		delete(w.images, name)
	}
	if _, err := a.step(t.Context()); err != nil || len(u.starts) != 2 {
		t.Errorf("started %d times, %v", len(u.starts), err)
	}
}

func TestAFetchThatFailsIsTriedAgainLaterAndLaterAndSaysWhy(t *testing.T) {
	_, next, _ := digests(t)
	u := &unit{}
	request := wants(t, next)
	a := follower(newWorld(t), u, request)
	for i, pause := range []time.Duration{retry, 2 * retry, 4 * retry, 8 * retry, 16 * retry, maxRetry, maxRetry} {
		if _, err := a.step(t.Context()); err != nil || len(u.starts) != i+1 {
			t.Fatalf("try %d: %v, started %d times", i, err, len(u.starts))
		}
		u.works, u.state = false, State{Request: request, Failed: "the registry x: no route"}
		got, err := a.step(t.Context())
		if err == nil || got.Again != pause {
			t.Errorf("try %d: %+v, %v", i, got, err)
		}
		if _, failed := a.Fetching(); failed != "the registry x: no route" {
			t.Errorf("try %d: %q", i, failed)
		}
	}
	// A unit that was ended by force says nothing itself.
	if _, err := a.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	u.works, u.state = false, State{Request: request, Doing: "fetches"}
	if _, err := a.step(t.Context()); err == nil || !strings.Contains(err.Error(), "journalctl -u holdfast-fetch") {
		t.Errorf("%v", err)
	}
	u.err = errors.New("no such unit")
	if _, err := a.step(t.Context()); err == nil || err.Error() != "no such unit" {
		t.Errorf("%v", err)
	}
	// Whoever wants nothing any more hears of no failure.
	a.Nodes([]state.Node{{Name: "cp-1"}})
	if _, err := a.step(t.Context()); err != nil {
		t.Error(err)
	}
	if _, failed := a.Fetching(); failed != "" {
		t.Errorf("%q", failed)
	}
}

func TestAnotherWishIsCarriedOutOnceTheUnitHasEnded(t *testing.T) {
	old, next, _ := digests(t)
	u := &unit{}
	a := follower(newWorld(t), u, wants(t, next))
	if _, err := a.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.Nodes([]state.Node{{Name: "cp-1", Annotations: map[string]string{annotation.FetchOf: wants(t, old)}}})
	if got, err := a.step(t.Context()); err != nil || got.Again != follow || len(u.starts) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	u.works, u.state = false, State{Request: wants(t, next), Failed: "x"}
	if got, err := a.step(t.Context()); err != nil || got.Again != -1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := a.step(t.Context()); err != nil || len(u.starts) != 2 || u.starts[1] != wants(t, old) {
		t.Errorf("%q, %v", u.starts, err)
	}
}

func TestWhichReleasesAreWholeIsUnknownWithoutContainerd(t *testing.T) {
	w := newWorld(t)
	w.Images = mute{w}
	if got := w.Whole(t.Context()); got.Known {
		t.Errorf("%v", got)
	}
}

type mute struct{ *world }

func (mute) List(context.Context) (map[string]Held, error) { return nil, errors.New("no answer") }
