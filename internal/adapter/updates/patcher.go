package updates

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/decide/updates"
)

// The bounds of a package manager, and the time in which it may finish its present
// step after it was told to stop.
const (
	lookTime    = 5 * time.Minute
	fetchTime   = time.Hour
	installTime = 2 * time.Hour
	grace       = 2 * time.Minute
	// lockTime is for how long a call waits while another package manager works: that of the
	// distribution's own timer, or a person's. lockPause is the pause between two tries.
	lockTime  = 30 * time.Minute
	lockPause = 10 * time.Second
)

// manager is a package manager.
type manager interface {
	// look returns what has updates. With refresh it asks the repositories first.
	look(ctx context.Context, refresh bool) (updates.Change, error)
	// interrupted reports whether an installation was cut off and not completed.
	interrupted(ctx context.Context) (bool, error)
	// size returns how much is to be fetched, in bytes.
	size(ctx context.Context, held []string) (uint64, error)
	// fetch brings packages to the disk.
	fetch(ctx context.Context, held []string) error
	// repair completes what was cut off, and install installs the updates without what
	// is held. Both ask refuse before they change more than was begun.
	repair(ctx context.Context, refuse func(updates.Change) error) error
	install(ctx context.Context, held []string, refuse func(updates.Change) error) error
	// versions returns the versions of packages that are there, and those that would come.
	versions(ctx context.Context, names []string) (have, next map[string]string, err error)
	// only installs these, each as NAME=VERSION, with what they need.
	only(ctx context.Context, exact []string, refuse func(updates.Change) error) error
}

// Patcher is what holdfast-patch.service does on one host.
type Patcher struct {
	Store
	// Holds reports whether a package is left out.
	Holds func(name string) bool
	// Below reports whether etcd runs on a package of this host.
	Below func(name string) bool
	// Prepare has the unit run at the next boot that changes what etcd runs on.
	Prepare func(ctx context.Context) error
	// Hush keeps packages from starting units, until undo. It is nil where they wait for
	// nothing.
	Hush func() (undo func(), err error)
	Boot func() (string, error)
	// Free returns the free bytes of folders.
	Free func() (map[string]uint64, error)
	// Manager is the host's, or nil if it has none that is known.
	Manager manager
}

// ThisHost returns the patcher of the running host. pair is true on one of two control
// planes whose etcd Pacemaker runs. prepare is Prepare.
func ThisHost(pair bool, prepare func(context.Context) error) Patcher {
	p := Patcher{
		Store: NewStore("/"), Holds: updates.Holds(pair), Below: func(name string) bool { return pair && updates.Below(name) },
		Prepare: prepare, Free: free, Boot: func() (string, error) {
			id, _, err := observe.Boot()
			return id, err
		},
	}
	switch {
	case host.Exists(aptPath):
		p.Manager, p.Hush = apt{run: host.Run, root: "/", lockTime: lockTime}, hushHere
	case host.Exists(dnfPath):
		p.Manager = dnf{run: host.Run, lockTime: lockTime}
	}
	return p
}

// free returns the free bytes of the folders that packages change.
func free() (map[string]uint64, error) {
	out := map[string]uint64{}
	for _, folder := range []string{"/", "/boot", "/usr", "/var"} {
		if space, err := host.FreeSpace(folder); err == nil {
			out[folder] = space
		} else if !errors.Is(err, unix.ENOENT) {
			return nil, err
		}
	}
	return out, nil
}

// Patch does what the agent has asked for, and writes how it ended. It returns an
// error only if it could not write that.
func (p Patcher) Patch(ctx context.Context) error {
	request, err := p.Request()
	if err != nil {
		return err
	}
	record, err := p.Record()
	if err != nil {
		return err
	}
	if request.Wish == "" || record.Wish == request.Wish && over(record.Phase) {
		return nil
	}
	phase, work := updates.Fetching, p.fetch
	if request.Install {
		phase, work = updates.Installing, p.install
	}
	boot, err := p.Boot()
	if err != nil {
		return err
	}
	record = record.Begin(request.Wish, phase, boot)
	if err := p.PutRecord(record); err != nil {
		return err
	}
	end, failed := work(ctx, request, &record)
	if ctx.Err() != nil {
		return context.Cause(ctx) // the host ends it: the next run goes on
	}
	record.Phase, record.Tries = end, 0
	if failed != nil {
		record.Phase, record.Error = updates.Failed, failed.Error()
	}
	return p.PutRecord(record)
}

// over reports whether this unit has nothing left to do. What is staged or changes at a boot
// is BootUnit's.
func over(p updates.Phase) bool {
	return slices.Contains([]updates.Phase{updates.Installed, updates.Failed, updates.Staged, updates.Changing}, p)
}

var errNoManager = errors.New("this host has neither apt-get nor dnf")

