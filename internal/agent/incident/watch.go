package incident

import (
	"context"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/model/state"
)

// happens lists the files and folders that are written when something happens. A
// write is only a hint; the loop reads the facts itself.
var happens = []string{network.StatusPath, state.EtcdRecordPath, state.FencedDir + "/*", state.FencingHistoryPath}

// retryInterval is the pause between two looks for a folder that does not exist yet.
const retryInterval = time.Minute

// watch calls wake whenever one of the files is written, until the context ends.
// It only makes the loop faster: without it the loop looks at its own pace.
func watch(ctx context.Context, wake func()) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return
	}
	defer func() { _ = w.Close() }()
	retry := time.NewTicker(retryInterval)
	defer retry.Stop()
	addFolders(w)
	for {
		select {
		case <-ctx.Done():
			return
		case <-retry.C:
			addFolders(w)
		case _, open := <-w.Errors:
			if !open {
				return
			}
		case e, open := <-w.Events:
			if !open {
				return
			}
			if wanted(e.Name) {
				wake()
			}
		}
	}
}

// addFolders watches the folders that exist. Adding a watched one again changes nothing.
func addFolders(w *fsnotify.Watcher) {
	for _, path := range happens {
		_ = w.Add(filepath.Dir(path))
	}
}

func wanted(path string) bool {
	for _, pattern := range happens {
		if ok, err := filepath.Match(pattern, path); ok && err == nil {
			return true
		}
	}
	return false
}
