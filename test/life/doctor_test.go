package life_test

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/test/labsite"
)

// lacking says which checks of doctor a lab cannot pass, and why.
var lacking = map[finding.ID]string{
	"etcd-disk":  "it takes some ten thousand writes of etcd to judge the disk, which is this machine's",
	"clock-sync": "the machine below the lab has no source of time, and its hosts share its clock",
	"ring-links": "the hosts of this lab have one network",
}

// TestDoctorFindsNothingOnALabThatNobodyChanged: neither a warning nor anything that it could not
// check, once a person has done what the installation asks for: to prove that each BMC cuts power.
//
// It takes about eight minutes, in which each of two control planes is crashed once.
func TestDoctorFindsNothingOnALabThatNobodyChanged(t *testing.T) {
	s := open(t)
	run := func(args ...string) error {
		out, err := exec.CommandContext(t.Context(), *program, args...).CombinedOutput() // #nosec G204 -- a test's own words
		if err != nil {
			return fmt.Errorf("holdfast %v: %w\n%s", args, err, out)
		}
		return nil
	}
	if len(s.ControlPlanes()) == 2 {
		began := time.Now()
		if err := run("fencing", "verify", "--lab", *labName, "--disruptive", "--calibrate", "--yes"); err != nil {
			t.Fatal(err)
		}
		t.Logf("fencing of both hosts was proven after %.0f s", time.Since(began).Seconds())
	}
	checks := []string{"doctor", "--lab", *labName}
	for _, c := range decide.Checks() {
		why := lacking[c.ID]
		if c.ID == "certificates" && *life < 1000*time.Hour {
			why = fmt.Sprintf("in this lab they live for %s", *life)
		}
		if why != "" {
			t.Logf("NOT CHECKED: %s: %s", c.ID, why)
			continue
		}
		checks = append(checks, string(c.ID))
	}
	if err := labsite.Until(t.Context(), 5*time.Minute, 10*time.Second, func() error { return run(checks...) }); err != nil {
		t.Error(err)
	}
}
