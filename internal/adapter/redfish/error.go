package redfish

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/holdfast/holdfast/internal/model/bmc"
)

// Reason is the reason why a call failed.
type Reason = bmc.Reason

// The reasons of this package, as package bmc describes them.
const (
	Unreachable = bmc.Unreachable
	Timeout     = bmc.Timeout
	Canceled    = bmc.Canceled
	Certificate = bmc.Certificate
	Pin         = bmc.Pin
	TLS         = bmc.TLS
	Credentials = bmc.Credentials
	NotFound    = bmc.NotFound
	Conflict    = bmc.Conflict
	Unsupported = bmc.Unsupported
	ServerError = bmc.ServerError
	Protocol    = bmc.Protocol
	WrongServer = bmc.WrongServer
	NoSystem    = bmc.NoSystem
	NotOff      = bmc.NotOff
)

// advice holds the suggested action for each reason.
var advice = map[Reason]string{ //nolint:exhaustive // the others are not of this package
	Unreachable: "check the address, and that this host reaches the fencing network",
	Timeout:     "check that the BMC is alive and reset it if it hangs; its web page must open",
	Canceled:    "try again",
	Certificate: "trust its certificate (additionalTrustBundle), replace it, or compare and pin it: 'holdfast fencing pin NODE'",
	Pin:         "compare it with the BMC's own page; if the BMC has a new one, as after an update of its firmware, accept it on the host that fences: 'holdfast fencing pin NODE' (at a new address: 'holdfast fencing rotate NODE --address ADDRESS --pin'); if it has not, another machine intercepts the connection; no account was sent to it",
	TLS:         "update its firmware; or allow this one BMC older TLS and RSA key exchange: tls: Legacy in install-config.yaml and in its Secret, or 'holdfast fencing rotate NODE --tls Legacy'",
	Credentials: "check user name and password, and that the account may operate the system; set another account with 'holdfast fencing rotate NODE'",
	NotFound:    "check the system's path in the address, /redfish/v1/Systems/ID",
	Conflict:    "read the power state and try again",
	Unsupported: "use another reset type",
	ServerError: "try again; if it lasts, reset the BMC",
	Protocol:    "check that the address is that of a BMC with Redfish enabled",
	WrongServer: "the address or the credentials are those of another machine: correct the address",
	NoSystem:    "put the path of the right system into the address",
	NotOff:      "do not count it as off: wait and read again, or cut its power by other means",
}

// Error reports what was tried, where, why it failed and what to do. Its text
// contains neither user name nor password, whatever the controller sent.
type Error struct {
	// Op is the operation that was tried.
	Op string
	// Host is the address of the controller, without anything secret.
	Host   string
	Reason Reason
	// Detail describes what happened.
	Detail string
	// cause is context.Canceled or context.DeadlineExceeded, or nil. Other
	// causes may quote the controller, so they are not passed on.
	cause error
	// Shown is the fingerprint of the certificate that the pin refused.
	Shown string
	// LogIns counts how often the account was sent before it was refused;
	// Silent is true if the controller offered no Basic authentication.
	LogIns int
	Silent bool
	// node is the name of the machine.
	node string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s, BMC %s: %s", e.Op, e.Host, e.Words()) }

// Words returns what happened and what to do, without the controller's address,
// which not everybody may see.
func (e *Error) Words() string {
	return e.Detail + ": " + strings.ReplaceAll(advice[e.Reason], "NODE", cmp.Or(e.node, "NODE"))
}

// Unwrap returns the context's error if that ended the call, otherwise nil.
func (e *Error) Unwrap() error { return e.cause }

// ReasonOf returns the reason within err, or empty if there is none.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// problem is a failure that this package found, and not the library.
type problem struct {
	reason Reason
	detail string
}

func (p problem) Error() string { return p.detail }

func reasonOf(err error) Reason {
	p, _ := errors.AsType[problem](err)
	return p.reason
}

// call runs one operation and explains its failure. The HTTP client bounds each
// of its requests, see httpClient.
func (c *Client) call(ctx context.Context, op string, f func(context.Context) error) error {
	err := f(ctx)
	if err == nil {
		return nil
	}
	e := &Error{Op: op, Host: c.endpoint.Address.URL(), node: c.endpoint.Name}
	switch {
	case ctx.Err() != nil:
		e.Reason, e.Detail, e.cause = ended(ctx)
	case unanswered(err):
		e.Reason, e.cause = Timeout, context.DeadlineExceeded
		e.Detail = "no answer within " + c.endpoint.Timeout.Round(time.Millisecond).String()
	default:
		e.Reason, e.Detail = explain(err)
		pin, _ := errors.AsType[pinError](err)
		e.Shown = pin.shown
	}
	if e.Reason == Credentials {
		e.LogIns, e.Silent = int(c.logIns.Load()), c.silent.Load()
	}
	e.Detail = c.endpoint.scrub(e.Detail)
	return e
}

// ended explains the end of a call's context.
func ended(ctx context.Context) (Reason, string, error) {
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return Canceled, "canceled by the caller", context.Canceled
	}
	return Timeout, "no answer before the time limit", context.DeadlineExceeded
}

// unanswered reports whether a request ended by its own limit. The limit for
// making a connection is shorter.
func unanswered(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return errors.Is(err, context.DeadlineExceeded) && (!ok || op.Op != "dial")
}

