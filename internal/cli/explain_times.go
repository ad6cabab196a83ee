package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/clock"
	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/doctor"
)

// clockAndCertificates reads the clock of a host and its certificates.
type clockAndCertificates struct {
	now          func() time.Time
	synchronised func() (bool, error)
	certificates func() ([]decide.Certificate, error)
}

// thisClock reads those of the host on which this process runs.
func thisClock() clockAndCertificates {
	return clockAndCertificates{
		now: time.Now, synchronised: clock.Synchronised,
		certificates: func() ([]decide.Certificate, error) { return doctor.Certificates("") },
	}
}

// ownTimes is what a host's own clock and certificates keep it from.
type ownTimes struct {
	Findings []finding.Finding `json:"findings"`
	// Problem says why its certificates are unknown; empty if they are known, or if the
	// host has none.
	Problem string `json:"certificatesUnknown,omitempty"`
}

// of judges them by the name of the host.
func (c clockAndCertificates) of(host string) ownTimes {
	out := ownTimes{Findings: []finding.Finding{}}
	list, err := c.certificates()
	switch {
	case errors.Is(err, doctor.ErrNoCertificates):
		return out
	case errors.Is(err, fs.ErrPermission):
		out.Problem = hostreport.Sudo
		return out
	case err != nil:
		out.Problem = err.Error()
		return out
	}
	var synchronised state.Fact[bool]
	if is, err := c.synchronised(); err == nil {
		synchronised = state.Known(is)
	}
	out.Findings = append(out.Findings, decide.Own{Host: host, Now: c.now(), Synchronised: synchronised, Certificates: list}.Findings()...)
	return out
}

// print shows what was found, and nothing where all is well.
func (t ownTimes) print(out io.Writer) error {
	var text strings.Builder
	if t.Problem != "" || len(t.Findings) > 0 {
		text.WriteString("\nCertificates and clock\n")
	}
	if t.Problem != "" {
		fmt.Fprintf(&text, "not read: %s\n", t.Problem)
	}
	writeFindings(&text, t.Findings)
	_, err := io.WriteString(out, text.String())
	return err
}
