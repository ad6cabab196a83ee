package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/report/doctor"
	"github.com/holdfast/holdfast/internal/report/observer"
)

func TestAnExplanationTellsOfTheClockAndTheCertificatesOfTheHost(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	expired := decide.Certificate{Path: "/var/lib/kubelet/pki/kubelet-client-current.pem", Begins: now.Add(-9000 * time.Hour), Ends: now.Add(-time.Hour)}
	good := decide.Certificate{Path: expired.Path, Begins: now.Add(-time.Hour), Ends: now.Add(time.Hour)}
	later := decide.Certificate{Path: expired.Path, Begins: now.Add(time.Hour), Ends: now.Add(9000 * time.Hour)}
	for what, c := range map[string]struct {
		certificate decide.Certificate
		err         error
		unread      error
		found       int
		want        []string
	}{
		"all is well":             {certificate: good},
		"no host of a cluster":    {err: fmt.Errorf("x: %w", doctor.ErrNoCertificates)},
		"not root":                {err: fmt.Errorf("open: %w", fs.ErrPermission), want: []string{"not read: only root may read this"}},
		"a damaged file":          {err: errors.New("/x: contains no certificate"), want: []string{"not read: /x: contains no certificate"}},
		"expired":                 {certificate: expired, found: 1, want: []string{"critical: certificates on worker-1 have expired: " + expired.Path, "type: sudo journalctl", "read: docs/runbook/expired-worker.md"}},
		"expired by which clock?": {certificate: expired, unread: errors.New("no clock"), found: 1, want: []string{"It is unknown whether anything synchronises this clock."}},
		"a clock that is behind":  {certificate: later, found: 1, want: []string{"critical: the clock of worker-1 says 2026-11-25 12:00 UTC", "type: sudo chronyc makestep"}},
	} {
		times := clockAndCertificates{
			now: func() time.Time { return now }, synchronised: func() (bool, error) { return true, c.unread },
			certificates: func() ([]decide.Certificate, error) { return []decide.Certificate{c.certificate}, c.err },
		}.of("worker-1")
		var out bytes.Buffer
		if err := times.print(&out); err != nil || len(times.Findings) != c.found || (out.Len() == 0) != (len(c.want) == 0) {
			t.Errorf("%s: %v, %+v\n%s", what, err, times, out.String())
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is not in\n%s", what, want, out.String())
			}
		}
	}
}

// A worker has no etcd to explain: what is wrong with its certificates is told there all
// the same, and is the exit code.
func TestTheExplanationOfAWorkerEndsByWhatItsCertificatesSay(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for what, c := range map[string]struct {
		ends time.Duration
		want int
	}{"well": {time.Hour, command.ExitOK}, "expired": {-time.Hour, command.ExitAttention}} {
		for _, format := range []string{"text", "json"} {
			var out bytes.Buffer
			cmd := &cobra.Command{}
			cmd.SetContext(t.Context())
			err := explainAll(cmd, Streams{Out: &out}, explainFlags{output: format, host: observer.Below(t.TempDir(), "worker-1"), times: clockAndCertificates{
				now: func() time.Time { return now }, synchronised: func() (bool, error) { return true, nil },
				certificates: func() ([]decide.Certificate, error) {
					return []decide.Certificate{{Path: "/x", Begins: now.Add(-9000 * time.Hour), Ends: now.Add(c.ends)}}, nil
				},
			}})
			if got := command.ExitCode(err); got != c.want || strings.Contains(out.String(), "have expired") != (c.want != command.ExitOK) {
				t.Errorf("%s, %s: exit code %d, %v\n%s", what, format, got, err, out.String())
			}
		}
	}
}
