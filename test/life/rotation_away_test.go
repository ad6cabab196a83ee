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
// was off no new request fails, but for as few reads, which need etcd, as in any rotation. The key
// of encryption is not replaced meanwhile either: that is refused.
//
// The key of service accounts has a test of its own, since its rotation lasts for an hour and
// keeps others of it from being played. The Kubernetes CA has none: its command runs on a
// control plane, and wants boots and a restart of the pod network in between.
//
// It takes about seven minutes for each.
func TestARotationWaitsForAHostThatIsAway(t *testing.T) {
	for _, ca := range []rotation.Authority{rotation.FrontProxyCA, rotation.EtcdCA} {
		if t.Failed() {
			return
		}
		waitsForAHost(t, awayPlay{ca: ca, ends: rotation.Done, play: play})
	}
}

// awayPlay is a rotation that waits for a host: the phase in which its command ends once that is
// back, with which code and by which further arguments, and how it is played.
type awayPlay struct {
	ca   rotation.Authority
	ends rotation.Phase
	code int
	more []string
	play func(*testing.T, string, func(*trial))
}

// waitsForAHost plays it for one authority.
func waitsForAHost(t *testing.T, w awayPlay) {
	t.Helper()
	ca := w.ca
	scenario := string(ca) + " replaced while a host is away"
	if len(open(t).ControlPlanes()) < 2 {
		leaveOut(t, scenario, "a rotation on a single control plane has nobody to wait for")
		return
	}
	rotate := append([]string{"ca", "rotate", string(ca), "--yes", "--without-backup"}, w.more...)
	w.play(t, scenario, func(tr *trial) {
		hosts, began := tr.ControlPlanes(), tr.Now()
		away := hosts[len(hosts)-1]

		// The command alone writes the next phase, so that it stays where it is without it.
		first := tr.starts(rotate...)
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
		again := tr.starts(rotate...)
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
		tr.refusesAnotherKey(names)
		tr.remains("the rotation stays where it is", func() error { return tr.rotationIs(ca, rotation.Trust) })

		on := time.Now()
		tr.Switch(away, lab.ActionOn)
		again.ends(w.code)
		tr.Trial.Took("from the power until its command ended", time.Since(on))
		if err := tr.rotationIs(ca, w.ends); err != nil {
			tr.Error(err)
		}
		tr.Noticed("", began)
		tr.onlyKeptEnd(since, 0)
		tr.outages(began)
		tr.nobodyFenced()
	})
}

// refusesAnotherKey checks that the key of encryption is not replaced, for a reason, and that
// nothing has changed what is wished of it.
func (tr *trial) refusesAnotherKey(why string) {
	tr.Helper()
	before := tr.keysVersion()
	tr.tells(7, []string{"refused, nothing was changed", why}, "encryption", "rotate", "--without-backup")
	if after := tr.keysVersion(); after != before {
		tr.Errorf("it was refused, and the wish for keys has version %q, before %q", after, before)
	}
}

// rotationIs returns nil if the rotation of an authority is in a phase.
func (tr *trial) rotationIs(a rotation.Authority, phase rotation.Phase) error {
	w, err := wishOf(tr.Context(), tr.API, a)
	if err == nil && w.Phase != phase {
		err = fmt.Errorf("the rotation of %s is in phase %s, not %s", a, w.Phase, phase)
	}
	return err
}
