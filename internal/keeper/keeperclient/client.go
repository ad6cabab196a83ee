// Package keeperclient asks this host's daemon of etcd (podman-etcd serve) over
// its socket: the resource agent for what Pacemaker wants, others for its
// report.
package keeperclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/holdfast/holdfast/internal/model/state"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 4 << 20

// ErrDown is wrapped where nobody listens on the socket.
var ErrDown = errors.New("nobody listens")

// Report asks for the daemon's report.
func Report(ctx context.Context, socket string) (r state.EtcdReport, err error) {
	err = call(ctx, socket, http.MethodGet, "report", nil, &r)
	return r, err
}

// Next asks for the daemon's report as soon as another mark stands for it than
// the one that is known (decide/mayhold), or after a while without a change. A
// daemon of an earlier version answers at once.
func Next(ctx context.Context, socket, mark string) (r state.EtcdReport, err error) {
	err = call(ctx, socket, http.MethodGet, "report?"+url.Values{Unless: {mark}}.Encode(), nil, &r)
	return r, err
}

// MembershipPath is where the daemon tells Corosync's membership.
const MembershipPath = "membership"

// Membership asks for the membership that Corosync tells the daemon, as soon as
// it is another one than that of the mark, or after a second. A daemon that does
// not watch Corosync yet, or is of an earlier version, gives an error.
func Membership(ctx context.Context, socket, mark string) (m state.Fact[state.Membership], err error) {
	err = call(ctx, socket, http.MethodGet, MembershipPath+"?"+url.Values{Unless: {mark}}.Encode(), nil, &m)
	return m, err
}

// MarkOf stands for a membership.
func MarkOf(m state.Fact[state.Membership]) string { return fmt.Sprintf("%+v", m) }

// Unless is the parameter of a question that waits: the mark that is known.
const Unless = "unless"

// Order sends what is wanted of the daemon, and reads its answer into out.
func Order(ctx context.Context, socket, what string, body []byte, out any) error {
	return call(ctx, socket, http.MethodPost, what, body, out)
}

func call(ctx context.Context, socket, method, what string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://agent/"+what, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client(socket).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it says %s", resp.Status)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return &UnreadableError{err}
	}
	return nil
}

// UnreadableError says that something answers that is not understood.
type UnreadableError struct{ cause error }

// Error implements error.
func (e *UnreadableError) Error() string { return "of another version, or broken: " + e.cause.Error() }

// Unwrap returns what was not understood.
func (e *UnreadableError) Unwrap() error { return e.cause }

// client speaks to one socket, once.
func client(socket string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDown, err)
		}
		return conn, nil
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}
