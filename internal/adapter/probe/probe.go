// Package probe asks the services of this host how they are, often and cheaply:
// over one connection that it keeps, and with a deadline for each answer.
package probe

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// The times of a probe.
const (
	// PollInterval is the pause between two questions while the answer stays the same,
	// and RetryInterval the pause while it may be about to change.
	PollInterval  = time.Second
	RetryInterval = 250 * time.Millisecond
	// Answer bounds one answer. A service that needs longer is as good as gone
	// for its real clients.
	Answer = time.Second
	// patience is the number of late or bad answers in a row that count as ill.
	// If nobody listens, one is enough.
	patience = 2
)

// bodySize bounds how much of an answer is read, so that its connection can be
// kept.
const bodySize = 64 << 10

// verdict is the result of one question.
type verdict int

const (
	// good and bad are the service's own answers; no answer in time is bad too.
	good verdict = iota
	bad
	// absent means that nobody listens.
	absent
)

// watched is the state of a service that is asked again and again.
type watched struct {
	// well is its present state.
	well bool
	// failures counts the bad answers in a row, up to patience.
	failures int
	// soon is true if the next answer may change well, or the last one has
	// changed it.
	soon bool
}

// next returns the state after one more answer.
func (w watched) next(v verdict) watched {
	was := w.well
	switch {
	case v == good:
		w.well, w.failures = true, 0
	case v == absent || w.failures+1 >= patience:
		w.well, w.failures = false, patience
	default:
		w.failures++
	}
	w.soon = w.well != was || w.undecided() || w.well && w.failures > 0
	return w
}

// undecided reports whether only a single bad answer is known.
func (w watched) undecided() bool { return !w.well && w.failures > 0 && w.failures < patience }

// get asks once and returns the header of the answer, nil without one. It
// ignores the body.
func get(ctx context.Context, client *http.Client, url string) (http.Header, verdict) {
	ctx, cancel := context.WithTimeout(ctx, Answer)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, bad
	}
	response, err := client.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, absent
	}
	if err != nil {
		return nil, bad
	}
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, bodySize))
	if err = errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != http.StatusOK {
		return response.Header, bad
	}
	return response.Header, good
}

// oneConnection returns a transport that keeps one connection and speaks
// HTTP/1.1.
func oneConnection() *http.Transport {
	return &http.Transport{
		DialContext:  (&net.Dialer{Timeout: Answer}).DialContext,
		MaxIdleConns: 1, IdleConnTimeout: time.Minute, DisableCompression: true,
	}
}

// pause waits until the next question.
func pause(ctx context.Context, soon bool) {
	d := PollInterval
	if soon {
		d = RetryInterval
	}
	_ = host.Sleep(ctx, d)
}
