package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/restore"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
)

func newRestore(streams Streams) *cobra.Command {
	r := restoring{}
	cmd := &cobra.Command{
		Use:   "restore --from BACKUP --dir DIR",
		Short: "Prepare the installation of a site that begins with the data of a backup",
		Long: `Makes an install directory from a backup: install-config.yaml, the site's keys, and the
snapshot of its etcd. You then install the site like a new one, on blank hosts, and its
first host begins with the data of the backup. The hosts, their number, addresses and BMCs
may differ: change install-config.yaml before you create the Ignition configs.

Objects come back as they were, except those of hosts and moments that are gone, such as
nodes, pods and leases. CronJobs and unfinished Jobs are suspended and volumes are kept
until you say otherwise: the first host writes the list to
/var/lib/etcd/holdfast-restore/report.json.

Everything that was written after the backup is lost. Never restore a site while a host of
it still serves: both would answer at its addresses. Wipe the former hosts. A former
control plane that is switched on before, and that the restored site answers, switches
itself off. One that reaches nobody starts and serves the old data, and so does a lone one
whose own address the restored one has. None of them joins the new site: etcd, Corosync's
key and the join secrets are others now.

A restored site sends its backups to the targets of the former one, into the same folders: keep
a trial beside a living site from them.

A backup that was taken later than this machine's clock says is refused: that clock is behind, or the
host's was ahead. Set the clock of this machine. If it is right, --clock-is-right goes on; nobody knows
then how old the backup is, and the hosts do not compare their clocks with it.

` + fromWords + `

` + authorityWords + `

Exit codes: 0 the directory is ready; 1 the backup cannot be read, is damaged, or is of a
newer release than this program; 2 wrong usage; 7 refused: the clock of this machine or of the
backup's host is wrong, or the backup is not of the site of --authority.`,
		Example: `  holdfast restore --from 20261125T020000Z-cp-1.tar.age --identity owner.key --authority ca.crt --dir store-17 --dry-run
  holdfast restore --from 20261125T020000Z-cp-1.tar.age --identity owner.key --authority ca.crt --dir store-17
  holdfast restore --from s3://shop-1/shop.example.com/cp-1/20261125T020000Z-cp-1.tar.age --targets backups.yaml --identity owner.key --dir store-17
  $EDITOR store-17/install-config.yaml
  holdfast create ignition-configs --dir store-17`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.from == "" || r.dir == "" {
				return &UsageError{Err: errors.New("--from and --dir are needed: a backup, and a directory that is empty or does not exist")}
			}
			return r.run(cmd.Context(), streams)
		},
	}
	cmd.Flags().StringVar(&r.from, "from", "", "a backup, encrypted or not: a file, or s3:// or sftp://")
	r.fromFlags.register(cmd)
	r.authorityFlag.register(cmd)
	cmd.Flags().StringVar(&r.scratch, "scratch", "", "folder on a disk with room for a backup of a target (default: the folder for temporary files)")
	_ = cmd.MarkFlagDirname("scratch")
	cmd.Flags().StringVar(&r.identityFile, "identity", "", "file with the private key of age that opens it")
	cmd.Flags().StringVar(&r.dir, "dir", "", "install directory to make")
	cmd.Flags().BoolVar(&r.clockIsRight, "clock-is-right", false, "go on although the backup was taken later than the clock of this machine says: you have compared this clock with another one")
	cmd.Flags().BoolVar(&r.dry, "dry-run", false, "read and compare the whole backup, say what is in it, and write nothing")
	return cmd
}

// restoring is one run of `holdfast restore`.
type restoring struct {
	fromFlags
	authorityFlag
	from, scratch, identityFile, dir string
	dry, clockIsRight                bool

	// file is the backup on this machine, and members what the first reading compared. The file is read
	// three times, and may lie in a folder into which others write.
	file, identity string
	members        []archive.Member
}

// errChanged reports a file of which a later reading has not the contents that were compared.
var errChanged = errors.New("the file has changed while it was read")

// maxHostFile bounds a file of the host that is kept in memory, in bytes.
const maxHostFile = 8 << 20

