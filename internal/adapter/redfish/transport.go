package redfish

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stmcginnis/gofish/schemas"
)

// maxAnswer bounds an answer, in bytes. Answers of controllers have some
// kilobytes.
const maxAnswer = 4 << 20

// maxRedirects bounds the redirects within one service.
const maxRedirects = 3

// idleTime is the time after which a connection that nobody uses is closed:
// controllers have few, and whoever waits for one's effect asks more often.
const idleTime = 15 * time.Second

// errRedirect is returned instead of sending the account elsewhere.
var errRedirect = errors.New("it redirects to another address")

// httpClient returns a client that talks only to the endpoint's address:
// directly, without the proxy of the environment, over HTTP/1.1, which all
// controllers support.
func httpClient(e Endpoint, c *Client) *http.Client {
	return &http.Client{
		CheckRedirect: sameHost,
		Timeout:       e.Timeout,
		Transport: bounded{client: c, Transport: &http.Transport{
			DialTLSContext:     dialTLS(e, e.tlsConfig()),
			IdleConnTimeout:    idleTime,
			DisableCompression: true, // answers are small, and some controllers compress without being asked
			TLSNextProto:       map[string]func(string, *tls.Conn) http.RoundTripper{},
		}},
	}
}

// dialer opens connections. A controller that was restarted has forgotten its
// connections: it reports that when it is probed, long before a slow
// controller's answer is given up.
var dialer = net.Dialer{
	Timeout:         10 * time.Second,
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 3 * time.Second, Interval: 2 * time.Second, Count: 4},
}

func sameHost(req *http.Request, via []*http.Request) error {
	moved := req.Method != via[0].Method // 301 and 302 turn a POST into a GET
	if moved || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme || len(via) > maxRedirects {
		return errRedirect
	}
	return nil
}

// bounded limits answers to maxAnswer, and records how long they take and how
// an account is refused.
type bounded struct {
	*http.Transport
	client *Client
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path == schemas.DefaultServiceRoot {
		return serviceRoot(req), nil
	}
	begin := time.Now()
	resp, err := b.Transport.RoundTrip(req)
	if err == nil {
		if req.Method == http.MethodGet {
			b.client.slowest.note(time.Since(begin))
		}
		resp.Body = limitedBody{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	if err == nil && resp.StatusCode == http.StatusUnauthorized && !offersBasic(resp.Header) {
		b.client.silent.Store(true)
	}
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		resp.Body = readable(resp.Body)
	}
	return resp, err
}

// readable returns as much of an error's body as can be read: the status is
// what counts, and iDRAC8 breaks off the body of a 401.
func readable(body io.ReadCloser) io.ReadCloser {
	said, _ := io.ReadAll(body)
	_ = body.Close()
	return io.NopCloser(bytes.NewReader(said))
}

// serviceRoot replaces the service root, which the library reads before
// anything else. Nothing here needs it, and a slow controller would take as
// long for it as for the power state.
func serviceRoot(req *http.Request) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Request: req,
		Body: io.NopCloser(strings.NewReader(`{"@odata.id":"` + schemas.DefaultServiceRoot + `"}`)),
	}
}

// slowest keeps the longest of several durations.
type slowest struct{ longest atomic.Int64 }

func (s *slowest) value() time.Duration { return time.Duration(s.longest.Load()) }

func (s *slowest) note(took time.Duration) {
	for {
		before := s.longest.Load()
		if int64(took) <= before || s.longest.CompareAndSwap(before, int64(took)) {
			return
		}
	}
}

type limitedBody struct {
	io.Reader
	io.Closer
}
