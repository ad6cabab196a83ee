package configserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/decide/joining"
)

// renewing returns a server that answers requests with its own certificate, which
// stands for a worker's, and a client that shows it.
func renewing(t *testing.T, answer error) (*site, *Client, *[][]byte) {
	t.Helper()
	var asked [][]byte
	var s *site
	s = newSite(t, func(o *Options) {
		o.Renew = func(_ context.Context, shown *x509.Certificate, request []byte) ([]byte, error) {
			if !shown.Equal(s.Certificate()) {
				t.Error("the certificate is not the one that was shown")
			}
			asked = append(asked, request)
			return []byte("certificate"), answer
		}
	})
	c := newClient(s)
	c.Certificate = s.TLS.Certificates[0]
	return s, c, &asked
}

func TestAWorkerGetsACertificateForTheOneItShows(t *testing.T) {
	s, c, asked := renewing(t, nil)
	got, err := c.Renew(t.Context(), []byte("request"))
	if err != nil || string(got) != "certificate" || len(*asked) != 1 || string((*asked)[0]) != "request" {
		t.Errorf("%q, %v, asked for %q", got, err, *asked)
	}
	if strings.Contains(s.log.String(), "request\"") {
		t.Errorf("the log holds the request: %s", s.log.String())
	}
}

func TestNobodyGetsACertificateWithoutShowingOne(t *testing.T) {
	s, c, asked := renewing(t, nil)
	c.Certificate = tls.Certificate{}
	_, err := c.Renew(t.Context(), []byte("request"))
	if _, decided := errors.AsType[Refused](err); !decided || !strings.Contains(err.Error(), "a client certificate is needed") {
		t.Errorf("got %v", err)
	}
	// Every other request works without one, and a token opens nothing here.
	if status, body, _ := s.ask(t, http.MethodPost, certificatePath, "Bearer "+token(t, "worker"), "request"); status != http.StatusForbidden {
		t.Errorf("with a token: %d %s", status, body)
	}
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		if status, _, _ := s.ask(t, method, certificatePath, "", ""); status != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, status)
		}
	}
	if len(*asked) != 0 {
		t.Errorf("it was asked for %d certificates", len(*asked))
	}
}

func TestAnAnswerTellsARefusalFromAnAPIThatIsAway(t *testing.T) {
	for _, x := range []struct {
		answer error
		want   string
		final  bool
	}{
		{joining.Refusal("the cluster has no Node worker-1 any more"), "the cluster has no Node worker-1 any more", true},
		{joining.ErrNoWorker, joining.ErrNoWorker.Error(), true},
		{errors.New("etcd has no leader"), "the control plane does not answer yet: try again", false},
	} {
		s, c, _ := renewing(t, x.answer)
		_, err := c.Renew(t.Context(), []byte("request"))
		if _, decided := errors.AsType[Refused](err); err == nil || err.Error() != x.want || decided != x.final {
			t.Errorf("%v: %v, final %t", x.answer, err, decided)
		}
		if !strings.Contains(s.log.String(), x.answer.Error()) {
			t.Errorf("the log lacks the reason: %s", s.log.String())
		}
	}
	s := newSite(t, nil) // a server that renews nothing
	c := newClient(s)
	if _, err := c.Renew(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "older build") {
		t.Errorf("got %v", err)
	}
}

func TestALargeRequestForACertificateIsRefused(t *testing.T) {
	_, c, asked := renewing(t, nil)
	if _, err := c.Renew(t.Context(), make([]byte, MaxRequestBytes)); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	_, err := c.Renew(t.Context(), make([]byte, MaxRequestBytes+1))
	if _, decided := errors.AsType[Refused](err); !decided || len(*asked) != 1 {
		t.Errorf("above it: %v, asked %d times", err, len(*asked))
	}
}
