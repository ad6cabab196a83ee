package pacemaker

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/crmmon"
)

// statusTimeout bounds crm_mon; it takes 50 ms where Pacemaker answers.
const statusTimeout = 10 * time.Second

// reportLine prints the status of the whole cluster, with the fences that are
// remembered, statusLine without them: the fencer is not asked.
var (
	reportLine = []string{"crm_mon", "--one-shot", "--inactive", "--fence-history=3", "--output-as=xml"}
	statusLine = []string{"crm_mon", "--one-shot", "--inactive", "--output-as=xml"}
)

// Report returns what crm_mon says of the whole cluster. The error is
// crmmon.ErrNotRunning where Pacemaker does not run, which crm_mon says in the
// same form.
func Report(ctx context.Context) (crmmon.Cluster, error) {
	out, err := ask(ctx, statusTimeout, reportLine)
	if err != nil && len(out) == 0 {
		return crmmon.Cluster{}, fmt.Errorf("ask Pacemaker for its status: %w", err)
	}
	return crmmon.Parse(out, time.Local)
}

// status is the same without fences, for who needs an answer of a cluster that
// runs.
func status(ctx context.Context, limit time.Duration) (crmmon.Cluster, error) {
	out, err := ask(ctx, limit, statusLine)
	if err != nil {
		return crmmon.Cluster{}, err
	}
	return crmmon.Parse(out, time.Local)
}

// ask returns what a line prints on its standard output, bounded.
func ask(ctx context.Context, limit time.Duration, line []string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer in %s", limit))
	defer cancel()
	return host.Local(ctx, line...)
}
