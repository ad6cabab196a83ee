package redfish

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Shown holds what a controller shows without an account.
type Shown struct {
	ShownCertificate
	// Clock is the controller's time, to the second, zero if it reports none.
	// It was read between Asked and Answered.
	Clock, Asked, Answered time.Time
}

// rootPath may be read without an account, by the standard.
const rootPath = "/redfish/v1/"

// ShownBy asks a controller for what it shows. It trusts nothing and sends no
// account.
func ShownBy(ctx context.Context, e Endpoint) (shown Shown, err error) {
	if e.Timeout <= 0 {
		e.Timeout = DefaultTimeout
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DialTLSContext: dialTLS(e, e.anybody())},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c := &Client{endpoint: e}
	err = c.call(ctx, "read the service", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, e.Timeout)
		defer cancel()
		at := "https://" + net.JoinHostPort(e.Address.Host, strconv.Itoa(int(e.Address.Port))) + rootPath
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		if err != nil {
			return err
		}
		shown.Asked = time.Now()
		res, err := client.Do(req)
		shown.Answered = time.Now()
		if err != nil {
			return err
		}
		_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
		_ = res.Body.Close()
		shown.ShownCertificate = certificateOf(*res.TLS) // an answer over TLS has one
		if at, err := http.ParseTime(res.Header.Get("Date")); err == nil {
			shown.Clock = at
		}
		return nil
	})
	return shown, err
}
