package release

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// Changed lists the paths of a release that is in place which are missing, which
// somebody changed, or which lead somewhere else than to it. It reads attributes and no
// content; Verify reads that. A kubelet that is held is compared with its own release.
func Changed(root, digest string) ([]string, error) {
	d := on(root)
	name, ok := digestHex(digest)
	if !ok {
		return nil, fmt.Errorf("%q is not the digest of a release", digest)
	}
	r, err := d.read(name)
	if err != nil {
		return nil, err
	}
	out := []string{} // nil would read as unknown
	for _, f := range r.files() {
		target, err := os.Readlink(filepath.Join(root, f.Path))
		want := stable(f.Path)
		held := d.holder(f.Path)
		if held != "" {
			want = heldAt(held)
		}
		if err != nil || target != want || !holds(d.at(name), r.Files, f) || held != "" && !d.hasKubelet(held) {
			out = append(out, f.Path)
		}
	}
	return out, nil
}

// hasKubelet reports whether the kubelet of a release is as it was written.
func (d disk) hasKubelet(name string) bool {
	r, err := d.read(name)
	return err == nil && slices.ContainsFunc(r.files(), func(f File) bool {
		return f.Path == payload.Kubelet && holds(d.at(name), r.Files, f)
	})
}
