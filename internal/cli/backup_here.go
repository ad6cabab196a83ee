package cli

import (
	"context"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/backup/catalogue"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/place"
	decide "github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/model/backup"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ownBackups are the backups of this host. A plan that this host carries counts no others.
type ownBackups struct {
	// newest returns the time of the newest good one; zero for none.
	newest func(now time.Time) state.Fact[time.Time]
	// take has this host take one, and returns once that is good. gone is a control plane for which it
	// does not wait, empty for none.
	take func(ctx context.Context, gone string) error
}

// backupsHere returns the backups of the host on which the command runs. reason is that of
// a backup which it takes.
func backupsHere(streams Streams, reason string) ownBackups {
	return ownBackups{
		newest: catalogue.Catalogue{Dir: backup.Dir}.Last,
		take: func(ctx context.Context, gone string) error {
			name, err := host.Name()
			if err != nil {
				return err
			}
			return takingBackup(place.Flags{}, streams, name, gone, reason)(ctx)
		},
	}
}

// agreed returns once a person has agreed to a plan, and this host has a good backup that is
// young enough for it, or has taken one.
func (r *hostReplacement) agreed(ctx context.Context, which string) error {
	if err := r.confirm(ctx, which); err != nil {
		return err
	}
	gone := r.name
	if which == "new" {
		gone = ""
	}
	first := backupFirst{without: r.noBackup, take: func(ctx context.Context) error { return r.backups.take(ctx, gone) }, out: r.streams.Err}
	return first.unless(ctx, func() (string, error) {
		why := decide.Before(r.backups.newest(r.now()), r.now())
		if why != "" {
			why = "on this host " + why
		}
		return why, nil
	})
}
