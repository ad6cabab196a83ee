package standing

import (
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
)

// renewalLate is after which wait a person should look: a host that is away for a week comes back
// by nothing but a person.
const renewalLate = 7 * 24 * time.Hour

// ofRenewals finds control planes that wait with the renewal of their certificates. Nothing is
// lost by that for months; but what they wait for is away, or broken, for as long.
func (d describer) ofRenewals() []finding.Finding {
	var out []finding.Finding
	for _, h := range d.Hosts {
		r := h.Renewal.Value
		if !h.Renewal.Known || r.Waits == "" {
			continue
		}
		f := finding.Finding{
			ID: RenewalWaits, Subject: h.Name, Variant: r.Waits, Severity: finding.Note,
			Problem:  fmt.Sprintf("%s has waited%s with the renewal of its certificates: %s", h.Name, d.long(r.WaitsSince), oneLine(r.Waits)),
			Meaning:  "Control planes renew one after the other, so that a fault shows before the next one. Once a sixth of a life is left it renews whoever is away.",
			Commands: finding.Anywhere("holdfast doctor --in 90d"),
		}
		if !r.WaitsSince.IsZero() && d.Now.Sub(r.WaitsSince) > renewalLate {
			f.Severity = finding.Warning
		}
		out = append(out, f)
	}
	return out
}
