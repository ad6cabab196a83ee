package load

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAKeptConnectionMayEndAndNothingElse(t *testing.T) {
	read := func(err error) error { return &net.OpError{Op: "read", Net: "tcp", Err: err} }
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for name, c := range map[string]struct {
		kind   Kind
		reused bool
		err    error
		want   string
	}{
		"an answer":                          {Kept, true, nil, ""},
		"a connection that was closed":       {Kept, true, io.EOF, ""},
		"one that was reset":                 {Kept, true, read(unix.ECONNRESET), ""},
		"one that was reset in an answer":    {Kept, true, fmt.Errorf("in the middle of the answer: %w", io.ErrUnexpectedEOF), ""},
		"one into which nobody reads":        {Kept, true, &net.OpError{Op: "write", Net: "tcp", Err: unix.EPIPE}, ""},
		"one that the server closed before":  {Kept, true, errors.New("http: server closed idle connection"), ""},
		"no answer":                          {Kept, true, errors.New("no answer within 2s"), "did not end"},
		"a status":                           {Kept, true, errors.New("status 503, want 200"), "did not end"},
		"a server that refuses":              {Kept, false, dial(unix.ECONNREFUSED), "did not end"},
		"a server that resets a new one":     {Kept, false, dial(unix.ECONNRESET), "did not end"},
		"one that ends before it answers":    {Kept, false, io.EOF, "did not end"},
		"one reset before it is encrypted":   {Kept, false, read(unix.ECONNRESET), "did not end"},
		"another answer":                     {Kept, true, fmt.Errorf("%w %q", errLacks, "OK"), "wrong answer"},
		"another one's certificate":          {New, false, &tls.CertificateVerificationError{Err: x509.HostnameError{Host: "10.98.0.9", Certificate: &x509.Certificate{}}}, "wrong answer"},
		"a reset of a connection of its own": {New, false, read(unix.ECONNRESET), "of their own"},
	} {
		l := History{Requests: []Request{{Kind: c.kind, End: time.Second, Error: text(c.err), Cause: causeOf(c.reused, c.err)}}}.Loss(0, time.Minute)
		err := l.Within(Most{Kept: 1})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestWhatAClientMayNoticeIsBounded(t *testing.T) {
	l := Loss{Requests: 2999, Failed: 8, FailedNew: 2, FailedKept: 6, Ended: 5}
	if got := l.PerThousand(2); got != 5 {
		t.Errorf("2 of 1000 of 2999 are %d", got)
	}
	for _, c := range []struct {
		most Most
		want int
	}{
		{Most{New: 2, Lost: 1, Kept: 6}, 0},
		{Most{New: 1, Lost: 1, Kept: 6}, 1},
		{Most{New: 2, Lost: 0, Kept: 6}, 1},
		{Most{New: 2, Lost: 1, Kept: 5}, 1},
		{Most{}, 3},
	} {
		got := 0
		if err := l.Within(c.most); err != nil {
			got = 1 + strings.Count(err.Error(), "\n")
		}
		if got != c.want {
			t.Errorf("%+v: %d bounds were exceeded, want %d", c.most, got, c.want)
		}
	}
	if err := (Loss{Requests: 1, Failed: 1, FailedNew: 1, Wrong: 1}).Within(Most{New: 1}); err == nil {
		t.Error("a wrong answer is right")
	}
}
