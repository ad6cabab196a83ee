package fence

import (
	"cmp"
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

// probeReads is the number of readings that measure how quickly a BMC answers.
const probeReads = 5

// Identity says whether a BMC belongs to its target.
type Identity string

// The outcomes of comparing a BMC's system with the target.
const (
	IdentityMatches Identity = "matches"
	IdentityUnknown Identity = "unknown" // the identity of the target was never learned
	IdentityDiffers Identity = "differs"
	IdentityNamed   Identity = "named" // an administrator named the system that the BMC must report
)

// Report is the result of the test of a device. The test changes nothing at the
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
	// Session is true if the BMC accepts the account only in a session.
	Session bool `json:"session,omitempty"`
	// Fingerprint is that of the pinned certificate, Shown that of another
	// certificate which the BMC shows instead.
	Fingerprint string `json:"fingerprint,omitempty"`
	Shown       string `json:"shown,omitempty"`
	// Connect is the time until the system was found and first read. Reads holds
	// the time of each further reading.
	Connect time.Duration   `json:"connect"`
	Reads   []time.Duration `json:"reads,omitempty"`
	Delay   time.Duration   `json:"delay"`
	// Problems keep a fence from working; Warnings do not.
	Problems []string `json:"problems,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	// words holds the problems for readers who may not know the BMC's address,
	// repair what mends the first one that has a repair.
	words  []string
	repair state.BMCRepair
}

// Certificate says why the certificate of a BMC is trusted.
type Certificate string

// The kinds of trust. An unpinned BMC is not contacted.
const (
	CertificateVerified   Certificate = "verified"
	CertificatePinned     Certificate = "pinned"
	CertificateFirstSight Certificate = "first-sight" // pinned, but no administrator has compared it
	CertificateUnpinned   Certificate = "unpinned"
)

// Err returns nil if a fence could succeed now.
func (r Report) Err() error {
	errs := make([]error, 0, len(r.Problems))
	for _, p := range r.Problems {
		errs = append(errs, fmt.Errorf("fencing device of %s: %s", r.Target, p))
	}
	return errors.Join(errs...)
}

// Repair returns the repair of the first problem that has one, empty if none has.
func (r Report) Repair() state.BMCRepair { return r.repair }

// TestDevice checks, without changing anything, that a device could fence its
// target: the BMC answers, is trusted, accepts the account, belongs to the
// target, and offers the needed actions. It measures how quickly the BMC
// answers.
func TestDevice(ctx context.Context, dev state.FencingDevice) Report {
	return New(command.Streams{}).test(ctx, dev, probeReads)
}

func (a *Agent) test(ctx context.Context, dev state.FencingDevice, reads int) Report {
	r := Report{
		Target: dev.Target, Address: dev.Address, Identity: IdentityUnknown,
		Certificate: certificateOf(dev), Fingerprint: redfish.PlainFingerprint(dev.Fingerprint), Delay: dev.Delay,
	}
	if err := checkDevice(dev, a.address); err != nil {
		r.Problems, r.words = append(r.Problems, err.Error()), append(r.words, "its device is invalid")
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
	if reads >= probeReads { // Pacemaker's test asks for no more than a fence needs
		r.media(ctx, c)
	}
	return r
}

func (r *Report) problem(format string, args ...any) {
	words := fmt.Sprintf(format, args...)
	r.Problems, r.words = append(r.Problems, words), append(r.words, words)
}

// repairs maps the reasons for which a BMC cannot be used to what mends that.
var repairs = map[redfish.Reason]state.BMCRepair{ //nolint:exhaustive // no single command mends the others
	redfish.Certificate: state.PinCertificate, redfish.Pin: state.PinCertificate,
	redfish.Credentials: state.SetAccount, redfish.TLS: state.AllowLegacyTLS,
}

func (r *Report) refused(err error) {
	if redfish.ReasonOf(err) == redfish.WrongServer {
		r.Identity = IdentityDiffers
	}
	words := err.Error()
	if e, ok := errors.AsType[*redfish.Error](err); ok {
		words, r.Shown = e.Words(), e.Shown
		r.repair = cmp.Or(r.repair, repairs[e.Reason])
	}
	if e, ok := errors.AsType[*unpinnedError](err); ok {
		words = e.words()
		r.repair = cmp.Or(r.repair, state.PinCertificate)
	}
	r.Problems, r.words = append(r.Problems, err.Error()), append(r.words, words)
}

func (r *Report) look(ctx context.Context, c *redfish.Client, dev state.FencingDevice) {
	s, err := c.ReadSystem(ctx)
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
		r.Warnings = append(r.Warnings, "the identity of the target was never learned, so it is unknown whether this BMC belongs to it")
	}
	if !r.ForceOff {
		r.problem("the BMC does not offer ForceOff, only %v", s.Resets)
	}
	if !r.On {
		r.Warnings = append(r.Warnings, "the BMC does not offer On: a fenced host stays off until an administrator switches it on")
	}
	if s.Power == "" {
		r.problem("the BMC reports no power state, so no fence could be proven")
	}
	if r.Session {
		r.Warnings = append(r.Warnings, "the BMC accepts the account only in a session, of which it has few: enable Basic authentication on it if possible")
	}
	if dev.FirstSight {
		r.Warnings = append(r.Warnings, "the certificate was pinned at first sight: compare it once with the BMC's own page, 'holdfast fencing pin "+dev.Target+"'")
	}
}

// media warns of what a fenced host may boot in the place of its disk (docs/facts/loss.md, L24).
// Many controllers have no virtual media, and some show them only to other accounts: then
// nothing is said.
func (r *Report) media(ctx context.Context, c *redfish.Client) {
	inserted, err := c.Media(ctx)
	if err != nil {
		return
	}
	for _, medium := range inserted {
		r.Warnings = append(r.Warnings, "virtual medium "+medium+" is inserted: after a fence the host may boot it and not its disk, and an installer may write over the disk. Eject it at the BMC")
	}
}

// measureTime ends the measurement of a slow BMC.
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

// Slowest returns the time of the slowest reading, zero if there was none.
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

// Compare checks the BMC's identity against the one that the host itself
// reports. It works without a learned identity too.
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
