package install

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/admission"
	"github.com/holdfast/holdfast/internal/decide/installation"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ownTokenPath is the file with a host's own token during the installation.
const ownTokenPath = "/var/lib/holdfast/install/host-token"

const (
	// askTimeout bounds one request. An answer may have to wait for the API.
	askTimeout = 15 * time.Second
	// maxAnswer bounds how much of an answer is read, in bytes.
	maxAnswer = 64 << 10
)

// server is the site's configuration server, as this host uses it once it has its
// configuration: it takes the host's reports and gives it its tokens.
type server struct {
	site   *site.Site
	base   string
	host   string
	client *http.Client
	// path keeps the host's own token.
	path string
	now  func() time.Time

	mu  sync.Mutex
	own ownToken
}

// ownToken is a host's own token. A host that got another name since needs
// another token.
type ownToken struct {
	Host  string `json:"host"`
	Token string `json:"token"`
}

func newServer(s *site.Site, hostName, path string, now func() time.Time) (*server, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(s.Identity.ConfigCA.Cert)) {
		return nil, errors.New("the site's configuration authority is not a certificate")
	}
	return &server{
		site: s, base: s.ConfigServerURL(), host: hostName, path: path, now: now,
		client: &http.Client{Timeout: askTimeout, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		}},
	}, nil
}

// goBy makes the host ask by another name from now on. What waits with its old name is
// refused, and comes again by the new one.
func (s *server) goBy(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.host = name
}

// report sends how far the host is.
func (s *server) report(ctx context.Context, data []byte) error {
	if _, err := s.ask(ctx, "/progress/", "", data); err != nil {
		return fmt.Errorf("report progress: %w", err)
	}
	return nil
}

// bootstrapToken requests the token with which kubeadm joins this host, and the authority
// that verifies the API now.
func (s *server) bootstrapToken(ctx context.Context, says configserver.JoinRequest) (configserver.Secret, error) {
	body, err := json.Marshal(says)
	if err != nil {
		return configserver.Secret{}, err
	}
	return secret(s.ask(ctx, "/hosts/", "/bootstrap-token", body))
}

// ask makes one request with the host's own token, at a path around the name of which that
// token is. It drops a token that is not valid any more.
func (s *server) ask(ctx context.Context, before, after string, body []byte) ([]byte, error) {
	own, err := s.token(ctx)
	if err != nil {
		return nil, err
	}
	data, err := s.post(ctx, before+url.PathEscape(own.Host)+after, own.Token, body)
	if _, over := errors.AsType[ended](err); over {
		s.forget(own.Token)
	}
	return data, err
}

// token returns the host's own token. A control plane mints it with the key that
// it has, a worker requests it. It is kept, because it identifies the host again
// after a power cut in the middle of its join.
func (s *server) token(ctx context.Context) (ownToken, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own.Token == "" {
		data, err := os.ReadFile(s.path)
		if err == nil && json.Unmarshal(data, &s.own) != nil {
			s.own = ownToken{} // damaged: get another one
		}
	}
	if s.own.Token != "" && s.own.Host == s.host {
		return s.own, nil
	}
	token, err := s.get(ctx)
	if err != nil {
		return ownToken{}, fmt.Errorf("be admitted as %s: %w", s.host, err)
	}
	s.own = ownToken{Host: s.host, Token: token}
	data, err := json.Marshal(s.own)
	if err != nil {
		return ownToken{}, err
	}
	return s.own, host.WriteFileAtomic(s.path, data, state.SecretFileMode)
}

func (s *server) get(ctx context.Context) (string, error) {
	id := s.site.Identity
	if len(id.JoinKey) > 0 {
		own, err := admission.MintToken(id.JoinKey, s.site.Role, s.host, s.now(), rand.Reader)
		return own.Token, err
	}
	if id.AdmissionToken == "" {
		return "", errors.New("this host's configuration holds no secret for joining: " + anew)
	}
	own, err := secret(s.post(ctx, "/hosts/"+url.PathEscape(s.host), id.AdmissionToken, nil))
	return own.Token, err
}

// anew is the remedy for a secret that has ended.
const anew = "make its configuration again (holdfast create join-config, and holdfast-agent apply with it)"

// ended is the error about a secret that is not valid any more: the server's words, and the remedy.
type ended struct{ words, remedy string }

func (e ended) Error() string { return e.words + ": " + e.remedy }

// clockBehind is the least difference to the server's clock for which that is named. The token that a
// control plane makes lasts a day by its own clock.
const clockBehind = 3 * time.Hour

// refused returns the error about a secret to which the server answered 401 on a date of HTTP. If a
// control plane's own clock ended the secret, another configuration would not help.
func (s *server) refused(words, date string) error {
	there, err := http.ParseTime(date)
	if now := s.now(); err == nil && len(s.site.Identity.JoinKey) > 0 && there.Sub(now) >= clockBehind {
		return ended{words, installation.Clock(now, []installation.Moment{{At: there, What: "the control plane that says so answered"}}).Error()}
	}
	return ended{words, anew}
}

// forget drops a token that is not valid any more.
func (s *server) forget(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own.Token == token {
		s.own = ownToken{}
		_ = os.Remove(s.path) // ignored: a token that stays costs one more request
	}
}

// secret reads a token in an answer.
func secret(data []byte, err error) (configserver.Secret, error) {
	if err != nil {
		return configserver.Secret{}, err
	}
	var got configserver.Secret
	if json.Unmarshal(data, &got) != nil || got.Token == "" {
		return configserver.Secret{}, errors.New("the configuration server's answer is not a token")
	}
	return got, nil
}

// post makes one request. The error quotes the server, and never the token.
func (s *server) post(ctx context.Context, path, token string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, s.refused(configserver.Words(data), resp.Header.Get("Date"))
	case resp.StatusCode == http.StatusNotFound:
		return nil, errors.New("the control plane runs an older build, which does not admit hosts of this build")
	case resp.StatusCode >= http.StatusBadRequest:
		return nil, errors.New(configserver.Words(data))
	}
	return data, nil
}
