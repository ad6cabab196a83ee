package life_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/render/operator"
)

// TestAHostThatIsEmptiedServesAgainWhenItsPeerGoes has one of two control planes emptied for a
// reboot, with a budget in the way, and shuts the other one down, on which the operator runs: one
// whose power is cut is fenced, and boots again. The operator starts on the host that it has
// cordoned itself, the host takes pods again and says why, and once the other one is back it is
// emptied anew and boots.
//
// It takes about eight minutes.
func TestAHostThatIsEmptiedServesAgainWhenItsPeerGoes(t *testing.T) {
	const scenario = "the peer of a host that is emptied goes"
	switch s := open(t); {
	case len(s.ControlPlanes()) != 2:
		leaveOut(t, scenario, "it is about two control planes")
		return
	case len(workersOf(s.Site)) > 0:
		leaveOut(t, scenario, "workers take the pods")
		return
	}
	play(t, scenario, func(tr *trial) {
		since, peer := tr.Now(), tr.operatorsHost()
		host := tr.peer(peer)
		tr.budget(2)
		command := tr.starts("host", "reboot", host, "--reason", "the test wants it")
		tr.Eventually(time.Minute, host+" waits until its pods have moved", func() error {
			n, err := tr.node(host)
			if err == nil && (!n.Spec.Unschedulable || n.Annotations[drain.Waits] == "") {
				err = fmt.Errorf("its annotations are %v", n.Annotations)
			}
			return err
		})
		off := time.Now()
		tr.Switch(peer, lab.ActionShutdown)
		isOff(tr.Case, peer)
		tr.Eventually(6*time.Minute, host+" takes pods again", func() error {
			n, err := tr.node(host)
			if err == nil && (n.Spec.Unschedulable || n.Annotations[rollout.StageAt] != string(rollout.Held)) {
				err = fmt.Errorf("cordoned %t, stage %q, reason %q", n.Spec.Unschedulable, n.Annotations[rollout.StageAt], n.Annotations[rollout.ReasonOf])
			}
			return err
		})
		tr.Trial.Took("from the shutdown until it takes pods", time.Since(off))
		tr.Logf("%s takes pods %.0f s after %s was told to shut down", host, time.Since(off).Seconds(), peer)
		if at := tr.operatorsHost(); at != host {
			tr.Errorf("the operator is on %s", at)
		}
		tr.tells(3, []string{"takes pods until the cluster carries on without it"}, "host", "list")

		tr.Switch(peer, lab.ActionOn)
		tr.budget(1)
		command.ends(0)
		tr.Trial.Took("from the wish until it has booted", time.Since(since))
		tr.Noticed("", since)
		tr.outages(since)
		tr.nobodyFenced()
	})
}

// operatorsHost returns the host on which a pod of the operator runs.
func (tr *trial) operatorsHost() string {
	tr.Helper()
	at := ""
	tr.Eventually(2*time.Minute, "the operator runs", func() error {
		var pods corev1.PodList
		if err := tr.API.List(tr.Context(), &pods, client.InNamespace(operator.Namespace)); err != nil {
			return err
		}
		for _, p := range pods.Items {
			if operator.Runs(p.Labels) && p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
				at = p.Spec.NodeName
				return nil
			}
		}
		return fmt.Errorf("none of %d pods of %s is its", len(pods.Items), operator.Namespace)
	})
	return at
}
