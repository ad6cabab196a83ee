package life_test

import (
	"encoding/json"
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
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/labsite"
)

// otherMaxPods is a number of pods that no host has by itself, otherPIDs such a number of processes of a pod.
const (
	otherMaxPods = 97
	otherPIDs    = 2222
)

// TestKubeletSettings changes how many pods control planes take and how many processes a pod may have,
// by a KubeletConfig and a ContainerRuntimeConfig, and takes that back. Each time they boot, never two of
// them at once. A setting that is not allowed is refused with its path, and reaches no host; nor does one
// while the pool is paused.
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
		tr.Cleanup(func() {
			name := metav1.ObjectMeta{Name: mcName}
			tr.Remove(tr.T, &mcfgv1.KubeletConfig{ObjectMeta: name}, &mcfgv1.ContainerRuntimeConfig{ObjectMeta: name})
		})
		tr.kubelet(`{"cgroupDriver":"cgroupfs","maxPods":0}`)
		mistakes := []string{"KubeletConfig " + mcName, "spec.kubeletConfig.cgroupDriver", "spec.kubeletConfig.maxPods"}
		tr.Eventually(time.Minute, "the settings are refused", func() error {
			return errors.Join(tr.kubeletFailure(mistakes...), tr.condition(mcfgv1.MachineConfigPoolRenderDegraded, mistakes...))
		})
		tr.tells(3, append(mistakes, "is refused"), "config", "show")
		tr.remains("no host is given anything", func() error { return errors.Join(tr.stillGiven(given), tr.stillRefused()) })

		tr.pause(true)
		tr.kubelet(fmt.Sprintf(`{"maxPods":%d}`, otherMaxPods))
		tr.containers(otherPIDs)
		tr.Eventually(time.Minute, "the status says that the pool is paused", func() error {
			if tr.found(standing.PoolPaused, rollout.Master) == "" {
				return errors.New("it does not")
			}
			return nil
		})
		tr.remains("no host of a paused pool is given anything", func() error { return tr.stillGiven(given) })

		began := time.Now()
		tr.pause(false)
		tr.eachTakes(func(string) int64 { return otherMaxPods })
		for _, h := range tr.ControlPlanes() {
			if got := tr.podPIDs(h); got != otherPIDs {
				tr.Errorf("kubelet of %s gives a pod %d processes, want %d", h, got, otherPIDs)
			}
		}
		tr.Trial.Took("until all have them", time.Since(began))
		tr.Noticed("set", began)

		tr.pause(true) // so that hosts boot once for both
		tr.noKubelet()
		tr.Remove(tr.T, &mcfgv1.ContainerRuntimeConfig{ObjectMeta: metav1.ObjectMeta{Name: mcName}})
		began = time.Now()
		tr.pause(false)
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

// poolLabel is the label by which settings select the pool of the control planes.
const poolLabel = "pools.operator.machineconfiguration.openshift.io/" + rollout.Master

// kubelet creates or replaces the settings of kubelet for control planes.
func (tr *trial) kubelet(settings string) {
	tr.Helper()
	want := &mcfgv1.KubeletConfig{
		ObjectMeta: metav1.ObjectMeta{Name: mcName},
		Spec: mcfgv1.KubeletConfigSpec{
			MachineConfigPoolSelector: &metav1.LabelSelector{MatchLabels: map[string]string{poolLabel: ""}},
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

// containers creates the settings that give pods of control planes so many processes.
func (tr *trial) containers(pids int64) {
	tr.Helper()
	want := &mcfgv1.ContainerRuntimeConfig{
		ObjectMeta: metav1.ObjectMeta{Name: mcName},
		Spec: mcfgv1.ContainerRuntimeConfigSpec{
			MachineConfigPoolSelector: &metav1.LabelSelector{MatchLabels: map[string]string{poolLabel: ""}},
			ContainerRuntimeConfig:    &mcfgv1.ContainerRuntimeConfiguration{PidsLimit: &pids},
		},
	}
	tr.Eventually(time.Minute, "the API takes the settings of pods", func() error {
		err := tr.API.Create(tr.Context(), want.DeepCopy())
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// pause has the pool of the control planes paused, or not.
func (tr *trial) pause(paused bool) {
	tr.Helper()
	tr.Eventually(time.Minute, "the API takes the pool", func() error {
		var pool mcfgv1.MachineConfigPool
		if err := tr.API.Get(tr.Context(), client.ObjectKey{Name: rollout.Master}, &pool); err != nil {
			return err
		}
		pool.Spec.Paused = paused
		return tr.API.Update(tr.Context(), &pool)
	})
}

// podPIDs returns how many processes kubelet of a control plane gives a pod.
func (tr *trial) podPIDs(host string) int64 {
	tr.Helper()
	var said struct {
		Config struct {
			PIDs int64 `json:"podPidsLimit"`
		} `json:"kubeletconfig"`
	}
	tr.Eventually(time.Minute, "kubelet says its settings", func() error {
		out, err := tr.Sh(tr.Context(), host, "kubectl --kubeconfig "+state.AdminKubeconfig+" get --raw /api/v1/nodes/"+host+"/proxy/configz")
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(out), &said)
	})
	return said.Config.PIDs
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
