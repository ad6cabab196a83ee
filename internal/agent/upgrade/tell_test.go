package upgrade

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// tells lets the loop look once, and reports whether it wrote.
func (w *world) tells() bool {
	w.t.Helper()
	before := w.writes
	if err := w.agent.tell(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return w.writes > before
}

func TestAHostTellsWhatIsNewAndShowsThatItLives(t *testing.T) {
	w := newWorld(t)
	w.host = gate.Host{
		Name: self, Disks: state.Known([]gate.Disk{{Path: "/var", Free: 20 << 30, Need: 2 << 30, Line: 4 << 30}}), Offset: state.Known(time.Millisecond),
		Fenced: state.Known(w.now), Synchronised: state.Known(true),
	}
	if w.tells() {
		t.Error("it tells of a node that it has not heard of")
	}
	w.agent.Nodes(w.nodes())
	if !w.tells() {
		t.Fatal("it does not tell")
	}
	said, err := annotation.Decode[annotation.Host](w.annotations[annotation.HostOf])
	if err != nil || said.Release.Name != oldOne || len(said.Offered) != 1 || said.Offered[0].Name != newOne || !state.Is(said.Facts.Release, oldOne) || len(said.Facts.Whole.Value) != 2 {
		t.Fatalf("%+v, %v", said, err)
	}
	free := func(bytes uint64) func() {
		return func() {
			w.host.Disks = state.Known([]gate.Disk{{Path: "/var", Free: bytes, Need: 2 << 30, Line: 4 << 30}})
		}
	}
	for _, c := range []struct {
		what   string
		change func()
		after  time.Duration
		want   bool
	}{
		{"nothing", func() {}, time.Minute, false},
		{"a little less space", free(20<<30 - 900<<20), time.Minute, false},
		{"much less space", free(15 << 30), time.Minute, true},
		{"a fact, too soon", func() { w.host.Synchronised = state.Known(false) }, time.Second, false},
		{"the same fact, later", func() {}, lookEvery, true},
		{"the clock, a little", func() { w.host.Offset = state.Known(9 * time.Millisecond) }, time.Minute, false},
		{"the BMC answered again", func() { w.host.Fenced = state.Known(w.now.Add(time.Minute)) }, time.Minute, false},
		{"a little less space, and too little", free(7<<30 + 1), time.Minute, true},
		{"the same, below the line", free(7<<30 - 1), time.Minute, true},
		{"a step of its way, at once", func() { w.agent.note(parachute.Journal{Step: parachute.Prepare}, "") }, time.Second, true},
		{"that it holds, at once", func() { w.agent.note(parachute.Journal{Step: parachute.Prepare}, "x") }, time.Second, true},
		{"nothing for long", func() {}, lifeEvery, true},
		{"a clock that went back", func() {}, -time.Hour, true},
	} {
		c.change()
		w.now = w.now.Add(c.after)
		if got := w.tells(); got != c.want {
			t.Errorf("%s: it wrote: %v", c.what, got)
		}
	}
}

func TestAJournalIsLockedWhileSomebodyDecides(t *testing.T) {
	s := NewStore(t.TempDir())
	unlock, err := s.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lock(); !errors.Is(err, ErrBusy) {
		t.Fatalf("%v", err)
	}
	unlock()
	again, err := s.Lock()
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestTheFilesOfAJournalTakeTurns(t *testing.T) {
	s := NewStore(t.TempDir())
	for n, step := range []parachute.Step{parachute.Prepare, parachute.Leave, parachute.Armed} {
		if err := s.Write(parachute.Journal{Step: step}, n+1); err != nil {
			t.Fatal(err)
		}
		if j, number, err := s.Read(); err != nil || j.Step != step || number != n+1 {
			t.Fatalf("%+v %d %v", j, number, err)
		}
	}
	full := s
	full.WriteFile = func(string, []byte, fs.FileMode) error { return fmt.Errorf("write: %w", unix.ENOSPC) }
	if err := full.Write(parachute.Journal{}, 4); err != nil {
		t.Fatal(err)
	}
	if j, number, err := s.Read(); err != nil || j.Step != parachute.None || number != 4 {
		t.Fatalf("on a full disk: %+v %d %v", j, number, err)
	}
	for _, down := range []bool{true, true, false, false} {
		if err := s.SetDown(down); err != nil || s.Down() != down {
			t.Fatalf("down %v: %v", s.Down(), err)
		}
	}
}
