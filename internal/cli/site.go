package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	decide "github.com/holdfast/holdfast/internal/decide/readdress"
	install "github.com/holdfast/holdfast/internal/install/readdress"
)

func newSite(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "site",
		Short: "Move a site to other addresses, or give it a second address family",
		Long: `A site is built in a workshop and shipped, or its network gets other addresses. Announce
the move before: each host keeps the plan, and takes its new addresses by itself when it wakes
up in the new network. A site of one address family gets the second one while it serves.`,
	}
	readdress := &cobra.Command{
		Use:   "readdress",
		Short: "Announce that a site moves to other addresses, and follow it",
		Long: `The addresses of a site stand in install-config.yaml: edit networking.machineNetwork,
platform.baremetal.apiVIPs and ingressVIPs, rendezvousIP, and the addresses of BMCs in a copy of
the site's file. The hosts' own addresses are given with --address: each host gets another one,
since a host moves when it lacks its old addresses.

A host that has the announced addresses, and none of the old ones, for ten seconds changes its
files, boots once, and tells the cluster. The host's own network (static or by DHCP) is yours:
Holdfast sets no address on an interface. A host that is carried back before the move has ended
takes its old addresses again.`,
	}
	readdress.AddCommand(newReaddressPlan(streams), newReaddressAnnounce(streams), newReaddressShow(streams), newReaddressWithdraw(streams))
	cmd.AddCommand(readdress, newDualStack(streams))
	return cmd
}

// readdressFlags are the flags of the commands about a move.
type readdressFlags struct {
	place     place.Flags
	file      string
	addresses []string
	by        string
	output    string
	yes, here bool
	noBackup  bool
	timeout   time.Duration
}

func (f *readdressFlags) wish(cmd *cobra.Command) {
	f.place.DeclareKubeconfig(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.file, "install-config", "", "the edited install-config.yaml")
	flags.StringArrayVar(&f.addresses, "address", nil, "NAME=ADDRESS[,ADDRESS]: a host's own address of each family at the new place; needed if the site has several hosts")
	_ = cmd.MarkFlagRequired("install-config")
}

// hosts reads the flags --address. It returns all mistakes at once.
func (f *readdressFlags) hosts() (map[string][]netip.Addr, error) {
	var mistakes []error
	out := map[string][]netip.Addr{}
	for _, text := range f.addresses {
		name, list, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			mistakes = append(mistakes, fmt.Errorf("--address %q: must be NAME=ADDRESS, for example cp-1=192.0.2.11", text))
			continue
		}
		if out[name] != nil {
			mistakes = append(mistakes, fmt.Errorf("--address: %s is named twice", name))
		}
		for a := range strings.SplitSeq(list, ",") {
			addr, err := netip.ParseAddr(a)
			if err != nil {
				mistakes = append(mistakes, fmt.Errorf("--address %q: %q is no IP address", text, a))
			}
			out[name] = append(out[name], addr)
		}
	}
	if f.here && os.Geteuid() != 0 {
		mistakes = append(mistakes, errors.New("--here: works on this host's own files: run it with sudo"))
	}
	if err := f.place.Check(errors.Join(mistakes...)); err != nil {
		return nil, err
	}
	return out, nil
}

func newReaddressPlan(streams Streams) *cobra.Command {
	var f readdressFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show which addresses change, and change nothing",
		Long: `Compares an edited install-config.yaml with this site, and shows each address that
changes. It changes nothing.

Exit codes: 0 the site can move; 1 it failed; 2 the file is refused, and each reason is named
with its field.`,
		Example: `  holdfast site readdress plan --install-config shop.yaml --address cp-1=192.0.2.11 --address cp-2=192.0.2.12`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := f.open(cmd.Context(), streams)
			if err != nil {
				return err
			}
			return m.show()
		},
	}
	f.wish(cmd)
	return cmd
}

