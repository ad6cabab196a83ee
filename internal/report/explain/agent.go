// Package explain asks this host's etcd keeper for its report, and reads a
// recorded one. It says in plain words why there is no answer.
package explain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/state"
)

// answerTime bounds one question to the etcd keeper, which has its answer
// ready.
const answerTime = 5 * time.Second

// ErrNoAgent reports that no etcd keeper answers on this host.
var ErrNoAgent = errors.New("the etcd keeper (podman-etcd.service) does not answer")

// Ask returns the report of the etcd keeper that listens on a socket. The error
// is ErrNoAgent if nothing listens there, or if there is no answer in time.
func Ask(ctx context.Context, socket string) (state.EtcdReport, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	r, err := keeperclient.Report(ctx, socket)
	if _, broken := errors.AsType[*keeperclient.UnreadableError](err); broken {
		return r, fmt.Errorf("report of the etcd keeper: %w", err)
	}
	if err != nil {
		return r, unanswered(socket, err)
	}
	return r, nil
}

// unanswered returns an error that says in plain words why there is no answer.
func unanswered(socket string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("ask the etcd keeper: only root may: run it with sudo: %w", fs.ErrPermission)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s does not exist", ErrNoAgent, socket)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: nothing listens on %s", ErrNoAgent, socket)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: no answer within %s", ErrNoAgent, answerTime)
	case errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoAgent, err)
}
