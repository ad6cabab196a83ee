// Package wipe takes everything of Holdfast and Kubernetes off this host, by the
// inventory of decide/wiping. It owns the journal of a wipe. It never deletes through
// a mounted file system, and touches no disk that nobody named.
package wipe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/wiping"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

// Wiper wipes one host.
type Wiper struct {
	// Root is the root of the host's files.
	Root      string
	Inventory wiping.Inventory
	// VIPs are the addresses that are removed from the host's interfaces.
	VIPs []netip.Addr
	// Disks are the disks that are wiped too.
	Disks []string
	Run   host.Runner
	// Mounts returns the mount points of the host, and Unmount detaches one.
	Mounts  func() ([]string, error)
	Unmount func(path string) error
	// Sync makes durable what was changed on the file system of a path.
	Sync func(path string) error
	// Resolver makes the host use its own name servers again.
	Resolver func(ctx context.Context) error
	Say      func(format string, args ...any)

	// began is true if this run was the first one to be allowed, ends once it ends the agent.
	began, ends bool
}

// Journal says that a wipe was allowed, who allowed it, and when.
type Journal struct {
	Host string    `json:"host"`
	By   string    `json:"by,omitempty"`
	At   time.Time `json:"at"`
	// Boot is the boot in which the wipe last began or went on.
	Boot string `json:"boot,omitempty"`
	// Life is that of the host. The permission ends with it.
	wiping.Life
}

func (w *Wiper) path(p string) string { return filepath.Join(w.Root, p) }

// Begun reports whether a wipe of this host was allowed and has not ended. A journal or a site.json
// that cannot be read allows nothing.
func Begun(root string) bool {
	j, err := journal(root)
	if err != nil {
		return false
	}
	now, err := life(root)
	return err == nil && wiping.Continues(j.Life, now)
}

func journal(root string) (Journal, error) {
	var j Journal
	data, err := os.ReadFile(filepath.Join(root, wiping.JournalPath))
	if err != nil {
		return j, err
	}
	return j, json.Unmarshal(data, &j)
}

// Lapse ends the permission of a wipe that was broken off in an earlier boot before it ended the agent,
// which calls it when it starts. It reports whether there was one. boot names the present boot.
func Lapse(root, boot string) (bool, error) {
	j, err := journal(root) // one that cannot be read allows nothing, and goes too
	if errors.Is(err, fs.ErrNotExist) || !wiping.Lapses(j.Boot, boot) {
		return false, nil
	}
	return true, host.RemoveFile(filepath.Join(root, wiping.JournalPath))
}

// life returns the life that site.json names, nil without that file.
func life(root string) (*wiping.Life, error) {
	data, err := os.ReadFile(filepath.Join(root, site.Path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // the host belongs to no site, which is no error
	}
	if err != nil {
		return nil, err
	}
	s, err := site.Unmarshal(data)
	if err != nil {
		return nil, err
	}
	return &wiping.Life{Cluster: s.Identity.ClusterID, Life: s.Life.ID}, nil
}

// Begin writes the journal; if an earlier run did, only the boot in which it goes on. From then on the wipe
// needs no permission. So it looks at disks and mounts first: a wipe that these stop before it has changed
// anything is allowed anew.
func (w *Wiper) Begin(ctx context.Context, j Journal) error {
	if Begun(w.Root) {
		had, err := journal(w.Root)
		if err != nil || had.Boot == j.Boot {
			return err
		}
		had.Boot = j.Boot
		return w.note(had)
	}
	if err := errors.Join(w.look(ctx), w.throughMounts()); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	if of, err := life(w.Root); err == nil && of != nil {
		j.Life = *of
	}
	if err := w.note(j); err != nil {
		return err
	}
	w.began = true
	return nil
}

func (w *Wiper) note(j Journal) error {
	data, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(w.path(wiping.JournalPath), append(data, '\n'), state.SecretFileMode)
}

// throughMounts returns an error if the deletion would reach through mounted file systems that are not
// those of pods.
func (w *Wiper) throughMounts() error {
	mounts, err := w.Mounts()
	if err != nil {
		return err
	}
	return w.inTheWay(slices.DeleteFunc(mounts, w.Inventory.OfPods))
}

func (w *Wiper) inTheWay(mounts []string) error {
	in := w.Inventory.InTheWay(mounts)
	if len(in) == 0 {
		return nil
	}
	return fmt.Errorf("other file systems are mounted below what the wipe deletes, and their data would be deleted too: %s: unmount them, and run the command again", strings.Join(in, ", "))
}

// step is a part of a wipe. Each step can be done again.
type step struct {
	says string
	do   func(context.Context) error
}

// Wipe takes everything off the host. After a run that was cut off it begins again. One that is broken off
// before it ends the agent takes its permission back: the host lives on.
func (w *Wiper) Wipe(ctx context.Context) error {
	err := w.wipe(ctx)
	if err != nil && w.began && !w.ends {
		return errors.Join(err, host.RemoveFile(w.path(wiping.JournalPath)))
	}
	return err
}

func (w *Wiper) wipe(ctx context.Context) error {
	for _, s := range []step{
		{"look at the disks", w.look},
		{"stop and disable units", w.stop},
		{"give the host its own name servers", w.Resolver},
		{"take addresses and interfaces away", w.network},
		{"take file systems of pods away", w.unmount},
		{"delete files", w.remove},
		{"have systemd forget the units", w.forget},
		{"wipe the named disks", w.wipeDisks},
		{"make that durable", w.settle},
	} {
		if err := ctx.Err(); err != nil {
			return err
		}
		w.Say("%s", s.says)
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.says, err)
		}
	}
	if err := host.RemoveFile(w.path(wiping.JournalPath)); err != nil {
		return err
	}
	return w.Sync(filepath.Dir(w.path(wiping.JournalPath)))
}

