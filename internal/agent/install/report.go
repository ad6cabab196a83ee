package install

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast/holdfast/internal/site"
)

// reporter sends a host's progress to the configuration server, so that
// whoever waits for the installation sees what each host is doing. It is best
// effort: only the latest state counts, and one that cannot be sent is tried
// again until a newer one takes its place.
type reporter struct {
	client *http.Client
	url    string
	token  string
	latest chan []byte
}

// reportTimeout bounds one try.
const reportTimeout = 5 * time.Second

func newReporter(s *site.Site, hostName string) (*reporter, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(s.Identity.ConfigCA.Cert)) {
		return nil, errors.New("the site's configuration authority is not a certificate")
	}
	return &reporter{
		client: &http.Client{Timeout: reportTimeout, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		}},
		url:    s.ConfigServerURL() + "/progress/" + url.PathEscape(hostName),
		token:  s.Identity.JoinToken,
		latest: make(chan []byte, 1),
	}, nil
}

// publish takes the newest state and never blocks. There is one publisher.
func (r *reporter) publish(data []byte) {
	select {
	case <-r.latest:
	default:
	}
	r.latest <- data
}

// run sends states until the context ends.
func (r *reporter) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case data := <-r.latest:
			if err := r.send(ctx, data); err == nil {
				continue
			}
			if sleep(ctx, retryAfter) != nil {
				return
			}
			select {
			case r.latest <- data:
			default: // a newer one waits already
			}
		}
	}
}

func (r *reporter) send(ctx context.Context, data []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("report progress: %s", resp.Status)
	}
	return nil
}

// flush sends the last state before the installation ends.
func (r *reporter) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	select {
	case data := <-r.latest:
		_ = r.send(ctx, data) // best effort: the file on the host has it too
	default:
	}
}