func newReaddressAnnounce(streams Streams) *cobra.Command {
	f := readdressFlags{timeout: 2 * time.Minute}
	cmd := &cobra.Command{
		Use:   "announce",
		Short: "Give every host the plan of a move",
		Long: `Shows which addresses change, asks, and gives the plan to every host. It ends when each of
them has it. Then shut the hosts down, or change their network: each one takes the new addresses
when it has them and none of the old ones. Nothing changes before. The site takes a backup first,
if its newest good one is older than four hours.

With --here the plan is given to this host alone, and no API is asked. It is for a host that
has arrived in a network which nobody announced: type it on every host.

The site's own DNS is yours: let api.CLUSTER.DOMAIN and *.apps.CLUSTER.DOMAIN name the new
virtual IPs. Kubeconfigs go by name and stay as they are.

A host that cannot sign its certificates for the new addresses says so, and names the file: put
the key back, from the other control plane or from where you keep it.

Exit codes: 0 every host has the plan and can move; 3 not every host at the timeout, and they are
named; 7 refused, because another move has begun, because the virtual IPs are being changed,
because there is no good backup, or with --here because this host cannot move; 8 not confirmed;
1 it failed; 2 wrong usage, or the file is refused.`,
		Example: `  holdfast site readdress announce --install-config shop.yaml --address cp-1=192.0.2.11 --address cp-2=192.0.2.12
  sudo holdfast site readdress announce --here --install-config shop.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := f.open(cmd.Context(), streams)
			if err != nil {
				return err
			}
			return m.announce(cmd.Context())
		},
	}
	f.wish(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.here, "here", false, "give the plan to this host alone, without the API, and without a backup")
	flags.StringVar(&f.by, "by", "", "who does it")
	flags.BoolVar(&f.yes, "yes", false, "do not ask")
	withoutBackupFlag(cmd, &f.noBackup)
	timeoutFlag(cmd, &f.timeout)
	return cmd
}

func newReaddressShow(streams Streams) *cobra.Command {
	var f readdressFlags
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the announced move, and where each host is",
		Long: `Shows the announced move and what each host says of it, and each host that was given a plan
alone (announce --here). Without an API it shows what this host knows.

Exit codes: 0 there is no move, or it is over on every host; 4 it goes on, or waits, also on a
host that was given its plan alone; 1 it failed; 2 wrong usage.`,
		Example: `  holdfast site readdress show
  holdfast site readdress show -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.place.Check(nil); err != nil {
				return err
			}
			r, err := f.report(cmd.Context())
			if err != nil {
				return err
			}
			return r.print(streams.Out, f.output)
		},
	}
	f.place.DeclareKubeconfig(cmd)
	command.OutputFlag(cmd, &f.output)
	return cmd
}

func newReaddressWithdraw(streams Streams) *cobra.Command {
	f := readdressFlags{timeout: 2 * time.Minute}
	cmd := &cobra.Command{
		Use:   "withdraw",
		Short: "Take the announcement of a move back, while no host has begun",
		Long: `Takes the announcement back. A host that has begun keeps the plan: carry it back first, and
wait until it has its old addresses.

With --here it takes back the plan that was given to this host alone, and no API is asked: type
it on every host that has one.

Exit codes: 0 no host has the plan any more, with --here this one; 3 not every host at the
timeout, and they are named; 7 refused, because a host has begun, or with --here because the
plan was announced to all; 1 it failed; 2 wrong usage.`,
		Example: `  holdfast site readdress withdraw
  sudo holdfast site readdress withdraw --here`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := f.hosts(); err != nil {
				return err
			}
			if f.here {
				return withdrawHere(streams, install.Store{})
			}
			return f.withdraw(cmd.Context(), streams)
		},
	}
	f.place.DeclareKubeconfig(cmd)
	cmd.Flags().BoolVar(&f.here, "here", false, "take back the plan of this host alone, without the API")
	timeoutFlag(cmd, &f.timeout)
	return cmd
}

// show prints what changes.
func (m *move) show() error {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "ADDRESS\tNOW\tAT THE NEW PLACE")
	for _, c := range m.plan.Changes() {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", c.What, c.From, c.To)
	}
	_ = w.Flush()
	_, err := fmt.Fprint(m.streams.Out, out.String())
	return err
}

// move is an announcement in the making.
type move struct {
	readdressFlags
	streams Streams
	plan    decide.Plan
	access  *moveAccess
	backup  backupFirst
}
