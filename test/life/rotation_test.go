package life_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/lab"
)

// TestAuthoritiesAreReplacedUnderLoad replaces the CAs of the front proxy and of etcd,
// without and with a power cut in each phase, and then has tokens of service accounts
// signed by a new key. The old key is dropped an hour later by 'holdfast ca rotate',
// when no pod uses a token of it any more: no test waits for that.
//
// For the front proxy nothing is restarted. For etcd's CA each etcd and each API server
// is, one host after the other, and connections that a client kept end.
func TestAuthoritiesAreReplacedUnderLoad(t *testing.T) {
	for _, a := range []rotation.Authority{rotation.FrontProxyCA, rotation.EtcdCA} {
		play(t, fmt.Sprintf("%s replaced", a), func(tr *trial) {
			since := tr.Now()
			tr.says(0, "ca", "rotate", string(a), "--yes")
			tr.Trial.Took("until it is replaced", time.Since(since))
			tr.Noticed("", since)
			if a == rotation.FrontProxyCA {
				tr.NothingFailed("replaced", since, tr.Clients()...)
			}
			tr.onlyKeptConnectionsEnd(since)
			tr.outages(since)
			tr.noWriteGapAbove(busyGap)
			tr.nobodyFenced()
		})
		for _, phase := range []rotation.Phase{rotation.Trust, rotation.Sign, rotation.Drop} {
			if t.Failed() {
				return
			}
			play(t, fmt.Sprintf("%s replaced, power cut in phase %s", a, phase), func(tr *trial) { tr.cutInPhase(a, phase) })
		}
	}
	if t.Failed() {
		return
	}
	play(t, "key of service accounts replaced", func(tr *trial) {
		since := tr.Now()
		tr.says(3, "ca", "rotate", string(rotation.ServiceAccountKey), "--yes", "--token-life", "65m")
		tr.Trial.Took("until all sign by the new key", time.Since(since))
		tr.Noticed("", since)
		tr.NothingFailed("replaced", since, application)
		tr.outages(since)
		tr.noWriteGapAbove(busyGap)
		tr.nobodyFenced()
	})
}

// cutInPhase cuts the power of the host that has its turn in a phase, while the
// command runs, which ends as if nothing had been.
func (tr *trial) cutInPhase(a rotation.Authority, phase rotation.Phase) {
	tr.Helper()
	since := tr.Now()
	var all sync.WaitGroup
	all.Go(func() { tr.says(0, "ca", "rotate", string(a), "--yes") })
	turn := tr.turnIn(a, phase)
	tr.Inject(lab.Fault{Host: turn, Kind: lab.FaultReset})
	tr.Logf("%s loses its power in phase %s", turn, phase)
	all.Wait()
	tr.Trial.Took("until it is replaced", time.Since(since))
	tr.Noticed("", since)
}

// turnIn waits for a phase of an authority, and returns the host that has its turn in it.
func (tr *trial) turnIn(a rotation.Authority, phase rotation.Phase) string {
	tr.Helper()
	turn := ""
	tr.Eventually(10*time.Minute, fmt.Sprintf("a host has its turn in phase %s", phase), func() error {
		var s corev1.Secret
		key := client.ObjectKey{Namespace: rotation.WishNamespace, Name: rotation.WishName}
		if err := tr.API.Get(tr.Context(), key, &s); err != nil {
			return err
		}
		w, err := rotation.ParseWish(s.Data[string(a)])
		if err != nil {
			return err
		}
		if w.Phase != phase || w.Turn == "" {
			return fmt.Errorf("the phase is %s, the turn has %q", w.Phase, w.Turn)
		}
		turn = w.Turn
		return nil
	})
	return turn
}
