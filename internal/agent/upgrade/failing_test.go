package upgrade

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	unit "github.com/holdfast/holdfast/internal/render/host"
)

var errFails = errors.New("no space left on device")

// TestAnActThatFailsAgainAndAgainIsToldAndGivenUpInTime: a host that has left serves nobody, so it
// waits for minutes; one that still serves has time.
func TestAnActThatFailsAgainAndAgainIsToldAndGivenUpInTime(t *testing.T) {
	for what, c := range map[string]struct {
		step  parachute.Step
		most  time.Duration
		stops bool
		says  string
	}{
		"ready": {parachute.Prepare, 31 * time.Minute, false, "prepare has failed"},
		"stop":  {parachute.Leave, 11 * time.Minute, false, "leave has failed"},
		"arm":   {parachute.Armed, 6 * time.Minute, true, "arm has failed"},
	} {
		w := newWorld(t)
		w.fails = map[string]error{what: fmt.Errorf("%s: %w", what, errFails)}
		w.turn(parachute.Go)
		w.until(c.step)
		began := w.now
		if w.agent.held != "" {
			t.Errorf("%s: what failed once is told: %q", what, w.agent.held)
		}
		for range 5 {
			w.tick(false)
		}
		if held := w.agent.held; !strings.Contains(held, c.says) || !strings.Contains(held, errFails.Error()) {
			t.Errorf("%s: held %q", what, held)
		}
		for w.journal().Step == c.step && w.now.Sub(began) < time.Hour {
			w.tick(false)
		}
		if took := w.now.Sub(began); took > c.most {
			t.Errorf("%s: it takes %s", what, took)
		}
		w.turn(parachute.Stay)
		w.rests(false)
		if slices.Contains(w.acts, "stop") != c.stops || w.current != oldOne || w.agent.held != "" {
			t.Errorf("%s: it did %v, held %q", what, w.acts, w.agent.held)
		}
	}
}

// TestWhatCannotBeArmedIsFoundWhileTheHostServes: a manifest that cannot be made for the new
// release, no program to return with, and a disk without room. Nothing of it is left for kubelet.
func TestWhatCannotBeArmedIsFoundWhileTheHostServes(t *testing.T) {
	for what, spoil := range map[string]func(*machine){
		"no images are known": func(m *machine) {
			m.pods.Images = func(string) (map[string]string, error) { return nil, errFails }
		},
		"no level is known":   func(m *machine) { m.pods.Level = func(string, string) (string, error) { return "", errFails } },
		"the disk is full":    func(m *machine) { m.store.WriteFile = func(string, []byte, fs.FileMode) error { return errFails } },
		"nobody could return": func(m *machine) { putAway(t, m.root) },
		"":                    func(*machine) {},
	} {
		m, _, _ := onDisk(t, parachute.Alone)
		spoil(&m)
		before := files(t, m.root)
		err := m.ready(t.Context(), oldOne, newOne)
		if (err == nil) != (what == "") {
			t.Errorf("%s: %v", what, err)
		}
		after := slices.DeleteFunc(files(t, m.root), func(f string) bool { return strings.HasSuffix(f, reserveFile) })
		if !slices.Equal(before, after) {
			t.Errorf("%s: it has %v", what, after)
		}
	}
}

// putAway removes the program with which a host returns.
func putAway(t *testing.T, root string) {
	t.Helper()
	if err := remove(filepath.Join(root, unit.ReleaseAgent(oldOne))); err != nil {
		t.Fatal(err)
	}
}
