package apply

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	"golang.org/x/net/http/httpproxy"

	"github.com/holdfast/holdfast/internal/model/ignition"
)

// scope holds the settings of requests for a configuration. It inherits the
// settings of the configuration that pointed to it.
type scope struct {
	// system returns the authorities that the host trusts. roots are those that
	// configurations name. If there are any roots, only they count.
	system        func() (*x509.CertPool, error)
	roots         [][]byte
	proxy         types.Proxy
	headerTimeout time.Duration
	total         time.Duration
	client        *http.Client
}

// Limits of one attempt.
const (
	dialTimeout = 10 * time.Second
	// defaultHeaderTimeout is Ignition's own default for
	// timeouts.httpResponseHeaders.
	defaultHeaderTimeout = 10 * time.Second
	attemptTimeout       = 10 * time.Minute
)

// enter returns the scope of a configuration within another scope.
func (f *Fetcher) enter(ctx context.Context, ign types.Ignition, sc scope) (scope, error) {
	if sc.client == nil {
		sc.headerTimeout, sc.system = defaultHeaderTimeout, f.systemRoots
	}
	if s := ign.Timeouts.HTTPResponseHeaders; s != nil {
		sc.headerTimeout = time.Duration(*s) * time.Second
	}
	if s := ign.Timeouts.HTTPTotal; s != nil {
		sc.total = time.Duration(*s) * time.Second
	}
	if p := ign.Proxy; p.HTTPProxy != nil || p.HTTPSProxy != nil || p.NoProxy != nil {
		sc.proxy = p
	}
	if err := sc.connect(); err != nil {
		return scope{}, err
	}
	cas := ign.Security.TLS.CertificateAuthorities
	for i, ca := range cas {
		pem, err := f.resource(ctx, fmt.Sprintf("ignition.security.tls.certificateAuthorities.%d", i), ca, sc, maxConfigBytes)
		if err != nil {
			return scope{}, err
		}
		sc.roots = append(slices.Clip(sc.roots), pem)
	}
	if len(cas) == 0 {
		return sc, nil
	}
	return sc, sc.connect()
}

// connect creates the client of a scope. It does not keep connections: the next
// attempt may have to reach another host behind the same address.
func (sc *scope) connect() error {
	pool, err := sc.trusted()
	if err != nil {
		return err
	}
	proxy := httpproxy.Config{HTTPProxy: text(sc.proxy.HTTPProxy), HTTPSProxy: text(sc.proxy.HTTPSProxy)}
	for _, item := range sc.proxy.NoProxy {
		proxy.NoProxy += string(item) + ","
	}
	find := proxy.ProxyFunc()
	sc.client = &http.Client{
		Timeout: attemptTimeout,
		Transport: &http.Transport{
			Proxy:                 func(r *http.Request) (*url.URL, error) { return find(r.URL) },
			DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
			TLSClientConfig:       &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:   dialTimeout,
			ResponseHeaderTimeout: sc.headerTimeout,
			DisableKeepAlives:     true,
			ForceAttemptHTTP2:     true,
		},
	}
	return nil
}

// trusted returns the authorities of a scope: those that its configurations
// name, or the host's own if they name none. Ignition itself would add up both.
// Then anybody with a certificate of any authority that the host trusts, such as
// an inspecting proxy, would get the secret in a pointer, and could answer with
// a configuration of its own.
func (sc scope) trusted() (*x509.CertPool, error) {
	if len(sc.roots) == 0 {
		pool, err := sc.system()
		if err != nil {
			pool = x509.NewCertPool() // without authorities every server is rejected, and the error says so
		}
		return pool, nil
	}
	pool := x509.NewCertPool()
	for _, pem := range sc.roots {
		if !pool.AppendCertsFromPEM(pem) {
			return nil, &InputError{Err: errors.New("ignition.security.tls.certificateAuthorities: no certificate in PEM form")}
		}
	}
	return pool, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// request is one thing to fetch.
type request struct {
	url     string
	headers http.Header
	// shown is the URL without parts that may be secret.
	shown string
	limit int64
}

// newRequest checks whether a resource may be fetched at all. It treats headers
// as secrets, which are never sent in clear text.
func newRequest(field string, res types.Resource) (request, error) {
	u, err := url.Parse(*res.Source)
	if err != nil {
		return request{}, &InputError{Err: fmt.Errorf("%s.source: not a URL", field)}
	}
	headers, err := res.HTTPHeaders.Parse()
	if err != nil {
		return request{}, &InputError{Err: fmt.Errorf("%s.httpHeaders: %w", field, err)}
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return request{}, &InputError{Err: fmt.Errorf("%s.source: %s: is not supported; use https or data", field, u.Scheme)}
	case u.Scheme == "http" && len(headers) > 0:
		return request{}, &InputError{Err: fmt.Errorf("%s.source: carries httpHeaders over http, where all can read them; use https", field)}
	}
	headers.Set("User-Agent", "holdfast-agent")
	headers.Set("Accept", ignition.MediaType+";version="+ignition.Newest+", */*;q=0.1")
	return request{url: u.String(), headers: headers, shown: u.Scheme + "://" + u.Host + u.Path}, nil
}

// finalError is an error that another attempt cannot mend.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

func final(format string, args ...any) error {
	return &finalError{err: fmt.Errorf(format, args...)}
}

// get makes one attempt.
func (sc scope) get(ctx context.Context, req request) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, req.url, nil)
	if err != nil {
		return nil, final("not a request")
	}
	r.Header = req.headers
	client := *sc.client
	client.CheckRedirect = req.redirect
	resp, err := client.Do(r)
	if err != nil {
		return nil, sc.bare(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, refusal(resp)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, req.limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > req.limit:
		return nil, final("larger than %d MiB", req.limit>>20)
	}
	return data, nil
}

// redirect follows other addresses only if no secret goes along and the
// connection stays private.
func (req request) redirect(next *http.Request, via []*http.Request) error {
	switch {
	case len(req.headers) > 2: // more than our own User-Agent and Accept
		return final("redirected to %s, where its httpHeaders may not go", next.URL.Host)
	case via[0].URL.Scheme == "https" && next.URL.Scheme != "https":
		return final("redirected from https to %s", next.URL.Scheme)
	case len(via) >= 5:
		return final("too many redirects")
	}
	return nil
}

// bare removes the URL, which may hold a secret, from an error. If no accepted
// authority vouches for the server, it names the authorities that count.
func (sc scope) bare(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown && len(sc.roots) > 0 {
		return fmt.Errorf("%w (only the authorities in ignition.security.tls.certificateAuthorities count)", err)
	}
	return err
}

// refusal turns any status but 200 into an error. If the server says that the
// request itself is wrong, the error is final: a second request would get the
// same answer.
func refusal(resp *http.Response) error {
	words := fmt.Sprintf("the server answers %d", resp.StatusCode)
	if line := firstLine(resp.Body); line != "" {
		words += ": " + line
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return final("%s; its token may have expired or be for another role: make the host's configuration again", words)
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusConflict, http.StatusGone:
		return final("%s", words)
	default:
		return errors.New(words)
	}
}

// maxReason bounds the part of a server's answer that is shown, in bytes.
const maxReason = 200

func firstLine(body io.Reader) string {
	raw, err := io.ReadAll(io.LimitReader(body, maxReason))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, line)
}
