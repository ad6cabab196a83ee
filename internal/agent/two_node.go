package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
)

// twoNodeFlags are the flags of every step of `holdfast-agent two-node`.
type twoNodeFlags struct {
	input  string
	dryRun bool
	wait   time.Duration
}

// twoNodeSteps describes each step for its help text.
var twoNodeSteps = map[decide.Step]string{
	decide.Auth:     "Give this host the key of the two and its place in the Corosync cluster",
	decide.Fencing:  "Test the peer's BMC from this host and store its fencing device",
	decide.Setup:    "Make Pacemaker's configuration, for both hosts",
	decide.Manifest: "Write the manifest from which this host's etcd runs",
	decide.HandOver: "Take this host's etcd over from kubelet, once both hosts are ready",
	decide.Finish:   "Leave the start of kubelet and etcd at boot to Pacemaker",
}

func newTwoNode(streams command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "two-node",
		Short: "Put kubelet and etcd of two control planes under Pacemaker, step by step",
		Long: `Put kubelet and etcd of two control planes under Pacemaker. The operator of the
cluster runs the steps as Jobs, in the order in which they are listed here by
their numbers; an administrator may run them on the hosts as root.

Each step reads JSON from the standard input: the cluster, its two nodes, this
host's name, and the secrets that the step needs. A completed step has
nothing to do; an interrupted one continues. Parts of Pacemaker's configuration
that are not Holdfast's are never changed or deleted.

A step exits with 7 if another attempt would fail in the same way.`,
		Example: `  holdfast-agent two-node setup --dry-run < input.json

  an input:
  {"cluster": "site-1", "self": "cp-1", "token": "...",
   "nodes": [{"name": "cp-1", "address": "10.0.0.11"}, {"name": "cp-2", "address": "10.0.0.12"}],
   "fencing": [{"target": "cp-1", "address": "https://10.1.0.11/redfish/v1/Systems/1", "username": "...", "password": "..."},
               {"target": "cp-2", "address": "https://10.1.0.12/redfish/v1/Systems/1", "username": "...", "password": "..."}]}`,
	}
	for i, step := range twonode.Steps() {
		cmd.AddCommand(newTwoNodeStep(streams, step, i+1))
	}
	cmd.AddCommand(newPutBack(streams))
	cmd.AddCommand(newPrepareBackup(streams))
	return cmd
}

func newPutBack(streams command.Streams) *cobra.Command {
	dryRun := false
	cmd := &cobra.Command{
		Use:   "put-back",
		Short: "Put Corosync's list of the two hosts back, after somebody deleted it",
		Long: `Put corosync.conf and its key back as this host had them last, so that the two hosts
meet again. Use it on a host on which somebody typed "pcs cluster node remove" or
"pcs cluster destroy", or deleted the files. It needs neither the API nor the peer,
fetches no secret from elsewhere, and changes no data of etcd: the record of this
host still counts.

A host that was replaced by another one stays alone, because its key is an old one.`,
		Example: `  # show what would be done
  sudo holdfast-agent two-node put-back --dry-run

  sudo holdfast-agent two-node put-back`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return &command.UsageError{Err: errors.New("put-back changes this host: run it as root")}
			}
			h := twonode.NewHost(streams.Out)
			h.DryRun = dryRun
			return h.PutBack(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be done and do nothing")
	return cmd
}

func newTwoNodeStep(streams command.Streams, step decide.Step, number int) *cobra.Command {
	var flags twoNodeFlags
	cmd := &cobra.Command{
		Use:   string(step),
		Short: fmt.Sprintf("%d. %s", number, twoNodeSteps[step]),
		Example: fmt.Sprintf(`  # show what would be done
  holdfast-agent two-node %[1]s --dry-run < input.json

  holdfast-agent two-node %[1]s --input /root/input.json`, step),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runTwoNode(cmd.Context(), streams, step, flags)
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.input, "input", "-", "file with the step's input, - for the standard input; it holds secrets")
	f.BoolVar(&flags.dryRun, "dry-run", false, "show what would be done and do nothing")
	f.DurationVar(&flags.wait, "wait", twonode.DefaultWait, "how long to wait for the peer and for services")
	return cmd
}

func runTwoNode(ctx context.Context, streams command.Streams, step decide.Step, flags twoNodeFlags) error {
	if os.Geteuid() != 0 {
		return &command.UsageError{Err: errors.New("two-node changes this host: run it as root")}
	}
	in, err := readTwoNode(streams.In, flags.input, step)
	if err != nil {
		return &command.UsageError{Err: err}
	}
	h := twonode.NewHost(streams.Out)
	h.DryRun, h.Wait = flags.dryRun, flags.wait
	return exitOf(h.Do(ctx, step, in))
}

// exitOf gives an error that a retry cannot fix the exit code by which the
// operator does not repeat the Job.
func exitOf(err error) error {
	if errors.Is(err, decide.ErrFinal) {
		return &command.Coded{Err: err, Code: command.ExitRefused}
	}
	return err
}

func readTwoNode(stdin io.Reader, source string, step decide.Step) (in decide.Input, err error) {
	if source == "-" {
		if command.IsTerminal(stdin) {
			return in, errors.New("--input: name the file with the input of the step; it is no text that a person types: see --help")
		}
		return twonode.ReadInput(stdin, step)
	}
	file, err := os.Open(source)
	if err != nil {
		return in, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return twonode.ReadInput(file, step)
}