func (r *restoring) run(ctx context.Context, streams Streams) (err error) {
	if r.identity, err = ageKeys(r.identityFile); err != nil {
		return err
	}
	known, err := r.known()
	if err != nil {
		return err
	}
	file, done, err := r.local(ctx, streams, r.from, r.scratch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	r.file = file
	// The first reading compares everything. Nothing is written before it has ended.
	files, m, err := r.read(ctx)
	if err != nil {
		return err
	}
	r.members = m.Members
	of := originOf(files)
	if err := of.compare(m.ID, known); err != nil {
		return err
	}
	b, err := installer.OfHost(files)
	if err != nil {
		return fmt.Errorf("%s is whole, but lacks files that a restore needs: %w", r.from, err)
	}
	b.ID, b.Taken, b.Revision = m.ID, m.Entry.Taken, m.Entry.Database.Revision
	note, err := decide.Release(m.Entry.Release, backup.Release{Version: payload.Version, Kubernetes: payload.KubernetesVersion, Etcd: payload.EtcdVersion})
	if err != nil {
		return fmt.Errorf("%s is whole, but cannot be restored with this build: %w", r.from, err)
	}
	if err := r.fromDatabase(ctx, streams, &b); err != nil {
		return err
	}
	now := time.Now()
	r.tell(streams.Out, m, note, now)
	_, _ = fmt.Fprintln(streams.Out, of.tell(known))
	if err := r.compareClocks(streams.Err, &b, now); err != nil {
		return err
	}
	if r.dry {
		return nil
	}
	missing, err := r.write(ctx, streams, b)
	if err != nil {
		return err
	}
	_, err = io.WriteString(streams.Out, r.next(missing))
	return err
}

// compareClocks refuses a backup that was taken later than it is on this machine: if this clock is
// behind, the new life would have a time before that of the site, and if the host's was ahead, hosts
// would wait for a time that has not come. If the person says that this clock is right, the time at which
// the backup was taken is left out.
func (r *restoring) compareClocks(errs io.Writer, b *installer.Backup, now time.Time) error {
	if !backup.Ahead(b.Taken, now) {
		return nil
	}
	if !r.clockIsRight {
		return coded(command.ExitRefused, "refused, nothing was written: the clock of this machine says %s, and the backup was taken at %s: this clock is behind, or that of the backup's host was ahead. "+
			"Set the clock of this machine; if it is right, add --clock-is-right", timestamp(now), timestamp(b.Taken))
	}
	_, _ = fmt.Fprintln(errs, "warning: the clock of the backup's host was ahead when it was taken: nobody knows how old it is, and the restored hosts do not compare their clocks with it")
	b.Taken = time.Time{}
	return nil
}

// read reads and compares the whole archive, and returns the files of the host by path.
func (r *restoring) read(ctx context.Context) (map[string][]byte, archive.Manifest, error) {
	files := map[string][]byte{}
	m, err := archive.OpenFile(ctx, r.file, r.identity, func(member archive.Member, contents io.Reader) error {
		if member.Path == "" {
			return nil
		}
		data, err := io.ReadAll(io.LimitReader(contents, maxHostFile))
		files[member.Path] = data
		return err
	})
	return files, m, err
}

// write makes the directory. It reads the archive a second time, for the snapshot, and
// returns the fields that the backup has no value for.
func (r *restoring) write(ctx context.Context, streams Streams, b installer.Backup) (missing []string, err error) {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, err
	}
	in := newInstaller(streams, r.dir)
	_, err = archive.OpenFile(ctx, r.file, r.identity, func(member archive.Member, contents io.Reader) error {
		if member.Name != archive.SnapshotName {
			return nil
		}
		if !slices.Contains(r.members, member) {
			return fmt.Errorf("%s: %w", r.from, errChanged)
		}
		b.Snapshot, b.SHA256 = contents, member.SHA256
		missing, err = in.Restore(b)
		return err
	})
	if err != nil {
		return nil, createError(err)
	}
	return missing, nil
}

// tell describes the backup.
func (r *restoring) tell(w io.Writer, m archive.Manifest, note string, now time.Time) {
	e := m.Entry
	age := "in the future of this machine's clock"
	if !backup.Ahead(e.Taken, now) {
		age = fmt.Sprint(max(now.Sub(e.Taken), 0).Round(time.Minute), " ago")
	}
	_, _ = fmt.Fprintf(w, "%s of host %s of site %s, taken %s (%s)\n", m.ID, e.Host, e.Site, e.Taken.UTC().Format(time.RFC3339), age)
	_, _ = fmt.Fprintf(w, "%d keys at revision %d, Kubernetes %s, release %s\n", e.Database.Keys, e.Database.Revision,
		e.Release.Kubernetes, cmp.Or(e.Release.Digest, "unknown"))
	if !e.Good {
		_, _ = fmt.Fprintln(w, "this backup is not good: it did not pass all its checks on the host")
	}
	if note != "" {
		_, _ = fmt.Fprintln(w, note)
	}
}

// next says what a person has to do now.
func (r *restoring) next(missing []string) string {
	var out strings.Builder
	config := filepath.Join(r.dir, installer.ConfigFile)
	if len(missing) > 0 {
		fmt.Fprintf(&out, "\nThe backup lacks these fields: write them into %s:\n", config)
		for _, field := range missing {
			fmt.Fprintf(&out, "  %s\n", field)
		}
	}
	snapshot := filepath.Join(r.dir, installer.SnapshotFile)
	fmt.Fprintf(&out, "\nNext:\n  look at %s: change the hosts, addresses and BMCs that differ now\n", config)
	fmt.Fprintf(&out, "  %s\n", host.Command("holdfast", "create", "ignition-configs", "--dir", r.dir))
	fmt.Fprintf(&out, "  install the hosts as new ones, and copy %s to %s on the first\n", snapshot, site.RestorePath)
	out.WriteString("\nThe restored site sends its backups to the targets of the former one, into the same folders. If this is a\n" +
		"trial beside a living site, keep the network of its hosts from the targets, or take them from it within a\n" +
		"quarter of an hour after its API answers: holdfast backup configure -f FILE-WITHOUT-TARGETS --no-wait\n")
	return out.String()
}
