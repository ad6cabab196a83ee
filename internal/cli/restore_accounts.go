package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast/holdfast/internal/install/installer"
)

// accounts adds the accounts of BMCs that lie in the database of the backup, because the files of a
// host have those of its peer alone. One that cannot be read is told, and then is a field to fill in.
func (r *restoring) accounts(ctx context.Context, streams Streams, b *installer.Backup) (err error) {
	look := lookFlags{identity: r.identityFile, scratch: r.scratch}
	opened, err := look.open(ctx, streams, r.file)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		_, _ = fmt.Fprintf(streams.Err, "the accounts of BMCs in its database cannot be read: %v\n", err)
		return nil
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	passwords, unread, err := opened.Passwords(ctx, opened.keys)
	for _, line := range unread {
		_, _ = fmt.Fprintln(streams.Err, line)
	}
	if err != nil {
		return err
	}
	b.AddPasswords(passwords)
	return nil
}
