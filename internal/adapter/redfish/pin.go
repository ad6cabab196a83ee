package redfish

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pinError reports that a controller shows another certificate than the pinned
// one.
type pinError struct{ shown, pinned string }

func (e pinError) Error() string {
	return "it shows another certificate (SHA-256 " + e.shown + ") than the pinned one (SHA-256 " + e.pinned + ")"
}

// errNoCertificate reports that a controller shows none.
var errNoCertificate = errors.New("it shows no certificate")

// tlsConfig verifies the certificate by the pin, if there is one. The pin then
// replaces CAs, names and dates, which controllers often get wrong. There is no
// third way: whoever answers at the address of an unverified controller gets
// the account, and can answer anything.
func (e Endpoint) tlsConfig() *tls.Config {
	c := e.speaks()
	c.ServerName = e.Address.Host
	c.RootCAs = e.RootCAs
	if e.Fingerprint != "" {
		c.InsecureSkipVerify = true // the pin verifies instead
		c.VerifyConnection = func(s tls.ConnectionState) error { return pinned(s, e.Fingerprint) }
	}
	return c
}

// anybody returns a configuration for a connection that trusts nothing and
// sends no account: it accepts whatever the service supports.
func (e Endpoint) anybody() *tls.Config {
	e.LegacyTLS = true
	c := e.speaks()
	c.InsecureSkipVerify = true // the certificate is only what was asked for
	return c
}

// speaks returns the offered versions and ciphers. Those of older controllers
// are offered only to a controller for which an administrator allows them. With
// RSA key exchange, whoever gets the controller's key later can read the
// password in recorded traffic, and below TLS 1.2 only SHA-1 protects the
// messages.
func (e Endpoint) speaks() *tls.Config {
	if !e.LegacyTLS {
		return &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return &tls.Config{ //nolint:gosec // the site's choice: tls Legacy
		MinVersion:   tls.VersionTLS10,
		CipherSuites: legacySuites(),
		// A greeting with one of the new kinds of keys does not fit into one
		// packet, and old stacks expect one packet.
		CurvePreferences: []tls.CurveID{tls.CurveP256, tls.CurveP384, tls.CurveP521, tls.X25519},
	}
}

// legacySuites returns all suites except those with RC4, which nobody needs:
// whatever has RC4 also has 3DES.
func legacySuites() []uint16 {
	var ids []uint16
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if !strings.Contains(s.Name, "RC4") {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// handshakeError is the reason why an encrypted connection failed.
type handshakeError struct{ cause error }

func (e handshakeError) Error() string { return e.cause.Error() }

func (e handshakeError) Unwrap() error { return e.cause }

// dialTLS connects and then negotiates the encryption, so that a failure of the
// connection differs from a failure of the handshake.
func dialTLS(e Endpoint, c *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := e.DialContext
	if dial == nil {
		dial = dialer.DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, e.Timeout)
		defer cancel()
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, c)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, handshakeError{err}
		}
		return conn, nil
	}
}

func pinned(s tls.ConnectionState, fingerprint string) error {
	if len(s.PeerCertificates) == 0 {
		return errNoCertificate
	}
	if shown := fingerprintOf(s.PeerCertificates[0].Raw); shown != PlainFingerprint(fingerprint) {
		return pinError{shown, PlainFingerprint(fingerprint)}
	}
	return nil
}

func fingerprintOf(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// PlainFingerprint normalizes a fingerprint: colons and case do not matter.
func PlainFingerprint(fingerprint string) string {
	return strings.ToLower(strings.ReplaceAll(fingerprint, ":", ""))
}

// ShownCertificate is the certificate that a controller shows to anybody.
type ShownCertificate struct {
	// Fingerprint is its SHA-256, in hex.
	Fingerprint string `json:"fingerprint"`
	// Subject and Issuer are the certificate's own; they are equal if it signed
	// itself.
	Subject string    `json:"subject"`
	Issuer  string    `json:"issuer"`
	Begins  time.Time `json:"begins"`
	Ends    time.Time `json:"ends"`
}

func certificateOf(s tls.ConnectionState) ShownCertificate {
	if len(s.PeerCertificates) == 0 {
		return ShownCertificate{}
	}
	c := s.PeerCertificates[0]
	return ShownCertificate{
		Fingerprint: fingerprintOf(c.Raw), Subject: oneLine(c.Subject.String()), Issuer: oneLine(c.Issuer.String()),
		Begins: c.NotBefore, Ends: c.NotAfter,
	}
}

// CertificateShown returns the certificate that the endpoint shows, so that a
// person can compare and pin it, or so that it is pinned at first sight. It
// trusts nothing and sends no account.
func CertificateShown(ctx context.Context, e Endpoint) (shown ShownCertificate, err error) {
	if e.Timeout <= 0 {
		e.Timeout = DefaultTimeout
	}
	c := &Client{endpoint: e}
	err = c.call(ctx, "read the certificate", func(ctx context.Context) error {
		conn, err := dialTLS(e, e.anybody())(ctx, "tcp", net.JoinHostPort(e.Address.Host, strconv.Itoa(int(e.Address.Port))))
		if err != nil {
			return err
		}
		shown = certificateOf(conn.(*tls.Conn).ConnectionState()) // dialTLS returns this type
		_ = conn.Close()
		if shown.Fingerprint == "" {
			return errNoCertificate
		}
		return nil
	})
	return shown, err
}
