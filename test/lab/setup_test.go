package lab_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// setupSteps is the number of steps of the set-up of two nodes.
const setupSteps = 6

// TestASetUpSurvivesAPowerCutAtEachStep installs two hosts twice. In each
// installation one host loses its power once at each step of the set-up of two
// nodes, as soon as the step has begun, and once more while etcd is handed over
// on both. The result must be that of an undisturbed installation.
//
// It takes half an hour and runs only by its name:
//
//	go test -timeout 90m ./test/lab -args -clusters setup
func TestASetUpSurvivesAPowerCutAtEachStep(t *testing.T) {
	if !slices.Contains(strings.Split(*which, ","), "setup") {
		t.Skip("runs with -args -clusters setup")
	}
	if os.Geteuid() != 0 {
		t.Fatal("hosts in the lab need root")
	}
	for _, host := range []string{"cp-1", "cp-2"} {
		t.Run(host, func(t *testing.T) { cutAtEachStep(t, host) })
	}
}

func cutAtEachStep(t *testing.T, host string) {
	c := lab(t, "tsetup")
	cmd := exec.CommandContext(t.Context(), program(t), "lab", "up", "--name", c.name, "--control-planes=2", "--post-delay=0s", "--timeout=30m")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	cuts := map[string]bool{}
	for looking := true; looking; {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("lab up: %v\n%s", err, tail(out.String()))
			}
			looking = false
		case <-time.After(300 * time.Millisecond):
			c.cutOnce(host, cuts)
		}
	}
	struck := map[string]bool{}
	for step := range cuts {
		struck[step[:len("step 1")]] = true
	}
	if len(struck) < setupSteps-1 { // the last step may be over before anybody sees it
		t.Errorf("%s lost its power at %d steps alone: %v", host, len(struck), cuts)
	}
	c.eventually(10*time.Minute, "either host may be lost", c.isSetUp)
}

var stepUnderWay = regexp.MustCompile(`step [0-9] of 6 \([a-z-]+\) on [a-z0-9 -]+`)

// cutOnce cuts the power when a step is first seen on these hosts.
func (c cluster) cutOnce(host string, cuts map[string]bool) {
	step := stepUnderWay.FindString(c.setupCondition("Progressing"))
	if step == "" || cuts[step] {
		return
	}
	if _, err := c.holdfast("lab", "fault", "reset", host, "--name", c.name); err != nil {
		c.Logf("reset of %s at %s: %v", host, step, err) // it may be off at that moment
		return
	}
	c.Logf("%s loses its power at %s", host, step)
	cuts[step] = true
}

// setupCondition returns the message of one of the set-up's conditions, or
// nothing while the API does not answer.
func (c cluster) setupCondition(kind string) string {
	out, err := c.kubectl("get", "etcds.operator.openshift.io", "cluster", "--request-timeout=3s", "-o",
		`jsonpath={range .status.conditions[?(@.type=="TwoNodeSetup`+kind+`")]}{.status} {.message}{end}`)
	if err != nil {
		return ""
	}
	return out
}

// isSetUp returns nil once the whole set-up is complete on both hosts.
func (c cluster) isSetUp() error {
	if got := c.setupCondition("Progressing"); got != "False all steps are done" {
		return fmt.Errorf("the set-up says %q, and %q", got, c.setupCondition("Degraded"))
	}
	for _, host := range []string{"cp-1", "cp-2"} {
		if err := c.isHandedOver(host); err != nil {
			return fmt.Errorf("%s: %w", host, err)
		}
	}
	return nil
}

func (c cluster) isHandedOver(host string) error {
	text, err := c.holdfast("lab", "exec", "--name", c.name, host, "--", "cat", state.EtcdRecordPath)
	if err != nil {
		return err
	}
	record, err := state.DecodeEtcdRecord([]byte(text))
	if err != nil {
		return err
	}
	if record.State != state.EtcdPair {
		return fmt.Errorf("its record says %s", record.State)
	}
	if _, err := c.holdfast("lab", "exec", "--name", c.name, host, "--", "test", "!", "-e", "/etc/kubernetes/manifests/etcd.yaml"); err != nil {
		return errors.New("kubelet's manifest of etcd is still there")
	}
	for unit, want := range map[string]string{"corosync": "enabled", "pacemaker": "enabled", "kubelet": "disabled"} {
		// If a unit is disabled the command also fails, so only its output
		// counts.
		got, _ := c.holdfast("lab", "exec", "--name", c.name, host, "--", "systemctl", "is-enabled", unit)
		if got = strings.TrimSpace(got); got != want {
			return fmt.Errorf("%s is %q at boot, not %s", unit, got, want)
		}
	}
	return nil
}
