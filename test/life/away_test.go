package life_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/holdfast/holdfast/internal/adapter/hostconfig"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/test/labsite"
)

// TestAHostThatIsAwayHoldsItsPool shuts a control plane down and has a configuration
// wished meanwhile. Nobody is given it, and the pool says who is away. Once the host
// is on again, all have it.
func TestAHostThatIsAwayHoldsItsPool(t *testing.T) {
	if len(open(t).ControlPlanes()) < 2 {
		t.Skip("a single control plane has nobody who waits for it")
	}
	play(t, "a host is away", func(tr *trial) {
		tr.wish(good("before"))
		tr.rolled("before")
		hosts, since := tr.ControlPlanes(), tr.Now()
		away, here := hosts[len(hosts)-1], hosts[:len(hosts)-1]

		tr.Switch(away, lab.ActionShutdown)
		isOff(tr.Case, away)
		tr.notReady(away)
		given := tr.given()
		tr.wish(good("after"))
		tr.Eventually(labsite.WholeWithin, "the pool says who is away", func() error {
			return tr.condition(mcfgv1.MachineConfigPoolUpdating, away+" is away: it is not ready")
		})
		tr.tells(3, []string{away + " is away: it is not ready"}, "config", "show")
		tr.tells(3, []string{"the pool " + rollout.Master + " waits", away + " is away"}, "status")
		tr.remains("nobody is given it", func() error { return tr.stillGiven(given) })
		for _, h := range here {
			if err := tr.has(h, "before"); err != nil {
				tr.Error(err)
			}
		}

		on := time.Now()
		tr.Switch(away, lab.ActionOn)
		tr.rolled("after")
		tr.Trial.Took("from the power until all have it", time.Since(on))
		if told := tr.found(standing.PoolWaits, rollout.Master); told != "" {
			tr.Errorf("the status still says: %s", told)
		}
		tr.Noticed("", since)
		tr.outages(since)
		tr.nobodyFenced()
	})
}

// notReady waits until the API takes a host that is off for one.
func (tr *trial) notReady(host string) {
	tr.Helper()
	tr.Eventually(labsite.WholeWithin, "node "+host+" is not ready", func() error {
		n, err := tr.node(host)
		if err == nil && labsite.Ready(n) {
			err = errors.New("it is ready")
		}
		return err
	})
}

// isOff waits until a host that was shut down is off.
func isOff(c *labsite.Case, host string) {
	c.Helper()
	c.Eventually(3*time.Minute, host+" is off", func() error {
		if st, err := c.PowerOf(c.Context(), host); err != nil || st.Power != lab.PowerOff {
			return errors.Join(err, fmt.Errorf("its power is %s", st.Power))
		}
		return nil
	})
}

// The pause that a unit makes in its start, so that the API can go away meanwhile,
// and the time in which the host then has to go on. kubelet leaves API servers that
// are stopped alone for longer than both.
const (
	pause        = 15 * time.Second
	goesOnWithin = time.Minute
)

// TestTheAPIGoesAwayInTheMiddle stops all API servers while a host waits for a unit.
// The host goes on with what is on its disk, tells it when the API is back, and the
// other ones follow.
func TestTheAPIGoesAwayInTheMiddle(t *testing.T) {
	play(t, "no API in the middle", func(tr *trial) {
		tr.wish(good("before"))
		tr.rolled("before")
		since := tr.Now()

		tr.wish(slow("after"))
		host := tr.reached(moment{name: "acting", is: inPhase(hostapply.Acting, false)})
		for _, h := range tr.ControlPlanes() {
			tr.Inject(lab.Fault{Host: h, Kind: lab.FaultProcessStop, Process: "kube-apiserver"})
		}
		if j := tr.journal(host); j.Phase != hostapply.Acting {
			tr.Fatalf("%s was on while the API still answered: %+v", host, j)
		}
		tr.noAPI()
		tr.Eventually(goesOnWithin, host+" goes on without an API", func() error {
			if j := tr.journal(host); j.Phase != hostapply.Checking || j.Back {
				return fmt.Errorf("it is at %+v", j)
			}
			return tr.has(host, "after")
		})
		tr.noAPI()
		for _, h := range tr.ControlPlanes() {
			tr.Mend(h, lab.FaultProcessStop)
		}
		back := time.Now()
		tr.rolled("after")
		tr.Trial.Took("from the API's return until all have it", time.Since(back))
		tr.Noticed("", since)
		tr.outages(since)
		tr.nobodyFenced()

		tr.wish(good("later")) // no later boot is to make that pause
		tr.rolled("later")
	})
}

// slow is a configuration whose unit makes a pause before it reads the file.
func slow(text string) *mcfgv1.MachineConfig {
	return machineConfig(text, fmt.Sprintf("/usr/bin/sh -c 'sleep %.0f; exec grep -qx %s %s'", pause.Seconds(), text, filePath))
}

// journal returns where a host is on its way, by its own disk.
func (tr *trial) journal(host string) hostapply.Journal {
	tr.Helper()
	data, err := tr.ReadFile(tr.Context(), host, hostconfig.JournalPath)
	if err != nil {
		tr.Fatal(err)
	}
	var j hostapply.Journal
	if err := json.Unmarshal(data, &j); err != nil {
		tr.Fatalf("the journal of %s: %v", host, err)
	}
	return j
}

// noAPI checks that no API server answers.
func (tr *trial) noAPI() {
	tr.Helper()
	ctx, cancel := context.WithTimeout(tr.Context(), 3*time.Second)
	defer cancel()
	var pools mcfgv1.MachineConfigPoolList
	if err := tr.API.List(ctx, &pools); err == nil {
		tr.Fatal("there is an API still")
	}
}
