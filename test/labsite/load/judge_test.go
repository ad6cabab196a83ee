package load

import (
	"strings"
	"testing"
	"time"
)

func TestAKeptConnectionMayEndAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		kind  Kind
		wrong string
		want  string
	}{
		"an answer":                          {Kept, "", ""},
		"a connection that was closed":       {Kept, "EOF", ""},
		"one that was reset":                 {Kept, "read tcp 10.98.0.1:4711->10.98.0.6:80: read: connection reset by peer", ""},
		"one that was reset in an answer":    {Kept, "in the middle of the answer: unexpected EOF", ""},
		"one into which nobody reads":        {Kept, "write tcp 10.98.0.1:4711->10.98.0.6:80: write: broken pipe", ""},
		"one that the server closed before":  {Kept, "http: server closed idle connection", ""},
		"no answer":                          {Kept, "no answer within 2s", "did not end"},
		"a status":                           {Kept, "status 503, want 200", "did not end"},
		"a server that refuses":              {Kept, "dial tcp 10.98.0.6:80: connect: connection refused", "did not end"},
		"a server that resets a new one":     {Kept, "dial tcp 10.98.0.6:80: connect: connection reset by peer", "did not end"},
		"another answer":                     {Kept, `the answer lacks "OK"`, "wrong answer"},
		"another one's certificate":          {New, "tls: failed to verify certificate: x509: certificate is valid for 10.98.0.9", "wrong answer"},
		"a reset of a connection of its own": {New, "read tcp 10.98.0.1:4711->10.98.0.6:80: read: connection reset by peer", "of their own"},
	} {
		l := History{Requests: []Request{{Kind: c.kind, End: time.Second, Error: c.wrong}}}.Loss(0, time.Minute)
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
