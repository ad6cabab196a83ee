package updates

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/updates"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ThisHostAtBoot returns the patcher of a host that boots. It fetches nothing: the network
// may not be there, and what is to change is on the disk. apt takes it from there by itself, and
// cannot be told to fetch nothing where a repository is a folder. Nor does it wait for another
// package manager for long: Corosync and Pacemaker wait for it.
func ThisHostAtBoot() Patcher {
	p := ThisHost(true, nil)
	p.Holds = updates.Holds(false)
	switch m := p.Manager.(type) {
	case apt:
		m.lockTime = 0
		p.Manager = m
	case dnf:
		m.options, m.lockTime = append(m.options, "--cacheonly"), 0
		p.Manager = m
	}
	return p
}

// stage gets what etcd runs on ready for the next boot: on the disk, once more, since dnf
// empties its cache after each installation, and with the unit that changes it.
func (p Patcher) stage(ctx context.Context, q updates.Request, r *updates.Record) (updates.Phase, error) {
	change, err := p.Manager.look(ctx, false)
	if err != nil {
		return "", err
	}
	_, stack, held := p.parts(change, q)
	if r.Stack, err = p.exact(ctx, stack); err != nil || len(r.Stack) == 0 {
		return updates.Installed, err
	}
	if err := p.Manager.fetch(ctx, held); err != nil {
		return "", fmt.Errorf("what etcd runs on was not changed: %w", err)
	}
	undo, err := p.hush() // whoever may not keep units from starting does not get as far as the boot
	if err != nil {
		return "", fmt.Errorf("what etcd runs on was not changed: %w", err)
	}
	undo()
	if err := p.Prepare(ctx); err != nil {
		return "", fmt.Errorf("what etcd runs on was not changed: %w", err)
	}
	return updates.Staged, p.WriteFile(p.at(updates.MarkPath), nil, state.DefaultFileMode)
}

// AtBoot changes what etcd runs on, before Corosync and Pacemaker start, if the agent has
// ordered the boot for it or an earlier boot began with it. It returns an error only if it could
// not write how that ended.
func (p Patcher) AtBoot(ctx context.Context) error {
	request, err := p.Request()
	if err != nil {
		return err
	}
	record, err := p.Record()
	if err != nil {
		return err
	}
	switch {
	case record.Ordered(request):
	case record.Phase == updates.Staged:
		return nil // the boot for it is still to come, or never does
	default:
		return p.unmark()
	}
	boot, err := p.Boot()
	if err != nil {
		return err
	}
	if record = record.Begin(record.Wish, updates.Changing, boot); record.Tries > updates.MaxTries {
		record.Phase, record.Error = updates.Failed, fmt.Sprintf("%s ended %d times without a result; its journal says why", updates.BootUnit, updates.MaxTries)
		return p.end(record)
	}
	if err := p.PutRecord(record); err != nil {
		return err
	}
	failed := p.changeStack(ctx, record.Stack)
	if ctx.Err() != nil {
		return context.Cause(ctx) // the host ends it: the next boot goes on
	}
	record.Phase, record.Tries = updates.Installed, 0
	if failed != nil {
		record.Phase, record.Error = updates.Failed, "what etcd runs on: "+failed.Error()
	}
	return p.end(record)
}

// end writes how it ended, and only then has the unit not run again.
func (p Patcher) end(r updates.Record) error {
	if err := p.PutRecord(r); err != nil {
		return err
	}
	return p.unmark()
}

func (p Patcher) changeStack(ctx context.Context, exact []string) error {
	if p.Manager == nil {
		return errNoManager
	}
	undo, err := p.hush()
	if err != nil {
		return err
	}
	defer undo()
	if err := p.Manager.repair(ctx, p.refuse); err != nil {
		return err
	}
	return p.Manager.only(ctx, exact, p.refuse)
}

func (p Patcher) hush() (func(), error) {
	if p.Hush == nil {
		return func() {}, nil
	}
	return p.Hush()
}

// unmark has the unit not run at the next boot.
func (p Patcher) unmark() error {
	if err := os.Remove(p.at(updates.MarkPath)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (s Store) at(path string) string { return filepath.Join(s.Root, path) }

// Debian asks the program policyPath before a package starts a unit. Without that answer a
// package that restarts Corosync would wait for the unit that installs it, which Corosync waits
// for. Once quietPath is gone, at the latest with the next boot, a program that is left there
// forbids nothing.
const (
	policyPath = "/usr/sbin/policy-rc.d"
	quietPath  = updates.QuietPath
	policy     = `#!/bin/sh
# Of ` + updates.BootUnit + `: packages start nothing while it changes them.
[ -e ` + quietPath + ` ] && exit 101
exit 0
`
	policyMode = 0o755
)

func hushHere() (func(), error) { return hushBelow("/") }

func hushBelow(root string) (func(), error) {
	path, quiet := filepath.Join(root, policyPath), filepath.Join(root, quietPath)
	switch there, err := os.ReadFile(path); {
	case err == nil && string(there) != policy:
		return nil, fmt.Errorf("%s is there, which somebody else wrote: it would decide whether packages start Corosync; move it away for this time", policyPath)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(quiet), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(quiet, nil, state.DefaultFileMode); err != nil {
		return nil, err
	}
	if err := host.WriteFileAtomic(path, []byte(policy), policyMode); err != nil {
		return nil, errors.Join(err, os.Remove(quiet))
	}
	return func() {
		// A policy that stays forbids nothing without the quiet file.
		_, _ = os.Remove(quiet), os.Remove(path)
	}, nil
}

func (a apt) versions(ctx context.Context, names []string) (have, next map[string]string, err error) {
	query := append([]string{"--show", "--showformat=${Package}=${Version}\n"}, names...)
	if a.root != "/" {
		query = append([]string{"--admindir=" + filepath.Join(a.root, "/var/lib/dpkg")}, query...)
	}
	// It ends with 1 if one of them is not there: that one is new.
	there, err := a.run.within(ctx, lookTime, host.Cmd{Name: "dpkg-query", Env: quiet, Args: query})
	if err != nil && host.ExitCode(err) != 1 {
		return nil, nil, err
	}
	said, err := a.call(ctx, lookTime, nil, append([]string{"--simulate"}, upgrade...)...)
	return updates.NamedVersions(there), updates.AptVersions(said), err
}

func (a apt) only(ctx context.Context, exact []string, refuse func(updates.Change) error) error {
	return a.change(ctx, nil, append([]string{"--yes", "--only-upgrade", "install"}, exact...), refuse)
}

func (d dnf) versions(ctx context.Context, names []string) (have, next map[string]string, err error) {
	// Its exit code counts those that are not there.
	there, err := d.run.within(ctx, lookTime, host.Command("rpm", append([]string{"--query", `--queryformat=%{NAME}=%{EPOCHNUM}:%{VERSION}-%{RELEASE}\n`}, names...)...))
	if err != nil && host.ExitCode(err) < 1 {
		return nil, nil, err
	}
	said, err := d.call(ctx, lookTime, nil, append([]string{"--assumeno"}, newer...)...)
	if _, whole := updates.DnfChange(said); whole && host.ExitCode(err) == 1 {
		err = nil
	}
	return updates.NamedVersions(there), updates.DnfVersions(said), err
}

func (d dnf) only(ctx context.Context, exact []string, refuse func(updates.Change) error) error {
	args := []string{"upgrade"}
	for _, e := range exact {
		name, version, _ := strings.Cut(e, "=")
		args = append(args, name+"-"+version)
	}
	return d.change(ctx, nil, args, refuse)
}
