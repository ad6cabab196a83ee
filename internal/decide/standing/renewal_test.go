package standing

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/page"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestARenewalThatWaitsIsANoteAndAWarningAfterAWeek(t *testing.T) {
	for _, c := range []struct {
		renewal  Seen[state.CertificateRenewal]
		severity finding.Severity
	}{
		{Know(state.CertificateRenewal{Waits: "not ready: cp-2", WaitsSince: now.Add(-time.Hour)}, saidTest, now), finding.Note},
		{Know(state.CertificateRenewal{Waits: "not ready: cp-2", WaitsSince: now.Add(-8 * 24 * time.Hour)}, saidTest, now), finding.Warning},
		{Know(state.CertificateRenewal{Waits: "not ready: cp-2"}, saidTest, now), finding.Note},
		{Know(state.CertificateRenewal{Since: now}, saidTest, now), ""},
		{Seen[state.CertificateRenewal]{Value: state.CertificateRenewal{Waits: "x"}}, ""},
	} {
		f := onTheHost(recorded(t, "healthy", etcdReport(t, "healthy")))
		f.Hosts[0].Renewal = c.renewal
		found := describer{Facts: f}.ofRenewals()
		if c.severity == "" {
			if len(found) > 0 {
				t.Errorf("%+v: %+v", c.renewal.Value, found)
			}
			continue
		}
		if len(found) != 1 || found[0].ID != RenewalWaits || found[0].Severity != c.severity || !strings.HasSuffix(found[0].Problem, "with the renewal of its certificates: not ready: cp-2") {
			t.Errorf("%+v: %+v", c.renewal.Value, found)
		}
		if text := Text(Describe(f), page.Style{}); !strings.Contains(text, "with the renewal of its certificates") {
			t.Errorf("the overview: %s", text)
		}
	}
}
