package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/backup/snapshot"
	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/agent/takebackup"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/payload"
)

func newBackup(streams command.Streams) *cobra.Command {
	var stopped bool
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Take the backup of this control plane that the agent asks for",
		Long: `Takes the backup that the agent has described in /run/holdfast/backup/request.yaml: a
snapshot of etcd on this host, with the authorities, keys and settings that a restore
needs beside it. The snapshot is restored into an empty folder and compared with the
living etcd before anything counts as a backup. It then lies in
/var/lib/holdfast/backups, and is sent to the targets of the request, encrypted to its
recipients, and read back there. Nothing of etcd or the host is changed.

The agent starts holdfast-backup.service, which runs this command. If a run is cut off, nothing
of it counts as a backup, and the next run removes what is left.

With --stopped-etcd a person takes a backup on the last control plane of three whose others
are lost for good. Its etcd serves nobody, but has what was written last. The command copies
the data of the stopped etcd, starts an etcd over the copy alone, and takes the backup of
that one. It sends it nowhere. 'holdfast restore' makes a new site of it.`,
		Example: `  # how far the backup is, or why it failed
  sudo jq . /run/holdfast/backup/state.json

  # which backups lie on this host, and whether each is good
  sudo sh -c "jq -c '[.id, .good]' /var/lib/holdfast/backups/*/entry.json"

  # the log of the runs
  sudo journalctl -u holdfast-backup

  # two of three control planes are lost for good: take what the last one has
  ` + etcdStays + `
  ` + etcdStops + `
  sudo holdfast-agent backup --stopped-etcd`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return &command.UsageError{Err: errors.New("backup reads the keys of this host: run it as root")}
			}
			s, err := readSite()
			if err != nil {
				return err
			}
			if !s.Role.ControlPlane() {
				return &command.UsageError{Err: errors.New("this host is a worker: run it on a control plane")}
			}
			if stopped {
				return backupStopped(cmd.Context(), streams, s)
			}
			return takeBackup(cmd.Context(), streams)
		},
	}
	cmd.Flags().BoolVar(&stopped, "stopped-etcd", false, "take a backup of the data of this host's etcd, which is stopped")
	return cmd
}

func takeBackup(ctx context.Context, streams command.Streams) error {
	text, err := os.ReadFile(backup.RequestPath)
	if err != nil {
		return fmt.Errorf("there is no request for a backup: %w", err)
	}
	req, err := backup.DecodeRequest(text)
	if err != nil {
		return err
	}
	client, closes, err := etcdFor(ctx, req, localEtcd)
	if err != nil {
		return err
	}
	defer closes()
	state, err := takebackup.New(client, thisRelease).Do(ctx, req)
	if err != nil {
		return err
	}
	return tellBackup(streams, req, state)
}

// etcdFor returns the etcd of which a request needs a backup. One that only removes gets none, and asks
// none: etcd may be down because the disk is full on which that run makes room.
func etcdFor(ctx context.Context, req backup.Request, open func(context.Context) (*etcd.Client, error)) (_ snapshot.Etcd, closes func(), _ error) {
	if req.ID == "" {
		return nil, func() {}, nil
	}
	client, err := open(ctx)
	if err != nil {
		return nil, nil, err
	}
	return client, func() { _ = client.Close() }, nil
}

func tellBackup(streams command.Streams, req backup.Request, s backup.State) error {
	said := "removed backups that are not kept any more"
	switch {
	case req.ID != "":
		said = "took backup " + req.ID
	case len(req.Remove) == 0:
		said = "removed what a run that was cut off left"
	}
	for _, why := range append(s.NotSent, s.Left...) {
		said += "\nproblem at a target: " + strings.ReplaceAll(why, "\n", " ")
	}
	_, err := fmt.Fprintln(streams.Out, said)
	return err
}

// localEtcd returns a client of the etcd on this host, at the IPv4 or the IPv6 loopback
// address, whichever answers. The caller closes it.
func localEtcd(ctx context.Context) (*etcd.Client, error) {
	var errs []error
	var last *etcd.Client
	for _, loopback := range []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} {
		c, err := etcd.Open(etcd.Config{ClientURL: etcdpod.LocalURL(loopback)})
		if err != nil {
			return nil, err
		}
		if last != nil {
			_ = last.Close()
		}
		last = c
		if _, err := c.Status(ctx); err == nil {
			return c, nil
		} else {
			errs = append(errs, err)
		}
	}
	_ = last.Close()
	return nil, fmt.Errorf("no backup is taken while etcd on this host does not serve, or is a learner: %w", errors.Join(errs...))
}

// thisRelease returns the release that this host runs. The digest is empty if it cannot be
// read; the versions are those of this program, which is of that release.
func thisRelease() backup.Release {
	digest, err := release.Current("/")
	if err != nil {
		digest = ""
	}
	return backup.Release{Digest: digest, Version: payload.Version, Kubernetes: payload.KubernetesVersion, Etcd: payload.EtcdVersion}
}
