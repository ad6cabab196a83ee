package hostconfig

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ResultPath is the file in which a run says how it ended.
const ResultPath = "/run/holdfast/configure.json"

// Result is how a run ended.
type Result struct {
	Config string `json:"config"`
	Error  string `json:"error,omitempty"`
}

// WriteResult says how a run below root ended.
func WriteResult(root, config string, failed error) error {
	r := Result{Config: config}
	if failed != nil {
		r.Error = failed.Error()
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(filepath.Join(root, ResultPath), append(data, '\n'), state.DefaultFileMode)
}

// ReadResult returns how the last run below root ended.
func ReadResult(root string) (Result, error) {
	var r Result
	data, err := os.ReadFile(filepath.Join(root, ResultPath))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(data, &r)
}

// ForgetResult removes what an earlier run has said.
func ForgetResult(root string) error { return host.RemoveFile(filepath.Join(root, ResultPath)) }
