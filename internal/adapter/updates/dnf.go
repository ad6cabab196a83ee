package updates

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/updates"
)

// dnf is that of RHEL.
type dnf struct {
	run runner
	// options are added to each call.
	options []string
	// lockTime is for how long a call may wait for a lock, which dnf does by itself.
	lockTime time.Duration
}

// call runs dnf without a held package. By itself dnf succeeds with a repository that
// does not answer, if the repository's own file says that it may be away.
func (d dnf) call(ctx context.Context, limit time.Duration, held []string, args ...string) ([]byte, error) {
	all := slices.Concat([]string{"--setopt=timeout=20", "--setopt=*.skip_if_unavailable=False"}, d.options)
	for _, name := range held {
		all = append(all, "--exclude="+name)
	}
	return d.run.within(ctx, limit+d.lockTime, host.Cmd{Name: "dnf", Env: quiet, Args: append(all, args...)})
}

// newer is what is asked of dnf: newer versions and what those need. What cannot have
// its newest version stays as it is, also where the site's own settings want the newest
// or nothing.
var newer = []string{"--nobest", "upgrade"}

func (d dnf) look(ctx context.Context, refresh bool) (updates.Change, error) {
	if refresh {
		return d.simulate(ctx, nil, append([]string{"--refresh"}, newer...))
	}
	return d.simulate(ctx, nil, newer)
}

// simulate returns what a call would do. dnf ends with 1 if it would do anything, as it
// does if it fails.
func (d dnf) simulate(ctx context.Context, held, args []string) (updates.Change, error) {
	said, err := d.call(ctx, lookTime, held, slices.Concat([]string{"--assumeno"}, args)...)
	change, whole := updates.DnfChange(said)
	if whole && host.ExitCode(err) == 1 {
		err = nil
	}
	return change, err
}

// interrupted asks dnf's history and the list of packages.
func (d dnf) interrupted(ctx context.Context) (bool, error) {
	cut, err := d.cutOff(ctx)
	if err != nil || len(cut) > 0 {
		return len(cut) > 0, err
	}
	twice, err := d.twice(ctx)
	return len(twice) > 0, err
}

// cutOff returns the packages of the last transaction if that has no end. Some of them
// may be there, and their scripts never ran.
func (d dnf) cutOff(ctx context.Context) ([]string, error) {
	said, err := d.call(ctx, lookTime, nil, "--quiet", "history", "info")
	if err != nil && strings.Contains(err.Error(), "No transactions") {
		return nil, nil // the host was made by other means
	}
	return updates.DnfCutOff(said), err
}

// twice returns the packages that are there with their former version beside them.
func (d dnf) twice(ctx context.Context) ([]string, error) {
	said, err := d.call(ctx, lookTime, nil, "--quiet", "check", "--duplicates")
	if twice := updates.DnfTwice(said); len(twice) > 0 {
		return twice, nil
	}
	return nil, err
}

// size is not known before dnf fetches; it refuses by itself what has no room.
func (dnf) size(context.Context, []string) (uint64, error) { return 0, nil }

func (d dnf) fetch(ctx context.Context, held []string) error {
	_, err := d.call(ctx, fetchTime, held, slices.Concat([]string{"--quiet", "--assumeyes", "--downloadonly"}, newer)...)
	return err
}

// repair has the packages of a transaction that was cut off installed once more, with
// their scripts, and what is there twice made one. A package that no repository has any
// more is left to its next version.
func (d dnf) repair(ctx context.Context, refuse func(updates.Change) error) error {
	cut, err := d.cutOff(ctx)
	if err != nil {
		return err
	}
	if len(cut) > 0 {
		err := d.change(ctx, nil, append([]string{"reinstall"}, cut...), refuse)
		if err != nil && !strings.Contains(err.Error(), "No packages marked for reinstall") {
			return err
		}
	}
	twice, err := d.twice(ctx)
	if err != nil || len(twice) == 0 {
		return err
	}
	return d.change(ctx, nil, []string{"remove", "--duplicates"}, func(c updates.Change) error { return refuse(c.Once(twice)) })
}

func (d dnf) install(ctx context.Context, held []string, refuse func(updates.Change) error) error {
	return d.change(ctx, held, newer, refuse)
}

// change makes a change that is not refused.
func (d dnf) change(ctx context.Context, held, args []string, refuse func(updates.Change) error) error {
	change, err := d.simulate(ctx, held, args)
	if err != nil {
		return err
	}
	if err := refuse(change); err != nil {
		return err
	}
	_, err = d.call(ctx, installTime, held, slices.Concat([]string{"--quiet", "--assumeyes"}, args)...)
	return err
}
