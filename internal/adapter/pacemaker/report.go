package pacemaker

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/crmmon"
)

// statusTimeout bounds crm_mon, which takes 50 ms if Pacemaker answers.
const statusTimeout = 10 * time.Second

// reportLine prints the status of the whole cluster with the recorded fences.
// statusLine prints it without them, so that it does not ask the fencer.
var (
	reportLine = []string{"crm_mon", "--one-shot", "--inactive", "--fence-history=3", "--output-as=xml"}
	statusLine = []string{"crm_mon", "--one-shot", "--inactive", "--output-as=xml"}
)

// Report returns the status of the whole cluster from crm_mon. The error is
// crmmon.ErrNotRunning if Pacemaker does not run, which crm_mon reports in the
// same form.
func Report(ctx context.Context) (crmmon.Cluster, error) {
	out, err := ask(ctx, statusTimeout, reportLine)
	if err != nil && len(out) == 0 {
		return crmmon.Cluster{}, fmt.Errorf("ask Pacemaker for its status: %w", err)
	}
	return crmmon.Parse(out, time.Local)
}

// status returns the status without fences, for callers that need an answer
// from a running cluster.
func status(ctx context.Context, limit time.Duration) (crmmon.Cluster, error) {
	out, err := ask(ctx, limit, statusLine)
	if err != nil {
		return crmmon.Cluster{}, err
	}
	return crmmon.Parse(out, time.Local)
}

// ask returns the standard output of a command, within a limit.
func ask(ctx context.Context, limit time.Duration, line []string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer in %s", limit))
	defer cancel()
	return host.Local(ctx, line...)
}
