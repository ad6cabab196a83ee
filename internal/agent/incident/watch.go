package incident

import (
	"context"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/model/state"
)

// happens are the files, and the folders, in which something is written when
// something happens. They are hints to look; what counts is looked up.
var happens = []string{network.StatusPath, state.EtcdRecordPath, state.FencedDir + "/*", state.FencingHistoryPath}

// again is how often a folder is looked for that is not there yet.
const again = time.Minute

// watch wakes whenever one of the files is written, until the context ends. It
// is only sooner than the loop's own looks: where it cannot watch, those do.
func watch(ctx context.Context, wake func()) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return
	}
	defer func() { _ = w.Close() }()
	retry := time.NewTicker(again)
	defer retry.Stop()
	for {
		for _, path := range happens {
			_ = w.Add(filepath.Dir(path)) // of one that is there already nothing changes
		}
		select {
		case <-ctx.Done():
			return
		case <-retry.C:
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

func wanted(path string) bool {
	for _, pattern := range happens {
		if ok, err := filepath.Match(pattern, path); ok && err == nil {
			return true
		}
	}
	return false
}
