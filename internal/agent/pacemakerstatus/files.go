package pacemakerstatus

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
	decide "github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
)

// files holds the paths at which a host keeps what it knows.
type files struct{ live, kept string }

// read returns the report of an earlier run, which has the times of the last
// changes.
func (f files) read(host string) decide.Report {
	for _, path := range []string{f.live, f.kept} {
		var r decide.Report
		data, err := os.ReadFile(path)
		if err == nil && json.Unmarshal(data, &r) == nil && r.Host == host {
			r.Known = r.Status
			return r
		}
	}
	return decide.Report{Host: host}
}

// write keeps a report: always in memory, and on the disk if it changed.
func (f files) write(r decide.Report, changed bool) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("keep the status of Pacemaker: %w", err)
	}
	data = append(data, '\n')
	err = writeTo(f.live, data)
	if changed {
		err = errors.Join(err, writeTo(f.kept, data))
	}
	if err != nil {
		return fmt.Errorf("keep the status of Pacemaker: %w", err)
	}
	return nil
}

func writeTo(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return host.WriteFileAtomic(path, data, 0o644)
}
