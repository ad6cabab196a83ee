package resolver

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/fsnotify/fsnotify"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/render/resolvconf"
)

// Watch calls changed whenever a file from which the resolver's configuration
// is made may have changed, by us too, until the context ends.
func (h *Host) Watch(ctx context.Context, changed func()) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch the resolver's configuration: %w", err)
	}
	defer func() { _ = w.Close() }() // nothing was written
	for {
		if err := h.watchFolders(w); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-w.Events:
			if !ok {
				return errors.New("watch the resolver's configuration: inotify ended")
			}
			if event.Op != fsnotify.Chmod && h.concerns(event.Name) {
				changed()
			}
		case err, ok := <-w.Errors:
			if !ok {
				return errors.New("watch the resolver's configuration: inotify ended")
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("watch the resolver's configuration: %w", err)
			}
			changed()
		}
	}
}

// watchFolders watches those folders that exist. A folder that is created later
// shows in the one above it.
func (h *Host) watchFolders(w *fsnotify.Watcher) error {
	have := w.WatchList()
	for _, dir := range h.folders() {
		if !host.Exists(dir) || slices.Contains(have, dir) {
			continue
		}
		if err := w.Add(dir); err != nil && host.Exists(dir) {
			return fmt.Errorf("watch %s: %w", dir, err)
		}
	}
	return nil
}

// files returns the files from which the resolver's configuration is made.
func (h *Host) files() []string {
	out := []string{
		h.path(resolvconf.Path), h.path(networkManagerCopy), h.path(networkManagerNoStub),
		h.path(resolvedCopy), h.path(networkdState),
	}
	if l, err := h.look(); err == nil && l.facts.Link != "" {
		out = append(out, h.path(l.facts.Link))
	}
	return out
}

func (h *Host) folders() []string {
	out := []string{h.path("/run"), h.path("/run/systemd"), h.path("/run/resolvconf"), h.path(records)}
	for _, f := range h.files() {
		if dir := filepath.Dir(f); !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

func (h *Host) concerns(name string) bool {
	return slices.Contains(h.files(), name) || slices.Contains(h.folders(), name) || filepath.Dir(name) == h.path(records)
}
