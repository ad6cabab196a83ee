package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	model "github.com/holdfast/holdfast/internal/model/backup"
)

// backupFetchFlags holds the flags of `backup fetch`.
type backupFetchFlags struct {
	fromFlags
	file string
}

func newBackupFetch(streams Streams) *cobra.Command {
	var f backupFetchFlags
	cmd := &cobra.Command{
		Use:   "fetch URL",
		Short: "Copy a backup from a target into a file, and go on after a broken connection",
		Long: `Copies one backup from a bucket or an SFTP server into a file, and compares it with the catalogue
at the target. It needs no site. What it has so far lies beside the file, with the suffix .part:
after a cut the same command goes on there. The file stays encrypted, so the command cannot see whose
backup it is, and warns of that: whoever can write to the target could have put it there. 'backup
verify' with --authority compares it.

The account is in the configuration of backups, --targets, or for a bucket in AWS_ENDPOINT_URL,
AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. 'holdfast backup list --from' shows what there is.

Exit codes: 0 the file is there and is the one of the catalogue; 1 the target does not give it, or
gives another one; 2 wrong usage.`,
		Example: `  holdfast backup list --from s3://shop-1 --targets backups.yaml
  holdfast backup fetch s3://shop-1/shop.example.com/cp-1/20261125T031700Z-cp-1.tar.age --targets backups.yaml
  holdfast backup fetch sftp://shop-1@backup.example.com/backups/shop.example.com/cp-1/20261125T031700Z-cp-1.tar.age --targets backups.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), streams, args[0])
		},
	}
	f.register(cmd)
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "file to make (default: the name of the backup, in this folder)")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

func (f *backupFetchFlags) run(ctx context.Context, streams Streams, url string) error {
	p, isFile, err := f.place(streams, url)
	switch {
	case err != nil:
		return err
	case isFile:
		return &UsageError{Err: fmt.Errorf("%s is no URL of a target: s3://BUCKET/NAME or sftp://USER@SERVER/PATH", url)}
	case !model.IsArchive(p.Name):
		return f.folder(ctx, streams, p)
	}
	file := cmp.Or(f.file, path.Base(p.Name))
	if _, err := os.Lstat(file); err == nil {
		return f.there(ctx, streams, p, file)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := f.fetch(ctx, streams, p, file); err != nil {
		return err
	}
	_, err = fmt.Fprintf(streams.Out, "%s is the one that the catalogue describes. To open it: holdfast backup verify %s --identity KEY --authority FILE\n", file, file)
	warnOfOrigin(streams.Err, file)
	return err
}

// there compares a file that is there already.
func (f *backupFetchFlags) there(ctx context.Context, streams Streams, p model.Place, file string) error {
	want, err := wanted(ctx, p)
	if err != nil {
		return err
	}
	have, err := archive.Digest(ctx, file)
	if err != nil {
		return err
	}
	if have.SHA256 != want.SHA256 {
		return fmt.Errorf("%s is there and is another file: name a new one with --file", file)
	}
	_, err = fmt.Fprintf(streams.Out, "%s is there already, and is the one that the catalogue describes\n", file)
	warnOfOrigin(streams.Err, file)
	return err
}

// warnOfOrigin says that nobody knows yet of which site a fetched backup is: the catalogue at the target proves nothing.
func warnOfOrigin(errs io.Writer, file string) {
	_, _ = fmt.Fprintf(errs, "warning: nobody has compared whose backup %s is: 'holdfast backup verify' with --authority does\n", file)
}
