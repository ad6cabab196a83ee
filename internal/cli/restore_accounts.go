package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/install/installer"
)

// fromDatabase adds what lies in the database of the backup alone: the accounts of BMCs, because the
// files of a host have those of its peer alone, and the addresses of all control planes. An account
// that cannot be read is told, and then is a field to fill in.
func (r *restoring) fromDatabase(ctx context.Context, streams Streams, b *installer.Backup) (err error) {
	look := lookFlags{identity: r.identityFile, scratch: r.scratch}
	opened, err := look.open(ctx, streams, r.file, func(*openedBackup) error { return nil }) // its origin was compared
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		_, _ = fmt.Fprintf(streams.Err, "the accounts of BMCs and the addresses of hosts in its database cannot be read: %v\n", err)
		return nil
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	if !slices.Equal(r.members, opened.Members) {
		return fmt.Errorf("%s: %w", r.from, errChanged)
	}
	passwords, unread, err := opened.Passwords(ctx, opened.keys)
	if err != nil {
		return err
	}
	b.AddPasswords(passwords)
	addresses, nodes, err := opened.ControlPlanes(ctx, opened.keys)
	b.ControlPlanes = addresses
	for _, line := range append(unread, nodes...) {
		_, _ = fmt.Fprintln(streams.Err, line)
	}
	return err
}
