package bmc

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Quirks are the faults of a controller. The zero value has none. The JSON key
// of a field is the name of the quirk; QuirkDocs explains each quirk.
type Quirks struct {
	ConflictWhenOff   bool     `json:"conflict-when-off,omitempty"`
	ConflictWhenOn    bool     `json:"conflict-when-on,omitempty"`
	AcceptAndIgnore   bool     `json:"accept-and-ignore,omitempty"`
	ErrorYetActs      bool     `json:"error-yet-acts,omitempty"`
	PoweringOffSticks bool     `json:"powering-off-sticks,omitempty"`
	SlowOff           Duration `json:"slow-off,omitempty"`
	PoweringOn        bool     `json:"powering-on,omitempty"`
	Says              string   `json:"says,omitempty"`
	ActionInfoOnly    bool     `json:"action-info-only,omitempty"`
	ExtraSystems      int      `json:"extra-systems,omitempty"`
	OtherIdentity     bool     `json:"other-identity,omitempty"`
	SessionsHeld      int      `json:"sessions-held,omitempty"`
	SessionTimeout    Duration `json:"session-timeout,omitempty"`
	AuthStatus        int      `json:"auth-status,omitempty"`
	Refusals          int      `json:"refusals,omitempty"`
	Password          string   `json:"password,omitempty"`
	Certificate       string   `json:"certificate,omitempty"`
	Delay             Duration `json:"delay,omitempty"`
	Mute              bool     `json:"mute,omitempty"`
	HalfOpen          bool     `json:"half-open,omitempty"`
	CutAnswer         bool     `json:"cut-answer,omitempty"`
	Unreachable       bool     `json:"unreachable,omitempty"`
	StatusWhenOff     int      `json:"status-when-off,omitempty"`
	LateReset         Duration `json:"late-reset,omitempty"`
	Stale             Duration `json:"stale,omitempty"`
	OffLeads          Duration `json:"off-leads,omitempty"`
	IfMatch           string   `json:"if-match,omitempty"`
	NeedsSlash        bool     `json:"needs-slash,omitempty"`
	Basic             string   `json:"basic,omitempty"`
	DropResets        int      `json:"drop-resets,omitempty"`
	DropOnAfterOff    Duration `json:"drop-on-after-off,omitempty"`
	RefuseOnAfterOff  Duration `json:"refuse-on-after-off,omitempty"`
	Medium            bool     `json:"medium,omitempty"`
}

// Duration is a time.Duration that is written as "5s" in JSON.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not a duration: write for example 5s or 500ms", text)
	}
	*d = Duration(v)
	return nil
}

// Values of the quirk "says" that are not power states.
const (
	// SaysNull reports PowerState null.
	SaysNull = "null"
	// SaysNothing leaves PowerState out.
	SaysNothing = "nothing"
)

// Values of the quirk "if-match".
const (
	IfMatchNeeded  = "needed"
	IfMatchRefused = "refused"
)

// Values of the quirk "basic".
const (
	BasicUnadvertised = "unadvertised"
	BasicOff          = "off"
)

// Values of the quirk "certificate"; empty means a valid self-signed one.
const (
	CertificateExpired     = "expired"
	CertificateNotYetValid = "not-yet-valid"
	CertificateOtherHost   = "other-host"
	CertificateRenewed     = "renewed"
)

// QuirkDoc describes one quirk for users.
type QuirkDoc struct {
	// Name is the quirk's name for Set and in JSON.
	Name string
	// Doc explains what the controller does under the quirk.
	Doc string
	// Values describes the allowed values.
	Values string
	// Default is the value of a quirk that is not set.
	Default string
}

type quirk struct {
	name, doc string
	field     func(*Quirks) any // pointer to the field
	allowed   []string          // values of a string field, or of an int one
	fallback  string            // meaning of an unset value; empty means "off"
}

