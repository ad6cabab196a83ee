package load

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"golang.org/x/sys/unix"
)

// Most is what a client may notice at most. No wrong answer is ever right.
type Most struct {
	// New bounds the failed requests on connections of their own.
	New int
	// Lost bounds the failed requests on kept connections that did not end: a status, no answer in
	// time, or the end of a connection that was dialled for the request.
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

// Cause says why a request failed, as far as a judge asks.
type Cause string

const (
	// CauseEnd is the end of a connection that was kept: it was open and idle before the request. The end
	// of one that was dialled for the request is none.
	CauseEnd Cause = "end"
	// CauseWrong is the answer of somebody else, or another answer.
	CauseWrong Cause = "wrong"
)

// errLacks is a wrong answer.
var errLacks = errors.New("the answer lacks")

// endedIdle is the text of net/http for a kept connection that its server had closed. It has no
// error of its own for that.
const endedIdle = "server closed idle connection"

// causeOf returns why a request failed. kept is whether it got a connection that was kept.
func causeOf(kept bool, err error) Cause {
	_, foreign := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case err == nil:
		return ""
	case foreign || errors.Is(err, errLacks):
		return CauseWrong
	case !kept:
		return ""
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE), errors.Is(err, net.ErrClosed):
		return CauseEnd
	case strings.Contains(err.Error(), endedIdle):
		return CauseEnd
	}
	return ""
}
