// Package resolver makes the host's own name server the first that its
// programs ask, by whatever writes the resolver's configuration there, and
// takes that back. It never leaves /etc/resolv.conf half written, and writes
// only what differs, so that it and the tool beside it do not wake each other.
package resolver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/resolver"
	"github.com/holdfast/holdfast/internal/render/resolvconf"
)

// Files of the tools that write resolver configurations.
const (
	networkManagerCopy   = "/run/NetworkManager/resolv.conf"
	networkManagerNoStub = "/run/NetworkManager/no-stub-resolv.conf"
	resolvedCopy         = "/run/systemd/resolve/resolv.conf"
	records              = "/run/resolvconf/interface"
	networkdState        = "/run/systemd/netif/state"
	// record is the name of our record for resolvconf(8): what begins with lo
	// comes first in its interface-order.
	record = "lo.holdfast"
)

// ErrLocked is returned for a resolv.conf that somebody made immutable and
// that does not name our name server first.
var ErrLocked = errors.New("it is immutable and does not name this host's own name server first")

// Options are what a test sets; the zero value is the host itself.
type Options struct {
	// Root is the directory that holds etc and run.
	Root string
	// Run runs systemctl and resolvconf; nil stands for host.Run.
	Run func(context.Context, host.Cmd) ([]byte, error)
	// Hostname returns the host's name; nil stands for os.Hostname.
	Hostname func() (string, error)
}

// Host is the resolver of a host. Its methods are for one caller at a time.
type Host struct {
	Options
	// kicked is set once this run restarted systemd-resolved.
	kicked bool
	// died is set while systemd-resolved keeps a name server of ours that does
	// not answer.
	died bool
}

// New returns the resolver of a host.
func New(o Options) *Host {
	if o.Run == nil {
		o.Run = host.Run
	}
	if o.Hostname == nil {
		o.Hostname = os.Hostname
	}
	return &Host{Options: o}
}

func (h *Host) path(p string) string { return filepath.Join(h.Root, p) }

// look is what there is.
type look struct {
	facts resolver.Facts
	was   resolvconf.Was
	// raw is the file itself, nil behind a link.
	raw []byte
	// mode is the file's.
	mode os.FileMode
	// text is what was there without us.
	text []byte
	ours bool
}

func (h *Host) look() (look, error) {
	path := h.path(resolvconf.Path)
	l := look{facts: resolver.Facts{
		Immutable:      immutable(path),
		NetworkManager: host.Exists(h.path(networkManagerCopy)),
		Resolved:       host.Exists(h.path(resolvedCopy)),
	}}
	info, err := os.Lstat(path)
	switch {
	case os.IsNotExist(err):
		l.was.Absent = true
		return l, nil
	case err != nil:
		return look{}, fmt.Errorf("look at the resolver's configuration: %w", err)
	case info.Mode()&os.ModeSymlink != 0:
		if l.was.Link, err = os.Readlink(path); err != nil {
			return look{}, err
		}
	default:
		if l.raw, err = os.ReadFile(path); err != nil {
			return look{}, err
		}
		l.mode = info.Mode().Perm()
		l.was.Mode = l.mode
		if text, was, ours := resolvconf.Split(l.raw); ours {
			l.text, l.was, l.ours = text, was, true
		} else {
			l.text = l.raw
		}
	}
	return h.follow(l)
}

// follow reads what the link leads to that is there or was before us.
func (h *Host) follow(l look) (look, error) {
	if l.was.Link != "" {
		l.facts.Link = filepath.Join("/", l.was.Link)
		if !filepath.IsAbs(l.was.Link) {
			l.facts.Link = filepath.Join(filepath.Dir(resolvconf.Path), l.was.Link)
		}
		text, err := read(h.path(l.facts.Link))
		if err != nil {
			return look{}, fmt.Errorf("read what %s leads to: %w", resolvconf.Path, err)
		}
		if text != nil {
			l.text = text
		}
	}
	l.facts.Text = string(l.text)
	return l, nil
}

// Writer says who writes the resolver's configuration of this host.
func (h *Host) Writer() (resolver.Writer, error) {
	l, err := h.look()
	return resolver.Who(l.facts), err
}

// begin looks at what there is, and removes what a writer left that was killed.
func (h *Host) begin() (look, error) {
	left := temporary(h.path(resolvconf.Path))
	if _, err := os.Lstat(left); err == nil {
		if err := os.Remove(left); err != nil {
			return look{}, err
		}
	}
	return h.look()
}

