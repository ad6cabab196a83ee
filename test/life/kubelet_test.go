package life_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/test/labsite"
)

// otherMaxPods is a number of pods that no host has by itself.
const otherMaxPods = 97

// TestKubeletSettings changes how many pods control planes take, and takes that back.
// Each time they boot, never two of them at once. A setting that is not allowed is
// refused with its path, and reaches no host.
//
// It takes about 25 minutes.
func TestKubeletSettings(t *testing.T) {
	play(t, "settings of kubelet", func(tr *trial) {
		usual := map[string]int64{}
		for _, h := range tr.ControlPlanes() {
			if usual[h] = tr.maxPods(h); usual[h] == otherMaxPods {
				tr.Fatalf("%s takes %d pods already", h, otherMaxPods)
			}
		}
		given, since := tr.given(), tr.Now()
		tr.Cleanup(func() { tr.Remove(tr.T, &mcfgv1.KubeletConfig{ObjectMeta: metav1.ObjectMeta{Name: mcName}}) })
		tr.kubelet(`{"cgroupDriver":"cgroupfs","maxPods":0}`)
		mistakes := []string{"KubeletConfig " + mcName, "spec.kubeletConfig.cgroupDriver", "spec.kubeletConfig.maxPods"}
		tr.Eventually(time.Minute, "the settings are refused", func() error {
			return errors.Join(tr.kubeletFailure(mistakes...), tr.condition(mcfgv1.MachineConfigPoolRenderDegraded, mistakes...))
		})
		tr.tells(3, append(mistakes, "is refused"), "config", "show")
		tr.remains("no host is given anything", func() error { return errors.Join(tr.stillGiven(given), tr.stillRefused()) })

		began := time.Now()
		tr.kubelet(fmt.Sprintf(`{"maxPods":%d}`, otherMaxPods))
		tr.eachTakes(func(string) int64 { return otherMaxPods })
		tr.Trial.Took("until all have them", time.Since(began))
		tr.Noticed("set", began)

		began = time.Now()
		tr.noKubelet()
		tr.eachTakes(func(host string) int64 { return usual[host] })
		tr.Trial.Took("until they are taken back", time.Since(began))
		tr.Noticed("taken back", began)
		if len(tr.ControlPlanes()) > 1 {
			tr.onlyKeptConnectionsEnd(since)
			tr.noWriteGapAbove(busyGap)
		}
		tr.outages(since)
		tr.nobodyFenced()
	})
}

// kubelet creates or replaces the settings of kubelet for control planes.
func (tr *trial) kubelet(settings string) {
	tr.Helper()
	want := &mcfgv1.KubeletConfig{
		ObjectMeta: metav1.ObjectMeta{Name: mcName},
		Spec: mcfgv1.KubeletConfigSpec{
			MachineConfigPoolSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pools.operator.machineconfiguration.openshift.io/" + rollout.Master: ""}},
			KubeletConfig:             &runtime.RawExtension{Raw: []byte(settings)},
		},
	}
	tr.Eventually(time.Minute, "the API takes the settings", func() error {
		var now mcfgv1.KubeletConfig
		err := tr.API.Get(tr.Context(), client.ObjectKeyFromObject(want), &now)
		if apierrors.IsNotFound(err) {
			return tr.API.Create(tr.Context(), want.DeepCopy())
		}
		if err != nil {
			return err
		}
		now.Spec = want.Spec
		return tr.API.Update(tr.Context(), &now)
	})
}

// noKubelet deletes the settings of kubelet.
func (tr *trial) noKubelet() {
	tr.Helper()
	gone := &mcfgv1.KubeletConfig{ObjectMeta: metav1.ObjectMeta{Name: mcName}}
	tr.Eventually(time.Minute, "the API deletes the settings", func() error {
		return client.IgnoreNotFound(tr.API.Delete(tr.Context(), gone))
	})
}

// kubeletFailure returns nil if the settings say that they are refused, and name each
// of these.
func (tr *trial) kubeletFailure(names ...string) error {
	var now mcfgv1.KubeletConfig
	if err := tr.API.Get(tr.Context(), client.ObjectKey{Name: mcName}, &now); err != nil {
		return err
	}
	for _, c := range now.Status.Conditions {
		if c.Type != mcfgv1.KubeletConfigFailure || c.Status != corev1.ConditionTrue {
			continue
		}
		for _, name := range names {
			if !strings.Contains(c.Message, name) {
				return fmt.Errorf("the KubeletConfig does not name %q: %s", name, c.Message)
			}
		}
		return nil
	}
	return fmt.Errorf("the KubeletConfig does not say that it is refused: %+v", now.Status.Conditions)
}

// maxPods returns how many pods a host takes, by its node.
func (tr *trial) maxPods(host string) int64 {
	tr.Helper()
	var n *corev1.Node
	tr.Eventually(time.Minute, "the node is read", func() (err error) {
		n, err = tr.node(host)
		return err
	})
	return n.Status.Capacity.Pods().Value()
}

// eachTakes waits until each control plane takes as many pods as wanted, and checks
// meanwhile that no two of them are on their way at once.
func (tr *trial) eachTakes(want func(host string) int64) {
	tr.Helper()
	tr.Eventually(rolledWithin, "every control plane takes as many pods as wanted", func() error {
		if away := tr.away(); len(away) > 1 {
			tr.Fatalf("%v are away at once", away)
		}
		return tr.atRest(func(host string) error {
			n, err := tr.node(host)
			if err != nil {
				return err
			}
			if got := n.Status.Capacity.Pods().Value(); got != want(host) {
				return fmt.Errorf("%s takes %d pods, want %d", host, got, want(host))
			}
			return nil
		})
	})
}

// away returns the control planes that take no pods, as far as an API server tells.
func (tr *trial) away() []string {
	var out []string
	for _, h := range tr.ControlPlanes() {
		if n, err := tr.node(h); err == nil && (n.Spec.Unschedulable || !labsite.Ready(n)) {
			out = append(out, h)
		}
	}
	return out
}
