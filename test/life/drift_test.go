package life_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/standing"
)

// toldWithin is the time in which a host tells what somebody changed on it. It looks
// every ten minutes.
const toldWithin = 11 * time.Minute

// byHand is what a person adds to a file.
const byHand = "by hand"

// TestADriftIsToldAndNotPutRight has a person edit a file of the configuration on a
// host. Its node, its pool and two commands tell it with the path, and the file stays
// as it is. Once the person has put it back, it is no longer told. Changed once more, it
// is put right when a person asks for that.
//
// It takes about 25 minutes.
func TestADriftIsToldAndNotPutRight(t *testing.T) {
	play(t, "a file changed by hand", func(tr *trial) {
		tr.wish(good("ours"))
		tr.rolled("ours")
		host, since := tr.ControlPlanes()[0], tr.Now()

		tr.On(host, "echo "+byHand+" >> "+filePath)
		tr.Eventually(toldWithin, "the change is told", func() error { return tr.drifted(host) })
		tr.Trial.Took("until it is told", time.Since(since))
		tr.Logf("told after %.0f s", time.Since(since).Seconds())
		tr.Eventually(time.Minute, "the pool tells it", func() error {
			return tr.condition(mcfgv1.MachineConfigPoolNodeDegraded, host, filePath)
		})
		tr.tells(3, []string{host, filePath, "somebody changed"}, "config", "show")
		tr.tells(3, []string{"on " + host + " somebody changed", filePath}, "status")
		if told := tr.found(standing.ConfigChanged, host); !strings.Contains(told, filePath) {
			tr.Errorf("the finding %s of %s is %q", standing.ConfigChanged, host, told)
		}
		if err := tr.has(host, "ours\n"+byHand); err != nil {
			tr.Errorf("it was put right, though nobody asked for that: %v", err)
		}

		back := time.Now()
		tr.On(host, "echo ours > "+filePath)
		tr.Eventually(toldWithin, "the change is no longer told", func() error {
			if tr.drifted(host) == nil {
				return errors.New("it is still told")
			}
			return nil
		})
		tr.Trial.Took("until it is no longer told", time.Since(back))
		tr.rolled("ours")
		tr.Eventually(time.Minute, "the pool is whole", func() error { return tr.condition(mcfgv1.MachineConfigPoolUpdated) })
		tr.tells(0, nil, "config", "show")
		if told := tr.found(standing.ConfigChanged, host); told != "" {
			tr.Errorf("the status still says: %s", told)
		}
		tr.On(host, "echo "+byHand+" >> "+filePath)
		tr.On(host, "systemctl restart holdfast-configure.service")
		tr.Eventually(time.Minute, "it is put right where a person asks for that", func() error { return tr.has(host, "ours") })
		tr.Noticed("", since)
		tr.NothingFailed("changed by hand and put back", since, application)
		tr.noWriteGapAbove(busyGap)
		tr.nobodyFenced()
	})
}

// drifted returns nil if the node of a host says that somebody changed filePath, and
// the host rests with its configuration.
func (tr *trial) drifted(host string) error {
	n, err := tr.node(host)
	if err != nil {
		return err
	}
	a := n.Annotations
	if a[rollout.StateOf] != string(rollout.Degraded) || a[rollout.StageAt] != string(rollout.Changed) || !strings.Contains(a[rollout.ReasonOf], filePath) {
		return fmt.Errorf("%s is %s (%s): %s", host, a[rollout.StateOf], a[rollout.StageAt], a[rollout.ReasonOf])
	}
	if a[rollout.CurrentConfig] != a[rollout.DesiredConfig] {
		return fmt.Errorf("%s has %s and is to have %s", host, a[rollout.CurrentConfig], a[rollout.DesiredConfig])
	}
	return nil
}

// condition returns nil if a condition of the control planes' pool is true, and its
// message names each of these.
func (tr *trial) condition(kind mcfgv1.MachineConfigPoolConditionType, names ...string) error {
	var pool mcfgv1.MachineConfigPool
	if err := tr.API.Get(tr.Context(), client.ObjectKey{Name: rollout.Master}, &pool); err != nil {
		return err
	}
	for _, c := range pool.Status.Conditions {
		if c.Type != kind {
			continue
		}
		if c.Status != corev1.ConditionTrue {
			return fmt.Errorf("the pool's condition %s is %s", kind, c.Status)
		}
		for _, name := range names {
			if !strings.Contains(c.Message, name) {
				return fmt.Errorf("the pool's condition %s does not name %q: %s", kind, name, c.Message)
			}
		}
		return nil
	}
	return fmt.Errorf("the pool has no condition %s", kind)
}
