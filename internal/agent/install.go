package agent

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/agent/install"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/site"
)

// defaultRelease is the release's folder on a host.
const defaultRelease = "/usr/share/holdfast/release"

func newInstall(streams command.Streams) *cobra.Command {
	release := defaultRelease
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install this host into its cluster",
		Long: `Install this host into the cluster that its Ignition names: unpack the release,
start or join the control plane with kubeadm, connect the pod network. It may be
interrupted at any point and run again; completed steps are not repeated. It
runs until the host is installed, because it may have to wait for other hosts.`,
		Example: `  # what holdfast-install.service runs
  holdfast-agent install`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, text, err := readSiteFile()
			if err != nil {
				return err
			}
			return install.Run(cmd.Context(), install.Options{
				Site: s, Text: text, Release: release, Log: streams.Out, Now: time.Now,
			})
		},
	}
	cmd.Flags().StringVar(&release, "release", release, "directory of the release")
	return cmd
}

// readSite reads the site that the host's Ignition left on the disk.
func readSite() (*site.Site, error) {
	s, _, err := readSiteFile()
	return s, err
}

// readSiteFile returns the text of the file too.
func readSiteFile() (*site.Site, []byte, error) {
	data, err := os.ReadFile(site.Path)
	if err != nil {
		return nil, nil, fmt.Errorf("this host belongs to no cluster yet (run 'holdfast-agent apply' with its Ignition): %w", err)
	}
	s, err := site.Unmarshal(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", site.Path, err)
	}
	return s, data, nil
}