// Prepend has the host's programs ask a name server first and search a domain
// first. It says whether anything had to be done.
func (h *Host) Prepend(ctx context.Context, own resolvconf.Own) (bool, error) {
	l, err := h.begin()
	if err != nil {
		return false, err
	}
	if own.Implied == "" {
		own.Implied = h.domain()
	}
	who := resolver.Who(l.facts)
	changed, err := h.tell(ctx, who, own, l)
	if err != nil {
		return changed, err
	}
	switch who {
	case resolver.Locked:
		if first, ok := resolvconf.First(l.raw); !ok || first != own.Server {
			return changed, fmt.Errorf("%s: %w: put \"nameserver %s\" there, or run 'chattr -i %s'",
				resolvconf.Path, ErrLocked, own.Server, resolvconf.Path)
		}
		return changed, nil
	case resolver.Resolvconf:
		return changed, h.recordedFirst(own)
	case resolver.Resolved:
		revived, err := h.revive(ctx, own)
		return changed || revived, err
	case resolver.Nobody, resolver.NetworkManager:
	}
	wrote, err := h.prependFile(ctx, who, own, l)
	return changed || wrote, err
}

// domain is what resolvers search where the file names nothing.
func (h *Host) domain() string {
	name, err := h.Hostname()
	if err != nil {
		return ""
	}
	_, domain, _ := strings.Cut(name, ".")
	return domain
}

// tell has the tools do their part for the one of them that writes the file,
// and forget what another was told before.
func (h *Host) tell(ctx context.Context, who resolver.Writer, own resolvconf.Own, l look) (bool, error) {
	var resolved, nm, told []byte
	switch who {
	case resolver.Resolved:
		resolved = resolvconf.Resolved(own, h.resolvedSettings()...)
	case resolver.Resolvconf:
		told = resolvconf.Record(own)
	case resolver.Nobody, resolver.NetworkManager, resolver.Locked:
	}
	if l.facts.NetworkManager {
		nm = resolvconf.NetworkManager(who == resolver.NetworkManager)
	}
	return h.toldAll(ctx, resolved, nm, told)
}

// toldAll brings the tools' parts to what is wanted of each, nothing for nil.
func (h *Host) toldAll(ctx context.Context, resolved, nm, told []byte) (bool, error) {
	a, errA := h.dropin(ctx, resolvconf.ResolvedPath, resolved, "systemd-resolved.service")
	b, errB := h.dropin(ctx, resolvconf.NetworkManagerPath, nm, "NetworkManager.service")
	c, errC := h.record(ctx, told)
	err := errors.Join(errA, errB, errC)
	h.kicked = h.kicked || a
	if err == nil && resolved != nil && !h.kicked {
		a, err = h.kick(ctx, resolved)
	}
	return a || b || c, err
}

// dropin writes or removes a drop-in and has its service read it. If that
// fails the drop-in is as before, so that the next try does both again.
func (h *Host) dropin(ctx context.Context, path string, want []byte, unit string) (bool, error) {
	at := h.path(path)
	have, err := read(at)
	if err != nil || bytes.Equal(have, want) {
		return false, err
	}
	if err := put(at, want); err != nil {
		return false, fmt.Errorf("tell %s of the host's name server: %w", unit, err)
	}
	if err := h.reload(ctx, unit); err != nil {
		return false, errors.Join(err, put(at, have))
	}
	return true, nil
}

