package labcli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab"
)

func newMove(streams command.Streams, name *string) *cobra.Command {
	var m lab.Move
	cmd := &cobra.Command{
		Use:   "move",
		Short: "Carry the lab to another machine network, or back",
		Long: `Carry the lab to another machine network, as if its hosts had been shipped to another
place: 10.77.0.0/24 and fd77::/64 in place of 10.98.0.0/24 and fd98::/64. The last number
of each address stays: gateway and DNS .1, API .5, ingress .6, hosts as before. The names
of the cluster lead to the new virtual IPs at once. The fencing network and the BMCs stay.

A host that is switched on after the move gets its new addresses, default route and name
servers, as from a DHCP server. A host that runs keeps what it has, but finds no gateway
there any more, until it is switched off and on. With --live it gets the new ones at
once, as when its cable is plugged into another switch.

The cluster does not know of the move: 'lab install-config --moved' writes the
install-config of the moved site, also before the move. A lab with far workers or router
advertisements stays where it is. Run an interrupted move again: it does the rest.`,
		Example: `  holdfast lab install-config --moved --out moved.yaml
  holdfast lab move
  holdfast lab move --live
  holdfast lab move --back`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needRoot(); err != nil {
				return err
			}
			b, err := lab.Open(labRoot(), *name)
			if err != nil {
				return err
			}
			if _, err := b.Options.Spec.In(!m.Back); err != nil {
				return &command.UsageError{Err: err}
			}
			builder := &lab.Builder{Root: labRoot(), Launch: lab.SelfLauncher, Log: streams.Err}
			b, running, err := builder.Move(cmd.Context(), *name, m)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(streams.Out, movedText(b, running, m.Live, os.Args[0]))
			return err
		},
	}
	cmd.Flags().BoolVar(&m.Back, "back", false, "carry it back to the network with which it was made")
	cmd.Flags().BoolVar(&m.Live, "live", false, "hosts that run get their new addresses at once")
	return cmd
}

// movedText tells where a lab is now, and which hosts do not know it yet.
func movedText(b *lab.Lab, running []lab.Host, live bool, called string) string {
	l := b.Layout
	var text strings.Builder
	fmt.Fprintf(&text, "lab %s is in %s\n  gateway and DNS  %s\n  API              %s\n  ingress          %s\n", l.Spec.Name, spaced(l.MachineNetworks()),
		spaced(l.Machine.Gateways), spaced(l.APIAddresses()), spaced(l.IngressAddresses()))
	for _, h := range running {
		if live {
			fmt.Fprintf(&text, "%s runs, and has %s\n", h.Name, spaced(h.Machine.Addresses))
			continue
		}
		fmt.Fprintf(&text, "%s runs, and keeps its addresses until it is switched off and on\n", h.Name)
	}
	if len(running) > 0 && !live {
		line := labLine(called, b, "move")
		if !l.Spec.Moved() {
			line += " --back"
		}
		fmt.Fprintf(&text, "to give them their new addresses at once: %s --live\n", line)
	}
	return text.String()
}

func spaced[T fmt.Stringer](list []T) string {
	words := make([]string, 0, len(list))
	for _, v := range list {
		words = append(words, v.String())
	}
	return strings.Join(words, " ")
}
