package life_test

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/test/labsite"
)

// TestDoctorFindsNothingOnALabThatNobodyChanged: neither a warning nor anything that it could not check.
// It leaves out the ends of certificates, which live for minutes in this lab.
func TestDoctorFindsNothingOnALabThatNobodyChanged(t *testing.T) {
	open(t)
	args := []string{"doctor", "--lab", *labName}
	for _, c := range decide.Checks() {
		if c.ID != "certificates" {
			args = append(args, string(c.ID))
		}
	}
	check := func() error {
		out, err := exec.CommandContext(t.Context(), *program, args...).CombinedOutput() // #nosec G204 -- a test's own words
		if err != nil {
			return fmt.Errorf("holdfast %v: %w\n%s", args, err, out)
		}
		return nil
	}
	if err := labsite.Until(t.Context(), 5*time.Minute, 10*time.Second, check); err != nil {
		t.Error(err)
	}
}
