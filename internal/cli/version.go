package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/model/payload"
)

func newVersion(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of holdfast and of what it installs",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(streams.Out, "holdfast %s\nkubernetes %s\n", payload.Version, payload.KubernetesVersion)
			return err
		},
	}
}
