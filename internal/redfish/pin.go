package redfish

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"net"
	"strconv"
	"strings"
)

// errPin says that a controller shows another certificate than the pinned one.
var errPin = errors.New("it is not the pinned one")

// errNoCertificate says that a controller shows none.
var errNoCertificate = errors.New("it shows none")

// tlsConfig verifies the certificate by the pin, if there is one: it then
// takes the place of authorities, names and dates, which controllers are known
// to get wrong.
func (e Endpoint) tlsConfig() *tls.Config {
	c := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		RootCAs:            e.RootCAs,
		InsecureSkipVerify: e.InsecureSkipVerify, //nolint:gosec // the site's choice: certificateVerification
	}
	if e.Fingerprint != "" {
		c.InsecureSkipVerify = true //nolint:gosec // the pin verifies
		c.VerifyConnection = func(s tls.ConnectionState) error { return pinned(s, e.Fingerprint) }
	}
	return c
}

func pinned(s tls.ConnectionState, fingerprint string) error {
	if len(s.PeerCertificates) == 0 {
		return errNoCertificate
	}
	if fingerprintOf(s.PeerCertificates[0].Raw) != plainHex(fingerprint) {
		return errPin
	}
	return nil
}

func fingerprintOf(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// plainHex takes the spellings of a fingerprint to one: colons and case do
// not matter.
func plainHex(fingerprint string) string {
	return strings.ToLower(strings.ReplaceAll(fingerprint, ":", ""))
}

// CertificateFingerprint returns the SHA-256 of the certificate that the
// endpoint shows, in hex, for a person to compare and to pin. It trusts
// nothing and sends no account.
func CertificateFingerprint(ctx context.Context, e Endpoint) (fingerprint string, err error) {
	if e.Timeout <= 0 {
		e.Timeout = DefaultTimeout
	}
	c := &Client{endpoint: e}
	err = c.call(ctx, "read the certificate", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, e.Timeout)
		defer cancel()
		dial := tls.Dialer{Config: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, //nolint:gosec // the certificate is what is asked for
		}}
		conn, err := dial.DialContext(ctx, "tcp", net.JoinHostPort(e.Address.Host, strconv.Itoa(int(e.Address.Port))))
		if err != nil {
			return err
		}
		state := conn.(*tls.Conn).ConnectionState() // tls.Dialer promises it
		fingerprint = fingerprintOf(state.PeerCertificates[0].Raw)
		return conn.Close()
	})
	return fingerprint, err
}
