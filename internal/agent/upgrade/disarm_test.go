package upgrade

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
	unit "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// nothing is the releases of a host of which nobody asks for any.
type nothing struct{}

func (nothing) Whole(context.Context) state.Fact[[]string] { return state.Fact[[]string]{} }
func (nothing) Placed(string) bool                         { return false }
func (nothing) About(string) (gate.Release, error)         { return gate.Release{}, os.ErrNotExist }
func (nothing) Fetching() (how, failed string)             { return "", "" }

// accepted is an armed host in a folder that was accepted, and whether its timer runs.
func accepted(t *testing.T) (m machine, timer *bool) {
	t.Helper()
	m, _, _ = onDisk(t, parachute.Alone)
	timer = new(bool)
	m.systemd = func(_ context.Context, args ...string) ([]byte, error) {
		switch strings.Join(args, " ") {
		case "start " + unit.ParachuteTimer:
			*timer = true
		case "stop " + unit.ParachuteTimer:
			*timer = false
		case "is-active " + unit.ParachuteTimer:
			return []byte(map[bool]string{true: "active", false: "inactive"}[*timer]), nil
		}
		return nil, nil
	}
	if _, err := m.arm(t.Context(), oldOne, newOne); err != nil {
		t.Fatal(err)
	}
	if err := m.store.Write(parachute.Journal{From: oldOne, To: newOne, Step: parachute.Accepted, Boot: "b1"}, 1); err != nil {
		t.Fatal(err)
	}
	return m, timer
}

// looks runs the parachute of a machine.
func looks(t *testing.T, m machine) {
	t.Helper()
	_, err := Parachute{
		Host: Host{
			Journal: m.store, Disarm: m.disarm, Hangs: m.store.Hangs,
			Boot:    func() (string, time.Duration, error) { return "b1", time.Hour, nil },
			Running: func() (string, error) { return newOne, nil }, Previous: func() (string, error) { return oldOne, nil },
			Newer:      func(string, string) state.Fact[string] { return state.Fact[string]{} },
			Serves:     func(context.Context) state.Fact[bool] { return state.Fact[bool]{} },
			PeerServes: func(context.Context) state.Fact[bool] { return state.Fact[bool]{} },
		},
		Kind: parachute.Alone, Now: time.Now, Releases: nothing{},
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
}

// TestADisarmThatIsCutIsFinishedByTheParachute: the end of a way is cut before and after each of
// its effects, by the end of the agent or of the power. Whatever of the way could still do
// something has somebody who takes it away: static pods of the day of the upgrade would
// otherwise be written over later ones at each start of kubelet.
func TestADisarmThatIsCutIsFinishedByTheParachute(t *testing.T) {
	inert := []string{unit.UnitDir + "/" + unit.ParachuteUnit}
	for at := 1; ; at++ {
		for _, after := range []bool{false, true} {
			for _, power := range []bool{false, true} {
				m, timer := accepted(t)
				cut := &powercut.Cut{At: at, After: after}
				broken := m
				broken.remove = func(path string) error { return cut.Effect(func() error { return m.remove(path) }) }
				broken.store.Remove = broken.remove
				broken.systemd = func(ctx context.Context, args ...string) ([]byte, error) {
					return nil, cut.Effect(func() error { _, err := m.systemd(ctx, args...); return err })
				}
				err := broken.disarm(t.Context())
				if (err != nil) != cut.Dead {
					t.Fatalf("cut at %d: %v", at, err)
				}
				if !cut.Dead {
					if at < 8 {
						t.Fatalf("%d effects", at-1)
					}
					return
				}
				has := func(path string) bool { _, err := os.Lstat(filepath.Join(m.root, path)); return err == nil }
				// A return trusts in what is armed, and needs the static pods of the old release.
				armed, err := m.armed(t.Context(), oldOne)
				if err != nil || armed && len(slices.DeleteFunc(files(t, m.root), func(f string) bool { return !strings.Contains(f, "/pods/old/") })) != 2 {
					t.Errorf("cut at %d, after %v: armed, without all static pods: %v", at, after, err)
				}
				boots := has(unit.ParachuteWants) && has(unit.UnitDir+"/"+unit.ParachuteUnit)
				if boots || !power && *timer { // the next boot, or the timer
					looks(t, m)
				}
				for _, left := range files(t, m.root) {
					if !slices.Contains(inert, left) && (strings.Contains(left, "/pods/") || strings.HasPrefix(left, unit.UnitDir) || strings.HasSuffix(left, reserveFile)) {
						t.Errorf("cut at %d, after %v, power %v: %s is left", at, after, power, left)
					}
				}
			}
		}
	}
}
