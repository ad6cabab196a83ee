package release

import (
	"fmt"
	"os"
	"path/filepath"
)

// Changed lists the paths of a release that is in place which are missing, which
// somebody changed, or which lead somewhere else than to it. It reads attributes and no
// content; Verify reads that.
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
		if err != nil || target != stable(f.Path) || !holds(d.at(name), r.Files, f) {
			out = append(out, f.Path)
		}
	}
	return out, nil
}
