package life_test

import (
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/lab/badrelease"
)

// TestTheOnlyControlPlaneGoesBackAsAPersonWants takes a site of one control plane to a release whose
// agent hangs, while its servers serve. Such a host stays: a way back would end what serves. Once a
// person wants it, the parachute takes the host back, which hears of it from the host's own API
// server: the agent that reads it otherwise never runs.
//
// CONTROL_PLANES=1 SCENARIOS=TheOnlyControlPlane OLDER=... hack/test upgrade plays it.
func TestTheOnlyControlPlaneGoesBackAsAPersonWants(t *testing.T) {
	if *badReleases == "" {
		t.Skip("bad releases are played by 'hack/test upgrade'")
	}
	if n := len(open(t).ControlPlanes()); n != 1 {
		t.Skipf("the site has %d control planes: this is played with CONTROL_PLANES=1", n)
	}
	playUpgrade(t, "the only control plane, a bad release: agent", func(tr *trial, w ways) {
		store, err := release.Open(filepath.Join(*badReleases, badrelease.Agent))
		if err != nil {
			tr.Fatal(err)
		}
		folder := path.Join(lab.StickPath, badrelease.Agent)
		tr.says(0, append([]string{"upgrade"}, append(wanting(store.Manifest().Digest, "--from-folder", folder), "--no-wait")...)...)
		name := tr.atStep(parachute.Switched)
		switched := time.Now()

		// A host of two has given such a release up by then.
		const stays = 6 * time.Minute
		for time.Since(switched) < stays {
			if err := tr.isAt(name, parachute.Switched, parachute.Started, parachute.Proving); err != nil {
				tr.Fatalf("%.0f s after its switch, without a person: %v", time.Since(switched).Seconds(), err)
			}
			if err := host.Sleep(tr.Context(), 5*time.Second); err != nil {
				tr.Fatal(err)
			}
		}

		asked := time.Now()
		tr.says(0, "upgrade", "rollback", "--yes")
		tr.Eventually(5*time.Minute, name+" is back", func() error { return tr.isAt(name, parachute.Returned) })
		tr.Trial.Took("back, once a person wanted it", time.Since(asked))
		tr.arrive(w.from)
		tr.homeAgain(isBack, w)
	})
}
