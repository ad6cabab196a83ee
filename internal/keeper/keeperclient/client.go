// Package keeperclient asks this host's etcd keeper (podman-etcd serve) over
// its socket. The resource agent passes on what Pacemaker wants; other callers
// read the report.
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

// maxAnswer bounds how much of an answer is read, in bytes.
const maxAnswer = 4 << 20

// ErrNotRunning is wrapped in the error if nobody listens on the socket.
var ErrNotRunning = errors.New("no connection to the etcd keeper")

// Report asks for the daemon's report.
func Report(ctx context.Context, socket string) (r state.EtcdReport, err error) {
	err = call(ctx, socket, http.MethodGet, "report", nil, &r)
	return r, err
}

// NextReport asks for the daemon's report and gets it as soon as its mark
// (decide/mayhold) differs from the given one, or after a while without a
// change. A daemon of an earlier version answers at once.
func NextReport(ctx context.Context, socket, mark string) (r state.EtcdReport, err error) {
	err = call(ctx, socket, http.MethodGet, "report?"+url.Values{MarkParameter: {mark}}.Encode(), nil, &r)
	return r, err
}

// MembershipPath is the path at which the daemon reports Corosync's membership.
const MembershipPath = "membership"

// Membership asks for the membership that Corosync reports to the daemon. The
// answer comes as soon as the membership differs from that of the mark, or
// after a second. A daemon that does not watch Corosync yet, or is of an
// earlier version, causes an error.
func Membership(ctx context.Context, socket, mark string) (m state.Fact[state.Membership], err error) {
	err = call(ctx, socket, http.MethodGet, MembershipPath+"?"+url.Values{MarkParameter: {mark}}.Encode(), nil, &m)
	return m, err
}

// MembershipMark returns a mark that identifies a membership.
func MembershipMark(m state.Fact[state.Membership]) string { return fmt.Sprintf("%+v", m) }

// MarkParameter is the query parameter of a request that waits: the mark that the
// client already has.
const MarkParameter = "unless"

// Send sends a request of Pacemaker to the daemon, and reads the answer into
// out.
func Send(ctx context.Context, socket, what string, body []byte, out any) error {
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
		return fmt.Errorf("the etcd keeper answered %s", resp.Status)
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

// UnreadableError reports an answer that could not be understood.
type UnreadableError struct{ cause error }

// Error implements error.
func (e *UnreadableError) Error() string {
	return "the answer of the etcd keeper cannot be decoded (another version?): " + e.cause.Error()
}

// Unwrap returns the error of the decoder.
func (e *UnreadableError) Unwrap() error { return e.cause }

// client returns a client for one request on one socket.
func client(socket string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotRunning, err)
		}
		return conn, nil
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}
