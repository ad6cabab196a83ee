package pacemaker

import (
	"context"
	"fmt"

	"github.com/holdfast/holdfast/internal/host"
)

// reportLine prints the status of the whole cluster, with the fences that are
// remembered.
var reportLine = []string{"crm_mon", "--one-shot", "--inactive", "--fence-history=3", "--output-as=xml"}

// Report returns what crm_mon says of the whole cluster, as XML. Where Pacemaker
// does not run crm_mon says so in the same form, and that is no error. What it
// says on its standard error is not in it.
func Report(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, statusTimeout, fmt.Errorf("no answer in %s", statusTimeout))
	defer cancel()
	out, err := host.Local(ctx, reportLine...)
	if err != nil && len(out) == 0 {
		return nil, fmt.Errorf("ask Pacemaker for its status: %w", err)
	}
	return out, nil
}
