package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/fence/rehearsal"
	"github.com/holdfast/holdfast/internal/model/state"
)

func newFencing(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fencing",
		Short: "Test and maintain the BMCs through which two hosts switch each other off",
		Long: `Each host of a two-node control plane holds the device of its peer: address and
account of the peer's BMC, in /etc/holdfast/fencing/NAME.json, which only root can
read. It never holds its own device, which only the peer would use. So commands
for the BMC of cp-1 run on cp-2.`,
	}
	cmd.AddCommand(newFencingVerify(streams), newFencingRotate(streams), newFencingPin(streams), newFencingDelay(streams))
	return cmd
}

func newFencingDelay(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:     "delay NODE DURATION",
		Short:   "Set the delay before this host fences a node",
		Example: "  sudo holdfast fencing delay cp-1 5s",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			delay, err := time.ParseDuration(args[1])
			if err != nil || delay < 0 {
				return &UsageError{Err: fmt.Errorf("delay %q: must be a duration such as 5s", args[1])}
			}
			if err := needFencingRoot(); err != nil {
				return err
			}
			if _, err := fence.NewStore().SetDelay(args[0], delay); err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Err, "this host waits %[2]s before it fences %[1]s\n", args[0], delay)
			return err
		},
	}
}

// needFencingRoot reports a missing root account once, before each file would.
func needFencingRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("the accounts of the BMCs are readable by root only: run the command with sudo")
	}
	return nil
}

// bothHosts returns the control planes of a place, which must be two.
func bothHosts(p place.Place) ([]rehearsal.Host, error) {
	var hosts []rehearsal.Host
	for _, h := range p.ControlPlanes() {
		hosts = append(hosts, rehearsal.Host{Name: h.Name, Run: h.Run})
	}
	if len(hosts) != 2 {
		return nil, fmt.Errorf("only two control planes fence each other, and these are %d", len(hosts))
	}
	return hosts, nil
}

// hereAndPeers returns this host, and the peers that it can fence but not ask.
func hereAndPeers() ([]rehearsal.Host, error) {
	if err := needFencingRoot(); err != nil {
		return nil, err
	}
	own, err := place.ThisHost()
	if err != nil {
		return nil, err
	}
	targets, err := records.Files{}.Targets()
	if err != nil {
		return nil, err
	}
	hosts := []rehearsal.Host{{Name: own.Name, Run: own.Run}}
	for _, t := range slices.DeleteFunc(targets, func(t string) bool { return t == own.Name }) {
		hosts = append(hosts, rehearsal.Host{Name: t})
	}
	if len(hosts) == 1 {
		return nil, fmt.Errorf("%s has no fencing device for a peer in %s: fencing is not set up on this host", own.Name, state.FencingDir)
	}
	return hosts, nil
}

// verifiedBMCs is the result of a safe verification on one host or on both.
type verifiedBMCs struct {
	Devices []device `json:"devices"`
	// Problems holds the problems of hosts, not of devices.
	Problems []string `json:"problems,omitempty"`
}

// device is the report of one host on a BMC.
type device struct {
	By string `json:"by"`
	fence.Report
}

func (v verifiedBMCs) err() error {
	bad := len(v.Problems)
	for _, d := range v.Devices {
		bad += len(d.Problems)
	}
	switch bad {
	case 0:
		return nil
	case 1:
		return errors.New("fencing would not work: 1 problem")
	}
	return fmt.Errorf("fencing would not work: %d problems", bad)
}

// verifyHere tests the devices that this host holds.
func verifyHere(ctx context.Context) (verifiedBMCs, error) {
	var v verifiedBMCs
	if err := needFencingRoot(); err != nil {
		return v, err
	}
	name, err := host.Name()
	if err != nil {
		return v, err
	}
	targets, err := records.Files{}.Targets()
	if err != nil {
		return v, err
	}
	if len(targets) == 0 {
		v.Problems = append(v.Problems, fmt.Sprintf("%s has no fencing device in %s: fencing is not set up on this host", name, state.FencingDir))
	}
	for _, target := range targets {
		v.Devices = append(v.Devices, device{By: name, Report: testHere(ctx, name, target)})
	}
	return v, nil
}

func testHere(ctx context.Context, self, target string) fence.Report {
	dev, err := fence.ReadDevice(records.Files{}, target)
	if err != nil {
		return fence.Report{Target: target, Identity: fence.IdentityUnknown, Problems: []string{err.Error()}}
	}
	r := fence.TestDevice(ctx, dev)
	if target == self {
		r.Warnings = append(r.Warnings, "this is the host's own device, which only its peer would use: remove the file")
	}
	return r
}
