package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

func newCreate(streams command.Streams) *cobra.Command {
	create := &cobra.Command{
		Use:   "create",
		Short: "Create the files from which a site is installed",
		Long: `Create the files from which a site is installed, from install-config.yaml in the
install directory. Keys are generated once and kept there, so a second run gives
the same bytes; protect the directory like the keys of the site. Keys that expire
are renewed in time: those of join secrets and of the administrator.`,
	}
	for _, target := range createTargets {
		create.AddCommand(newCreateTarget(streams, target))
	}
	create.AddCommand(newCreateJoinConfig(streams), newCreateKubeconfig(streams), newCreateInPlace())
	return create
}

// createTarget is one thing that can be created.
type createTarget struct {
	name, short, long string
	make              func(*installer.Installer) ([]string, error)
}

var createTargets = []createTarget{
	{
		name: "manifests", short: "Write the cluster's objects, to inspect or change them",
		long: `Write the objects that the new cluster will hold into manifests/ and network/.
You may change, add and delete files there: ignition-configs uses them as they
are. Unchanged files follow install-config.yaml.`,
		make: (*installer.Installer).Manifests,
	},
	{
		name: "ignition-configs", short: "Write an Ignition config for each role",
		long: `Write bootstrap.ign for the host that starts the cluster, master.ign and
worker.ign for the others, auth/kubeconfig and metadata.json. master.ign and
worker.ign hold a join secret, with which a host fetches its configuration for one
day; run the command again when that day is over.`,
		make: (*installer.Installer).IgnitionConfigs,
	},
}

func newCreateTarget(streams command.Streams, target createTarget) *cobra.Command {
	dir := "."
	cmd := &cobra.Command{
		Use: target.name, Short: target.short, Long: target.long,
		Example: fmt.Sprintf("  holdfast create %s --dir store-17", target.name),
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			wrote, err := target.make(newInstaller(streams, dir))
			if err != nil {
				return createError(err)
			}
			return reportWritten(streams, dir, wrote)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", dir, "install directory, which holds install-config.yaml")
	return cmd
}

func newCreateJoinConfig(streams command.Streams) *cobra.Command {
	dir, role, host, life := ".", string(state.RoleWorker), "", site.JoinLifetime
	cmd := &cobra.Command{
		Use: "join-config", Short: "Write the Ignition config of a host that joins a running cluster",
		Long: `Write join-worker.ign or join-master.ign: the Ignition config of a host that joins
the cluster that was made from this directory, today or in a year. It holds a join
secret, with which any host of the role fetches its configuration until the secret
expires. With --host the secret is for one host, and the file is join-HOST.ign. A
site of one control plane cannot get a second one.

The file leads to the addresses that the directory has. Of a site that has moved, or has
another number of control planes by now, take 'holdfast host add', which asks the cluster.

To invalidate join secrets before they expire: holdfast join-secret rotate.`,
		Example: `  holdfast create join-config --dir store-17
  holdfast create join-config --dir store-17 --host worker-3 --ttl 2h`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, until, err := newInstaller(streams, dir).JoinConfig(state.Role(role), host, life)
			if err != nil {
				return createError(err)
			}
			_, _ = fmt.Fprintf(streams.Err, "note: it leads to the addresses that this directory has: if the site has moved since, type: holdfast host add --dir %s\n", dir)
			_, err = fmt.Fprintf(streams.Out, "%s (valid until %s)\n", filepath.Clean(path), until.Local().Format(time.RFC1123))
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "dir", dir, "install directory")
	flags.StringVar(&role, "role", role, "worker or master")
	flags.StringVar(&host, "host", "", "name of the only host that may use it (default: any host of the role)")
	flags.DurationVar(&life, "ttl", life, "how long its join secret is valid, up to a week")
	return cmd
}

func newCreateKubeconfig(streams command.Streams) *cobra.Command {
	dir := "."
	cmd := &cobra.Command{
		Use: "kubeconfig", Short: "Write the administrator's kubeconfig with a new certificate",
		Long: `Write auth/kubeconfig with a new certificate and key, valid for a year, for the
cluster that was made from this directory. Use it if the present one has expired,
expires soon, or is lost. The command contacts no cluster and changes no other
file. Earlier kubeconfigs stay valid until they expire.

The directory has the authorities of the installation. If kubernetes-ca was replaced
since ('holdfast ca rotate'), what the command writes opens nothing: use 'holdfast
kubeconfig NAME' or /etc/kubernetes/admin.conf on a control plane.`,
		Example: "  holdfast create kubeconfig --dir store-17",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, until, err := newInstaller(streams, dir).Kubeconfig()
			if err != nil {
				return createError(err)
			}
			_, err = fmt.Fprintf(streams.Out, "%s (valid until %s)\n", filepath.Clean(path), until.Local().Format(time.RFC1123))
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", dir, "install directory")
	return cmd
}

// newCreateInPlace answers people who know the command of other installers. The
// file that it created had the name that live images look for; on such an image
// the cluster would have lived in memory.
func newCreateInPlace() *cobra.Command {
	cmd := &cobra.Command{
		Use: "single-node-ignition-config", Short: "Not supported: Holdfast does not install in place", Hidden: true,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return &command.UsageError{Err: errors.New(config.NotInPlace +
				"; put the operating system on the host's disk, and run 'holdfast create ignition-configs': " +
				"bootstrap.ign is for the one control plane, worker.ign for its workers")}
		},
	}
	cmd.Flags().String("dir", ".", "install directory")
	return cmd
}

// createError marks mistakes in the input as usage errors.
func createError(err error) error {
	if _, bad := errors.AsType[*installer.InputError](err); bad {
		return &command.UsageError{Err: err}
	}
	return err
}

func newInstaller(streams command.Streams, dir string) *installer.Installer {
	return &installer.Installer{Dir: dir, Now: time.Now, Random: rand.Reader, Architecture: runtime.GOARCH, Warn: func(w string) {
		_, _ = fmt.Fprintf(streams.Err, "warning: %s\n", w)
	}}
}

func reportWritten(streams command.Streams, dir string, wrote []string) error {
	if len(wrote) == 0 {
		_, err := fmt.Fprintf(streams.Out, "%s is up to date\n", dir)
		return err
	}
	for _, path := range wrote {
		if _, err := fmt.Fprintln(streams.Out, filepath.Clean(path)); err != nil {
			return err
		}
	}
	return nil
}
