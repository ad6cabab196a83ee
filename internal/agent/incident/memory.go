package incident

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"

	"github.com/holdfast/holdfast/internal/adapter/host"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
)

// memoryFile holds this host's records, beside the reports.
const memoryFile = "journal.json"

// maxRecords bounds the records that this host keeps: enough for some weeks of
// quiet, and some dozens of incidents.
const maxRecords = 800

// memory holds all that outlives the agent.
type memory struct {
	Records []decide.Record `json:"records"`
	// Told names the events that were created in the API.
	Told map[string]bool `json:"told,omitempty"`
}

func (m memory) same(other memory) bool {
	return len(m.Records) == len(other.Records) && reflect.DeepEqual(m, other)
}

// last returns the last record of a kind in a boot, and whether there is one. It goes by the
// age of the boot: a clock that was ahead may have been set back since.
func (m memory) last(kind decide.Kind, boot string) (last decide.Record, known bool) {
	for _, r := range m.Records {
		if r.Kind == kind && r.Boot == boot && (!known || r.Up >= last.Up) {
			last, known = r, true
		}
	}
	return last, known
}

func readMemory(dir string) (memory, error) {
	var m memory
	b, err := os.ReadFile(filepath.Join(dir, memoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, fmt.Errorf("notes about incidents: %w", err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return memory{}, fmt.Errorf("notes about incidents: %s cannot be parsed: %w", filepath.Join(dir, memoryFile), err)
	}
	return m, nil
}

// save makes a memory durable, and only then gives it to the loop.
func (l *Loop) save(m memory) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := l.write(filepath.Join(l.dir, memoryFile), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("store notes about incidents: %w", err)
	}
	l.memory, l.stale = m, true
	return nil
}

// remember records that the API has an event. Events of incidents without a
// report are forgotten later.
func (l *Loop) remember(name string) error {
	m := l.memory
	m.Told = maps.Clone(m.Told)
	if m.Told == nil {
		m.Told = map[string]bool{}
	}
	m.Told[name] = true
	return l.save(m)
}

func writeFile(path string, data []byte, mode fs.FileMode) error {
	return host.WriteFileAtomic(path, data, mode)
}