func put(path string, data []byte) error {
	if data != nil {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return replace(path, data, 0o644)
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

func (h *Host) reload(ctx context.Context, unit string) error {
	_, err := h.Run(ctx, host.Command("systemctl", "try-reload-or-restart", unit))
	return err
}

// resolvedSettings reads systemd-resolved's own configuration without ours, in
// its order. A file that cannot be read is the service's to complain about.
func (h *Host) resolvedSettings() [][]byte {
	paths := []string{h.path("/etc/systemd/resolved.conf")}
	names := map[string]string{}
	for _, dir := range []string{"/usr/lib/systemd", "/run/systemd", "/etc/systemd"} {
		found, _ := filepath.Glob(filepath.Join(h.path(dir), "resolved.conf.d", "*.conf")) // the pattern is valid
		for _, f := range found {
			names[filepath.Base(f)] = f
		}
	}
	delete(names, filepath.Base(resolvconf.ResolvedPath))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		paths = append(paths, names[name])
	}
	var out [][]byte
	for _, p := range paths {
		if data, err := read(p); err == nil {
			out = append(out, data)
		}
	}
	return out
}

// kick restarts systemd-resolved, once, where the drop-in is in place and the
// service does not follow it: the run that wrote it was killed before it could
// say so.
func (h *Host) kick(ctx context.Context, want []byte) (bool, error) {
	effective, err := read(h.path(resolvedCopy))
	if err != nil || effective == nil {
		return false, err
	}
	for _, s := range resolvconf.Servers(effective) {
		if slices.Contains(strings.Fields(string(want)), "DNS="+s.Addr().String()) {
			return false, nil
		}
	}
	h.kicked = true
	return true, h.reload(ctx, "systemd-resolved.service")
}

// record gives resolvconf(8) our record, or takes it back. resolvconf writes
// its file by itself then.
func (h *Host) record(ctx context.Context, want []byte) (bool, error) {
	have, err := read(filepath.Join(h.path(records), record))
	if err != nil || bytes.Equal(have, want) {
		return false, err
	}
	cmd := host.Command("resolvconf", "-d", record)
	if want != nil {
		cmd = host.Command("resolvconf", "-a", record)
		cmd.Stdin = bytes.NewReader(want)
	}
	_, err = h.Run(ctx, cmd)
	return err == nil, err
}

// recordedFirst says so where resolvconf asks another name server before ours.
func (h *Host) recordedFirst(own resolvconf.Own) error {
	l, err := h.look()
	if err != nil {
		return err
	}
	if first, _ := resolvconf.First(l.text); first != own.Server {
		return fmt.Errorf("resolvconf puts name server %s before %s: see that record %s comes first in /etc/resolvconf/interface-order, and that its updates are enabled",
			first, own.Server, record)
	}
	return nil
}

// prependFile writes /etc/resolv.conf itself.
func (h *Host) prependFile(ctx context.Context, who resolver.Writer, own resolvconf.Own, l look) (bool, error) {
	source := func(l look) []byte { return l.text }
	if who == resolver.NetworkManager {
		current, err := read(h.path(networkManagerCopy))
		if err != nil {
			return false, err
		}
		if len(resolvconf.Servers(current)) > 0 { // it has none while it connects
			source = func(look) []byte { return current }
		}
	}
	want := func(l look) []byte { return resolvconf.Prepend(source(l), own, l.was) }
	if bytes.Equal(l.raw, want(l)) && l.mode == 0o644 {
		return false, nil
	}
	return true, h.write(ctx, l, want, 0o644)
}

// settle is how long another tool may take to write a file that it has open.
const settle = 50 * time.Millisecond

// write replaces the file by what is wanted in its place, and again if another
// tool wrote it meanwhile: a tool that empties the file and then fills it may
// have been caught between the two.
func (h *Host) write(ctx context.Context, l look, want func(look) []byte, mode os.FileMode) error {
	path := h.path(resolvconf.Path)
	if l.raw == nil {
		return replace(path, want(l), mode)
	}
	expected := l.raw
	for {
		now := want(l)
		displaced, err := exchange(path, now, mode)
		if err != nil || displaced == nil {
			return err
		}
		late, err := h.late(ctx, displaced)
		if err != nil || bytes.Equal(late, expected) {
			return err
		}
		expected, l.raw, l.text = now, late, late
		if text, was, ours := resolvconf.Split(late); ours {
			l.text, l.was = text, was
		}
	}
}

// late is what a file holds once whoever had it open has written it.
func (h *Host) late(ctx context.Context, f *os.File) ([]byte, error) {
	err := host.Sleep(ctx, settle)
	data, errRead := io.ReadAll(f)
	return data, errors.Join(err, errRead, f.Close())
}

// revive has systemd-resolved ask our name server first again once that answers
// again. It does by itself, but for one that the site set for the whole host:
// of those it keeps to the one that answered last.
func (h *Host) revive(ctx context.Context, own resolvconf.Own) (bool, error) {
	if !h.died {
		return false, nil
	}
	h.died = false
	if bytes.Equal(resolvconf.Resolved(own, h.resolvedSettings()...), resolvconf.Resolved(own)) {
		return false, nil
	}
	return true, h.reload(ctx, "systemd-resolved.service")
}

// Restore takes a name server of ours that does not answer out of the way: the
// file is again what it was or would be without us. It says whether anything
// had to be done. systemd-resolved asks others by itself, while a restart would
// leave the host without any for a moment: nothing is to be done there.
func (h *Host) Restore(ctx context.Context) (bool, error) {
	l, err := h.look()
	if err != nil {
		return false, err
	}
	if resolver.Who(l.facts) == resolver.Resolved {
		h.died = true
		return false, nil
	}
	var nm []byte
	if host.Exists(h.path(networkManagerCopy)) && host.Exists(h.path(resolvconf.NetworkManagerPath)) {
		nm = resolvconf.NetworkManager(false)
	}
	return h.restore(ctx, nm)
}

// Remove takes back everything that this package put on the host.
func (h *Host) Remove(ctx context.Context) (bool, error) { return h.restore(ctx, nil) }

// restore does the file first: NetworkManager, told that the file is its own
// again, writes it at once.
func (h *Host) restore(ctx context.Context, nm []byte) (bool, error) {
	l, err := h.begin()
	if err != nil {
		return false, err
	}
	wrote := l.ours && !l.facts.Immutable
	if wrote {
		if err := h.restoreFile(ctx, l); err != nil {
			return false, err
		}
	}
	changed, err := h.toldAll(ctx, nil, nm, nil)
	return wrote || changed, err
}

func (h *Host) restoreFile(ctx context.Context, l look) error {
	path := h.path(resolvconf.Path)
	original := func(l look) []byte {
		text, _, _ := resolvconf.Split(l.raw)
		return text
	}
	switch {
	case l.was.Link != "":
		return replaceLink(path, l.was.Link)
	case l.was.Absent:
		return errors.Join(os.Remove(path), host.SyncDir(filepath.Dir(path)))
	case l.was.Mode != 0:
		return h.write(ctx, l, original, l.was.Mode)
	}
	return h.write(ctx, l, original, 0o644)
}
