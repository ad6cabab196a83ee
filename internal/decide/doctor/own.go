package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Own is what a host knows of its own certificates and clock, without the API.
type Own struct {
	Host string
	Now  time.Time
	// Synchronised is unknown if the kernel does not say.
	Synchronised state.Fact[bool]
	Certificates []Certificate
}

// The pages about a host whose certificates have expired, or whose clock is wrong.
const (
	pageClock       = "docs/runbook/leaf-certificates.md#a-certificate-from-a-later-day"
	pageLeaves      = "docs/runbook/leaf-certificates.md"
	pageExpired     = "docs/runbook/expired-worker.md"
	pageAuthorities = "docs/runbook/authorities.md"
)

// Findings returns what keeps a host from its work now, with what to type on it: a wrong
// clock, or certificates that have expired. While a certificate is from a later day than
// the clock says, nothing is judged as expired: one of two clocks is wrong.
func (o Own) Findings() []finding.Finding {
	if f, is := o.behind(); is {
		return []finding.Finding{f}
	}
	return slices.Concat(o.expired(true), o.expired(false))
}

// controlPlane reports whether the host has the files of one.
func (o Own) controlPlane() bool {
	return slices.ContainsFunc(o.Certificates, func(c Certificate) bool { return c.Path == leafcert.APIServer })
}

// behind finds a certificate from a later day.
func (o Own) behind() (finding.Finding, bool) {
	var last Certificate
	for _, c := range o.Certificates {
		if c.Begins.After(last.Begins) {
			last = c
		}
	}
	if !last.Begins.After(o.Now) {
		return finding.Finding{}, false
	}
	f := finding.Finding{
		ID: "clock-behind", Subject: o.Host, Severity: finding.Critical, Page: pageClock,
		Problem: fmt.Sprintf("the clock of %s says %s, and %s is valid from %s on: this clock is behind, or that of the host which made the certificate was ahead", o.Host, minute(o.Now), last.Path, minute(last.Begins)),
		Meaning: o.synchronised() + " Until one of both is put right, nothing is judged as expired and nothing is renewed here. Compare date -u on all hosts. If this clock is wrong, set it. " +
			"If it is right, the second command says what to type.",
		Commands: slices.Concat(finding.Anywhere("sudo chronyc makestep"), finding.Anywhere("sudo holdfast certificates clock")),
	}
	return f, true
}

// synchronised says whether anything keeps the clock right.
func (o Own) synchronised() string {
	switch {
	case !o.Synchronised.Known:
		return "It is unknown whether anything synchronises this clock."
	case o.Synchronised.Value:
		return "This clock is synchronised."
	}
	return "Nothing synchronises this clock."
}

// expired finds the authorities, or the others, that have expired by the clock of the
// host. Where nothing synchronises that clock, it may be ahead.
func (o Own) expired(authorities bool) []finding.Finding {
	const most = 3
	var which []string
	lacks := ""
	for _, c := range o.Certificates {
		if c.Authority == authorities && !c.Ends.After(o.Now) {
			which = append(which, fmt.Sprintf("%s (on %s)", c.Path, date(c.Ends)))
			lacks = max(lacks, c.Lacks)
		}
	}
	if len(which) == 0 {
		return nil
	}
	if more := len(which) - most; more > 0 {
		which = append(which[:most], fmt.Sprintf("%d more", more))
	}
	f := finding.Finding{ID: "certificates", Subject: o.Host, Severity: finding.Critical, Problem: "on " + o.Host + " have expired: " + strings.Join(which, ", ")}
	switch {
	case authorities:
		f.Problem, f.Page = "authorities "+f.Problem, pageAuthorities
		f.Meaning, f.Commands = "Nothing that they signed counts any more, and nothing renews them by itself.", finding.Anywhere("sudo holdfast doctor certificates")
	case lacks != "":
		f.Page = pageLeaves
		f.Meaning, f.Commands = lacks+" is not on this host, so a person renews them where that key is.", finding.Anywhere("sudo holdfast doctor certificates")
	case o.controlPlane():
		f.Page = pageLeaves
		f.Meaning = "Its agent renews them by itself within minutes, without the API, and then signs another one for kubelet. If it does not, its log says why:"
		f.Commands = finding.Anywhere("sudo journalctl -u holdfast-agent -g certificate")
	default:
		f.Page = pageExpired
		f.Meaning = "Its agent gets another one from a control plane by itself, once one answers and knows this host. If it does not, its log says why:"
		f.Commands = finding.Anywhere("sudo journalctl -u holdfast-agent -g certificate")
	}
	if !authorities {
		f.Problem = "certificates " + f.Problem
	}
	if !state.Is(o.Synchronised, true) {
		f.Meaning = fmt.Sprintf("%s If %s is not the time now, it is ahead, and the certificates are good: set it first (timedatectl). %s", o.synchronised(), minute(o.Now), f.Meaning)
	}
	return []finding.Finding{f}
}
