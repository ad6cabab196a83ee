package install

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// reporter sends a host's progress to the configuration server, so that whoever
// waits for the installation sees what each host is doing. It is best effort:
// only the latest state counts. It sends the state when it changes, again soon if
// that failed, and again now and then, because another server may hold the VIP by
// then.
type reporter struct {
	send   func(context.Context, []byte) error
	latest chan []byte
}

const (
	// reportAgain is the pause after which an unchanged state is sent again.
	reportAgain = 30 * time.Second
	// reportLast bounds the attempts to send the last state.
	reportLast = 30 * time.Second
)

func newReporter(send func(context.Context, []byte) error) *reporter {
	return &reporter{send: send, latest: make(chan []byte, 1)}
}

// publish takes the newest state and never blocks. There must be one publisher.
func (r *reporter) publish(data []byte) {
	select {
	case <-r.latest:
	default:
	}
	r.latest <- data
}

// run sends states until the context ends.
func (r *reporter) run(ctx context.Context) {
	again := time.NewTimer(reportAgain)
	defer again.Stop()
	var data []byte
	for {
		select {
		case <-ctx.Done():
			return
		case data = <-r.latest:
		case <-again.C:
		}
		pause := reportAgain
		if data != nil && r.send(ctx, data) != nil {
			pause = retryAfter
		}
		again.Reset(pause)
	}
}

// flush sends the last state before the installation ends. It does not try
// forever, because the host's own file has that state too.
func (r *reporter) flush(ctx context.Context, data []byte) {
	ctx, cancel := context.WithTimeout(ctx, reportLast)
	defer cancel()
	for r.send(ctx, data) != nil {
		if host.Sleep(ctx, retryAfter) != nil {
			return
		}
	}
}
