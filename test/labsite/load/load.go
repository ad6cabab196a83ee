// Package load asks a web server at a steady rate while the site behind it is
// broken, and keeps how each single request went. A request that failed is
// counted; it is never made again.
package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Kind says which connection a request used.
type Kind string

// The kinds.
const (
	// New requests have a connection of their own, handshakes and all.
	New Kind = "new"
	// Kept requests use one that an earlier request left open.
	Kept Kind = "kept"
)

// Request is how one request went. Its times are since the beginning of the
// history, taken from a clock that never jumps.
type Request struct {
	Kind  Kind          `json:"kind"`
	Start time.Duration `json:"start"`
	End   time.Duration `json:"end"`
	// Late is by how much the client was behind its own schedule.
	Late   time.Duration `json:"late,omitempty"`
	Status int           `json:"status,omitempty"`
	// Error is empty where the answer was the right one.
	Error string `json:"error,omitempty"`
}

// OK reports whether the request was answered as it should be.
func (r Request) OK() bool { return r.Error == "" }

// Shape says what is asked, and how often. The zero value of each field but
// URL has a default.
type Shape struct {
	URL string
	// Address is connected to instead of the URL's host: host and port.
	Address string
	// Host is the name in the request, and the one that a certificate is
	// verified for; default the URL's host.
	Host string
	// TLS verifies the server of an https URL.
	TLS *tls.Config
	// Dial makes connections; default as everybody does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Rate is requests a second, half of them of each kind; default 200.
	Rate int
	// Deadline bounds each request, from its connection to the end of its
	// answer; default 500 ms.
	Deadline time.Duration
	// Status is that of the right answer, default 200; Body, where given, has
	// to be in it.
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
	// clients are those of each kind.
	clients map[Kind]*http.Client
	end     context.CancelFunc
	pacing  sync.WaitGroup
	asking  sync.WaitGroup

	mu       sync.Mutex
	requests []Request
}

// Start begins to ask. A mistake of the shape shows as failed requests.
func Start(ctx context.Context, shape Shape) *Load {
	shape = shape.withDefaults()
	ctx, end := context.WithCancel(ctx)
	l := &Load{shape: shape, began: time.Now(), end: end}
	l.clients = map[Kind]*http.Client{New: shape.client(New), Kept: shape.client(Kept)}
	l.pacing.Go(func() { l.pace(ctx) })
	return l
}

// client speaks HTTP/1.1, in which a connection carries one request at a time:
// a dead one costs that request and no more.
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

// pace begins requests by a schedule that does not shift when one is late, so
// that a busy client asks no less.
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

// ask makes one request. It is let finish when the load ends.
func (l *Load) ask(ctx context.Context, kind Kind, late time.Duration) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.shape.Deadline, fmt.Errorf("no answer within %s", l.shape.Deadline))
	defer cancel()
	r := Request{Kind: kind, Start: time.Since(l.began), Late: late}
	var err error
	r.Status, err = l.answer(ctx, kind)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	r.End, r.Error = time.Since(l.began), text(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, r)
}

// answer returns the status of the answer, and what is wrong with it.
func (l *Load) answer(ctx context.Context, kind Kind) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.shape.URL, nil)
	if err != nil {
		return 0, err
	}
	req.Host = l.shape.Host
	// The library makes a request again whose kept connection broke under it,
	// unless it has a body that cannot be had twice. This one is empty.
	req.Body = io.NopCloser(strings.NewReader(""))
	resp, err := l.clients[kind].Do(req)
	if err != nil {
		if request, ok := errors.AsType[*url.Error](err); ok {
			err = request.Err // every request is for the same address
		}
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode, l.right(resp)
}

// maxBody bounds what is read of an answer, in bytes.
const maxBody = 1 << 20

func (l *Load) right(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	switch {
	case err != nil:
		return fmt.Errorf("in the middle of the answer: %w", err)
	case resp.StatusCode != l.shape.Status:
		return fmt.Errorf("status %d, want %d", resp.StatusCode, l.shape.Status)
	case !strings.Contains(string(body), l.shape.Body):
		return fmt.Errorf("the answer lacks %q", l.shape.Body)
	}
	return nil
}

// Since is the time since the beginning of the history.
func (l *Load) Since() time.Duration { return time.Since(l.began) }

// At is a moment as the history counts it.
func (l *Load) At(t time.Time) time.Duration { return t.Sub(l.began) }

// Stop ends the load, lets its last requests finish and returns all of them.
func (l *Load) Stop() History {
	l.end()
	l.pacing.Wait()
	l.asking.Wait()
	for _, c := range l.clients {
		c.CloseIdleConnections()
	}
	return l.History()
}

// text is a short form of an error: histories hold thousands.
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
