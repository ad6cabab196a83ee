// Package resolver makes the host's own name server the first one that its
// programs ask, through whatever tool writes the resolver's configuration
// there, and can undo that. It never leaves /etc/resolv.conf half written, and
// writes only differences, so that it and that tool do not wake each other.
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
	// record is the name of our record for resolvconf(8): names that begin with
	// lo come first in its interface-order.
	record = "lo.holdfast"
)

// ErrLocked is returned if somebody made resolv.conf immutable and it does not
// name our name server first.
var ErrLocked = errors.New("it is immutable and does not name this host's own name server first")

// Options are set by tests; the zero value means the host itself.
type Options struct {
	// Root is the directory that holds etc and run.
	Root string
	// Run runs systemctl and resolvconf; nil means host.Run.
	Run func(context.Context, host.Cmd) ([]byte, error)
	// Hostname returns the host's name; nil means os.Hostname.
	Hostname func() (string, error)
}

// Host is the resolver of a host. Its methods are not safe for concurrent use.
type Host struct {
	Options
	// kicked is set once this run has restarted systemd-resolved.
	kicked bool
	// died is set while systemd-resolved uses our name server although it does
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

// look is the present state of the configuration.
type look struct {
	facts resolver.Facts
	was   resolvconf.Was
	// raw is the content of the file itself, nil if it is a link.
	raw []byte
	// mode is the mode of the file.
	mode os.FileMode
	// text is the content without our part.
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
		return look{}, fmt.Errorf("read the resolver's configuration: %w", err)
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

// follow reads the target of the link that is there now, or was there before
// us.
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

// Writer returns who writes the resolver's configuration of this host.
func (h *Host) Writer() (resolver.Writer, error) {
	l, err := h.look()
	return resolver.Who(l.facts), err
}

// begin removes what a killed writer left, and reads the present state.
func (h *Host) begin() (look, error) {
	left := temporary(h.path(resolvconf.Path))
	if _, err := os.Lstat(left); err == nil {
		if err := os.Remove(left); err != nil {
			return look{}, err
		}
	}
	return h.look()
}

// Prepend makes the host's programs ask our name server first and search our
// domain first. It reports whether it had to change anything.
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

// domain returns the domain that resolvers search if the file names none.
func (h *Host) domain() string {
	name, err := h.Hostname()
	if err != nil {
		return ""
	}
	_, domain, _ := strings.Cut(name, ".")
	return domain
}

// tell makes the tools do their part if one of them writes the file, and
// withdraws what another tool was told before.
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

// toldAll brings each tool's part to the wanted content; nil means no content.
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

// dropin writes or removes a drop-in and makes its service read it. If that
// fails, it restores the drop-in, so that the next attempt does both again.
func (h *Host) dropin(ctx context.Context, path string, want []byte, unit string) (bool, error) {
	at := h.path(path)
	have, err := read(at)
	if err != nil || bytes.Equal(have, want) {
		return false, err
	}
	if err := put(at, want); err != nil {
		return false, fmt.Errorf("configure %s to use the host's name server: %w", unit, err)
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

// resolvedSettings reads systemd-resolved's own configuration without our part,
// in the order of the service. It skips a file that it cannot read: the service
// complains itself.
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

// kick restarts systemd-resolved, once, if the drop-in is in place but the
// service does not follow it: the run that wrote it was killed before it could
// tell the service.
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

// record gives our record to resolvconf(8), or removes it. resolvconf then
// writes its file itself.
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

// recordedFirst returns an error if resolvconf asks another name server before
// ours.
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
		if len(resolvconf.Servers(current)) > 0 { // it has none while NetworkManager connects
			source = func(look) []byte { return current }
		}
	}
	want := func(l look) []byte { return resolvconf.Prepend(source(l), own, l.was) }
	if bytes.Equal(l.raw, want(l)) && l.mode == 0o644 {
		return false, nil
	}
	return true, h.write(ctx, l, want, 0o644)
}

// writeGrace is the time that another tool gets to write a file that it has open.
const writeGrace = 50 * time.Millisecond

// write replaces the file by the wanted one, and does it again if another tool
// wrote it meanwhile: a tool that first empties and then fills the file may
// have been interrupted between the two.
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

// late returns the content of a file after whoever had it open has written it.
func (h *Host) late(ctx context.Context, f *os.File) ([]byte, error) {
	err := host.Sleep(ctx, writeGrace)
	data, errRead := io.ReadAll(f)
	return data, errors.Join(err, errRead, f.Close())
}

// revive makes systemd-resolved ask our name server first again once that
// answers. It does so by itself, except if the site set other name servers for
// the whole host: among those it stays with the last one that answered.
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

// Restore removes our name server from the configuration while it does not
// answer: the file is again what it was or would be without us. It reports
// whether it had to change anything. For systemd-resolved it does nothing: that
// asks other name servers by itself, and a restart would leave the host without
// any for a moment.
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

// Remove undoes everything that this package put on the host.
func (h *Host) Remove(ctx context.Context) (bool, error) { return h.restore(ctx, nil) }

// restore restores the file first: once NetworkManager knows that the file is
// its own again, it writes it at once.
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
