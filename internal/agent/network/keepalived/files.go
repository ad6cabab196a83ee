package keepalived

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/deleted"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/keepalived"
)

// toldPath holds the hash of the configuration that keepalived was last told to
// read. It must not outlive a boot, after which keepalived reads what is there.
const toldPath = "/run/holdfast/keepalived.told"

// value returns the value in a track file.
func (f files) value(name string) (state.Fact[int], error) {
	data, err := os.ReadFile(filepath.Join(f.path(render.TrackDir), name))
	if errors.Is(err, fs.ErrNotExist) {
		return state.Fact[int]{}, nil
	}
	if err != nil {
		return state.Fact[int]{}, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return state.Fact[int]{}, nil //nolint:nilerr // half a number is none
	}
	return state.Known(n), nil
}

// track writes a track file unless it has that value already. keepalived follows
// the folder, and reads the file when it is replaced.
func (f files) track(name string, value int) (wrote bool, err error) {
	if now, err := f.value(name); err != nil || state.Is(now, value) {
		return false, err
	}
	return true, f.rewrite(name, value)
}

// rewrite writes a track file even if its value stays, which wakes keepalived.
func (f files) rewrite(name string, value int) error {
	return host.WriteFileAtomic(filepath.Join(f.path(render.TrackDir), name), fmt.Appendln(nil, value), state.DefaultFileMode)
}

// prune removes the track files that are not wanted any more.
func (f files) prune(wanted []string) error {
	list, err := os.ReadDir(f.path(render.TrackDir))
	if err != nil {
		return err
	}
	for _, e := range list {
		if slices.Contains(wanted, e.Name()) || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := os.Remove(filepath.Join(f.path(render.TrackDir), e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// configure writes the configuration, and the static pod once there is something
// to hold, unless an administrator keeps it away. It tells keepalived to read a
// configuration other than the one that it was last told of. This covers an
// earlier run that wrote the file and was killed, or failed, before it could tell.
func (f files) configure(conf, pod []byte, wanted bool) (told bool, err error) {
	before, err := f.known()
	if err != nil {
		return false, err
	}
	list := []state.File{{Path: render.ConfigPath, Data: conf}}
	if there := host.Exists(f.path(render.PodPath)); pod != nil && (there || wanted && !f.left()) {
		list = append(list, state.File{Path: render.PodPath, Data: pod, Mode: state.SecretFileMode})
	}
	if _, err := host.WriteFiles(f.root, list); err != nil {
		return false, err
	}
	now, err := f.hash()
	if err != nil || bytes.Equal(now, before) {
		return false, err
	}
	if err := f.reload(); err != nil {
		return false, err
	}
	return true, host.WriteFileAtomic(f.path(toldPath), now, state.DefaultFileMode)
}

// left reports whether an administrator listed the static pod among the files that stay away. A list
// that cannot be read keeps nothing away: without keepalived this host holds no virtual IP.
func (f files) left() bool {
	list, err := os.ReadFile(f.path(deleted.LeavePath))
	return err == nil && slices.Contains(strings.Fields(string(list)), render.PodPath)
}

// known returns the hash of the configuration that keepalived has: the one it was
// told of, or after a boot the one that it started with.
func (f files) known() ([]byte, error) {
	told, err := os.ReadFile(f.path(toldPath))
	if !errors.Is(err, fs.ErrNotExist) {
		return told, err
	}
	now, err := f.hash()
	if err != nil {
		return nil, err
	}
	return now, host.WriteFileAtomic(f.path(toldPath), now, state.DefaultFileMode)
}

// hash returns the hash of the configuration on disk, or nothing without one.
func (f files) hash() ([]byte, error) {
	data, err := os.ReadFile(f.path(render.ConfigPath))
	if errors.Is(err, fs.ErrNotExist) {
		return []byte{}, nil
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return []byte(hex.EncodeToString(sum[:]) + "\n"), nil
}

// number returns a track file's value in words for people.
func number(value int) string {
	if value <= vrrp.Fault {
		return "off"
	}
	return fmt.Sprintf("%+d", value)
}

func sorted(parts []string) string {
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}
