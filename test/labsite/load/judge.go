package load

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Most is what a client may notice at most. No wrong answer is ever right.
type Most struct {
	// New bounds the failed requests on connections of their own.
	New int
	// Lost bounds the failed requests on kept connections that did not end: a status, or no
	// answer in time.
	Lost int
	// Kept bounds all failed requests on kept connections, those that ended among them.
	Kept int
}

// PerThousand returns so many of each thousand requests.
func (l Loss) PerThousand(n int) int { return l.Requests * n / 1000 }

// Lost returns how many requests on kept connections failed though the connection did not end.
func (l Loss) Lost() int { return l.FailedKept - l.Ended }

// Within returns what a client noticed beyond its bounds.
func (l Loss) Within(m Most) error {
	var errs []error
	for _, q := range []struct {
		what      string
		was, most int
	}{
		{"got a wrong answer", l.Wrong, 0},
		{"failed on connections of their own", l.FailedNew, m.New},
		{"failed on kept connections that did not end", l.Lost(), m.Lost},
		{"failed on kept connections", l.FailedKept, m.Kept},
	} {
		if q.was > q.most {
			errs = append(errs, fmt.Errorf("%d requests %s, want at most %d", q.was, q.what, q.most))
		}
	}
	return errors.Join(errs...)
}

// ends are the words with which a connection ends on which an earlier request was answered.
var ends = []string{"EOF", "connection reset by peer", "broken pipe", "use of closed network connection", "server closed idle connection"}

// ended reports whether a request failed because its kept connection ended. Where none was
// kept its client dials one, and that no one takes it is no end.
func (r Request) ended() bool {
	return r.Kind == Kept && !r.OK() && !strings.Contains(r.Error, "dial ") &&
		slices.ContainsFunc(ends, func(words string) bool { return strings.Contains(r.Error, words) })
}

// wrong reports whether somebody else answered, or something else.
func (r Request) wrong() bool {
	return strings.HasPrefix(r.Error, lacks) || strings.Contains(r.Error, "x509:")
}
