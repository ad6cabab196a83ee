// Package explain gathers what an explanation is made from: the report of this
// host's agent of etcd, or where that does not answer, what lies on the disk,
// or a recorded snapshot. What it cannot see it says; it changes nothing.
package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/holdfast/holdfast/internal/state"
)

// answerTime bounds one question to the agent, which has its answer ready.
const answerTime = 5 * time.Second

// maxReport bounds what is read of an answer.
const maxReport = 4 << 20

// ErrNoAgent says that no agent answers on this host.
var ErrNoAgent = errors.New("the agent of etcd (podman-etcd.service) does not answer")

// Ask returns the report of the agent that listens on a socket. It returns an
// error that is ErrNoAgent where nobody listens or answers in time.
func Ask(ctx context.Context, socket string) (state.EtcdReport, error) {
	var r state.EtcdReport
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	body, err := get(ctx, socket, "http://agent/report")
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return r, fmt.Errorf("report of the agent of etcd: of another version, or broken: %w", err)
	}
	return r, nil
}

func get(ctx context.Context, socket, url string) ([]byte, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, unanswered(socket, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReport))
	if err != nil {
		return nil, unanswered(socket, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: it says %s", ErrNoAgent, resp.Status)
	}
	return body, nil
}

// unanswered says why there is no answer, in the words of a person.
func unanswered(socket string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("ask the agent of etcd: only root may: run it with sudo: %w", fs.ErrPermission)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s does not exist", ErrNoAgent, socket)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: nobody listens on %s", ErrNoAgent, socket)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: no answer within %s", ErrNoAgent, answerTime)
	case errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoAgent, err)
}
