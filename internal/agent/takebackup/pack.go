package takebackup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/backup/archive"
	"github.com/holdfast/holdfast/internal/adapter/backup/snapshot"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/backup"
)

// pack writes the archive, reads it again as a restore would, and publishes the backup.
func (r *Run) pack(ctx context.Context, dir string, entry backup.Entry, files []archive.File) (backup.Entry, error) {
	file, db := filepath.Join(dir, backup.ArchiveName(entry.ID)), filepath.Join(dir, snapshot.Name)
	r.phase(backup.PhasePack, "", entry.Database.Size)
	err := r.Effect(func() error {
		return create(file, func(w io.Writer) error {
			return archive.Write(ctx, &slowed{ctx: ctx, w: w, said: r.progress}, entry, db, files)
		})
	})
	if err != nil {
		return entry, fmt.Errorf("write the archive: %w", err)
	}
	r.phase(backup.PhaseReread, "", entry.Database.Size)
	if entry, err = r.reread(ctx, file, entry); err != nil {
		return entry, err
	}
	// The archive holds the snapshot by now.
	if err := r.Effect(func() error { return host.RemoveFile(db) }); err != nil {
		return entry, err
	}
	return entry, r.Effect(func() error { return r.Catalogue.Publish(entry) })
}

// reread opens the archive and compares each member.
func (r *Run) reread(ctx context.Context, file string, entry backup.Entry) (backup.Entry, error) {
	m, err := archive.OpenFile(ctx, file, "", nil)
	if err == nil && m.ID != entry.ID {
		err = fmt.Errorf("it is of backup %s", m.ID)
	}
	if err == nil {
		entry.File, err = archive.Digest(ctx, file)
	}
	if err != nil {
		return entry, fmt.Errorf("the archive differs from what was written, and was thrown away: %w", err)
	}
	entry.Checks = append(entry.Checks, r.check("archive", true, fmt.Sprintf("%d members, each read again and compared", len(m.Members)), ""))
	return entry.Judge(), nil
}

// create writes a file. When it returns, the file is on the disk.
func create(file string, fill func(io.Writer) error) (err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := fill(f); err != nil {
		return err
	}
	return f.Sync()
}
