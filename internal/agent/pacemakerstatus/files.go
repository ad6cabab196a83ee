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

// files are where a host keeps what it knows.
type files struct{ live, kept string }

// read returns what was kept of an earlier run, for the times since when things
// are as they are.
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

// write keeps a report: what is now in memory, what is different on the disk.
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
