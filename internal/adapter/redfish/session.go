package redfish

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"
)

// Login is the way in which a controller gets the account.
type Login string

// The ways. A session is the second choice: controllers have few of them, and a
// session that a client leaves open stays occupied until it ends by itself.
const (
	// LoginAny sends the account with each request, and opens a session if the
	// controller has that switched off.
	LoginAny Login = ""
	// LoginBasic sends the account with each request.
	LoginBasic Login = "basic"
	// LoginSession opens a session, and sends the account with each request
	// only if the controller has no session to give.
	LoginSession Login = "session"
)

// sessionPaths are the paths at which sessions are opened: the standard one,
// and that of iDRACs before Redfish 1.6.
var sessionPaths = []string{"/redfish/v1/SessionService/Sessions", "/redfish/v1/Sessions"}

// session is an open session; the zero value means none.
type session struct{ path, token string }

// api is a connection with one way of sending the account.
type api struct {
	*gofish.APIClient
	session session
}

// connect prepares a connection that sends the account with each request. It
// sends nothing yet.
func (c *Client) connect(ctx context.Context, account gofish.ClientConfig) (*api, error) {
	account.Endpoint, account.HTTPClient = c.endpoint.Address.URL(), c.http
	account.NoModifyTransport, account.ReuseConnections, account.MaxConcurrentRequests = true, true, maxConcurrent
	made, err := gofish.ConnectContext(ctx, account)
	if err != nil {
		return nil, err
	}
	return &api{APIClient: made}, nil
}

func (c *Client) basic(ctx context.Context) (*api, error) {
	return c.connect(ctx, gofish.ClientConfig{Username: c.endpoint.Username, Password: c.endpoint.Password.Reveal(), BasicAuth: true})
}

// logIn opens a session. The request for it has no header with the account:
// some controllers refuse it because of that.
func (c *Client) logIn(ctx context.Context) (*api, error) {
	nobody, err := c.connect(ctx, gofish.ClientConfig{})
	if err != nil {
		return nil, err
	}
	var opened session
	for _, path := range sessionPaths {
		opened, err = c.openSession(ctx, nobody, path)
		if code := status(err); code != http.StatusNotFound && code != http.StatusMethodNotAllowed {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	made, err := c.connect(ctx, gofish.ClientConfig{Session: &gofish.Session{ID: opened.path, Token: opened.token}})
	if err != nil {
		return nil, err
	}
	made.session = opened
	return made, nil
}

func (c *Client) openSession(ctx context.Context, nobody *api, path string) (session, error) {
	c.logIns.Add(1)
	res, err := nobody.WithContext(ctx).Post(path, map[string]string{"UserName": c.endpoint.Username, "Password": c.endpoint.Password.Reveal()})
	if err != nil {
		return session{}, err
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		return session{}, err
	}
	f, _ := parse(body) // some send none
	opened := session{path: pathOf(res.Header.Get("Location")), token: res.Header.Get("X-Auth-Token")}
	if opened.path == "" {
		opened.path = f.link("@odata.id")
	}
	if opened.token == "" {
		return session{}, problem{Protocol, "it opened a session without a token"}
	}
	return opened, nil
}

// first makes the first connection of a client, and returns the system that it
// found.
func (c *Client) first(ctx context.Context) (system, error) {
	if c.endpoint.Login == LoginSession {
		s, err := c.by(ctx, c.logIn)
		if err == nil || !sessionless(err) {
			return s, err
		}
	}
	c.logIns.Add(1)
	s, err := c.by(ctx, c.basic)
	if status(err) != http.StatusUnauthorized || !c.silent.Load() || c.endpoint.Login != LoginAny {
		return s, err
	}
	s, errSession := c.by(ctx, c.logIn)
	switch {
	case status(errSession) == http.StatusUnauthorized:
		return s, err // the password is wrong for both ways
	case errSession != nil && sessionless(errSession):
		_, basic := explain(err)
		_, bySession := explain(errSession)
		return s, problem{Credentials, basic + ", does not offer Basic authentication, and gives no session either: " + bySession}
	}
	return s, errSession
}

// by makes a connection with connect, finds the system over it, and makes the
// connection the client's.
func (c *Client) by(ctx context.Context, connect func(context.Context) (*api, error)) (system, error) {
	made, err := connect(ctx)
	if err != nil {
		return system{}, err
	}
	c.api.Store(made)
	s, err := c.find(ctx)
	if err != nil {
		c.logOut(ctx, made)
	}
	return s, err
}

// sessionless reports whether a controller has no session to give: it supports
// none, or all are in use. A missing answer does not count.
func sessionless(err error) bool {
	code := status(err)
	return code >= http.StatusBadRequest && code != http.StatusUnauthorized && code != http.StatusForbidden || reasonOf(err) == Protocol
}

// request sends a request. If the controller has ended the session, as some do
// without a reason, it sends the request once more in a new session.
func (c *Client) request(ctx context.Context, send func(*gofish.APIClient) (*http.Response, error)) (*http.Response, error) {
	now := c.api.Load()
	res, err := send(now.WithContext(ctx))
	if status(err) != http.StatusUnauthorized || now.session.token == "" {
		return res, err
	}
	renewed, errRenew := c.renew(ctx, now)
	if errRenew != nil {
		return res, errors.Join(err, errRenew)
	}
	return send(renewed.WithContext(ctx))
}

// renew opens a session in place of one that has ended, unless another request
// has already done so.
func (c *Client) renew(ctx context.Context, ended *api) (*api, error) {
	c.renewing.Lock()
	defer c.renewing.Unlock()
	if now := c.api.Load(); now != ended {
		return now, nil
	}
	made, err := c.logIn(ctx)
	if err == nil {
		c.api.Store(made)
	}
	return made, err
}

const (
	// logOutTime bounds the end of a session, and logOutLongest bounds it at a
	// slow controller: a caller waits for the end of a fence, and so for this.
	logOutTime    = 2 * time.Second
	logOutLongest = 10 * time.Second
)

// logOut ends a session. If that fails, the session ends by itself.
func (c *Client) logOut(ctx context.Context, a *api) {
	if a == nil || a.session.path == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(max(logOutTime, c.Slowest()), logOutLongest))
	defer cancel()
	if res, err := a.WithContext(ctx).Delete(a.session.path); err == nil {
		_ = res.Body.Close()
	}
}

// offersBasic reports whether a refusal lists Basic authentication among the
// accepted ways.
func offersBasic(h http.Header) bool {
	for _, challenge := range h.Values("WWW-Authenticate") {
		if strings.Contains(strings.ToLower(challenge), "basic") {
			return true
		}
	}
	return false
}
