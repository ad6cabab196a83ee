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
	// waits is since when this process waits for the unit of the boot to begin.
	waits time.Time
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
	wish := a.serves
	turn := wish.Patch && wish.HasTurn()
	record, unread := a.Updates.Record()
	begun := slices.Contains([]updates.Phase{updates.Fetching, updates.Installing, updates.Changing}, record.Phase)
	if !turn && !begun {
		return a.forget(record, f)
	}
	active, err := a.active(ctx, record)
	runs := updates.Runs(active)
	if begun && !runs && err == nil { // it may have ended between the two looks
		record, unread = a.Updates.Record()
	}
	if err != nil || !turn && !runs {
		return err
	}
	if now := fmt.Sprint(record.Wish, record.Phase, record.Boot, record.Tries); now != a.patch.record {
		a.patch.record, a.patch.starts = now, 0
		a.patch.seen = time.Time{} // other packages may want a boot
	}
	request, err := a.Updates.Request()
	if err != nil {
		return err
	}
	stage, what, atBoot := record.AtBoot(request, wish.Wanted, f.Boot, active)
	if !atBoot {
		stage, what = updates.StageOf(record, wish.Wanted, runs, a.patch.starts)
	}
	if a.overdue(f.Now, atBoot && stage == updates.Busy && !runs) {
		stage, what = updates.Broken, fmt.Sprintf("%s did not begin within %s after the boot; its journal says why", updates.BootUnit, beginLimit)
	}
	if unread != nil {
		stage, what = updates.Broken, unread.Error()
	}
	if stage == updates.Broken && a.failed != "" {
		what += ": " + a.failed
	}
	f.Updates = hostapply.Updates{Stage: stage, What: what}
	switch {
	case stage == updates.Over && atBoot:
		f.Updates.Boots = true
	case stage == updates.Over && record.Boot == f.Boot && !strings.HasSuffix(wish.Wanted, rollout.NoReboot):
		f.Updates.Boots = state.Is(a.required(ctx, requiredSoon).Wants, true)
	}
	if a.patch.busy = stage == updates.Busy; a.patch.busy {
		f.Drains = drain.Empties(a.annotations()[drain.Desired])
	}
	return nil
}

// beginLimit is the time in which the unit of a boot begins: systemd waits for a network of the site
// before, and for disks.
const beginLimit = 15 * time.Minute

// overdue reports whether a unit of the boot has been waited for too long.
func (a *Agent) overdue(now time.Time, waits bool) bool {
	switch {
	case !waits:
		a.patch.waits = time.Time{}
	case a.patch.waits.IsZero() || now.Before(a.patch.waits):
		a.patch.waits = now
	}
	return waits && now.Sub(a.patch.waits) > beginLimit
}

// active asks systemd for the state of the unit that a record is of.
func (a *Agent) active(ctx context.Context, r updates.Record) (string, error) {
	unit := updates.Unit
	if r.Phase == updates.Staged || r.Phase == updates.Changing {
		unit = updates.BootUnit
	}
	out, err := a.Systemctl(ctx, "show", "--property=ActiveState", "--value", "--", unit)
	return strings.TrimSpace(string(out)), err
}

// orderAtBoot has the boot that is about to be ordered change what etcd runs on, if that is
// what the host boots for.
func (a *Agent) orderAtBoot() error {
	wish := a.wanted()
	if a.journal.Target != "" || !wish.Patch || !wish.HasTurn() {
		return nil
	}
	record, err := a.Updates.Record()
	if err != nil || record.Phase != updates.Staged || record.Wish != wish.Wanted {
		return err
	}
	boot, _, err := a.Boot()
	if err != nil {
		return err
	}
	return a.Updates.PutRequest(updates.Request{Wish: record.Wish, Install: true, Stack: true, AtBoot: true, Boot: boot})
}

// forget takes that order back once nobody wants the updates any more, and their packages do not
// change yet: a later boot, for something else, changes no package. Only a node that was heard of
// says that nobody wants them.
func (a *Agent) forget(r updates.Record, f *hostapply.Facts) error {
	if r.Phase != updates.Staged || !f.Desired.Known {
		return nil
	}
	request, err := a.Updates.Request()
	if err != nil || !request.AtBoot {
		return err
	}
	request.AtBoot, request.Boot = false, ""
	return a.Updates.PutRequest(request)
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
	case u.Stage == updates.Ready || u.Stage == updates.Over:
		a.addSpared(ctx, f)
	}
	return nil
}

// startUpdates has the unit fetch or install updates, and does not wait for it. Before
// packages change it asks once more whether the cluster carries on. A host that shuts down
// starts none: the agent after the boot does.
func (a *Agent) startUpdates(ctx context.Context, install bool) {
	if a.stopping(ctx) {
		return
	}
	wish := a.serves
	if install {
		if may, _ := a.mayBoot(ctx); !state.Is(may, true) {
			return // the next step says why
		}
		a.Event(state.PlanEvent(a.purpose().installs()))
	}
	a.failed = ""
	err := a.Updates.PutRequest(updates.Request{Wish: wish.Wanted, Install: install, Stack: strings.HasSuffix(wish.Wanted, rollout.HeldToo)})
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