var quirkTable = []quirk{
	{
		name: "conflict-when-off", doc: "answers 409 to a power-off if the system is already off",
		field: func(q *Quirks) any { return &q.ConflictWhenOff },
	},
	{
		name: "conflict-when-on", doc: "answers 409 to a power-on if the system is already on",
		field: func(q *Quirks) any { return &q.ConflictWhenOn },
	},
	{
		name: "accept-and-ignore", doc: "answers 202 to a reset and does nothing",
		field: func(q *Quirks) any { return &q.AcceptAndIgnore },
	},
	{
		name: "error-yet-acts", doc: "answers 500 to a reset, but carries it out",
		field: func(q *Quirks) any { return &q.ErrorYetActs },
	},
	{
		name: "powering-off-sticks", doc: "starts a power-off and reports PoweringOff, but never cuts the power; clearing the quirk drops the request",
		field: func(q *Quirks) any { return &q.PoweringOffSticks },
	},
	{
		name: "slow-off", doc: "cuts the power only this long after it accepted the request, and reports PoweringOff until then",
		field: func(q *Quirks) any { return &q.SlowOff },
	},
	{
		name: "powering-on", doc: "reports PoweringOn instead of On until the host boots",
		field: func(q *Quirks) any { return &q.PoweringOn },
	},
	{
		name: "says", doc: "reports this PowerState instead of the true one",
		field:   func(q *Quirks) any { return &q.Says },
		allowed: []string{"On", "Off", "PoweringOn", "PoweringOff", "Paused", SaysNull, SaysNothing}, fallback: "the truth",
	},
	{
		name: "action-info-only", doc: "lists the reset types only in the ActionInfo resource, not beside the action",
		field: func(q *Quirks) any { return &q.ActionInfoOnly },
	},
	{
		name: "extra-systems", doc: "also lists this many systems of other machines, one of them last in the list; each can be switched",
		field: func(q *Quirks) any { return &q.ExtraSystems }, fallback: "0",
	},
	{
		name: "other-identity", doc: "reports the UUID and serial number of another machine",
		field: func(q *Quirks) any { return &q.OtherIdentity },
	},
	{
		name: "sessions-held", doc: "other clients hold this many of the 8 sessions; with 8 every request for a session gets 503",
		field: func(q *Quirks) any { return &q.SessionsHeld }, fallback: "0",
	},
	{
		name: "session-timeout", doc: "closes a session that was idle for this long",
		field: func(q *Quirks) any { return &q.SessionTimeout }, fallback: "30m",
	},
	{
		name: "auth-status", doc: "answers every request that needs authentication with this HTTP status, even with the right password",
		field:   func(q *Quirks) any { return &q.AuthStatus },
		allowed: []string{"401", "403", "404", "500", "503"},
	},
	{
		name: "refusals", doc: "answers only this many requests with auth-status and later ones normally, like a controller that boots",
		field: func(q *Quirks) any { return &q.Refusals }, fallback: "all",
	},
	{
		name: "password", doc: "accepts only this password, as if somebody had changed it",
		field: func(q *Quirks) any { return &q.Password }, fallback: "the lab's own password",
	},
	{
		name: "certificate", doc: "shows a TLS certificate with this fault; renewed is a valid one with a new key, as after a firmware update",
		field:   func(q *Quirks) any { return &q.Certificate },
		allowed: []string{CertificateExpired, CertificateNotYetValid, CertificateOtherHost, CertificateRenewed}, fallback: "self-signed, valid",
	},
	{
		name: "delay", doc: "waits this long before it answers a request",
		field: func(q *Quirks) any { return &q.Delay },
	},
	{
		name: "mute", doc: "accepts connections and requests, but never answers",
		field: func(q *Quirks) any { return &q.Mute },
	},
	{
		name: "half-open", doc: "accepts TCP connections, but never speaks TLS",
		field: func(q *Quirks) any { return &q.HalfOpen },
	},
	{
		name: "cut-answer", doc: "closes the connection in the middle of each answer",
		field: func(q *Quirks) any { return &q.CutAnswer },
	},
	{
		name: "unreachable", doc: "does not listen: connections are refused, open ones are closed",
		field: func(q *Quirks) any { return &q.Unreachable },
	},
	{
		name: "status-when-off", doc: "answers this HTTP status to a power-off if the system is already off, as iLO does with 400",
		field:   func(q *Quirks) any { return &q.StatusWhenOff },
		allowed: []string{"400", "409", "412", "503"}, fallback: "204",
	},
	{
		name: "late-reset", doc: "answers 202 to a reset but starts it only after this time; until then nothing shows it",
		field: func(q *Quirks) any { return &q.LateReset },
	},
	{
		name: "stale", doc: "reports a PowerState of up to this age",
		field: func(q *Quirks) any { return &q.Stale },
	},
	{
		name: "off-leads", doc: "reports Off as soon as it accepted a power-off, but cuts the power this much later",
		field: func(q *Quirks) any { return &q.OffLeads },
	},
	{
		name: "if-match", doc: "refuses a reset without If-Match (428), or one with it (412)",
		field:   func(q *Quirks) any { return &q.IfMatch },
		allowed: []string{IfMatchNeeded, IfMatchRefused}, fallback: "both are accepted",
	},
	{
		name: "needs-slash", doc: "redirects a reset request to the same path with a slash at its end (308)",
		field: func(q *Quirks) any { return &q.NeedsSlash },
	},
	{
		name: "basic", doc: "does not offer Basic authentication when it refuses an account (unadvertised, as Dell ships it since 2026), or does not accept it at all (off), so that clients need a session",
		field:   func(q *Quirks) any { return &q.Basic },
		allowed: []string{BasicUnadvertised, BasicOff}, fallback: "on",
	},
	{
		name: "drop-resets", doc: "answers 202 to this many resets and drops them; it carries out the next one",
		field: func(q *Quirks) any { return &q.DropResets }, fallback: "0",
	},
	{
		name: "drop-on-after-off", doc: "answers 202 to a power-on for this long after the system went off, but drops it",
		field: func(q *Quirks) any { return &q.DropOnAfterOff },
	},
	{
		name: "refuse-on-after-off", doc: "answers 409 to a power-on for this long after the system went off, as iDRAC10 does",
		field: func(q *Quirks) any { return &q.RefuseOnAfterOff },
	},
	{
		name: "medium", doc: "has virtual media, and an installer is inserted as CD",
		field: func(q *Quirks) any { return &q.Medium },
	},
}

