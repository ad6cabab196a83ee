package labcli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab"
)

func newInstallConfig(streams command.Streams, name *string) *cobra.Command {
	var controlPlanes int
	var file string
	cmd := &cobra.Command{
		Use:   "install-config",
		Short: "Write the install-config of the site with more control planes",
		Long: `Write the site's own install-config with another number of control planes, to let the
site grow by the lab's spare ones: their replicas and the accounts with which two fence
each other, or the list of machines of three. All else is as in the site's own file. The
file holds the passwords of BMCs: it is made with mode 0600.`,
		Example: `  holdfast lab install-config --control-planes 2 --out two.yaml`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := wantsGrown(cmd, file); err != nil {
				return &command.UsageError{Err: err}
			}
			if err := needRoot(); err != nil {
				return err
			}
			b, err := lab.Open(labRoot(), *name)
			if err != nil {
				return err
			}
			grown, err := b.Options.Spec.Grown(controlPlanes)
			if err != nil {
				return &command.UsageError{Err: err}
			}
			text, err := b.GrownConfig(grown)
			if err != nil {
				return err
			}
			if file == "-" {
				_, err = streams.Out.Write(text)
				return err
			}
			if err := host.WriteFileAtomic(file, text, 0o600); err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.Err, "%s has the install-config of lab %s, with controlPlane.replicas %d\n", file, *name, controlPlanes)
			return err
		},
	}
	cmd.Flags().IntVar(&controlPlanes, "control-planes", 0, "how many control planes the site is to have")
	cmd.Flags().StringVar(&file, "out", "", "path of the file; - for standard output, passwords and all")
	return cmd
}

// wantsGrown returns the flags that are missing. There is no default for --out, so that no
// password gets onto a screen by mistake.
func wantsGrown(cmd *cobra.Command, file string) error {
	var err error
	if !cmd.Flags().Changed("control-planes") {
		err = errors.New("--control-planes: say how many the site is to have")
	}
	if file == "" {
		err = errors.Join(err, errors.New("--out: name a file, because the install-config holds the passwords of BMCs; - prints it"))
	}
	return err
}