// settle makes durable what was deleted, before the journal goes: a power cut could bring a part of it
// back, and nobody would know that the wipe has to go on.
func (w *Wiper) settle(context.Context) error {
	var errs []error
	for _, dir := range []string{"/", "/var", "/var/lib", "/var/log", state.EtcdDataDir} {
		if path := w.path(dir); host.Exists(path) {
			errs = append(errs, w.Sync(path))
		}
	}
	return errors.Join(errs...)
}

// Finds lists the paths of the inventory that exist on this host.
func (w *Wiper) Finds() ([]string, error) {
	var out []string
	for _, pattern := range w.Inventory.Patterns() {
		found, err := filepath.Glob(w.path(pattern))
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// stop ends the units, and those of pods with all their processes. It is no error if the host
// does not have a unit.
func (w *Wiper) stop(ctx context.Context) error {
	var errs []error
	for _, unit := range w.Inventory.Stop {
		out, err := w.Run(ctx, "systemctl", "show", "--property=LoadState", "--value", "--", unit)
		if err != nil {
			return err
		}
		w.ends = w.ends || unit == renderhost.AgentUnit // a look that fails has ended nothing
		if strings.TrimSpace(string(out)) == "not-found" {
			continue
		}
		if unit == "containerd.service" { // a stop leaves the shims of containers
			_, _ = w.Run(ctx, "systemctl", "kill", "--kill-whom=all", "--signal=SIGKILL", "--", unit)
		}
		if _, err := w.Run(ctx, "systemctl", "stop", "--", unit); err != nil {
			errs = append(errs, err)
		}
		if strings.HasSuffix(unit, ".service") || strings.HasSuffix(unit, ".timer") {
			if _, err := w.Run(ctx, "systemctl", "disable", "--", unit); err != nil {
				w.Say("%s stays enabled: %v", unit, err) // its file is deleted later, or belongs to a package
			}
		}
	}
	return errors.Join(errs...)
}

// unmount detaches the file systems of pods, the deepest first.
func (w *Wiper) unmount(context.Context) error {
	mounts, err := w.Mounts()
	if err != nil {
		return err
	}
	slices.SortFunc(mounts, func(a, b string) int { return len(b) - len(a) })
	var errs []error
	for _, m := range mounts {
		if w.Inventory.OfPods(m) {
			if err := w.Unmount(m); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", m, err))
			}
		}
	}
	return errors.Join(errs...)
}

// remove deletes the files, unless another file system is mounted below them. If a folder is
// itself a mount point, its contents are deleted.
func (w *Wiper) remove(context.Context) error {
	mounts, err := w.Mounts()
	if err != nil {
		return err
	}
	if err := w.inTheWay(mounts); err != nil {
		return fmt.Errorf("nothing was deleted: %w", err)
	}
	found, err := w.Finds()
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range found {
		if slices.Contains(mounts, strings.TrimPrefix(path, strings.TrimSuffix(w.Root, "/"))) {
			errs = append(errs, empty(path))
			continue
		}
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return errors.Join(errs...)
}

func (w *Wiper) forget(ctx context.Context) error {
	_, err := w.Run(ctx, "systemctl", "daemon-reload")
	return err
}
