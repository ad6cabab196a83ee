package upgrade

import (
	"context"
	"errors"
	"io/fs"
	"reflect"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/state"
)

// The pauses of the loop that tells.
const (
	// lookEvery is the pause between two looks, and the least time between two writes
	// about facts.
	lookEvery = 30 * time.Second
	// lifeEvery is the longest time without a word.
	lifeEvery = 9 * time.Minute
	// lookLimit bounds a look with its write.
	lookLimit = 30 * time.Second
)

// What counts as no news: free space within a step, on the same side of what is
// needed, and an offset of the clock within another one.
const (
	diskStep   = 1 << 30
	offsetStep = 50 * time.Millisecond
)

// TellTask returns the loop that tells the cluster what the host is like.
func (a *Agent) TellTask() loop.Task {
	return loop.Task{
		Name: "upgrade facts", Wake: a.tellIt, Every: lookEvery, Retry: retry, MaxRetry: maxRetry, Limit: lookLimit, Spared: true,
		NotYet: func(err error) bool { return errors.Is(err, fs.ErrNotExist) }, // no access to the API yet
		Step:   func(ctx context.Context) (loop.Result, error) { return loop.Result{}, a.tell(ctx) },
	}
}

// tell looks, and writes what is new into the API. What the host is on is told at
// once, facts at most every lookEvery.
func (a *Agent) tell(ctx context.Context) error {
	if _, heard := a.node(); !heard {
		return nil
	}
	said, now := a.say(ctx), a.Now().UTC().Round(0)
	age := now.Sub(a.told.At)
	moved := !reflect.DeepEqual(said.Journal, a.told.Journal) || said.Held != a.told.Held
	if age >= 0 && age < lifeEvery && !moved && (age < lookEvery || same(a.told, said)) {
		return nil
	}
	said.At = now
	text, err := annotation.Encode(said)
	if err != nil {
		return err
	}
	if err := a.annotate(ctx, annotation.HostOf, text); err != nil {
		return err
	}
	a.told = said
	return nil
}

// say gathers what the host tells.
func (a *Agent) say(ctx context.Context) annotation.Host {
	out := annotation.Host{Facts: a.Gather(ctx)}
	out.Facts.Whole = a.Releases.Whole(ctx)
	running := ""
	if digest, err := a.Running(); err == nil && digest != "" {
		running, out.Facts.Release = digest, state.Known(digest)
	}
	for _, digest := range out.Facts.Whole.Value {
		about, err := a.Releases.About(digest)
		if err != nil || digest == running {
			continue
		}
		out.Offered = append(out.Offered, about)
	}
	slices.SortFunc(out.Offered, func(x, y gate.Release) int { return x.Version.Compare(y.Version) })
	if about, err := a.Releases.About(running); err == nil {
		out.Release = about
		out.Facts.Steps = state.Known(about.Steps)
	}
	out.Fetching, out.FetchFailed = a.Releases.Fetching()
	if a.PartFailed != nil {
		out.PartFailed, out.PartUndone = a.PartFailed()
	}
	out.Raised = raised(out.Facts, out.Release, a.Journal.Down())
	a.mu.Lock()
	defer a.mu.Unlock()
	out.Journal, out.Held = a.at, a.held
	return out
}

// same reports whether nothing in two words differs in substance.
func same(x, y annotation.Host) bool {
	x.At, y.At = time.Time{}, time.Time{}
	x.Facts, y.Facts = plain(x.Facts, y.Facts), plain(y.Facts, y.Facts)
	return reflect.DeepEqual(x, y)
}

// plain returns facts, with those of now in the place of what differs from them too
// little to be news.
func plain(before, now gate.Host) gate.Host {
	if before.Fenced.Known == now.Fenced.Known && before.Fenced.Value.IsZero() == now.Fenced.Value.IsZero() {
		before.Fenced = now.Fenced
	}
	if before.Offset.Known == now.Offset.Known && (before.Offset.Value-now.Offset.Value).Abs() < offsetStep {
		before.Offset = now.Offset
	}
	if before.Disks.Known == now.Disks.Known && slices.EqualFunc(before.Disks.Value, now.Disks.Value, alike) {
		before.Disks = now.Disks
	}
	return before
}

func alike(x, y gate.Disk) bool {
	free := max(x.Free, y.Free) - min(x.Free, y.Free)
	enough := func(d gate.Disk) bool { return d.Free >= d.Line+d.Need+d.Need/2 }
	return x.Path == y.Path && x.Need == y.Need && x.Line == y.Line && free < diskStep && enough(x) == enough(y)
}
