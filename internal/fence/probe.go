package fence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/state"
)

// probeReads is how often a BMC is read to learn how quick it is.
const probeReads = 5

// Identity is what is known about whose BMC it is.
type Identity string

// The outcomes of comparing a BMC's system with the target.
const (
	IdentityMatches Identity = "matches"
	IdentityUnknown Identity = "unknown" // the target's was never learned
	IdentityDiffers Identity = "differs"
	IdentityNamed   Identity = "named" // it is what a person said that the BMC reports
)

// Report is what the test of a device found out. Nothing was changed at the
// BMC.
type Report struct {
	Target  string `json:"target"`
	Address string `json:"address"`
	System  string `json:"system,omitempty"`
	// Power is the state that the BMC reports.
	Power       string      `json:"power,omitempty"`
	Identity    Identity    `json:"identity"`
	UUID        string      `json:"uuid,omitempty"`
	Serial      string      `json:"serial,omitempty"`
	SKU         string      `json:"sku,omitempty"`
	Model       string      `json:"model,omitempty"`
	ForceOff    bool        `json:"forceOff"`
	On          bool        `json:"on"`
	Certificate Certificate `json:"certificate"`
	// Session is true where the BMC takes the account by a session alone.
	Session bool `json:"session,omitempty"`
	// Fingerprint is the pinned certificate's, Shown that of another one which the
	// BMC shows instead.
	Fingerprint string `json:"fingerprint,omitempty"`
	Shown       string `json:"shown,omitempty"`
	// Connect is the time until the system was found and read for the first
	// time, Reads that of each further reading.
	Connect time.Duration   `json:"connect"`
	Reads   []time.Duration `json:"reads,omitempty"`
	Delay   time.Duration   `json:"delay"`
	// Problems keep a fence from working; Warnings do not.
	Problems []string `json:"problems,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// words are the problems for those who may not know where the BMC is.
	words []string
}

// Certificate is why the certificate of a BMC is trusted.
type Certificate string

// The kinds of trust. What is not pinned is not spoken to.
const (
	CertificateVerified   Certificate = "verified"
	CertificatePinned     Certificate = "pinned"
	CertificateFirstSight Certificate = "first-sight" // pinned, and no person has compared it
	CertificateUnpinned   Certificate = "unpinned"
)

// Err is nil where a fence could succeed now.
func (r Report) Err() error {
	errs := make([]error, 0, len(r.Problems))
	for _, p := range r.Problems {
		errs = append(errs, fmt.Errorf("fencing device of %s: %s", r.Target, p))
	}
	return errors.Join(errs...)
}

// TestDevice makes sure, without changing anything, that a device could fence
// its target: the BMC is reached, trusted and takes the account, is that of
// the target, and offers what is needed. It measures how quick it is.
func TestDevice(ctx context.Context, dev state.FencingDevice) Report {
	return New(command.Streams{}).test(ctx, dev, probeReads)
}

func (a *Agent) test(ctx context.Context, dev state.FencingDevice, reads int) Report {
	r := Report{
		Target: dev.Target, Address: dev.Address, Identity: IdentityUnknown,
		Certificate: certificateOf(dev), Fingerprint: redfish.PlainFingerprint(dev.Fingerprint), Delay: dev.Delay,
	}
	if err := checkDevice(dev, a.address); err != nil {
		r.Problems, r.words = append(r.Problems, err.Error()), append(r.words, "its device has mistakes")
		return r
	}
	begin := time.Now()
	quiet := *a
	quiet.Err = io.Discard
	c, err := quiet.open(ctx, dev)
	if err != nil {
		r.refused(err)
		return r
	}
	defer c.Close()
	r.Connect, r.System, r.Session = time.Since(begin), c.SystemPath(), c.Session()
	r.look(ctx, c, dev)
	r.measure(ctx, c, reads)
	return r
}

func (r *Report) problem(format string, args ...any) {
	words := fmt.Sprintf(format, args...)
	r.Problems, r.words = append(r.Problems, words), append(r.words, words)
}

func (r *Report) refused(err error) {
	if redfish.ReasonOf(err) == redfish.WrongServer {
		r.Identity = IdentityDiffers
	}
	words := err.Error()
	if e, ok := errors.AsType[*redfish.Error](err); ok {
		words, r.Shown = e.Words(), e.Shown
	}
	if e, ok := errors.AsType[*unpinnedError](err); ok {
		words = e.words()
	}
	r.Problems, r.words = append(r.Problems, err.Error()), append(r.words, words)
}

func (r *Report) look(ctx context.Context, c *redfish.Client, dev state.FencingDevice) {
	s, err := c.Look(ctx)
	if err != nil {
		r.refused(err)
		return
	}
	r.Power, r.UUID, r.Serial, r.SKU, r.Model = string(s.Power), s.UUID, s.Serial, s.SKU, s.Model
	r.ForceOff, r.On = s.Offers(redfish.ResetForceOff), s.Offers(redfish.ResetOn)
	switch {
	case dev.SystemID != "":
		r.Identity = IdentityNamed
	case dev.UUID != "" || dev.Serial != "":
		r.Identity = IdentityMatches
	default:
		r.Warnings = append(r.Warnings, "the identity of the target was never learned: whether this BMC is its own is not known")
	}
	if !r.ForceOff {
		r.problem("the BMC does not offer ForceOff, only %v", s.Resets)
	}
	if !r.On {
		r.Warnings = append(r.Warnings, "the BMC does not offer On: a fenced host stays off until a person switches it on")
	}
	if s.Power == "" {
		r.problem("the BMC reports no power state, so that nothing could prove a fence")
	}
	if r.Session {
		r.Warnings = append(r.Warnings, "the BMC takes the account by a session alone, of which it has few: switch Basic authentication on there if you can")
	}
	if dev.FirstSight {
		r.Warnings = append(r.Warnings, "the certificate was pinned as the BMC showed it first: compare it once with the BMC's own page, 'holdfast fencing pin "+dev.Target+"'")
	}
}

// measureTime is how long a slow BMC is measured before that is enough.
const measureTime = 20 * time.Second

func (r *Report) measure(ctx context.Context, c *redfish.Client, reads int) {
	for first := time.Now(); len(r.Reads) < reads && time.Since(first) < measureTime; {
		begin := time.Now()
		if _, err := c.Power(ctx); err != nil {
			r.refused(err)
			return
		}
		r.Reads = append(r.Reads, time.Since(begin))
	}
}

// Slowest is the slowest reading, zero where none was made.
func (r Report) Slowest() time.Duration {
	if len(r.Reads) == 0 {
		return 0
	}
	return slices.Max(r.Reads)
}

func certificateOf(dev state.FencingDevice) Certificate {
	switch {
	case unpinned(dev):
		return CertificateUnpinned
	case dev.FirstSight:
		return CertificateFirstSight
	case dev.Fingerprint != "":
		return CertificatePinned
	}
	return CertificateVerified
}

// Compare judges the BMC's identity by what its host itself says, which it
// does not have to have been learned for.
func (r *Report) Compare(uuid, serial string) {
	if r.Identity == IdentityNamed || r.UUID == "" && r.Serial == "" || uuid == "" && serial == "" {
		return
	}
	if err := redfish.SameMachine(uuid, serial, redfish.Machine{UUID: r.UUID, Serial: r.Serial, SKU: r.SKU}); err != nil {
		r.Identity = IdentityDiffers
		r.problem("the BMC is not that of %s: %v", r.Target, err)
		return
	}
	r.Identity = IdentityMatches
}
