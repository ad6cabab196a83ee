package labsite

import (
	"context"
	"fmt"
	"time"

	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/finding"
)

// lacking says which checks of doctor a lab cannot pass, and why.
var lacking = map[finding.ID]string{
	"etcd-disk":  "it takes some ten thousand writes of etcd to judge the disk, which is this machine's",
	"clock-sync": "the machine below the lab has no source of time, and its hosts share its clock",
	"ring-links": "the hosts of this lab have one network",
}

// shortest is the life of certificates above which none of them ends soon.
const shortest = 1000 * time.Hour

// Doctor waits until doctor finds nothing, neither a warning nor anything that it could not check. Of a
// pair a person has proven each fencing device first, as the installation asks for: each host is crashed
// once, which takes about eight minutes. Checks that a lab cannot pass are logged. Life is that of the
// lab's certificates.
func (s *Site) Doctor(ctx context.Context, logf func(string, ...any), life time.Duration) error {
	if len(s.ControlPlanes()) == 2 {
		began := time.Now()
		if out, err := s.Holdfast(ctx, "fencing", "verify", "--lab", s.LabName(), "--disruptive", "--calibrate", "--yes"); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		logf("fencing of both hosts was proven after %.0f s", time.Since(began).Seconds())
	}
	checks := []string{"doctor", "--lab", s.LabName()}
	for _, c := range decide.Checks() {
		why := lacking[c.ID]
		if c.ID == "certificates" && life < shortest {
			why = fmt.Sprintf("in this lab they live for %s", life)
		}
		if why != "" {
			logf("NOT CHECKED: %s: %s", c.ID, why)
			continue
		}
		checks = append(checks, string(c.ID))
	}
	return Until(ctx, 5*time.Minute, 10*time.Second, func() error {
		out, err := s.Holdfast(ctx, checks...)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}
