package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	"github.com/holdfast/holdfast/internal/adapter/backup/snapshot"
	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/command"
	model "github.com/holdfast/holdfast/internal/model/backup"
)

// backupVerifyFlags holds the flags of `backup verify`.
type backupVerifyFlags struct {
	fromFlags
	authorityFlag
	identity, etcdutl, scratch, output string
}

// backupVerified is the result of `backup verify`.
type backupVerified struct {
	ID    string      `json:"id"`
	Entry model.Entry `json:"entry"`
	origin
	// known are the authorities with which it was compared; nil for none.
	known []string
	// Opened is true if the file was encrypted, and the private key opened it.
	Opened bool `json:"opened"`
	// Members is the number of members that were compared with their digests.
	Members int `json:"members"`
	// Checks are those of the snapshot, restored here; NotRestored says why there is none.
	Checks      []model.Check `json:"checks,omitempty"`
	NotRestored string        `json:"notRestored,omitempty"`
}

func newBackupVerify(streams Streams) *cobra.Command {
	var f backupVerifyFlags
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Open a backup file, compare each member, and restore it into an empty folder",
		Long: `Reads a whole backup file, from a host or from a target, and needs no site: run it where the
private key is kept, and not on the site. It opens an encrypted file, compares each member with
its digest, restores the snapshot into an empty folder with etcdutl, and compares its keys by the
hash that the living etcd had. For that time the folder holds the site's secrets, readable by you
alone; then it is removed.

Without etcdutl on this machine, or without etcd in the same folder, which hashes the restored
keys, the file is opened and compared, but not restored. Each control plane has both, and so has
every build of etcd; take the site's version or a newer one.

` + fromWords + `

` + authorityWords + `

The command writes nothing about the result: to tell the site, run 'holdfast backup prove ID'.

Exit codes: 0 whole, and restored; 3 whole, and not restored, since this machine lacks etcdutl
or etcd; 1 damaged, or the key does not open it; 2 wrong usage; 7 refused: it is not of the site of
--authority.`,
		Example: `  holdfast backup verify 20261125T031700Z-cp-1.tar.age --identity owner.key --authority ca.crt
  holdfast backup verify 20261125T031700Z-cp-1.tar.age --identity owner.key --etcdutl ./etcdutl
  holdfast backup verify s3://shop-1/shop.example.com/cp-1/20261125T031700Z-cp-1.tar.age --targets backups.yaml --identity owner.key
  sudo holdfast backup verify /var/lib/holdfast/backups/20261125T031700Z-cp-1/20261125T031700Z-cp-1.tar`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), streams, args[0])
		},
	}
	formatFlag(cmd, &f.output)
	f.fromFlags.register(cmd)
	f.authorityFlag.register(cmd)
	cmd.Flags().StringVar(&f.identity, "identity", "", "file with private keys of age, as age-keygen writes it")
	cmd.Flags().StringVar(&f.etcdutl, "etcdutl", filepath.Base(snapshot.Program), "etcdutl, by its name or its path; etcd lies in the same folder")
	cmd.Flags().StringVar(&f.scratch, "scratch", "", "folder on a disk with room for twice the database (default: the folder for temporary files)")
	return cmd
}

