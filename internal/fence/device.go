package fence

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/secret"
	"github.com/holdfast/holdfast/internal/model/state"
)

// answerTimeout bounds one answer of a BMC. A BMC slower than LongestAnswer
// could not fence within Pacemaker's time.
const answerTimeout = fencing.LongestAnswer + 10*time.Second

// ReadDevice reads and checks the device of a target, completed with the
// learned identity of that target.
func ReadDevice(files records.Files, target string) (state.FencingDevice, error) {
	dev, err := readDevice(files, target)
	if err != nil {
		return dev, err
	}
	return dev, CheckDevice(dev)
}

func readDevice(files records.Files, target string) (state.FencingDevice, error) {
	dev, err := files.Device(target)
	if err != nil {
		return dev, err
	}
	return withLearned(files, dev), nil
}

// CheckDevice returns all mistakes of a device, each with its field. It never
// quotes an account.
func CheckDevice(dev state.FencingDevice) error { return checkDevice(dev, bmc.Parse) }

// parser reads the address of a BMC.
type parser func(string) (bmc.Address, error)

func checkDevice(dev state.FencingDevice, parse parser) error {
	var mistakes []error
	wrong := func(field, format string, args ...any) {
		mistakes = append(mistakes, fmt.Errorf("fencing device of %s: %s: "+format, append([]any{dev.Target, field}, args...)...))
	}
	if !records.IsNodeName(dev.Target) {
		wrong("target", "%q is not a valid node name", dev.Target)
	}
	if _, err := parse(dev.Address); err != nil {
		wrong("address", "%w", err)
	}
	if dev.Username == "" {
		wrong("username", "must not be empty")
	}
	if dev.Password == "" {
		wrong("password", "must not be empty")
	}
	if dev.Fingerprint != "" && !bmc.IsFingerprint(dev.Fingerprint) {
		wrong("fingerprint", "must be a SHA-256 in hex, 64 digits")
	}
	if dev.Delay < 0 {
		wrong("delay", "must not be negative")
	}
	return errors.Join(mistakes...)
}

// endpoint returns the connection data of a device's BMC. It refuses a connection
// that is neither verified nor pinned.
func endpoint(dev state.FencingDevice, parse parser) (redfish.Endpoint, error) {
	address, err := parse(dev.Address)
	if err != nil {
		return redfish.Endpoint{}, fmt.Errorf("fencing device of %s: address: %w", dev.Target, err)
	}
	if unpinned(dev) {
		return redfish.Endpoint{}, &unpinnedError{dev.Target}
	}
	return redfish.Endpoint{
		Address: address, Username: dev.Username, Password: secret.Text(dev.Password),
		Name: dev.Target, Fingerprint: dev.Fingerprint, LegacyTLS: dev.LegacyTLS,
		UUID: dev.UUID, Serial: dev.Serial, SystemID: dev.SystemID, Timeout: answerTimeout,
	}, nil
}
