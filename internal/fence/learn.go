package fence

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/state"
)

// identityAttribute is the private attribute of Pacemaker by which the agents
// of two hosts tell each other whose machines they run on. It ends with the
// node, so that only a host that lives is learned from.
const identityAttribute = "holdfast-identity"

// machineID is what a host's SMBIOS tells.
type machineID struct {
	UUID   string `json:"uuid,omitempty"`
	Serial string `json:"serial,omitempty"`
}

// learnedPath is where the identity of a target is kept, beside its device and
// not in it: the device has another writer.
func learnedPath(dir, target string) string { return filepath.Join(dir, "learned", target+".json") }

// withLearned is a device with what its target said of itself while it was
// healthy. What a person wrote into the device goes before it.
func withLearned(dir string, dev state.FencingDevice) state.FencingDevice {
	if dev.UUID != "" || dev.Serial != "" {
		return dev
	}
	data, err := os.ReadFile(learnedPath(dir, dev.Target))
	if err != nil {
		return dev
	}
	var id machineID
	if json.Unmarshal(data, &id) == nil {
		dev.UUID, dev.Serial = id.UUID, id.Serial
	}
	return dev
}

// introduce tells the peer whose machine this is.
func (a *Agent) introduce(ctx context.Context) error {
	uuid, serial, err := a.own()
	if err != nil {
		return err
	}
	value, err := json.Marshal(machineID{uuid, serial})
	if err != nil {
		return err
	}
	return a.publish(ctx, string(value))
}

// learn keeps what a target says of itself. A target that says nothing, as one
// that is down, leaves what was learned.
func (a *Agent) learn(ctx context.Context, target string) error {
	value, found, err := a.heard(ctx, target)
	if err != nil || !found {
		return err
	}
	var id machineID
	if err := json.Unmarshal([]byte(value), &id); err != nil || id == (machineID{}) {
		return fmt.Errorf("learn the identity of %s: it published something else", target)
	}
	data, err := json.Marshal(id)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	path := learnedPath(a.Devices, target)
	if have, err := os.ReadFile(path); err == nil && string(have) == string(data) {
		return nil
	}
	if err := host.WriteFileAtomic(path, data, 0o600); err != nil {
		return fmt.Errorf("learn the identity of %s: %w", target, err)
	}
	return nil
}
