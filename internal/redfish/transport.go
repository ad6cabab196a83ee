package redfish

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
)

// maxAnswer bounds an answer, in bytes. Answers of controllers are some
// kilobytes.
const maxAnswer = 4 << 20

// maxRedirects bounds redirects within one service.
const maxRedirects = 3

// errRedirect refuses to take the account elsewhere.
var errRedirect = errors.New("it redirects to another place")

// httpClient speaks to the one place of an endpoint: directly, without the
// proxy of the environment, over HTTP/1.1, which all controllers know.
func httpClient(e Endpoint) *http.Client {
	dial := e.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return &http.Client{
		CheckRedirect: sameHost,
		Transport: bounded{&http.Transport{
			DialContext:     dial,
			TLSNextProto:    map[string]func(string, *tls.Conn) http.RoundTripper{},
			TLSClientConfig: e.tlsConfig(),
		}},
	}
}

func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme || len(via) > maxRedirects {
		return errRedirect
	}
	return nil
}

// bounded cuts answers off at maxAnswer.
type bounded struct {
	*http.Transport
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.Transport.RoundTrip(req)
	if err == nil {
		resp.Body = limitedBody{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}

type limitedBody struct {
	io.Reader
	io.Closer
}
