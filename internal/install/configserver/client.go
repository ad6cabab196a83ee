package configserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Client asks a site's configuration server.
type Client struct {
	// Addresses are HOST:PORT, tried in order.
	Addresses []string
	// ServerName is the name in the server's certificate, independent of the
	// dialled address.
	ServerName string
	// CA is the authority of that certificate, PEM.
	CA string
	// Token is the read token, for Progress.
	Token string
	// Certificate is the certificate with its key that Renew shows.
	Certificate tls.Certificate
	// Now is the clock by which the server's certificate is judged; nil means
	// time.Now.
	Now func() time.Time

	http *http.Client
}

const (
	// dialTimeout bounds the attempt at one address.
	dialTimeout = 2 * time.Second
	// readLimit bounds one answer.
	readLimit = 10 * time.Second
	// maxAnswerBytes bounds the read part of an answer: every host that a server
	// keeps, with a generous size each.
	maxAnswerBytes = maxHosts * MaxProgressBytes
)

// ErrForeign reports a server that is not this site's configuration server.
var ErrForeign = errors.New("the server at this address belongs to another site (another cluster, or an older install directory)")

// Progress returns the last report of each host. An error does not contain the
// token.
func (c *Client) Progress(ctx context.Context) ([]state.Progress, error) {
	resp, err := c.do(ctx, http.MethodGet, "/progress", c.Token)
	switch {
	case errors.Is(err, ErrForeign):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("read progress: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, ErrForeign
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("read progress: %s", resp.Status)
	}
	var all []state.Progress
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswerBytes)).Decode(&all); err != nil {
		return nil, fmt.Errorf("read progress: %w", err)
	}
	return all, nil
}

// Opens reports whether the server accepts a join token for a role's
// configuration. It does not fetch the configuration. An error does not contain
// the token.
func (c *Client) Opens(ctx context.Context, role state.Role, token string) (bool, error) {
	resp, err := c.do(ctx, http.MethodHead, "/config/"+string(role), token)
	if err != nil {
		return false, err
	}
	_ = resp.Body.Close() // the body is empty
	switch resp.StatusCode {
	case http.StatusOK:
		return true, nil
	case http.StatusUnauthorized:
		return false, nil
	}
	return false, fmt.Errorf("the configuration server answers %s", resp.Status)
}

// Refused is the answer of a server that decided against a request, in its words.
type Refused string

func (r Refused) Error() string { return string(r) }

// maxWords bounds how much of a refusal is shown, in bytes.
const maxWords = 400

// Renew requests a kubelet certificate in exchange for the expired one in
// Certificate, and returns it in PEM form. The error is Refused where another
// server would answer the same.
func (c *Client) Renew(ctx context.Context, request []byte) ([]byte, error) {
	resp, err := c.ask(ctx, http.MethodPost, certificatePath, "", request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxProgressBytes))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the certificate: %w", err)
	case resp.StatusCode == http.StatusNotFound:
		return nil, errors.New("the control plane runs an older build, which renews no certificates")
	case resp.StatusCode >= http.StatusInternalServerError:
		return nil, errors.New(Words(data))
	case resp.StatusCode != http.StatusOK:
		return nil, Refused(Words(data))
	}
	return data, nil
}

// Words returns the first line of an answer, without control characters.
func Words(data []byte) string {
	line, _, _ := strings.Cut(string(data[:min(len(data), maxWords)]), "\n")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, line)
}

// do makes one request without a body.
func (c *Client) do(ctx context.Context, method, path, token string) (*http.Response, error) {
	return c.ask(ctx, method, path, token, nil)
}

// ask makes one request. The caller must close the answer, within the limit.
func (c *Client) ask(ctx context.Context, method, path, token string, body []byte) (*http.Response, error) {
	if err := c.open(); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+c.ServerName+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, foreign(err)
	}
	return resp, nil
}

// Close ends the connections that wait for another request.
func (c *Client) Close() {
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}

// foreign returns ErrForeign for a certificate of another authority or for
// another name.
func foreign(err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	if errors.As(err, &unknown) || errors.As(err, &name) {
		return ErrForeign
	}
	return err
}

func (c *Client) open() error {
	if c.http != nil {
		return nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(c.CA)) {
		return errors.New("the site's configuration authority is not a certificate")
	}
	c.http = &http.Client{Timeout: readLimit, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialFirst(ctx, c.Addresses) },
		TLSClientConfig: &tls.Config{
			RootCAs: roots, ServerName: c.ServerName, MinVersion: tls.VersionTLS12, Time: c.Now,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c.Certificate, nil },
		},
		IdleConnTimeout: idleTimeout,
	}}
	return nil
}

// dialFirst returns a connection to the first address that accepts one.
func dialFirst(ctx context.Context, addresses []string) (net.Conn, error) {
	var words []string
	for _, a := range addresses {
		conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", a)
		if err == nil {
			return conn, nil
		}
		words = append(words, err.Error())
	}
	return nil, errors.New(strings.Join(words, "; "))
}