// QuirkDocs describes all quirks, in the order to show them.
func QuirkDocs() []QuirkDoc {
	docs := make([]QuirkDoc, 0, len(quirkTable))
	for _, k := range quirkTable {
		docs = append(docs, QuirkDoc{Name: k.name, Doc: k.doc, Values: k.values(), Default: k.defaults()})
	}
	return docs
}

func (k quirk) defaults() string {
	if k.fallback == "" {
		return "off"
	}
	return k.fallback
}

func (k quirk) values() string {
	if len(k.allowed) > 0 {
		return strings.Join(k.allowed, ", ")
	}
	switch k.field(new(Quirks)).(type) {
	case *bool:
		return "true, false"
	case *Duration:
		return "a duration"
	case *string:
		return "a text"
	default:
		return "a number"
	}
}

// Set changes one quirk by its name. An empty value of a switch switches it on.
// The error names the allowed values.
func (q *Quirks) Set(name, value string) error {
	k, err := findQuirk(name)
	if err != nil {
		return err
	}
	if len(k.allowed) > 0 && !slices.Contains(k.allowed, value) {
		return fmt.Errorf("quirk %s: %q: must be one of %s", name, value, strings.Join(k.allowed, ", "))
	}
	if err := assign(k.field(q), value); err != nil {
		return fmt.Errorf("quirk %s: %w", name, err)
	}
	return nil
}

// Clear sets one quirk back to its default.
func (q *Quirks) Clear(name string) error {
	k, err := findQuirk(name)
	if err != nil {
		return err
	}
	switch field := k.field(q).(type) {
	case *bool:
		*field = false
	case *int:
		*field = 0
	case *string:
		*field = ""
	case *Duration:
		*field = 0
	}
	return nil
}

func findQuirk(name string) (quirk, error) {
	i := slices.IndexFunc(quirkTable, func(k quirk) bool { return k.name == name })
	if i < 0 {
		return quirk{}, fmt.Errorf("quirk %q: there is no such quirk; the quirks are %s", name, strings.Join(quirkNames(), ", "))
	}
	return quirkTable[i], nil
}

func quirkNames() []string {
	names := make([]string, 0, len(quirkTable))
	for _, k := range quirkTable {
		names = append(names, k.name)
	}
	return names
}

func assign(field any, value string) error {
	switch field := field.(type) {
	case *bool:
		return assignBool(field, value)
	case *int:
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > maxCount {
			return fmt.Errorf("%q: must be a number from 0 to %d", value, maxCount)
		}
		*field = n
	case *string:
		if value == "" {
			return errors.New("a value is required")
		}
		*field = value
	case *Duration:
		return field.UnmarshalText([]byte(value))
	}
	return nil
}

// maxCount bounds the quirks that count something and HTTP statuses.
const maxCount = 999

func assignBool(field *bool, value string) error {
	if value == "" {
		value = "true"
	}
	v, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("%q: must be true or false", value)
	}
	*field = v
	return nil
}

// behave applies the quirks of power to the behaviour.
func (q Quirks) behave(b *Behaviour) {
	b.OffDelay = time.Duration(max(q.SlowOff, q.OffLeads))
	b.OffSticks = q.PoweringOffSticks
	b.ConflictWhenOff = q.ConflictWhenOff || q.StatusWhenOff != 0
	b.ConflictWhenOn = q.ConflictWhenOn
}

// shown returns the PowerState to report. A nil value means null; present is
// false if PowerState is left out.
func (q Quirks) shown(s State) (value any, present bool) {
	switch q.Says {
	case "":
	case SaysNull:
		return nil, true
	case SaysNothing:
		return nil, false
	default:
		return q.Says, true
	}
	if q.OffLeads > 0 && s.goingOff() && s.Then == ThenStayOff {
		return PowerOff, true
	}
	if q.PoweringOn && (s.Phase == PhasePOST || s.Phase == PhaseStarting) {
		return PoweringOn, true
	}
	return s.Shown(), true
}
