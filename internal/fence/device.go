package fence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast/holdfast/internal/config"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/redfish"
	"github.com/holdfast/holdfast/internal/state"
)

// answerTimeout bounds one answer of a BMC. Slower ones than LongestAnswer
// could not fence within Pacemaker's time.
const answerTimeout = fencing.LongestAnswer + 10*time.Second

// nodeName is what a node may be called (RFC 1123); it becomes a file name.
var nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// ReadDevice reads the device of a target, with what was learned about the
// target, and checks it. It refuses a file that others than its owner can read,
// or that is not root's: the account in it may be known to others then.
func ReadDevice(dir, target string) (state.FencingDevice, error) {
	dev, err := readDevice(dir, target)
	if err != nil {
		return dev, err
	}
	return dev, CheckDevice(dev)
}

func readDevice(dir, target string) (state.FencingDevice, error) {
	dev, err := readFile(dir, target)
	if err != nil {
		return dev, err
	}
	return withLearned(dir, dev), nil
}

// readFile reads a device as it was written.
func readFile(dir, target string) (state.FencingDevice, error) {
	var dev state.FencingDevice
	if !nodeName.MatchString(target) {
		return dev, fmt.Errorf("fencing device of %q: that is no name of a node", target)
	}
	path := devicePath(dir, target)
	data, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return dev, fmt.Errorf("fencing device of %s: %s does not exist: a host has the device of its peer, never its own", target, path)
	}
	if err != nil {
		return dev, fmt.Errorf("fencing device of %s: %w", target, err)
	}
	if err := json.Unmarshal(data, &dev); err != nil {
		return dev, fmt.Errorf("fencing device of %s: %s holds no device: write it anew with 'holdfast fencing rotate %s'", target, path, target)
	}
	if dev.Target != target {
		return dev, fmt.Errorf("fencing device of %s: %s is the device of %q", target, path, dev.Target)
	}
	return dev, nil
}

// Targets lists the nodes that this host has a device of.
func Targets(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list fencing devices: %w", err)
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && nodeName.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

func devicePath(dir, target string) string { return filepath.Join(dir, target+".json") }

// readPrivate reads a file that only its owner, root or the one who asks, can
// read.
func readPrivate(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid // on Linux it is that
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	case owner != 0 && int(owner) != os.Geteuid():
		return nil, fmt.Errorf("%s belongs to user %d, not to root: change its password at the BMC, then write it anew", path, owner)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s has mode %04o, so that others can read it: change its password at the BMC, then run chmod 600", path, info.Mode().Perm())
	}
	return os.ReadFile(path)
}

// CheckDevice returns all mistakes of a device, each with its field. None
// quotes an account.
func CheckDevice(dev state.FencingDevice) error { return checkDevice(dev, config.ParseBMCAddress) }

// parser reads the address of a BMC.
type parser func(string) (config.BMCAddress, error)

func checkDevice(dev state.FencingDevice, parse parser) error {
	var mistakes []error
	wrong := func(field, format string, args ...any) {
		mistakes = append(mistakes, fmt.Errorf("fencing device of %s: %s: "+format, append([]any{dev.Target, field}, args...)...))
	}
	if !nodeName.MatchString(dev.Target) {
		wrong("target", "%q is no name of a node", dev.Target)
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
	if dev.Fingerprint != "" && !config.IsFingerprint(dev.Fingerprint) {
		wrong("fingerprint", "must be a SHA-256 in hex, 64 digits")
	}
	if dev.Delay < 0 {
		wrong("delay", "must not be negative")
	}
	return errors.Join(mistakes...)
}

// endpoint is how a device's BMC is spoken to: over a connection that is verified
// or pinned, and over none else.
func endpoint(dev state.FencingDevice, parse parser) (redfish.Endpoint, error) {
	address, err := parse(dev.Address)
	if err != nil {
		return redfish.Endpoint{}, fmt.Errorf("fencing device of %s: address: %w", dev.Target, err)
	}
	if unpinned(dev) {
		return redfish.Endpoint{}, &unpinnedError{dev.Target}
	}
	return redfish.Endpoint{
		Address: address, Username: dev.Username, Password: config.Secret(dev.Password),
		Name: dev.Target, Fingerprint: dev.Fingerprint, LegacyTLS: dev.LegacyTLS,
		UUID: dev.UUID, Serial: dev.Serial, SystemID: dev.SystemID, Timeout: answerTimeout,
	}, nil
}

// writeDevice writes the device's file, or nothing where it says the same.
func writeDevice(dir string, dev state.FencingDevice) (wrote bool, err error) {
	data, err := json.MarshalIndent(dev, "", "  ")
	if err != nil {
		return false, fmt.Errorf("fencing device of %s: %w", dev.Target, err)
	}
	path := devicePath(dir, dev.Target)
	data = append(data, '\n')
	if have, err := readPrivate(path); err == nil && slices.Equal(have, data) {
		return false, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, fmt.Errorf("fencing device of %s: %w", dev.Target, err)
	}
	if err := host.WriteFileAtomic(path, data, 0o600); err != nil {
		return false, fmt.Errorf("fencing device of %s: %w", dev.Target, err)
	}
	return true, nil
}
