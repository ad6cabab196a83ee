package labcli

import (
	"fmt"
	"io"
	"net/netip"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab"
)

// machine is what a site has to know of a machine before it takes it in. Its password is
// in a file alone.
type machine struct {
	Name      string       `json:"name"`
	UUID      string       `json:"uuid"`
	Serial    string       `json:"serial"`
	MAC       string       `json:"mac"`
	Addresses []netip.Addr `json:"addresses"`
	BMC       string       `json:"bmc"`
	Username  string       `json:"bmcUsername"`
	Password  string       `json:"bmcPasswordFile"`
}

func newMachine(streams command.Streams, name *string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "machine HOST",
		Short: "Print what a site has to know of a host's machine",
		Long: `Print what a site has to know of a host's machine, for example of a spare control plane
before the site takes it in: UUID, serial number, MAC, addresses, and BMC with its
account. The password of the BMC goes to a file whose path is printed.`,
		Example: `  holdfast lab machine cp-2
  holdfast lab machine cp-2 -o json | jq -r .uuid`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return hostNames(*name), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if err := needRoot(); err != nil {
				return err
			}
			b, err := lab.Open(labRoot(), *name)
			if err != nil {
				return err
			}
			m, err := machineOf(b, args[0])
			if err != nil {
				return err
			}
			if output == "json" {
				return command.PrintJSON(streams.Out, m)
			}
			if _, err := fmt.Fprintln(streams.Out, m.Name); err != nil {
				return err
			}
			return m.print(streams.Out)
		},
	}
	command.OutputFlag(cmd, &output)
	return cmd
}

// machineOf returns the machine of a host, after it has written the file with its BMC's
// password.
func machineOf(b *lab.Lab, name string) (machine, error) {
	h, err := hostOf(b, name)
	if err != nil {
		return machine{}, err
	}
	m := machine{
		Name: h.Name, UUID: h.UUID, Serial: h.Serial, MAC: h.Machine.MAC,
		BMC: h.BMC.URL(), Username: h.BMC.Username, Password: filepath.Join(b.Dir, "bmc", h.ID+".password"),
	}
	for _, a := range h.Machine.Addresses {
		m.Addresses = append(m.Addresses, a.Addr())
	}
	return m, host.WriteFileAtomic(m.Password, []byte(h.BMC.Password+"\n"), 0o600)
}

func (m machine) print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "  uuid          %s\n  serial        %s\n  mac           %s\n", m.UUID, m.Serial, m.MAC)
	for _, a := range m.Addresses {
		if err == nil {
			_, err = fmt.Fprintf(out, "  address       %s\n", a)
		}
	}
	if err == nil {
		_, err = fmt.Fprintf(out, "  bmc           %s\n  bmc username  %s\n  bmc password  in %s\n", m.BMC, m.Username, m.Password)
	}
	return err
}
