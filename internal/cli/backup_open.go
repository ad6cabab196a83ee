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

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	"github.com/holdfast/holdfast/internal/adapter/backup/contents"
	"github.com/holdfast/holdfast/internal/adapter/backup/snapshot"
	"github.com/holdfast/holdfast/internal/decide/backup/objects"
)

// lookFlags holds the flags of the commands that look into a backup.
type lookFlags struct {
	fromFlags
	authorityFlag
	identity, scratch, namespace string
	// cluster is the kubeconfig of the cluster with which a backup is compared; empty if none is named.
	cluster string
}

func (f *lookFlags) register(cmd *cobra.Command) {
	f.fromFlags.register(cmd)
	f.authorityFlag.register(cmd)
	cmd.Long = strings.Replace(cmd.Long, "\n\nExit codes:", "\n\n"+strings.Join([]string{fromWords, authorityWords, ownWords}, "\n\n")+"\n\nExit codes:", 1)
	cmd.Flags().StringVar(&f.identity, "identity", "", "file with private keys of age, as age-keygen writes it")
	cmd.Flags().StringVar(&f.scratch, "scratch", "", "folder on a disk with room for the database (default: the folder for temporary files)")
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "objects of this namespace alone")
	_ = cmd.RegisterFlagCompletionFunc("namespace", cobra.NoFileCompletions)
	_ = cmd.MarkFlagDirname("scratch")
	cmd.ValidArgsFunction = completeBackupFile(1)
}

// completeBackupFile completes the first arguments of a command with files of backups.
func completeBackupFile(files int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) < files {
			return []cobra.Completion{"tar", "age"}, cobra.ShellCompDirectiveFilterFileExt
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// openedBackup is a backup whose snapshot lies in a folder that only this user reads.
type openedBackup struct {
	archive.Manifest
	*contents.Snapshot
	keys  contents.Keys
	names objects.Names
	dir   string
	// origin is of which site the backup is.
	origin origin
	// authority says so in a line, and warning, which goes to errs, why it may be of another one; empty for none.
	authority, warning string
	errs               io.Writer
}

// openKnown opens a backup as open does, and refuses one that is not of the site of --authority.
func (f *lookFlags) openKnown(ctx context.Context, streams Streams, from string) (*openedBackup, error) {
	known, err := f.known()
	if err != nil {
		return nil, err
	}
	return f.open(ctx, streams, from, func(b *openedBackup) (err error) {
		b.errs = streams.Err
		b.authority, b.warning, err = b.origin.judge(b.ID, known, f.cluster)
		return err
	})
}

// open compares a whole backup with its digests, and opens its snapshot once somebody accepts its origin. The caller
// closes it.
func (f *lookFlags) open(ctx context.Context, streams Streams, from string, accept func(*openedBackup) error) (b *openedBackup, err error) {
	identity, err := ageKeys(f.identity)
	if err != nil {
		return nil, err
	}
	file, done, err := f.local(ctx, streams, from, f.scratch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	dir, err := os.MkdirTemp(f.scratch, "holdfast-backup-*") // 0700
	if err != nil {
		return nil, fmt.Errorf("--scratch: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	b = &openedBackup{dir: dir}
	files := map[string][]byte{}
	into := snapshotInto(dir)
	b.Manifest, err = archive.OpenFile(ctx, file, identity, func(m archive.Member, from io.Reader) (err error) {
		if slices.Contains(contents.KeyFiles(), m.Path) || slices.Contains(originPaths, m.Path) {
			files[m.Path], err = io.ReadAll(io.LimitReader(from, maxHostFile))
			return err
		}
		return into(m, from)
	})
	if errors.Is(err, archive.ErrNoIdentity) {
		return nil, &UsageError{Err: err}
	}
	if err != nil {
		return nil, err
	}
	b.origin = originOf(files)
	if err = accept(b); err != nil {
		return nil, err
	}
	if b.keys, err = contents.KeysOf(files); err != nil {
		return nil, err
	}
	if b.Snapshot, err = contents.Open(ctx, filepath.Join(dir, snapshot.Name)); err != nil {
		return nil, err
	}
	if b.names, err = b.Names(ctx); err != nil {
		return nil, errors.Join(err, b.Snapshot.Close())
	}
	return b, nil
}

// readAndClose reads what fits, and closes the backup. Nothing of it may be on the disk once
// something is printed: whoever reads that may end the program.
func (b *openedBackup) readAndClose(ctx context.Context, fits func(objects.Object) bool) (contents.Found, error) {
	found, err := b.Read(ctx, b.keys, fits)
	err = errors.Join(err, b.Close())
	if b.warning != "" {
		_, _ = fmt.Fprintf(b.errs, "warning: %s\n", b.warning)
	}
	return found, err
}

// Close closes the snapshot and removes it.
func (b *openedBackup) Close() error { return errors.Join(b.Snapshot.Close(), os.RemoveAll(b.dir)) }

// of says in one line which backup it is.
func (b *openedBackup) of() string {
	text := fmt.Sprintf("backup %s of %s, site %s, taken %s", b.ID, b.Entry.Host, b.Entry.Site, timestamp(b.Entry.Taken))
	if !b.Entry.Good {
		text += "; it did not pass all its checks: " + b.Entry.Why()
	}
	return text
}

// unreadIn returns the keys that cannot be read and belong to a namespace; empty for all.
func unreadIn(unread []objects.Unread, namespace string) []objects.Unread {
	return slices.DeleteFunc(slices.Clone(unread), func(u objects.Unread) bool {
		place, ok := objects.PlaceOf(u.Key)
		return namespace != "" && ok && place.Namespace != namespace
	})
}

// mostUnread is how many keys that cannot be read are named.
const mostUnread = 10

// printUnread names keys that cannot be read.
func printUnread(out io.Writer, unread []objects.Unread) {
	for _, u := range unread[:min(len(unread), mostUnread)] {
		_, _ = fmt.Fprintf(out, "not read: %s: %s\n", u.Key, u.Why)
	}
	if more := len(unread) - mostUnread; more > 0 {
		_, _ = fmt.Fprintf(out, "not read: %d more keys; -o json of 'holdfast backup inspect' names them all\n", more)
	}
}

// bytesOf formats a number of bytes for people.
func bytesOf(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// kindAndPath formats an object as kubectl takes it, after its namespace.
func kindAndPath(k objects.Kind, path string) string { return k.String() + " " + cmp.Or(path, "-") }
