package upgrade

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
)

// TestDaemonsEndOnlyOnceThatIsNoted: without the mark a host at rest does not look whether they
// run, so after a crash nobody would start them.
func TestDaemonsEndOnlyOnceThatIsNoted(t *testing.T) {
	w := newWorld(t)
	full := errors.New("no space left on device")
	write := w.agent.Journal.WriteFile
	w.agent.Journal.WriteFile = func(path string, data []byte, mode fs.FileMode) error {
		if filepath.Base(path) == downFile {
			return full
		}
		return write(path, data, mode)
	}
	w.turn(parachute.Go)
	for range 20 {
		w.operator()
		w.agent.Nodes(w.nodes())
		if _, err := w.agent.step(t.Context()); err != nil && !errors.Is(err, full) {
			t.Fatal(err)
		}
	}
	if j := w.journal(); j.Step != parachute.Leave || slices.Contains(w.acts, "stop") {
		t.Errorf("%+v, it did %v", j, w.acts)
	}
}
