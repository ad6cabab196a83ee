package agent

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/report/doctor"
)

func newDoctor(streams command.Streams) *cobra.Command {
	var disk bool
	output := "yaml"
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Print the facts about this host that 'holdfast doctor' checks",
		Long: `Print the facts about this host that 'holdfast doctor' checks: clock, swap,
certificates, routes to the peer and to its BMC, what might reboot the host, how
fast etcd's disk was. It changes nothing and prints no secret. Run it as root:
much is readable by root only. A fact that could not be read is null, with the
reason under trouble.

--disk measures etcd's disk too: for at most 2 s it writes at most 8 MiB, in
small pieces, each made durable, into a file without a name beside etcd's data.`,
		Example: `  sudo holdfast-agent doctor
  sudo holdfast-agent doctor -o json --disk`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "yaml" && output != "json" {
				return &command.UsageError{Err: fmt.Errorf("output %q: must be yaml or json", output)}
			}
			s, err := doctor.ReadSite()
			h := doctor.This(s, disk).Host(cmd.Context())
			if err != nil {
				h.Trouble = append(h.Trouble, err.Error())
			}
			if output == "json" {
				return writeJSON(streams.Out, h)
			}
			text, err := yaml.Marshal(h)
			if err != nil {
				return err
			}
			_, err = streams.Out.Write(text)
			return err
		},
	}
	cmd.Flags().BoolVar(&disk, "disk", false, "measure etcd's disk too: at most 2 s and 8 MiB")
	cmd.Flags().StringVarP(&output, "output", "o", output, "yaml or json")
	return cmd
}
