package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube/vipobject"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/decide/vips"
)

func newVIP(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vip",
		Short: "Show the cluster's virtual IPs; add or remove their second pair",
		Long: `A cluster of platform baremetal has one pair of virtual IPs, for its API and its
ingress, or two of them: one of each address family. The first pair stays for the
life of the cluster. The second pair is added and removed while the cluster runs,
without a reboot and without a gap at the first pair; to correct one, remove it and
add the right one.

The commands change lists in the spec of the Infrastructure object; holdfast-operator
checks these again, and the hosts follow.`,
	}
	cmd.AddCommand(newVIPAdd(streams), newVIPRemove(streams), newVIPCheck(streams))
	return cmd
}

// vipFlags holds the flags that all commands about virtual IPs have.
type vipFlags struct {
	place   place.Flags
	output  string
	timeout time.Duration
}

// defaultVIPTimeout is ten times the duration of a change on healthy hosts.
const defaultVIPTimeout = 2 * time.Minute

func (f *vipFlags) register(cmd *cobra.Command) {
	command.OutputFlag(cmd, &f.output)
	f.place.DeclareKubeconfig(cmd)
	cmd.Flags().DurationVar(&f.timeout, "timeout", defaultVIPTimeout, "how long to wait until all hosts have the change")
}

func (f *vipFlags) check() error {
	var mistake error
	if f.timeout <= 0 {
		mistake = fmt.Errorf("--timeout %s: must be positive", f.timeout)
	}
	return f.place.Check(mistake)
}

// open opens the cluster.
func (f *vipFlags) open(ctx context.Context, streams Streams) (*vipCluster, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	access, err := f.place.OpenAPI(ctx)
	if err != nil {
		return nil, err
	}
	c, err := vipobject.Open(access)
	if err != nil {
		return nil, err
	}
	return newVIPCluster(c, streams.Err, f.timeout), nil
}

// vipPair checks that both arguments are addresses. A mistake is a usage error.
func vipPair(args []string) error {
	var mistakes []error
	for i, what := range []string{"API-VIP", "INGRESS-VIP"} {
		if _, err := netip.ParseAddr(args[i]); err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s %q: must be an IP address, for example fd98::5", what, args[i]))
		}
	}
	if err := errors.Join(mistakes...); err != nil {
		return &UsageError{Err: err}
	}
	return nil
}

// vipOutcome is the result of a command about virtual IPs.
type vipOutcome struct {
	Outcome vips.Outcome `json:"outcome"`
	// Changed is true if the spec was written.
	Changed bool         `json:"changed"`
	API     []string     `json:"apiServerInternalIPs,omitempty"`
	Ingress []string     `json:"ingressIPs,omitempty"`
	Checks  []vips.Check `json:"checks,omitempty"`
	// Pending lists what is not known.
	Pending []string `json:"pending,omitempty"`
	// Conditions and Rollout come from the operator's report.
	Conditions []vips.Condition `json:"conditions,omitempty"`
	Rollout    *vips.Rollout    `json:"rollout,omitempty"`
	// Seconds is the time until the change was complete.
	Seconds float64 `json:"seconds,omitempty"`
}

// err returns the outcome as an error. For a refused spec it repeats the first
// mistake, because the list may be long.
func (o vipOutcome) err() error {
	switch o.Outcome {
	case vips.Refused:
		for _, c := range o.Checks {
			if c.Verdict == vips.Failed {
				return coded(command.ExitRefused, "refused, nothing was changed: %s", c.Details[0])
			}
		}
		return coded(command.ExitRefused, "refused, nothing was changed")
	case vips.Undecided:
		return coded(command.ExitUnknown, "not decided, nothing was changed: %s", firstOf(o.Pending))
	case vips.Unmanaged, vips.Settled, vips.Accepted:
	}
	return nil
}

// broken returns an error if the current state of the cluster breaks a rule.
func (o vipOutcome) broken() error {
	for _, c := range o.Checks {
		if o.Outcome == vips.Settled && c.Verdict == vips.Failed {
			return coded(command.ExitAttention, "a rule is broken: %s", c.Details[0])
		}
	}
	return nil
}

func firstOf(list []string) string {
	if len(list) == 0 {
		return "something is unknown"
	}
	return list[0]
}

// vipCluster is a cluster as these commands use it.
type vipCluster struct {
	client  client.Client
	log     io.Writer
	timeout time.Duration
	// asker marks the questions to hosts that belong to this run.
	asker string
	now   func() time.Time
}

func newVIPCluster(c client.Client, log io.Writer, timeout time.Duration) *vipCluster {
	return &vipCluster{client: c, log: log, timeout: timeout, asker: fmt.Sprintf("cli-%d", os.Getpid()), now: time.Now}
}

func (c *vipCluster) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.log, format+"\n", args...)
}

// gather reads the cluster once.
func (c *vipCluster) gather(ctx context.Context) (vips.Snapshot, *vipobject.Report, error) {
	_, s, err := vipobject.Gather(ctx, c.client, c.asker)
	if err != nil {
		return s, nil, err
	}
	report, err := vipobject.ReadReport(ctx, c.client)
	return s, &report, err
}
