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

// identityAttribute is the private Pacemaker attribute in which the agents of
// the two hosts publish their identity. It disappears with the node, so that a
// host learns only from a live one.
const identityAttribute = "holdfast-identity"

// machineID is the identity in a host's SMBIOS.
type machineID struct {
	UUID   string `json:"uuid,omitempty"`
	Serial string `json:"serial,omitempty"`
}

// learned holds what is learned about a target while it is healthy: its
// identity, and where its BMC lists it, so that a fence does not have to
// search.
type learned struct {
	machineID
	// System is the path of the target's system at the BMC with that Address.
	// Session reports whether that BMC accepts the account only in a session.
	System  string `json:"system,omitempty"`
	Address string `json:"address,omitempty"`
	Session bool   `json:"session,omitempty"`
}

// learnedPath returns the path of the learned data. It is beside the target's
// device file, not in it, because that file has another writer.
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

// writeLearned writes the learned data if it has changed.
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

// withLearned adds the learned identity of the target to a device that has
// none. A placeholder of the vendor in the device does not count: an older
// release wrote those too.
func withLearned(files records.Files, dev state.FencingDevice) state.FencingDevice {
	dev.UUID, dev.Serial = redfish.RealUUID(dev.UUID), redfish.RealSerial(dev.Serial)
	if dev.UUID == "" && dev.Serial == "" {
		id := readLearned(files, dev.Target)
		dev.UUID, dev.Serial = redfish.RealUUID(id.UUID), redfish.RealSerial(id.Serial)
	}
	return dev
}

// hint returns the learned system path of a device's BMC, and the way in which
// that BMC accepted the account.
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

// refusals counts how often a BMC refused the account within one call, or one Watch.
type refusals struct {
	// told counts the refused log-ins. silent counts the refusals in which the BMC
	// named no way to log in.
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

// login returns the way to log in next. A BMC that names none could accept either.
// After the first refusal they are tried one at a time, because each try counts
// towards a lockout.
func (r *refusals) login(usual redfish.Login) redfish.Login {
	switch {
	case r.silent == 0:
		return usual
	case r.silent%2 == 1:
		return redfish.LoginBasic
	}
	return redfish.LoginSession
}

// found stores the system path at the BMC of a device, and the way in which it
// accepts the account.
func (a *Agent) found(dev state.FencingDevice, r Report) error {
	l := readLearned(a.Files, dev.Target)
	l.System, l.Address, l.Session = r.System, dev.Address, r.Session
	if err := writeLearned(a.Files, dev.Target, l); err != nil {
		return fmt.Errorf("keep where the BMC of %s has its system: %w", dev.Target, err)
	}
	return nil
}

// introduce publishes this host's identity to the peer.
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

// learn stores the identity that a target publishes. A target that publishes
// none, for example because it is down, keeps the stored one.
func (a *Agent) learn(ctx context.Context, target string) error {
	value, found, err := a.heard(ctx, target)
	if err != nil || !found {
		return err
	}
	var id machineID
	if err := json.Unmarshal([]byte(value), &id); err != nil || id == (machineID{}) {
		return fmt.Errorf("learn the identity of %s: its published value is not an identity", target)
	}
	l := readLearned(a.Files, target)
	l.machineID = id
	if err := writeLearned(a.Files, target, l); err != nil {
		return fmt.Errorf("learn the identity of %s: %w", target, err)
	}
	return nil
}
