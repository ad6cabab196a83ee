package status

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/decide/page"
)

// clock measures the offset between the cluster's clock and this machine's,
// from the date of each answer. The age of a report must be measured by the
// clock of the host that wrote it.
type clock struct {
	now func() time.Time

	mu    sync.Mutex
	ahead time.Duration // of the cluster's clock before this machine's
}

// resolution is the uncertainty of the date in a header, including its time on
// the network.
const resolution = 3 * time.Second

// through returns a transport that notes the date of each answer.
func (c *clock) through(next http.RoundTripper) http.RoundTripper { return dated{c, next} }

type dated struct {
	clock *clock
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (d dated) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := d.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		d.clock.note(at)
	}
	return resp, nil
}

// WrappedRoundTripper lets client-go cancel a request that hangs. client-go
// looks for this method; without it, client-go complains on the terminal at
// each time-out.
func (d dated) WrappedRoundTripper() http.RoundTripper { return d.next }

func (c *clock) note(at time.Time) {
	ahead := at.Sub(c.now())
	if ahead.Abs() < resolution {
		ahead = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead = ahead
}

// of converts a time of this machine to the cluster's clock.
func (c *clock) of(t time.Time) time.Time {
	if c == nil {
		return t
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return t.Add(c.ahead)
}

// words returns a sentence about the offset of the clocks; empty if there is
// none.
func (c *clock) words() string {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ahead > 0:
		return fmt.Sprintf("this machine's clock is %s behind the cluster's; ages here follow the cluster's clock", page.Duration(c.ahead))
	case c.ahead < 0:
		return fmt.Sprintf("this machine's clock is %s ahead of the cluster's; ages here follow the cluster's clock", page.Duration(-c.ahead))
	}
	return ""
}
