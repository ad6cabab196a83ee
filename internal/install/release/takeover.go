package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// markerFile is how earlier versions of Holdfast recorded, on a host, which files
// came from the release. They had its programs as plain files where the stable
// links are now.
const markerFile = "var/lib/holdfast/release-files.json"

// marker is the content of markerFile.
type marker struct {
	Release string       `json:"release"`
	Files   []markedFile `json:"files"`
}

// readMarker returns an empty marker if there is none. A damaged one counts as
// empty too: the files that it names stay.
func readMarker(root string) (marker, error) {
	var m marker
	data, err := os.ReadFile(filepath.Join(root, markerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	if json.Unmarshal(data, &m) != nil || checkPaths((record{Files: m.Files}).files()) != nil {
		m = marker{}
	}
	return m, nil
}

// takeOver makes a release, the current one, of the programs that an earlier
// version of Holdfast wrote, and puts stable links in their places. Their contents
// stay the same at each moment, and there is a way back to them. Programs that are
// not as their release brought them are no release: they stay for now, and the
// caller replaces them one by one. The result is the marker of the earlier version,
// for endOld.
func (d disk) takeOver() (marker, error) {
	old, err := readMarker(d.root)
	if err != nil {
		return old, err
	}
	name, ok := digestHex(old.Release)
	if !ok {
		return old, nil
	}
	if _, err := d.whole(name); err != nil {
		if adopted, err := d.adopt(name, old); err != nil || !adopted {
			return old, err
		}
	}
	now, err := d.named(currentLink)
	if err != nil {
		return old, err
	}
	if now == "" {
		if err := d.point(currentLink, name); err != nil {
			return old, err
		}
	}
	return old, d.link((record{Files: old.Files}).files())
}

// adopt gives the files of an earlier version a second name, in a release's folder.
// It reports whether they are all as their release brought them.
func (d disk) adopt(name string, old marker) (bool, error) {
	files := (record{Files: old.Files}).files()
	if len(lost(d.root, old.Files, files)) > 0 || host.Exists(d.at(name)) {
		return false, nil
	}
	if err := d.clean(); err != nil {
		return false, err
	}
	part := name + unfinished
	for _, f := range files {
		err := d.effect(func() error { return second(filepath.Join(d.root, f.Path), filepath.Join(d.at(part), f.Path), f) })
		if err != nil {
			return false, errors.Join(fmt.Errorf("keep %s: %w", f.Path, err), d.clean())
		}
	}
	to := record{Format: recordFormat, Release: old.Release}
	return true, d.finish(part, name, to, files)
}

// second gives a file a second name, or copies it to another file system.
func second(from, to string, f File) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	return errors.Join(place(to, in, f, adoptedMode), host.SetLabel(to, host.Label(from)), in.Close())
}

// endOld removes the plain files of an earlier version that no release has, and
// its marker. The marker goes last: while it is there, the take-over goes on.
func (d disk) endOld(old marker, files []File) error {
	path := filepath.Join(d.root, markerFile)
	if !host.Exists(path) {
		return nil
	}
	var folders []string
	for _, f := range old.Files {
		at := filepath.Join(d.root, f.Path)
		stays := slices.ContainsFunc(files, func(k File) bool { return k.Path == f.Path })
		if info, err := os.Lstat(at); stays || err != nil || !info.Mode().IsRegular() {
			continue // the links of a release that was made of them stay, as the way back
		}
		if err := d.effect(func() error { return removeFile(at) }); err != nil {
			return err
		}
		folders = append(folders, filepath.Dir(at))
	}
	if err := syncAll(folders); err != nil {
		return err
	}
	if err := d.effect(func() error { return removeFile(path) }); err != nil {
		return err
	}
	return host.SyncDir(filepath.Dir(path))
}
