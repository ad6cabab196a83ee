package explain

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Snapshot reads the input from a file in the format of test/corpus/etcd, or
// from a bare snapshot or report.
func Snapshot(path string) (explain.Input, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return explain.Input{}, fmt.Errorf("recorded snapshot: %w", err)
	}
	var file struct {
		Snapshot *state.EtcdSnapshot `json:"snapshot"`
		At       time.Time           `json:"at"`
		Since    time.Duration       `json:"since"`
		Wish     state.EtcdWish      `json:"wish"`
		Problem  string              `json:"problem"`
		StandIn  string              `json:"standIn"`

		StandInOutcome state.StandInOutcome `json:"standInOutcome"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return explain.Input{}, fmt.Errorf("recorded snapshot %s: not JSON of a snapshot: %w", path, err)
	}
	if file.Snapshot == nil {
		file.Snapshot = &state.EtcdSnapshot{}
		if err := json.Unmarshal(b, file.Snapshot); err != nil || file.Snapshot.Host == "" {
			return explain.Input{}, fmt.Errorf("recorded snapshot %s: neither a snapshot nor a report with one", path)
		}
	}
	return explain.Input{Source: explain.FromSnapshot, Report: state.EtcdReport{
		Wish: file.Wish, Snapshot: *file.Snapshot, Verdict: etcdmember.Decide(*file.Snapshot),
		At: file.At, Since: file.Since, Problem: file.Problem, StandIn: file.StandIn, StandInOutcome: file.StandInOutcome,
	}}, nil
}
