package labcli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab"
)

// siteConfig is the install-config that somebody wants of a lab's site.
type siteConfig struct {
	controlPlanes int
	// grown is set if the number of control planes was given.
	grown, moved bool
}

func newInstallConfig(streams command.Streams, name *string) *cobra.Command {
	var want siteConfig
	var file string
	cmd := &cobra.Command{
		Use:   "install-config",
		Short: "Write the install-config of the site, grown or moved if wanted",
		Long: `Write the install-config with which the site was installed. With --control-planes it has
another number of control planes, to let the site grow by the lab's spare ones or shrink: their
replicas and the accounts with which two fence each other, or the list of machines of
three. With --moved it has the machine network, the virtual IPs and the rendezvousIP of
the site after 'lab move', whether or not the lab has been moved yet. All else is as in
the site's own file. The file holds the passwords of BMCs: it is made with mode 0600.`,
		Example: `  holdfast lab install-config --control-planes 2 --out two.yaml
  holdfast lab install-config --moved --out moved.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// There is no default, so that no password gets onto a screen by mistake.
			if file == "" {
				return &command.UsageError{Err: errors.New("--out: name a file, because the install-config holds the passwords of BMCs; - prints it")}
			}
			if err := needRoot(); err != nil {
				return err
			}
			b, err := lab.Open(labRoot(), *name)
			if err != nil {
				return err
			}
			want.grown = cmd.Flags().Changed("control-planes")
			text, err := want.of(b)
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
			_, err = fmt.Fprintf(streams.Err, "%s has the install-config of lab %s%s\n", file, *name, want.words())
			return err
		},
	}
	cmd.Flags().IntVar(&want.controlPlanes, "control-planes", 0, "how many control planes the site is to have; without it as many as the site was installed with")
	cmd.Flags().BoolVar(&want.moved, "moved", false, "with the addresses of the site after 'lab move'")
	cmd.Flags().StringVar(&file, "out", "", "path of the file; - for standard output, passwords and all")
	return cmd
}

// of returns the wanted install-config of a lab's site.
func (w siteConfig) of(b *lab.Lab) ([]byte, error) {
	spec := b.Options.Spec
	var grownErr, movedErr error
	if w.grown {
		spec, grownErr = spec.Grown(w.controlPlanes)
	}
	if w.moved {
		_, movedErr = b.Options.Spec.In(true)
		spec, _ = spec.In(true)
	}
	if err := errors.Join(grownErr, movedErr); err != nil {
		return nil, &command.UsageError{Err: err}
	}
	text, err := b.OwnConfig()
	if err == nil && w.grown {
		text, err = lab.NewLayout(spec).GrownConfig(text)
	}
	if err == nil && w.moved {
		text, err = lab.NewLayout(spec).MovedConfig(text)
	}
	return text, err
}

// words says what differs from the site's own file.
func (w siteConfig) words() string {
	out := ""
	if w.grown {
		out = fmt.Sprintf(", with controlPlane.replicas %d", w.controlPlanes)
	}
	if w.moved {
		out += ", with the addresses of the moved site"
	}
	return out
}