// fetch finds out what has updates, and brings them to the disk. It changes no package.
func (p Patcher) fetch(ctx context.Context, q updates.Request, r *updates.Record) (updates.Phase, error) {
	if p.Manager == nil {
		return "", errNoManager
	}
	var err error
	if r.Interrupted, err = p.Manager.interrupted(ctx); err != nil || r.Interrupted {
		return updates.Fetched, err // nothing can be fetched before that is completed
	}
	if err := p.bring(ctx, q, r); err != nil {
		return "", fmt.Errorf("nothing was changed: %w", err)
	}
	if len(r.Updates)+len(r.Stack) == 0 {
		return updates.Installed, nil
	}
	return updates.Fetched, nil
}

func (p Patcher) bring(ctx context.Context, q updates.Request, r *updates.Record) error {
	change, err := p.Manager.look(ctx, true)
	if err != nil {
		return err
	}
	var stack []string
	r.Updates, stack, r.Held = p.parts(change, q)
	if r.Stack, err = p.exact(ctx, stack); err != nil {
		return err
	}
	if len(r.Updates)+len(r.Stack) == 0 {
		return nil
	}
	if err := p.room(ctx, *r); err != nil {
		return err
	}
	return p.Manager.fetch(ctx, r.Held)
}

// parts returns the packages that get updates now, those that change at a boot, and those
// that are left out.
func (p Patcher) parts(c updates.Change, q updates.Request) (now, stack, held []string) {
	now, held = c.Without(p.Holds)
	if !q.Stack {
		return now, nil, held
	}
	held, stack = updates.Change{Installs: held}.Without(p.Below)
	return now, stack, held
}

// exact returns packages below etcd with the versions that would come, unless these are
// refused.
func (p Patcher) exact(ctx context.Context, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	have, next, err := p.Manager.versions(ctx, names)
	if err != nil {
		return nil, err
	}
	of := map[string]string{}
	for _, name := range names {
		of[name] = next[name]
	}
	if why := updates.StackRefusal(have, of); why != "" {
		return nil, errors.New("what etcd runs on changes by hand alone: " + why)
	}
	return updates.Exact(names, next), nil
}

func (p Patcher) room(ctx context.Context, r updates.Record) error {
	size, err := p.Manager.size(ctx, r.Held)
	if err != nil {
		return err
	}
	have, err := p.Free()
	if err != nil {
		return err
	}
	if short := updates.Room(r.Updates, size, have); short != "" {
		return errors.New(short)
	}
	return nil
}

// install changes packages, after it has completed what an earlier run has left. What
// is left out is found out anew: other updates may have come since. What etcd runs on is not
// changed here.
func (p Patcher) install(ctx context.Context, q updates.Request, r *updates.Record) (updates.Phase, error) {
	if p.Manager == nil {
		return "", errNoManager
	}
	if err := p.Manager.repair(ctx, p.refuse); err != nil {
		return "", err
	}
	change, err := p.Manager.look(ctx, false)
	if err != nil {
		return "", err
	}
	found, held := change.Without(p.Holds)
	if len(r.Updates) == 0 {
		r.Updates = found
	}
	_, _, r.Held = p.parts(change, q)
	if err := p.PutRecord(*r); err != nil {
		return "", err
	}
	if err := p.Manager.install(ctx, held, p.refuse); err != nil || !q.Stack {
		return updates.Installed, err
	}
	return p.stage(ctx, q, r)
}

// refuse returns an error for a change that is not to be made.
func (p Patcher) refuse(c updates.Change) error {
	if why := c.Refusal(p.Holds); why != "" {
		return errors.New(why)
	}
	return nil
}

// runner runs a program of the host.
type runner func(ctx context.Context, c host.Cmd) ([]byte, error)

// within runs a program that ends within a time, or is ended.
func (run runner) within(ctx context.Context, limit time.Duration, c host.Cmd) ([]byte, error) {
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no end after %s", limit))
	defer cancel()
	c.Grace = grace
	out, err := run(limited, c)
	return out, plainly(err)
}

// plainly leaves our own settings out of the command that an error names: a person reads
// it in the status, and types it without them. The unit's journal has what was said.
func plainly(err error) error {
	failed, ok := errors.AsType[*host.RunError](err)
	if !ok {
		return err
	}
	short := *failed
	short.Cmd.Args = nil
	for _, a := range failed.Cmd.Args {
		if name, _, _ := strings.Cut(a, "="); !slices.Contains([]string{"--quiet", "--option", "--setopt", "--exclude"}, name) {
			short.Cmd.Args = append(short.Cmd.Args, a)
		}
	}
	return &short
}

const (
	aptPath = "/usr/bin/apt-get"
	dnfPath = "/usr/bin/dnf"
)

// quiet keeps a package from asking, and needrestart from restarting anything.
var quiet = []string{"DEBIAN_FRONTEND=noninteractive", "DEBIAN_PRIORITY=critical", "NEEDRESTART_MODE=l", "LC_ALL=C.UTF-8"}

// apt is that of Debian and Ubuntu.
type apt struct {
	run runner
	// root is "/" except in tests. options are added to each call.
	root    string
	options []string
	// dpkg are options of dpkg.
	dpkg []string
	// lockTime is for how long a call waits for a lock, beside what apt waits by itself.
	lockTime time.Duration
}

