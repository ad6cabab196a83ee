package life_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/lab"
)

// TestARotationWaitsForAHostThatIsAway begins to replace the CA of the front proxy, and then
// that of etcd, and shuts a control plane down before that trusts the new one. Nothing of
// the rotation goes on meanwhile; the command, 'holdfast ca show' and the status name the
// host. Once it is on again the rotation ends by itself. From the moment at which the host
// was off no new request fails, but for as few reads, which need etcd, as in any rotation.
//
// It takes about seven minutes for each.
func TestARotationWaitsForAHostThatIsAway(t *testing.T) {
	for _, ca := range []rotation.Authority{rotation.FrontProxyCA, rotation.EtcdCA} {
		if t.Failed() {
			return
		}
		waitsForAHost(t, ca)
	}
}

// waitsForAHost plays it for one authority.
func waitsForAHost(t *testing.T, ca rotation.Authority) {
	t.Helper()
	scenario := string(ca) + " replaced while a host is away"
	if len(open(t).ControlPlanes()) < 2 {
		leaveOut(t, scenario, "a rotation on a single control plane has nobody to wait for")
		return
	}
	play(t, scenario, func(tr *trial) {
		hosts, began := tr.ControlPlanes(), tr.Now()
		away := hosts[len(hosts)-1]

		// The command alone writes the next phase, so that it stays where it is without it.
		first := tr.starts("ca", "rotate", string(ca), "--yes", "--without-backup")
		tr.turnIn(ca, rotation.Trust)
		first.interrupts()
		if err := tr.rotationIs(ca, rotation.Trust); err != nil {
			tr.Fatalf("the command was interrupted too late: %v", err)
		}
		tr.Switch(away, lab.ActionShutdown)
		isOff(tr.Case, away)
		tr.notReady(away)
		tr.Steady("without " + away)

		since, names := time.Now(), away+" not ready"
		again := tr.starts("ca", "rotate", string(ca), "--yes", "--without-backup")
		tr.Eventually(time.Minute, "the command says who is away", func() error {
			if said := again.said(); !strings.Contains(inOneLine(said), names) {
				return fmt.Errorf("it says %q", said)
			}
			return nil
		})
		tr.tells(3, []string{string(ca) + ": " + names, "holdfast ca rotate " + string(ca)}, "ca", "show")
		tr.Eventually(time.Minute, "the status names the host", func() error {
			if tr.found(standing.NodeOffline, away)+tr.found(standing.NodeNotReady, away) == "" {
				return errors.New("it says nothing of " + away)
			}
			return nil
		})
		tr.remains("the rotation stays where it is", func() error { return tr.rotationIs(ca, rotation.Trust) })

		on := time.Now()
		tr.Switch(away, lab.ActionOn)
		again.ends(0)
		tr.Trial.Took("from the power until it is replaced", time.Since(on))
		if err := tr.rotationIs(ca, rotation.Done); err != nil {
			tr.Error(err)
		}
		tr.Noticed("", began)
		tr.onlyKeptEnd(since, 0)
		tr.outages(began)
		tr.nobodyFenced()
	})
}

// rotationIs returns nil if the rotation of an authority is in a phase.
func (tr *trial) rotationIs(a rotation.Authority, phase rotation.Phase) error {
	w, err := wishOf(tr.Context(), tr.API, a)
	if err == nil && w.Phase != phase {
		err = fmt.Errorf("the rotation of %s is in phase %s, not %s", a, w.Phase, phase)
	}
	return err
}
