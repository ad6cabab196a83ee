package life_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/decide/window"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestTurnsBeginInTheMaintenanceWindow gives the control planes' pool a window that opens
// in a few minutes, a configuration, and a person's wish that a host boots in the window.
// Until then nobody is given anything, and the pool and the commands say when it opens.
// Then the configuration reaches all, and the host boots after that.
//
// It takes about twelve minutes.
func TestTurnsBeginInTheMaintenanceWindow(t *testing.T) {
	play(t, "a maintenance window", func(tr *trial) {
		tr.wish(good("before"))
		tr.rolled("before")
		planes, given, since := tr.ControlPlanes(), tr.given(), tr.Now()
		host := planes[len(planes)-1]
		tr.movesPods(host)
		before := tr.boot(host)

		opens := time.Now().UTC().Truncate(time.Minute).Add(4 * time.Minute)
		tr.annotatesPool(window.Annotation, "Daily "+opens.Format("15:04")+" "+length+" UTC")
		says := "its maintenance window opens at " + opens.Format(time.RFC3339)
		tr.wish(good("after"))
		tr.tells(3, []string{host + " would wait", says}, "host", "reboot", host, "--in-window", "--dry-run")
		tr.says(0, "host", "reboot", host, "--in-window", "--no-wait", "--reason", "the test wants it in the window")
		tr.Eventually(time.Minute, "the pool says when its window opens", func() error {
			return tr.condition(mcfgv1.MachineConfigPoolUpdating, says)
		})
		tr.tells(3, []string{says}, "config", "show")
		tr.Eventually(time.Minute, "the host says for what it waits", func() error { return tr.waits(host, says) })
		tr.tells(3, []string{"the test wants it in the window", says}, "host", "show", host)
		tr.tells(3, []string{host, says}, "host", "list")
		tr.Eventually(saysWithin, "the status tells of the pool", func() error {
			if told := tr.found(standing.PoolWaits, rollout.Master); !strings.Contains(told, says) {
				return fmt.Errorf("it tells %q", told)
			}
			return nil
		})
		tr.remainsUntil(opens.Add(-2*time.Second), "nobody has a turn before the window", func() error {
			return errors.Join(tr.stillGiven(given), tr.waits(host, says), tr.sameBoot(host, before))
		})

		tr.rolled("after")
		tr.Trial.Took("from the opening until all have the configuration", time.Since(opens))
		tr.Eventually(rolledWithin, host+" has booted, as it was wanted", func() error {
			return errors.Join(tr.booted(host, before), tr.wantsNothing(host))
		})
		tr.Trial.Took("from the opening until the host has booted", time.Since(opens))
		tr.asAfterPlannedBoot(host, since)
	})
}

// length is that of the window: the shortest that there is.
const length = "15m"

// TestARebootThatTheDistributionWants leaves on a host what a package of Debian leaves that
// wants a reboot. The status tells it, and nobody boots for it. Once the pool says that
// such a host boots, it boots in its turn, once. The host looks every hour; here its agent
// is started again instead.
//
// It takes about eight minutes.
func TestARebootThatTheDistributionWants(t *testing.T) {
	play(t, "a reboot that the distribution wants", func(tr *trial) {
		planes := tr.ControlPlanes()
		host := planes[len(planes)-1]
		tr.movesPods(host)
		before := tr.boot(host)
		tr.On(host, "echo life >/run/reboot-required.pkgs; echo '*** System restart required ***' >/run/reboot-required; systemctl restart holdfast-agent")
		tr.Eventually(2*time.Minute, "the status tells that it wants a reboot", func() error {
			if told := tr.found(standing.RebootRequired, host); !strings.Contains(told, "life") {
				return fmt.Errorf("it tells %q", told)
			}
			return nil
		})
		tr.remains("nobody boots it for that", func() error { return errors.Join(tr.sameBoot(host, before), tr.wantsNothing(host)) })

		since := tr.Now()
		tr.annotatesPool(rollout.RebootRequired, rollout.RebootsRequired)
		tr.Eventually(rolledWithin, host+" has booted, as its distribution wants", func() error {
			return errors.Join(tr.booted(host, before), tr.wantsNothing(host), tr.requiresNothing(host))
		})
		tr.Trial.Took("from the pool's word until it has booted", time.Since(since))
		after := tr.boot(host)
		tr.remains("it boots once", func() error { return errors.Join(tr.sameBoot(host, after), tr.wantsNothing(host)) })
		if told := tr.found(standing.RebootRequired, host); told != "" {
			tr.Errorf("the status still says: %s", told)
		}
		tr.asAfterPlannedBoot(host, since)
	})
}

// annotatesPool writes an annotation of the control planes' pool, as a person does. The
// test's end takes it away.
func (tr *trial) annotatesPool(name, value string) {
	tr.Helper()
	tr.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tr.Context()), time.Minute)
		defer cancel()
		if err := tr.annotatePool(ctx, name, nil); err != nil {
			tr.Errorf("take %s of the pool away: %v", name, err)
		}
	})
	tr.Eventually(time.Minute, "the pool is annotated", func() error { return tr.annotatePool(tr.Context(), name, &value) })
}

func (tr *trial) annotatePool(ctx context.Context, name string, value *string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{name: value}}})
	if err != nil {
		return err
	}
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: rollout.Master}}
	return tr.API.Patch(ctx, pool, client.RawPatch(types.MergePatchType, patch))
}

// waits returns nil if a host that is to boot waits for what these words say.
func (tr *trial) waits(host, words string) error {
	n, err := tr.node(host)
	if err != nil {
		return err
	}
	if said := n.Annotations[rollout.RebootWaits]; !strings.Contains(said, words) {
		return fmt.Errorf("%s waits for %q", host, said)
	}
	return nil
}

// sameBoot returns nil while a host runs in the same boot.
func (tr *trial) sameBoot(host, boot string) error {
	now, err := tr.Sh(tr.Context(), host, sinceWhen)
	if err == nil && strings.TrimSpace(now) != boot {
		err = errors.New(host + " has booted")
	}
	return err
}

// wantsNothing returns nil if nobody wants a reboot of a host.
func (tr *trial) wantsNothing(host string) error {
	n, err := tr.node(host)
	if err == nil && n.Annotations[rollout.RebootWanted] != "" {
		err = fmt.Errorf("a reboot of %s is wanted: %s", host, n.Annotations[rollout.RebootReason])
	}
	return err
}

// requiresNothing returns nil if the distribution of a host wants no reboot, and nothing
// is left of an earlier one.
func (tr *trial) requiresNothing(host string) error {
	n, err := tr.node(host)
	if err != nil {
		return err
	}
	said, wished := n.Annotations[rollout.RebootRequired], n.Annotations[rollout.RequiredWished]
	if !state.Is(updates.Read(said).Wants, false) || wished != "" {
		return fmt.Errorf("its node says %q, and a reboot was wished for %q", said, wished)
	}
	return nil
}