func (f *backupVerifyFlags) run(ctx context.Context, streams Streams, from string) (err error) {
	keys, err := ageKeys(f.identity)
	if err != nil {
		return err
	}
	known, err := f.known()
	if err != nil {
		return err
	}
	file, done, err := f.local(ctx, streams, from, f.scratch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	dir, err := os.MkdirTemp(f.scratch, "holdfast-backup-*") // 0700
	if err != nil {
		return fmt.Errorf("--scratch: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	files := map[string][]byte{}
	m, err := archive.OpenFile(ctx, file, keys, withOrigin(files, snapshotInto(dir)))
	if errors.Is(err, archive.ErrNoIdentity) {
		return &UsageError{Err: err}
	}
	if err != nil {
		return err
	}
	out := backupVerified{ID: m.ID, Entry: m.Entry, origin: originOf(files), known: known, Opened: keys != "" && isEncrypted(file), Members: len(m.Members)}
	if err := out.compare(m.ID, known); err != nil {
		return err
	}
	if out.Checks, err = f.restore(ctx, dir, m.Entry.Database); err != nil {
		out.NotRestored = err.Error()
	}
	return out.print(streams.Out, f.output)
}

// ageKeys reads the file of private keys that --identity names; empty for none.
func ageKeys(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", &UsageError{Err: fmt.Errorf("--identity: %w", err)}
	}
	return string(text), nil
}

// snapshotInto copies the snapshot of an archive into a folder.
func snapshotInto(dir string) archive.Take {
	return func(m archive.Member, contents io.Reader) error {
		if m.Name != archive.SnapshotName {
			return nil
		}
		to, err := os.OpenFile(filepath.Join(dir, snapshot.Name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(to, contents)
		return errors.Join(err, to.Close())
	}
}

// isEncrypted reports whether a file is one of age.
func isEncrypted(file string) bool { return filepath.Ext(file) == filepath.Ext(model.SentSuffix) }

// restore restores the snapshot that lies in a folder, and compares it with the keys of
// the living etcd. An error means that etcdutl, or the etcd beside it, does not run here.
func (f *backupVerifyFlags) restore(ctx context.Context, dir string, db model.Database) ([]model.Check, error) {
	if err := f.programs(ctx); err != nil {
		return nil, err
	}
	t := snapshot.Taker{Now: time.Now, Program: f.etcdutl, Hash: hashRestored}
	_, checks, err := t.Verify(ctx, dir, snapshot.Seen{
		Read: db.HashRevision, Hash: etcd.KVHash{Hash: db.Hash, HashRevision: db.HashRevision, CompactRevision: db.CompactRevision},
	})
	if err != nil {
		checks = append(checks, model.Check{Name: snapshot.CheckRestore, Says: err.Error()})
	}
	return checks, nil
}

// programs returns an error unless both programs run here: etcdutl restores, and an etcd hashes the
// restored keys.
func (f *backupVerifyFlags) programs(ctx context.Context) error {
	if _, err := host.Run(ctx, host.Command(f.etcdutl, "version")); err != nil {
		return fmt.Errorf("%s does not run here: %w", f.etcdutl, err)
	}
	if hashRestored != nil {
		return nil
	}
	beside, err := snapshot.EtcdBeside(f.etcdutl)
	if err != nil {
		return err
	}
	if _, err := host.Run(ctx, host.Command(beside, "--version")); err != nil {
		return fmt.Errorf("%s, which has to lie beside etcdutl, does not run here: %w", beside, err)
	}
	return nil
}

// print prints the result, and returns the exit code.
func (v backupVerified) print(out io.Writer, format string) error {
	if format == "json" || format == "yaml" {
		if err := printData(out, format, v); err != nil {
			return err
		}
		return v.verdict()
	}
	e := v.Entry
	_, _ = fmt.Fprintf(out, "backup %s of %s, site %s\n  taken      %s (%s)\n  of         Holdfast %s, Kubernetes %s, etcd %s\n  revision   %d\n  compared   %d members with their digests\n  authority  %s\n",
		e.ID, e.Host, e.Site, timestamp(e.Taken), orDash(e.Reason), orDash(e.Release.Version), orDash(e.Release.Kubernetes), orDash(e.Release.Etcd), e.Database.Revision, v.Members, v.tell(v.known))
	for _, c := range v.Checks {
		_, _ = fmt.Fprintf(out, "  %-10s %s\n", c.Name, c.Says)
	}
	if v.NotRestored != "" {
		_, _ = fmt.Fprintf(out, "  not restored: %s\n", v.NotRestored)
	}
	if err := v.verdict(); err != nil {
		return err
	}
	if v.Opened {
		_, _ = fmt.Fprintf(out, "It is whole, and the private key opens it. To tell the site: holdfast backup prove %s\n", e.ID)
		return nil
	}
	_, err := fmt.Fprintln(out, "It is whole. It was not encrypted: it proves nothing about the private key.")
	return err
}

// verdict returns the exit code of the result.
func (v backupVerified) verdict() error {
	for _, c := range v.Checks {
		if !c.OK {
			return coded(command.ExitFailed, "backup %s is not good: %s: %s", v.ID, c.Name, c.Says)
		}
	}
	if v.NotRestored != "" {
		return coded(command.ExitAttention, "backup %s is whole, and was not restored here: name an etcdutl with --etcdutl, beside which etcd lies", v.ID)
	}
	return nil
}

// hashRestored hashes the keys of a restored copy; if it is nil, the etcd beside etcdutl
// does it. Tests set it.
var hashRestored func(ctx context.Context, dataDir string, revision int64) (etcd.KVHash, error)
