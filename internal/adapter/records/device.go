package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

// nodeName matches the names that a node may have (RFC 1123); the name becomes part
// of a file name.
var nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// IsNodeName reports whether a node, and so a file, may have this name.
func IsNodeName(name string) bool { return nodeName.MatchString(name) }

// Targets lists the nodes for which this host has a fencing device.
func (f Files) Targets() ([]string, error) {
	entries, err := os.ReadDir(f.Path(state.FencingDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list fencing devices: %w", err)
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && IsNodeName(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// BMCs returns the names or addresses of the BMCs of this host's fencing devices, in
// order. It skips a device that cannot be read: that is reported where it is needed for
// fencing.
func (f Files) BMCs() []string {
	targets, _ := f.Targets()
	var out []string
	for _, t := range targets {
		dev, err := f.Device(t)
		if err != nil {
			continue
		}
		if at, err := bmc.Parse(dev.Address); err == nil {
			out = append(out, at.Host)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Device returns the fencing device of a target as it was written. It refuses a file
// that others than its owner can read, or whose owner is neither root nor the caller:
// others may then know the account in it.
func (f Files) Device(target string) (state.FencingDevice, error) {
	if !IsNodeName(target) {
		return state.FencingDevice{}, fmt.Errorf("fencing device of %q: not a valid node name", target)
	}
	path := f.devicePath(target)
	data, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state.FencingDevice{}, fmt.Errorf("fencing device of %s: %s does not exist: a host has the device of its peer, never its own", target, path)
	}
	if err != nil {
		return state.FencingDevice{}, fmt.Errorf("fencing device of %s: %w", target, err)
	}
	var dev state.FencingDevice
	if err := json.Unmarshal(data, &dev); err != nil {
		return dev, fmt.Errorf("fencing device of %s: %s does not hold a fencing device: write it again with 'holdfast fencing rotate %s --address ADDRESS --username USER --password-file FILE'", target, path, target)
	}
	if dev.Target != target {
		return dev, fmt.Errorf("fencing device of %s: %s is the device of %q", target, path, dev.Target)
	}
	return dev, nil
}

// WriteDevice writes a fencing device, unless its file already has this content.
func (f Files) WriteDevice(dev state.FencingDevice) (wrote bool, err error) {
	if wrote, err = f.writeDevice(dev); err != nil {
		return false, fmt.Errorf("fencing device of %s: %w", dev.Target, err)
	}
	return wrote, nil
}

func (f Files) writeDevice(dev state.FencingDevice) (wrote bool, err error) {
	data, err := json.MarshalIndent(dev, "", "  ")
	if err != nil {
		return false, err
	}
	path := f.devicePath(dev.Target)
	data = append(data, '\n')
	if have, err := readPrivate(path); err == nil && slices.Equal(have, data) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	return true, host.WriteFileAtomic(path, data, 0o600)
}

// RemoveDevice removes the fencing device of a target; none is fine.
func (f Files) RemoveDevice(target string) error { return remove(f.devicePath(target)) }

func (f Files) devicePath(target string) string {
	return f.Path(filepath.Join(state.FencingDir, target+".json"))
}

// readPrivate reads a file that only its owner can read, who is root or the caller.
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
	owner := info.Sys().(*syscall.Stat_t).Uid // always of this type on Linux
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case owner != 0 && int(owner) != os.Geteuid():
		return nil, fmt.Errorf("%s belongs to user %d, not to root: change its password at the BMC, then write the file again", path, owner)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s has mode %04o, so that others can read it: change its password at the BMC, then run chmod 600", path, info.Mode().Perm())
	}
	return io.ReadAll(f)
}
