package machineconfig

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/drain"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The ages up to which it counts what was seen of a reboot that the distribution wants:
// at rest, and where it decides whether the host boots. On RHEL it costs a second.
const (
	requiredEvery = time.Hour
	requiredSoon  = time.Minute
)

// patching is what a process knows of the unit that installs updates.
type patching struct {
	// record is the last one that was seen, without its lists, and starts is how often
	// the unit was started since.
	record string
	starts int
	// busy is true while the unit runs. Until it ends the host asks nothing else about
	// its pods.
	busy bool
	// required is what the distribution wanted at the time seen.
	required updates.Required
	seen     time.Time
}

// required returns whether the distribution wants a reboot, as it was seen at most so
// long ago.
func (a *Agent) required(ctx context.Context, age time.Duration) updates.Required {
	now := a.Now()
	if since := now.Sub(a.patch.seen); a.patch.seen.IsZero() || since < 0 || since >= age {
		a.patch.required, a.patch.seen = a.Required(ctx), now
	}
	return a.patch.required
}

// addUpdates adds how far the host is with updates. At rest it asks nobody but the
// disk. A unit that installs is also waited for when nobody wants that any more.
func (a *Agent) addUpdates(ctx context.Context, f *hostapply.Facts) error {
	a.patch.busy = false
	wish := a.wanted()
	turn := wish.Patch && wish.HasTurn()
	record, unread := a.Updates.Record()
	begun := record.Phase == updates.Fetching || record.Phase == updates.Installing
	if !turn && !begun {
		return nil
	}
	runs, err := a.installs(ctx)
	if err != nil || !turn && !runs {
		return err
	}
	if now := fmt.Sprint(record.Wish, record.Phase, record.Boot, record.Tries); now != a.patch.record {
		a.patch.record, a.patch.starts = now, 0
		a.patch.seen = time.Time{} // other packages may want a boot
	}
	stage, what := updates.StageOf(record, wish.Wanted, runs, a.patch.starts)
	if unread != nil {
		stage, what = updates.Broken, unread.Error()
	}
	if stage == updates.Broken && a.failed != "" {
		what += ": " + a.failed
	}
	f.Updates = hostapply.Updates{Stage: stage, What: what}
	if stage == updates.Over && record.Boot == f.Boot && !strings.HasSuffix(wish.Wanted, rollout.NoReboot) {
		f.Updates.Boots = state.Is(a.required(ctx, requiredSoon).Wants, true)
	}
	if a.patch.busy = stage == updates.Busy; a.patch.busy {
		f.Drains = drain.Empties(a.annotations()[drain.Desired])
	}
	return nil
}

// installs asks systemd whether the unit runs.
func (a *Agent) installs(ctx context.Context) (bool, error) {
	out, err := a.Systemctl(ctx, "show", "--property=ActiveState", "--value", "--", updates.Unit)
	runs := []string{"activating", "active", "deactivating", "reloading"}
	return slices.Contains(runs, strings.TrimSpace(string(out))), err
}

// addPatch adds what a host with its turn for updates needs to know.
func (a *Agent) addPatch(ctx context.Context, f *hostapply.Facts, wish rollout.Wish) error {
	if !wish.HasTurn() {
		return nil
	}
	u := f.Updates
	f.Wish = hostapply.Patch
	f.Drains = f.Drains || u.Stage == updates.Ready || u.Boots || a.asked(f.Desired)
	switch {
	case u.Stage == updates.Over && !u.Boots:
		return a.watchFor(ctx, f, wish)
	case f.Drained && (u.Stage == updates.Ready || u.Stage == updates.Over):
		f.MayBoot, f.NotSpared = a.mayBoot(ctx)
	}
	return nil
}

// startUpdates has the unit fetch or install updates, and does not wait for it. Before
// packages change it asks once more whether the cluster carries on.
func (a *Agent) startUpdates(ctx context.Context, install bool) {
	wish := a.wanted()
	if install {
		if may, _ := a.mayBoot(ctx); !state.Is(may, true) {
			return // the next step says why
		}
		a.Event(state.PlanEvent("it installs the updates of its distribution, as it was wanted at " + wish.Wanted))
	}
	a.failed = ""
	err := a.Updates.PutRequest(updates.Request{Wish: wish.Wanted, Install: install})
	if err == nil {
		_, err = a.Systemctl(ctx, "start", "--no-block", "--", updates.Unit)
	}
	a.patch.starts++
	if err != nil {
		a.failed = err.Error()
	}
}

// result says what became of the updates that somebody wanted.
func (a *Agent) result(u hostapply.Updates) string {
	if u.Stage == updates.Broken {
		return "failed: " + u.What
	}
	record, err := a.Updates.Record()
	if err != nil {
		return "installed; " + err.Error()
	}
	return record.Result()
}
