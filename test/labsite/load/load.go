// Package load sends requests to a web server at a steady rate while the site
// behind it is broken, and records the result of each request. It counts a
// failed request, and never repeats it.
package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Kind tells which connection a request used.
type Kind string

// The kinds.
const (
	// New requests open their own connection, with all handshakes.
	New Kind = "new"
	// Kept requests use a connection that an earlier request left open.
	Kept Kind = "kept"
)

// Request is the result of one request. Its times are relative to the beginning
// of the history, from a clock that never jumps.
type Request struct {
	Kind  Kind          `json:"kind"`
	Start time.Duration `json:"start"`
	End   time.Duration `json:"end"`
	// Late is the delay of the client behind its own schedule.
	Late   time.Duration `json:"late,omitempty"`
	Status int           `json:"status,omitempty"`
	// Error is empty if the answer was right.
	Error string `json:"error,omitempty"`
	// Cause is why it was not, as far as a judge asks.
	Cause Cause `json:"cause,omitempty"`
}

// OK reports whether the request got the right answer.
func (r Request) OK() bool { return r.Error == "" }

// Shape describes the requests and their rate. The zero value of each field but
// URL means its default.
type Shape struct {
	URL string
	// Address is dialled instead of the URL's host: host and port.
	Address string
	// Host is the name in the request, and the one for which a certificate is
	// verified; default the URL's host.
	Host string
	// TLS verifies the server of an https URL.
	TLS *tls.Config
	// Dial makes connections; default a plain net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Rate is the number of requests a second, half of them of each kind;
	// default 200.
	Rate int
	// Deadline bounds each request, from its connection to the end of its
	// answer; default 500 ms.
	Deadline time.Duration
	// Token is a bearer token that each request carries, if given.
	Token string
	// Status is the status of the right answer, default 200. Body, if given,
	// must be in it.
	Status int
	Body   string
}

// Defaults of a shape.
const (
	DefaultRate     = 200
	DefaultDeadline = 500 * time.Millisecond
)

func (s Shape) withDefaults() Shape {
	if s.Rate == 0 {
		s.Rate = DefaultRate
	}
	if s.Deadline == 0 {
		s.Deadline = DefaultDeadline
	}
	if s.Status == 0 {
		s.Status = http.StatusOK
	}
	if s.Dial == nil {
		s.Dial = (&net.Dialer{}).DialContext
	}
	return s
}

// Load is a running load.
type Load struct {
	shape Shape
	began time.Time
	// clients holds the client of each kind.
	clients map[Kind]*http.Client
	end     context.CancelFunc
	pacing  sync.WaitGroup
	asking  sync.WaitGroup

	mu       sync.Mutex
	requests []Request
}

// Start starts sending requests. A mistake in the shape shows as failed
// requests.
func Start(ctx context.Context, shape Shape) *Load {
	shape = shape.withDefaults()
	ctx, end := context.WithCancel(ctx)
	l := &Load{shape: shape, began: time.Now(), end: end}
	l.clients = map[Kind]*http.Client{New: shape.client(New), Kept: shape.client(Kept)}
	l.pacing.Go(func() { l.pace(ctx) })
	return l
}

// client returns a client for HTTP/1.1, in which a connection carries one
// request at a time: a dead connection costs only that request.
func (s Shape) client(kind Kind) *http.Client {
	var secure *tls.Config
	if s.TLS != nil {
		secure = s.TLS.Clone()
		if s.Host != "" {
			secure.ServerName = s.Host
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if s.Address != "" {
					address = s.Address
				}
				return s.Dial(ctx, network, address)
			},
			TLSClientConfig: secure, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
			DisableKeepAlives: kind == New, DisableCompression: true,
			MaxIdleConnsPerHost: s.Rate, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// pace starts requests by a schedule that does not shift when one is late, so
// that a busy client does not send fewer.
func (l *Load) pace(ctx context.Context) {
	every := time.Second / time.Duration(l.shape.Rate)
	timer := time.NewTimer(0)
	defer timer.Stop()
	kinds := [2]Kind{New, Kept}
	for n := 0; ; n++ {
		due := l.began.Add(time.Duration(n) * every)
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		late := time.Since(due)
		l.asking.Go(func() { l.ask(context.WithoutCancel(ctx), kinds[n%2], late) })
	}
}

// ask makes one request, which may finish after the load ends.
func (l *Load) ask(ctx context.Context, kind Kind, late time.Duration) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.shape.Deadline, fmt.Errorf("no answer within %s", l.shape.Deadline))
	defer cancel()
	r := Request{Kind: kind, Start: time.Since(l.began), Late: late}
	var kept bool
	// A connection that was dialled while another one became free is kept too, before it answered any.
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { kept = got.Reused }})
	var err error
	r.Status, err = l.answer(ctx, kind)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	r.End, r.Error, r.Cause = time.Since(l.began), text(err), causeOf(kept, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, r)
}

// answer returns the status of the answer, and an error if the answer is wrong.
func (l *Load) answer(ctx context.Context, kind Kind) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.shape.URL, nil)
	if err != nil {
		return 0, err
	}
	req.Host = l.shape.Host
	if l.shape.Token != "" {
		req.Header.Set("Authorization", "Bearer "+l.shape.Token)
	}
	// The library repeats a request whose kept connection broke, unless the
	// request has a body that cannot be read twice. This body is empty.
	req.Body = io.NopCloser(strings.NewReader(""))
	resp, err := l.clients[kind].Do(req)
	if err != nil {
		if request, ok := errors.AsType[*url.Error](err); ok {
			err = request.Err // every request has the same address
		}
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode, l.right(resp)
}

// maxBody bounds the part of an answer that is read, in bytes.
const maxBody = 1 << 20

func (l *Load) right(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	switch {
	case err != nil:
		return fmt.Errorf("in the middle of the answer: %w", err)
	case resp.StatusCode != l.shape.Status:
		return fmt.Errorf("status %d, want %d", resp.StatusCode, l.shape.Status)
	case !strings.Contains(string(body), l.shape.Body):
		return fmt.Errorf("%w %q", errLacks, l.shape.Body)
	}
	return nil
}

// Since returns the time since the beginning of the history.
func (l *Load) Since() time.Duration { return time.Since(l.began) }

// At converts a moment to the time of the history.
func (l *Load) At(t time.Time) time.Duration { return t.Sub(l.began) }

// Stop ends the load, lets its last requests finish and returns all requests.
func (l *Load) Stop() History {
	l.end()
	l.pacing.Wait()
	l.asking.Wait()
	for _, c := range l.clients {
		c.CloseIdleConnections()
	}
	return l.History()
}

// text shortens an error, because histories hold thousands.
func text(err error) string {
	if err == nil {
		return ""
	}
	s := err.Error()
	if len(s) > 200 {
		s = s[:200]
	}
	return s
}