// preferences is the folder with apt's preferences for one run: the host's own, and
// those that leave packages as they are.
const preferences = "/run/holdfast/updates/preferences.d"

// withPreferences returns the options of a call that leaves held packages alone.
func (a apt) withPreferences(held []string) ([]string, error) {
	to := filepath.Join(a.root, preferences)
	if err := os.RemoveAll(to); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return nil, err
	}
	own := filepath.Join(a.root, "/etc/apt/preferences.d")
	if host.Exists(own) {
		if err := os.CopyFS(to, os.DirFS(own)); err != nil {
			return nil, fmt.Errorf("copy apt's preferences: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(to, "00-holdfast.pref"), updates.Preferences(held), 0o644); err != nil {
		return nil, err
	}
	return []string{"--option=Dir::Etc::preferencesparts=" + to}, nil
}

// call runs apt-get without a held package. By itself apt-get waits for dpkg's locks alone,
// and not for those of its lists and of its archives. The limit is that of each try.
func (a apt) call(ctx context.Context, limit time.Duration, held []string, args ...string) ([]byte, error) {
	with, err := a.withPreferences(held)
	if err != nil {
		return nil, err
	}
	ours := []string{"--quiet", "--option=DPkg::Lock::Timeout=120", "--option=Acquire::Retries=2", "--option=Acquire::http::Timeout=20"}
	c := host.Cmd{Name: "apt-get", Env: quiet, Args: slices.Concat(ours, a.options, with, args)}
	waits, cancel := context.WithTimeout(ctx, a.lockTime)
	defer cancel()
	for {
		said, err := a.run.within(ctx, limit, c)
		if !locked(err) || host.Sleep(waits, lockPause) != nil {
			return said, err
		}
	}
}

// locked reports whether apt-get did nothing because somebody else has a lock. Its words are
// those of LC_ALL=C; where it may not lock at all it says others.
func locked(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "E: Could not get lock ") || strings.Contains(err.Error(), "is another process using it?"))
}

// upgrade is what is asked of apt: newer versions and what those need, and nothing
// removed.
var upgrade = []string{"--yes", "--with-new-pkgs", "upgrade"}

func (a apt) look(ctx context.Context, refresh bool) (updates.Change, error) {
	if refresh {
		// By itself apt-get succeeds with a repository that does not answer.
		if _, err := a.call(ctx, lookTime, nil, "--option=APT::Update::Error-Mode=any", "update"); err != nil {
			return updates.Change{}, err
		}
	}
	return a.simulate(ctx, nil, upgrade)
}

// simulate returns what a call would do.
func (a apt) simulate(ctx context.Context, held, args []string) (updates.Change, error) {
	said, err := a.call(ctx, lookTime, held, slices.Concat([]string{"--simulate"}, args)...)
	return updates.AptChange(said), err
}

// interrupted asks dpkg, which names packages that are not as they should be.
func (a apt) interrupted(ctx context.Context) (bool, error) {
	said, err := a.run.within(ctx, lookTime, host.Cmd{Name: "dpkg", Env: quiet, Args: slices.Concat(a.dpkg, []string{"--audit"})})
	// Some versions say so by their exit code too.
	if len(strings.TrimSpace(string(said))) > 0 {
		return true, nil
	}
	return false, err
}

func (a apt) size(ctx context.Context, held []string) (uint64, error) {
	said, err := a.call(ctx, lookTime, held, slices.Concat([]string{"--print-uris"}, upgrade)...)
	return updates.AptBytes(said), err
}

func (a apt) fetch(ctx context.Context, held []string) error {
	_, err := a.call(ctx, fetchTime, held, slices.Concat([]string{"--download-only"}, upgrade)...)
	return err
}

// keep prefers the configuration's files to a package's, without asking.
var keep = []string{"--option=Dpkg::Options::=--force-confdef", "--option=Dpkg::Options::=--force-confold"}

func (a apt) repair(ctx context.Context, refuse func(updates.Change) error) error {
	configure := slices.Concat(a.dpkg, []string{"--force-confdef", "--force-confold", "--configure", "--pending"})
	// Its failure shows again right below, where apt may bring what is missing.
	_, _ = a.run.within(ctx, installTime, host.Cmd{Name: "dpkg", Env: quiet, Args: configure})
	return a.change(ctx, nil, []string{"--yes", "--fix-broken", "install"}, refuse)
}

func (a apt) install(ctx context.Context, held []string, refuse func(updates.Change) error) error {
	return a.change(ctx, held, upgrade, refuse)
}

// change makes a change that is not refused.
func (a apt) change(ctx context.Context, held, args []string, refuse func(updates.Change) error) error {
	change, err := a.simulate(ctx, held, args)
	if err != nil {
		return err
	}
	if err := refuse(change); err != nil {
		return err
	}
	_, err = a.call(ctx, installTime, held, slices.Concat(keep, args)...)
	return err
}
