package upgrade

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestAHostThatIsAloneGoesBackAsAPersonWants: the only one of its site, and one of two whose peer
// was taken out. One whose peer is only away does not.
func TestAHostThatIsAloneGoesBackAsAPersonWants(t *testing.T) {
	for what, c := range map[string]struct {
		kind parachute.Kind
		gone bool
		want string
	}{
		"the only one":                 {parachute.Alone, false, oldOne},
		"its peer was taken out":       {parachute.OfTwo, true, oldOne},
		"its peer is away":             {parachute.OfTwo, false, newOne},
		"one of three, peers are away": {parachute.OfMore, true, newOne},
	} {
		w := newWorld(t)
		w.kind = c.kind
		w.process()
		w.turn(parachute.Go)
		w.rests(false)
		w.peer, w.peerGone = state.Known(false), c.gone
		w.turn(parachute.GoBack)
		for range 200 {
			w.tick(false)
		}
		if j := w.journal(); w.current != c.want || !j.Step.AtRest() {
			t.Errorf("%s: it runs %s: %+v", what, w.current, j)
		}
	}
}

func TestThePlanOnTheDiskTellsWhetherThePeerWasTakenOut(t *testing.T) {
	root := t.TempDir()
	m, files := machine{root: root}, records.Files{Root: root}
	if m.peerGone() {
		t.Error("nobody said so")
	}
	if err := os.MkdirAll(filepath.Dir(files.Path(state.EtcdRetiredPath)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := files.WriteRetired(state.EtcdRetired{Peer: "cp-2"}); err != nil {
		t.Fatal(err)
	}
	if !m.peerGone() {
		t.Error("it was taken out")
	}
	if err := os.WriteFile(files.Path(state.EtcdRetiredPath), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if m.peerGone() {
		t.Error("a torn word counts as none")
	}
}
