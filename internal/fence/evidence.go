package fence

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/state"
)

// Phases are the parts of one fence, one after the other.
type Phases struct {
	// Identify ends when the BMC had answered and was shown to be the target's.
	Identify time.Duration `json:"identify"`
	// Hold is the delay, as far as it was waited.
	Hold time.Duration `json:"hold,omitempty"`
	// PowerOff is from the first request to the answer Off; zero where the
	// target was off already.
	PowerOff time.Duration `json:"powerOff,omitempty"`
	// Evidence is the writing of the proof.
	Evidence time.Duration `json:"evidence,omitempty"`
	// PowerOn is the request to switch on again.
	PowerOn time.Duration `json:"powerOn,omitempty"`
	Total   time.Duration `json:"total"`
}

// Record is one line of the history of fences.
type Record struct {
	Time   time.Time `json:"time"`
	Target string    `json:"target"`
	// By is the host that fenced.
	By     string `json:"by"`
	Action string `json:"action"`
	// Off is true where the target was proven to be off.
	Off    bool   `json:"off"`
	Detail string `json:"detail"`
	// Requests is how often the power was to be cut; zero where the BMC said
	// Off from the first.
	Requests int    `json:"requests"`
	Phases   Phases `json:"phases"`
}

// writeEvidence leaves the proof of a fence for the etcd of this host.
func writeEvidence(dir string, proof state.EtcdFenced) error {
	data, err := json.Marshal(proof)
	if err != nil {
		return fmt.Errorf("evidence of the fence of %s: %w", proof.Target, err)
	}
	path := filepath.Join(dir, proof.Target+".json")
	if err := host.WriteFileAtomic(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("evidence of the fence of %s: %w", proof.Target, err)
	}
	return nil
}
