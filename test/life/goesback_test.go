package life_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/standing"
)

// TestAConfigurationThatFailsGoesBack gives control planes a configuration whose unit
// fails. The first host has its former one again and says why, and no other host is
// given it. The next configuration reaches all.
func TestAConfigurationThatFailsGoesBack(t *testing.T) {
	play(t, "a unit that fails", func(tr *trial) {
		tr.wish(good("before"))
		tr.rolled("before")
		given, since := tr.given(), tr.Now()

		tr.wish(bad("fails"))
		failed := tr.wentBack()
		tr.Trial.Took("until it is back", time.Since(since))
		tr.Logf("%s is back after %.0f s", failed, time.Since(since).Seconds())
		if err := tr.has(failed, "before"); err != nil {
			tr.Errorf("it is not what it was: %v", err)
		}
		tr.Eventually(time.Minute, "the pool says who failed, and why", func() error {
			return tr.condition(mcfgv1.MachineConfigPoolNodeDegraded, failed, unitName)
		})
		tr.tells(3, []string{failed, unitName, "failed"}, "config", "show")
		tr.tells(3, []string{failed + " could not get the configuration", unitName}, "status")
		delete(given, failed)
		tr.remains("no other host is given it", func() error { return tr.stillGiven(given) })
		for _, h := range tr.ControlPlanes() {
			if err := tr.has(h, "before"); err != nil {
				tr.Error(err)
			}
		}

		tr.wish(good("after"))
		tr.rolled("after")
		tr.Trial.Took("until all have the next one", time.Since(since))
		if told := tr.found(standing.ConfigFailed, failed); told != "" {
			tr.Errorf("the status still says: %s", told)
		}
		tr.Noticed("", since)
		tr.NothingFailed("gone back", since, application)
		tr.outages(since)
		tr.noWriteGapAbove(busyGap)
		tr.nobodyFenced()
	})
}

// TestAConfigurationThatIsRefusedReachesNoHost writes a configuration with two
// mistakes. A dry run, the pool and two commands name both with their fields, and no
// host is given anything.
func TestAConfigurationThatIsRefusedReachesNoHost(t *testing.T) {
	play(t, "a refused configuration", func(tr *trial) {
		tr.wish(good("before"))
		tr.rolled("before")
		given, since := tr.given(), tr.Now()

		setuid := file("/opt/life", "")
		setuid["mode"] = 0o4755
		wrong := machineConfig("refused", reads("refused"), file("/etc/kubernetes/life.conf", ""), setuid)
		mistakes := []string{
			"MachineConfig " + mcName, "spec.config.storage.files.2.path", "/etc/kubernetes/life.conf belongs to", "spec.config.storage.files.3.mode",
		}
		tr.tells(7, mistakes, "config", "diff", "--dry-run", tr.written(wrong))
		tr.wish(wrong)
		tr.Eventually(time.Minute, "the pool refuses it, with both mistakes", func() error {
			return tr.condition(mcfgv1.MachineConfigPoolRenderDegraded, mistakes...)
		})
		tr.Trial.Took("until it is refused", time.Since(since))
		tr.tells(3, append(mistakes, "is refused"), "config", "show")
		tr.tells(3, append(mistakes, "the MachineConfigs of the pool "+rollout.Master+" are refused"), "status")
		tr.remains("no host is given anything", func() error {
			return errors.Join(tr.stillGiven(given), tr.stillRefused())
		})
		for _, h := range tr.ControlPlanes() {
			if err := tr.has(h, "before"); err != nil {
				tr.Error(err)
			}
		}

		tr.wish(good("after"))
		tr.rolled("after")
		if told := tr.found(standing.PoolRefused, rollout.Master); told != "" {
			tr.Errorf("the status still says: %s", told)
		}
		tr.Noticed("", since)
		tr.NothingFailed("refused", since, application)
		tr.noWriteGapAbove(busyGap)
		tr.nobodyFenced()
	})
}

// wentBack waits until a control plane says that it went back from a configuration
// whose unit fails, and returns its name.
func (tr *trial) wentBack() string {
	tr.Helper()
	found := ""
	tr.Eventually(rolledWithin, "a host went back", func() error {
		var says []string
		for _, h := range tr.ControlPlanes() {
			n, err := tr.node(h)
			if err != nil {
				return err
			}
			a := n.Annotations
			if a[rollout.StateOf] == string(rollout.Degraded) && a[rollout.StageAt] == string(rollout.Failed) && strings.Contains(a[rollout.ReasonOf], unitName) {
				found = h
				return nil
			}
			says = append(says, fmt.Sprintf("%s is %s: %s", h, a[rollout.StateOf], a[rollout.ReasonOf]))
		}
		return errors.New(strings.Join(says, "; "))
	})
	return found
}

// given returns by its name what each host was given last, and when.
func (tr *trial) given() map[string]string {
	tr.Helper()
	out := map[string]string{}
	var nodes corev1.NodeList
	tr.Eventually(time.Minute, "the nodes are listed", func() error { return tr.API.List(tr.Context(), &nodes) })
	for _, n := range nodes.Items {
		out[n.Name] = gift(&n)
	}
	return out
}

func gift(n *corev1.Node) string {
	return n.Annotations[rollout.DesiredConfig] + " at " + n.Annotations[rollout.GivenAt]
}

// stillGiven returns which host was given something since.
func (tr *trial) stillGiven(before map[string]string) error {
	var nodes corev1.NodeList
	if err := tr.API.List(tr.Context(), &nodes); err != nil {
		return err
	}
	var errs []error
	for _, n := range nodes.Items {
		if had, asked := before[n.Name]; asked && gift(&n) != had {
			errs = append(errs, fmt.Errorf("%s was given %s, and had been given %s", n.Name, gift(&n), had))
		}
	}
	return errors.Join(errs...)
}

// stillRefused returns how the control planes' pool is, if it no longer refuses its
// configuration.
func (tr *trial) stillRefused() error { return tr.condition(mcfgv1.MachineConfigPoolRenderDegraded) }

// looks is the time for three looks of the operator, which come every half minute.
const looks = 90 * time.Second

// remains checks during several looks of the operator that something stays as it is.
func (tr *trial) remains(what string, check func() error) {
	tr.Helper()
	tr.remainsUntil(time.Now().Add(looks), what, check)
}

// remainsUntil checks until a moment that something stays as it is.
func (tr *trial) remainsUntil(end time.Time, what string, check func() error) {
	tr.Helper()
	for time.Now().Before(end) {
		if err := check(); err != nil {
			tr.Fatalf("%s: %v", what, err)
		}
		if err := host.Sleep(tr.Context(), time.Second); err != nil {
			tr.Fatal(err)
		}
	}
}

// written writes a MachineConfig into a file, and returns its path.
func (tr *trial) written(mc *mcfgv1.MachineConfig) string {
	tr.Helper()
	mc = mc.DeepCopy()
	mc.APIVersion, mc.Kind = mcfgv1.GroupVersion.String(), "MachineConfig"
	data, err := json.Marshal(mc)
	if err != nil {
		tr.Fatal(err)
	}
	path := filepath.Join(tr.TempDir(), "machineconfig.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		tr.Fatal(err)
	}
	return path
}
