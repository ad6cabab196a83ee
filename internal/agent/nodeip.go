package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe/netwatch"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
	"github.com/holdfast/holdfast/internal/model/state"
)

// nodeIPFlags are the flags of `holdfast-agent node-ip` and its verbs.
type nodeIPFlags struct {
	view, kept, hint, output string
	wait                     time.Duration
}

func newNodeIP(streams command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node-ip",
		Short: "Show or set which of this host's addresses are its own in the cluster",
		Long: `Show or set which of this host's addresses are its own in the cluster: one of
each family of the machine networks.

An address that was chosen in an earlier boot is kept while the host has it, on
any interface. Otherwise the address whose network holds a virtual IP is chosen,
then the best one inside the machine networks by default route, interface number
and address; the address of the other family is one on the same interface.
Virtual IPs, link-local, temporary and deprecated addresses, and addresses that
the kernel still checks, are never chosen.`,
	}
	cmd.AddCommand(newNodeIPShow(streams), newNodeIPSet(streams))
	return cmd
}

func newNodeIPShow(streams command.Streams) *cobra.Command {
	var flags nodeIPFlags
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show which addresses are this host's own, one a line, and change nothing",
		Example: `  holdfast-agent node-ip show

  # with the interface and the reason
  holdfast-agent node-ip show -o json

  # what would be chosen on the host of this view
  holdfast-agent node-ip show --view view.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.run(cmd.Context(), streams, false)
		},
	}
	flags.register(cmd)
	return cmd
}

func newNodeIPSet(streams command.Streams) *cobra.Command {
	var flags nodeIPFlags
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Choose this host's own addresses and keep the choice across boots",
		Long: `Choose this host's own addresses and keep the choice across boots. It waits
until the host has an address of each family that the kernel has finished
checking. Run again, it keeps the chosen address while the host has it.`,
		Example: `  holdfast-agent node-ip set

  # choose again, in the network that holds 10.0.7.1
  holdfast-agent node-ip set --hint 10.0.7.1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.run(cmd.Context(), streams, true)
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&flags.hint, "hint", "", "address in the network from which to choose, instead of the address chosen before")
	cmd.Flags().DurationVar(&flags.wait, "wait", 5*time.Minute, "how long to wait for the addresses")
	return cmd
}

func (f *nodeIPFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.view, "view", "", "file with a view of the network, as 'holdfast-agent render' takes it, instead of this host's")
	flags.StringVar(&f.kept, "kept", netwatch.Path, "file that keeps the choice")
	flags.StringVarP(&f.output, "output", "o", "text", "text or json")
}

func (f *nodeIPFlags) run(ctx context.Context, streams command.Streams, keep bool) error {
	hint, err := f.check(keep)
	if err != nil {
		return &command.UsageError{Err: err}
	}
	choice, err := f.choose(ctx, streams.Err, hint)
	if err != nil {
		return err
	}
	if keep {
		if err := keepChoice(f.kept, choice); err != nil {
			return err
		}
	}
	return f.print(streams.Out, choice)
}

func (f *nodeIPFlags) check(keep bool) (netip.Addr, error) {
	var errs []error
	if f.output != "text" && f.output != "json" {
		errs = append(errs, fmt.Errorf("--output %s: use text or json", f.output))
	}
	if keep && f.kept == netwatch.Path && os.Geteuid() != 0 {
		errs = append(errs, errors.New("node-ip set changes this host: run it as root"))
	}
	var hint netip.Addr
	if f.hint != "" {
		var err error
		if hint, err = netip.ParseAddr(f.hint); err != nil {
			errs = append(errs, fmt.Errorf("--hint %q: give an IP address", f.hint))
		}
	}
	return hint, errors.Join(errs...)
}

// choose decides once a second until there is an address or the wait is over.
func (f *nodeIPFlags) choose(ctx context.Context, log io.Writer, hint netip.Addr) (nodeaddress.Choice, error) {
	deadline := time.Now().Add(f.wait)
	for said := ""; ; {
		in, err := f.input()
		if err != nil {
			return nodeaddress.Choice{}, err
		}
		if hint.IsValid() {
			in.Hint, in.Previous = hint, nodeaddress.Choice{}
		}
		choice, err := nodeaddress.Decide(in)
		if err == nil || f.view != "" || !time.Now().Before(deadline) {
			return choice, err
		}
		if why := err.Error(); why != said {
			_, _ = fmt.Fprintf(log, "waiting: %s\n", why)
			said = why
		}
		if err := host.Sleep(ctx, time.Second); err != nil {
			return nodeaddress.Choice{}, err
		}
	}
}

// input returns the facts for the choice: from a file, or from this host as it is
// now.
func (f *nodeIPFlags) input() (nodeaddress.Input, error) {
	kept, err := netwatch.LoadChoice(f.kept)
	if err != nil {
		return nodeaddress.Input{}, err
	}
	v, err := f.read()
	if err != nil {
		return nodeaddress.Input{}, err
	}
	in := nodeaddress.Of(v)
	if len(kept.Addresses) > 0 {
		in.Previous = kept
	}
	return in, nil
}

func (f *nodeIPFlags) read() (v state.NetworkView, err error) {
	if f.view == "" {
		return thisHost()
	}
	data, err := os.ReadFile(f.view)
	if err != nil {
		return v, &command.UsageError{Err: err}
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, &command.UsageError{Err: fmt.Errorf("%s is not a view of a network: %w", f.view, err)}
	}
	return v, nil
}

// thisHost returns the part of this host's view that the choice needs.
func thisHost() (v state.NetworkView, err error) {
	s, err := readSite()
	if err != nil {
		return v, err
	}
	if v.Settings.MachineNetworks, err = s.MachineNetworks(); err != nil {
		return v, err
	}
	v.Settings.APIVIPs, v.Settings.IngressVIPs = s.Config.APIVIPs(), s.Config.IngressVIPs()
	v.Settings.ManagedVIPs = len(s.VIPs()) > 0
	now, err := netwatch.Read(nil)
	v.Addresses, v.Routes = now.Addresses, now.Routes
	return v, err
}

// keepChoice writes a choice to path unless that file already holds it.
func keepChoice(path string, choice nodeaddress.Choice) error {
	before, err := netwatch.LoadChoice(path)
	if err != nil || before.Same(choice) {
		return err
	}
	return netwatch.StoreChoice(path, choice)
}

func (f *nodeIPFlags) print(out io.Writer, choice nodeaddress.Choice) error {
	if f.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(choice)
	}
	for _, a := range choice.Addresses {
		if _, err := fmt.Fprintln(out, a); err != nil {
			return err
		}
	}
	return nil
}
