package release

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// The kubelet of a release is held by the stable link of kubelet itself: it leads to the
// folder of that release, and not through current. So no second link has to agree with
// current, and hosts that hold nothing look as they did before.

// heldAt returns where the link of kubelet leads while that of a release is held.
func heldAt(name string) string {
	return filepath.Join(payload.ReleasesDir, name, payload.Kubelet)
}

// holder returns the name of the release to which the link at a host's path leads,
// without current; empty if it leads through that, or is no such link.
func (d disk) holder(path string) string {
	if path != payload.Kubelet {
		return ""
	}
	target, err := os.Readlink(filepath.Join(d.root, path))
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(target, payload.ReleasesDir+"/"), "/")
	if _, ok := digestHex("sha256:" + name); !ok || target != heldAt(name) {
		return ""
	}
	return name
}

func (d disk) kubelet() (string, error) {
	if name := d.holder(payload.Kubelet); name != "" {
		return "sha256:" + name, nil
	}
	return d.named(currentLink)
}

// hold has kubelet stay that of a release, if it is to: before current changes.
func (d disk) hold(name string) error {
	if name == "" {
		return nil
	}
	held, err := d.whole(name)
	if err != nil {
		return err
	}
	for _, f := range held.files() {
		if f.Path == payload.Kubelet {
			return d.lead(heldAt(name))
		}
	}
	return fmt.Errorf("it has no %s", payload.Kubelet)
}

// letGo has kubelet be that of the current release again: after current has changed.
func (d disk) letGo() error {
	if d.holder(payload.Kubelet) == "" {
		return nil
	}
	return d.lead(stable(payload.Kubelet))
}

// lead has the link of kubelet lead somewhere, durably.
func (d disk) lead(target string) error {
	path := filepath.Join(d.root, payload.Kubelet)
	if err := d.setLink(path, target); err != nil {
		return err
	}
	if err := host.SyncDir(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
