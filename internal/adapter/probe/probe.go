// Package probe asks what runs on this host how it is doing, often and cheaply:
// over one connection that is kept, with a deadline of its own for each answer.
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
	// Every is the pause between two questions while the answer stays the same,
	// Soon while it may be about to change.
	Every = time.Second
	Soon  = 250 * time.Millisecond
	// Answer bounds one answer. Who needs longer is as good as gone for those
	// who ask it in earnest.
	Answer = time.Second
	// patience is how often in a row an answer may be late or bad before it
	// counts. Where nobody listens, none is needed.
	patience = 2
)

// bodySize bounds what is read of an answer, so that its connection can be kept.
const bodySize = 64 << 10

// verdict is one answer.
type verdict int

const (
	// good, bad: it says so itself, or says nothing in time.
	good verdict = iota
	bad
	// absent: nobody listens.
	absent
)

// watched is a thing that is asked, and what came of it.
type watched struct {
	// well is what it counts as.
	well bool
	// failures are the bad answers in a row, up to patience.
	failures int
	// soon is true where the next answer may change what it counts as, or has
	// just done so.
	soon bool
}

// next takes in one more answer.
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

// undecided is true while nothing but one bad answer is known.
func (w watched) undecided() bool { return !w.well && w.failures > 0 && w.failures < patience }

// get asks once and returns what stood above the answer, nil without one. Its
// body does not matter.
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

// oneConnection is a transport that keeps one connection and speaks HTTP/1.1.
func oneConnection() *http.Transport {
	return &http.Transport{
		DialContext:  (&net.Dialer{Timeout: Answer}).DialContext,
		MaxIdleConns: 1, IdleConnTimeout: time.Minute, DisableCompression: true,
	}
}

// pause waits until the next question.
func pause(ctx context.Context, soon bool) {
	d := Every
	if soon {
		d = Soon
	}
	_ = host.Sleep(ctx, d)
}
