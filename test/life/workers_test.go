package life_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/rollout"
)

// The pool of the site's own, the label of its hosts and what it adds.
const (
	tills     = "till"
	tillLabel = "node-role.kubernetes.io/" + tills
	tillFile  = "/etc/motd.d/70-till"
)

// TestMachineConfigOfWorkersUnderLoad gives workers a file, a kernel parameter and a unit,
// and then a file for which they boot. One worker gets into a pool of the site's own, whose
// configuration adds to that of workers, and leaves it again. At the end all is taken back.
// Control planes are given nothing, and no request to the API fails.
//
// With one worker it takes ten minutes.
func TestMachineConfigOfWorkersUnderLoad(t *testing.T) {
	const scenario = "machine configuration of workers"
	workers := workersOf(open(t).Site)
	if len(workers) == 0 {
		leaveOut(t, scenario, "there is no worker")
		return
	}
	play(t, scenario, func(tr *trial) {
		since, before := tr.Now(), tr.given()
		for _, h := range workers {
			delete(before, h)
		}
		for _, q := range []struct {
			what string
			do   func()
			pool string
			text string
			till bool
		}{
			{"a file, a unit and a kernel parameter", func() { tr.wish(ofRole(rollout.Worker, mcName, good("one"))) }, rollout.Worker, "one", false},
			{"a file for which hosts boot", func() { tr.wish(ofRole(rollout.Worker, mcName, rebooting("two"))) }, rollout.Worker, "two", false},
			{"a pool of the site's own", func() { tr.joinsTills(workers[0]) }, tills, "two", true},
			{"back to the pool of workers", func() { tr.leavesTills(workers[0]) }, rollout.Worker, "two", false},
			{"nothing", tr.takeBack, rollout.Worker, "", false},
		} {
			began, hosts := time.Now(), workers
			if q.pool == tills {
				hosts = workers[:1]
			}
			q.do()
			tr.Eventually(rolledWithin, q.what, func() error {
				return tr.restsIn(q.pool, hosts, func(host string) error {
					if err := tr.has(host, q.text); err != nil {
						return err
					}
					return tr.hasTillFile(host, q.till)
				})
			})
			tr.Trial.Took(q.what+" on workers", time.Since(began))
			tr.Logf("%s on %d workers: %.0f s", q.what, len(workers), time.Since(began).Seconds())
		}
		if err := tr.stillGiven(before); err != nil {
			tr.Error(err)
		}
		tr.delete(&mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: tills}})
		tr.Noticed("", since)
		tr.NothingFailed("workers configured", since, api)
		if len(workers) > 1 { // the pods of a single worker have nowhere to go
			tr.onlyKeptConnectionsEnd(since)
		}
		tr.outages(since)
		tr.noWriteGapAbove(busyGap)
		tr.nobodyFenced()
	})
}

// ofRole makes a MachineConfig one of another role and name.
func ofRole(role, name string, mc *mcfgv1.MachineConfig) *mcfgv1.MachineConfig {
	mc.Name = name
	mc.Labels = map[string]string{"machineconfiguration.openshift.io/role": role}
	return mc
}

// joinsTills makes the pool, which has the configuration of workers and its own, and gives
// it a host.
func (tr *trial) joinsTills(host string) {
	tr.Helper()
	raw, err := json.Marshal(map[string]any{
		"ignition": map[string]any{"version": "3.5.0"}, "storage": map[string]any{"files": []any{file(tillFile, "till\n")}},
	})
	if err != nil {
		tr.Fatal(err)
	}
	tr.wish(ofRole(tills, "70-"+tills, &mcfgv1.MachineConfig{Spec: mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}}}))
	tr.create(&mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: tills}, Spec: mcfgv1.MachineConfigPoolSpec{
		MachineConfigSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "machineconfiguration.openshift.io/role", Operator: metav1.LabelSelectorOpIn, Values: []string{rollout.Worker, tills}},
		}},
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{tillLabel: ""}},
	}})
	tr.label(host, `""`)
}

// leavesTills gives the host back to the pool of workers.
func (tr *trial) leavesTills(host string) {
	tr.Helper()
	tr.label(host, "null")
	tr.delete(&mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "70-" + tills}})
}

// label writes tillLabel with a value in JSON, which null takes away.
func (tr *trial) label(host, value string) {
	tr.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, tillLabel, value)
	tr.Eventually(time.Minute, "the node is labelled", func() error {
		return tr.API.Patch(tr.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: host}}, client.RawPatch(types.MergePatchType, patch))
	})
}

// hasTillFile returns whether a host lacks tillFile, or has it and should not.
func (tr *trial) hasTillFile(host string, want bool) error {
	root, err := tr.Lab.Root(tr.Context(), tr.Power, host)
	if err != nil {
		return err
	}
	_, err = os.Stat(root + tillFile)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if is := err == nil; is != want {
		return fmt.Errorf("%s has %s: %t, want %t", host, tillFile, is, want)
	}
	return nil
}
