package takebackup

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/backup/target"
	"github.com/holdfast/holdfast/internal/model/backup"
)

// TestTheTimeForATargetFollowsTheSizeOfTheBackup, within the time of the whole run.
func TestTheTimeForATargetFollowsTheSizeOfTheBackup(t *testing.T) {
	w := newWorld(t)
	away := errors.New("no route")
	var left time.Duration
	w.Open = func(ctx context.Context, _ backup.Target) (target.Target, error) {
		end, _ := ctx.Deadline()
		left = time.Until(end)
		return nil, away
	}
	req := w.request(0)
	req.Limits = backup.Limits{Send: time.Nanosecond, Most: time.Hour}
	s, err := w.Do(t.Context(), req)
	if err != nil || !s.Good || len(s.NotSent) != 1 {
		t.Fatalf("%+v %v", s, err)
	}
	entry, err := w.Catalogue.Entry(req.ID)
	must(t, err)
	if want := req.Limits.Complete().ToSend(entry.File.Size); left < want/2 || left > 2*want {
		t.Errorf("%s for %d bytes, want about %s", left, entry.File.Size, want)
	}
}