// explain returns the reason and the details of a failure.
func explain(err error) (Reason, string) {
	if p, ok := errors.AsType[problem](err); ok {
		return p.reason, p.detail
	}
	if e, ok := errors.AsType[*schemas.Error](err); ok && e.HTTPReturnedStatusCode != 0 {
		return explainStatus(e)
	}
	if pin, ok := errors.AsType[pinError](err); ok {
		return Pin, pin.Error()
	}
	if untrusted(err) {
		return Certificate, "its certificate is not trusted: " + innermost(err)
	}
	if e, ok := errors.AsType[handshakeError](err); ok && !isTimeout(err) {
		return TLS, handshakeDetail(e)
	}
	switch {
	case errors.Is(err, errRedirect):
		return Protocol, errRedirect.Error()
	case isTimeout(err):
		return Timeout, "no answer: " + innermost(err)
	case broken(err):
		return Protocol, "its answer was cut off"
	case isNetwork(err):
		return Unreachable, "no connection: " + innermost(err)
	}
	return Protocol, "its answer cannot be parsed: " + innermost(err)
}

// handshakeDetail describes what an old TLS stack does: it refuses, answers in
// a version that was not offered, or hangs up.
func handshakeDetail(e handshakeError) string {
	if errors.Is(e, io.EOF) || errors.Is(e, syscall.ECONNRESET) {
		return "it aborts the TLS handshake, as a BMC does that supports nothing newer than TLS 1.1"
	}
	return "no TLS handshake: " + innermost(e)
}

const statusConflict = http.StatusConflict

// status returns the HTTP status within err, or zero.
func status(err error) int {
	if e, ok := errors.AsType[*schemas.Error](err); ok {
		return e.HTTPReturnedStatusCode
	}
	return 0
}

func explainStatus(e *schemas.Error) (Reason, string) {
	code := e.HTTPReturnedStatusCode
	detail := fmt.Sprintf("it answers %d %s", code, http.StatusText(code))
	if said := words(e); said != "" {
		detail += ": " + said
	}
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return Credentials, detail
	case code == http.StatusNotFound:
		return NotFound, detail
	case code == statusConflict:
		return Conflict, detail
	case code == http.StatusBadRequest, code == http.StatusMethodNotAllowed:
		return Unsupported, detail
	case code >= http.StatusInternalServerError:
		return ServerError, detail
	}
	return Protocol, detail
}

// words returns the controller's text about its error, on one line, or nothing
// if it sent a page that is not Redfish.
func words(e *schemas.Error) string {
	said := e.Message
	if len(e.ExtendedInfos) > 0 {
		said = e.ExtendedInfos[0].Message
	}
	if strings.Contains(said, "<") {
		return ""
	}
	return oneLine(said)
}

// maxWords bounds the text that is quoted from a controller, in bytes.
const maxWords = 200

// oneLine returns a controller's text on one line, without characters that a
// terminal would obey.
func oneLine(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "?")
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if len(s) > maxWords {
		s = strings.ToValidUTF8(s[:maxWords], "") + "..."
	}
	return strings.TrimSuffix(s, ".")
}

// innermost returns the text of the last error in a chain, without the URLs
// around it.
func innermost(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return oneLine(err.Error())
		}
		err = next
	}
}

func untrusted(err error) bool {
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	return verification || host || authority || invalid || errors.Is(err, errNoCertificate)
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && ne.Timeout()
}

func broken(err error) bool {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	return !syntax && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET))
}

func isNetwork(err error) bool {
	_, op := errors.AsType[*net.OpError](err)
	_, dns := errors.AsType[*net.DNSError](err)
	return op || dns
}

// longSecret is the length from which on a password is removed even within
// words: it is hardly part of one by chance.
const longSecret = 8

// scrub removes the account from a text, in each form in which it could be
// echoed. It removes a user name, or a short password, only as a separate word:
// a user called u would spoil every other word.
func (e Endpoint) scrub(text string) string {
	password := e.Password.Reveal()
	text = strings.ReplaceAll(text, base64.StdEncoding.EncodeToString([]byte(e.Username+":"+password)), redacted)
	if len(password) >= longSecret {
		text = strings.ReplaceAll(text, password, redacted)
	}
	for _, secret := range []string{password, e.Username} {
		text = withoutWord(text, secret)
	}
	return text
}

const redacted = "<redacted>"

// withoutWord removes a word from a text, but not from the marks in it.
func withoutWord(text, word string) string {
	if word == "" {
		return text
	}
	var out strings.Builder
	for {
		at := strings.Index(text, word)
		if at < 0 {
			return out.String() + text
		}
		if mark := strings.Index(text, redacted); mark >= 0 && mark < at+len(word) && at < mark+len(redacted) {
			out.WriteString(text[:mark+len(redacted)])
			text = text[mark+len(redacted):]
			continue
		}
		end := at + len(word)
		if standsAlone(out.String()+text[:at], word, text[end:]) {
			out.WriteString(text[:at] + redacted)
		} else {
			out.WriteString(text[:end])
		}
		text = text[end:]
	}
}

// standsAlone reports whether a word is not part of a longer one.
func standsAlone(before, word, after string) bool {
	first, _ := utf8.DecodeRuneInString(word)
	last, _ := utf8.DecodeLastRuneInString(word)
	left, _ := utf8.DecodeLastRuneInString(before)
	right, _ := utf8.DecodeRuneInString(after)
	goesOnLeft := before != "" && inWord(first) && inWord(left)
	goesOnRight := after != "" && inWord(last) && inWord(right)
	return !goesOnLeft && !goesOnRight
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
