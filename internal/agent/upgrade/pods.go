package upgrade

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/staticpod"
)

// manifestsDir is where kubelet finds static pods.
const manifestsDir = "/etc/kubernetes/manifests/"

const apiServerPod = manifestsDir + "kube-apiserver.yaml"

// podFiles are the manifests that name images of a release and that no part of the
// agent writes anew when it starts. A host has some of them.
var podFiles = []string{
	apiServerPod, manifestsDir + "kube-controller-manager.yaml", manifestsDir + "kube-scheduler.yaml",
	manifestsDir + "etcd.yaml", state.EtcdPodManifest,
}

// podsFolder is that of the pods of releases, below Folder.
const podsFolder = "pods"

// podsMode is that of kubeadm's manifests.
const podsMode = 0o600

// Pods are the static pods of the releases of a host. Those of each release lie in a
// folder, made from what the host has; the one link that chooses a release chooses them
// too, by Settle, which kubelet runs before it starts.
type Pods struct {
	// Root is "/" except in tests.
	Root      string
	WriteFile func(path string, data []byte, mode fs.FileMode) error
	// Current is the release to which the link leads.
	Current func() (string, error)
	// Images returns the images of a release, by their names in it.
	Images func(digest string) (map[string]string, error)
	// Arguments returns the arguments that a release gives the programs of these pods.
	Arguments func(digest string) (staticpod.Arguments, error)
	// Level returns the functional level that the host keeps on its way between two
	// releases; empty if the new one raises none.
	Level func(from, to string) (string, error)
}

// PodsAt returns the pattern of what takes the place of a static pod on the way between releases.
func PodsAt(path string) string { return filepath.Join(Folder, podsFolder, "*", path) }

func (p Pods) at(digest, path string) string {
	return filepath.Join(p.Root, Folder, podsFolder, strings.TrimPrefix(digest, "sha256:"), path)
}

// Prepare makes the folders of two releases, one of which is the current one. The pods of
// the new release behave as the functional level, those of the old one as what they are. It
// returns arguments that stay because they are not as the current release gives them.
func (p Pods) Prepare(from, to string) (kept []string, err error) {
	return p.each(from, to, func(path string, data []byte) error {
		if data == nil {
			return remove(path) // of an earlier way
		}
		return p.WriteFile(path, data, podsMode)
	})
}

// Check does it without writing anything.
func (p Pods) Check(from, to string) error {
	_, err := p.each(from, to, func(string, []byte) error { return nil })
	return err
}

// each makes the pods of two releases, and has something done with each path of a folder. The
// data are nil where the host has no such pod.
func (p Pods) each(from, to string, do func(path string, data []byte) error) (kept []string, err error) {
	current, err := p.Current()
	if err != nil {
		return nil, err
	}
	level := ""
	if to != current {
		if level, err = p.Level(from, to); err != nil {
			return nil, fmt.Errorf("the functional level of release %s: %w", from, err)
		}
	}
	for digest, level := range map[string]string{from: "", to: level} {
		for _, path := range podFiles {
			data, stay, err := p.of(digest, path, level, current)
			if err == nil {
				err = do(p.at(digest, path), data)
			}
			if err != nil {
				return nil, fmt.Errorf("prepare the static pods of release %s: %w", digest, err)
			}
			kept = append(kept, stay...)
		}
	}
	return kept, nil
}

// of makes a pod of a release from what the host has, nil for none.
func (p Pods) of(digest, path, level, current string) (data []byte, kept []string, err error) {
	data, err = os.ReadFile(filepath.Join(p.Root, path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil || digest == current {
		return data, nil, err
	}
	refs, err := p.Images(digest)
	if err != nil {
		return nil, nil, err
	}
	arguments, err := p.Arguments(digest)
	if err != nil {
		return nil, nil, err
	}
	before, err := p.Arguments(current)
	if err != nil {
		before = arguments // a return waits for nothing that the release which it leaves says
	}
	if data, err = staticpod.With(data, refs); err == nil {
		data, kept, err = staticpod.Given(data, arguments, before)
	}
	if err == nil {
		data, err = staticpod.At(data, level)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, kept, nil
}

// Settle has the host have the static pods of the current release. It does nothing
// where none were prepared.
func (p Pods) Settle() error {
	current, err := p.Current()
	if err != nil || current == "" {
		return err
	}
	for _, path := range podFiles {
		want, err := os.ReadFile(p.at(current, path))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		have, err := os.ReadFile(filepath.Join(p.Root, path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && bytes.Equal(have, want) {
			continue
		}
		if err := p.WriteFile(filepath.Join(p.Root, path), want, podsMode); err != nil {
			return fmt.Errorf("write the static pods of release %s: %w", current, err)
		}
	}
	return nil
}

// Forget removes the folders, once the way has ended: another part of Holdfast may
// change a pod after that.
func (p Pods) Forget() error {
	return forget(p.Root, podsFolder)
}

// forget removes a folder of a way, durably.
func forget(root, folder string) error {
	if err := os.RemoveAll(filepath.Join(root, Folder, folder)); err != nil {
		return err
	}
	return host.SyncDir(filepath.Join(root, Folder))
}

// layoutOf opens the layout of a release that lies below root.
func layoutOf(root, digest string) (*release.Store, error) {
	store, err := release.NewShelf(root, 0).Find(digest, release.Installed(root))
	if err != nil {
		return nil, fmt.Errorf("release %s: %w", digest, err)
	}
	return store, nil
}

// argumentsOf returns the arguments of a release that lies below root.
func argumentsOf(root, digest string) (staticpod.Arguments, error) {
	store, err := layoutOf(root, digest)
	if err != nil {
		return nil, err
	}
	if about := store.Manifest().About; about != nil {
		return about.Arguments, nil
	}
	return nil, nil
}

// imagesOf returns the images of a release that lies below root.
func imagesOf(root, digest string) (map[string]string, error) {
	store, err := layoutOf(root, digest)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, i := range store.Manifest().Images {
		out[i.Name] = i.Ref
	}
	return out, nil
}
