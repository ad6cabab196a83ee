package fence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/model/state"
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

// learned is what is kept of a target while it is healthy: what it said of
// itself, and where its BMC had it, so that a fence need not search.
type learned struct {
	machineID
	// System is the path at the BMC of that Address, Session whether it takes the
	// account by a session alone.
	System  string `json:"system,omitempty"`
	Address string `json:"address,omitempty"`
	Session bool   `json:"session,omitempty"`
}

// learnedPath is where that is kept, beside the target's device and not in it:
// the device has another writer.
func learnedPath(files records.Files, target string) string {
	return files.Path(filepath.Join(state.FencingDir, "learned", target+".json"))
}

func readLearned(files records.Files, target string) (l learned) {
	data, err := os.ReadFile(learnedPath(files, target))
	if err != nil || json.Unmarshal(data, &l) != nil {
		return learned{}
	}
	return l
}

// writeLearned keeps what changed.
func writeLearned(files records.Files, target string, l learned) error {
	if readLearned(files, target) == l {
		return nil
	}
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(learnedPath(files, target), append(data, '\n'), 0o600)
}

// withLearned is a device with what its target said of itself while it was
// healthy. What the device says goes before it, unless that is only what a
// vendor left in its field: an older release wrote that too.
func withLearned(files records.Files, dev state.FencingDevice) state.FencingDevice {
	dev.UUID, dev.Serial = redfish.RealUUID(dev.UUID), redfish.RealSerial(dev.Serial)
	if dev.UUID == "" && dev.Serial == "" {
		id := readLearned(files, dev.Target)
		dev.UUID, dev.Serial = redfish.RealUUID(id.UUID), redfish.RealSerial(id.Serial)
	}
	return dev
}

// hint is where the BMC of a device had its system, and how it took the account,
// if that was learned.
func hint(files records.Files, dev state.FencingDevice) (system string, login redfish.Login) {
	l := readLearned(files, dev.Target)
	if l.Address != dev.Address {
		return "", redfish.LoginAny
	}
	if l.Session {
		return l.System, redfish.LoginSession
	}
	return l.System, redfish.LoginAny
}

// refusals are those of an account within one call.
type refusals struct {
	// told is how often the BMC was told the account and refused it, silent how
	// often it did so without naming a way that it takes.
	told, silent int
}

func (r *refusals) note(err error) {
	e, ok := errors.AsType[*redfish.Error](err)
	if !ok || e.Reason != redfish.Credentials {
		return
	}
	r.told += max(1, e.LogIns)
	if e.Silent {
		r.silent++
	}
}

// login is how to tell the account next. A BMC that names no way leaves both to be
// tried: one at a time from then on, since it counts, and locks out.
func (r *refusals) login(usual redfish.Login) redfish.Login {
	switch {
	case r.silent == 0:
		return usual
	case r.silent%2 == 1:
		return redfish.LoginBasic
	}
	return redfish.LoginSession
}

// found keeps where the BMC of a device has its system, and how it takes the
// account.
func (a *Agent) found(dev state.FencingDevice, r Report) error {
	l := readLearned(a.Files, dev.Target)
	l.System, l.Address, l.Session = r.System, dev.Address, r.Session
	if err := writeLearned(a.Files, dev.Target, l); err != nil {
		return fmt.Errorf("keep where the BMC of %s has its system: %w", dev.Target, err)
	}
	return nil
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
	l := readLearned(a.Files, target)
	l.machineID = id
	if err := writeLearned(a.Files, target, l); err != nil {
		return fmt.Errorf("learn the identity of %s: %w", target, err)
	}
	return nil
}
