package installer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/manifests"
)

// manifestDirs lists the folders of manifests in the install directory: objects
// of the cluster, and the pod network.
var manifestDirs = []string{"manifests", "network"}

// Manifests writes the manifests. The administrator may then change them before
// the Ignition files are made. It keeps changed files, and writes deleted ones
// again. It returns the paths that it wrote.
func (in *Installer) Manifests() ([]string, error) {
	release, err := in.lock()
	if err != nil {
		return nil, err
	}
	defer release()
	_, st, set, err := in.open()
	if err != nil {
		return nil, err
	}
	return in.saveManifests(st, set, slices.Concat(set.use, set.deleted))
}

// manifests returns the objects that the first host applies: those that
// Manifests writes, with everything that the administrator changed, added or
// deleted in the directory. Unchanged files follow the configuration.
func (in *Installer) manifests(st *saved, set manifestSet) ([]state.File, error) {
	if !set.onDisk || len(st.Manifests) == 0 {
		return set.use, nil
	}
	_, err := in.saveManifests(st, set, set.use)
	return set.use, err
}

// saveManifests writes files, removes those that are not needed any more, and
// then records what was rendered. If it is cut in between, the next run does
// not mistake anything for a change by the administrator.
func (in *Installer) saveManifests(st *saved, set manifestSet, files []state.File) ([]string, error) {
	wrote, err := host.WriteFiles(in.Dir, files)
	if err != nil {
		return wrote, err
	}
	for _, path := range set.stale {
		if err := host.RemoveFile(filepath.Join(in.Dir, path)); err != nil {
			return wrote, err
		}
		in.warn("removed %s: %s no longer asks for it", filepath.Join(in.Dir, path), ConfigFile)
	}
	if maps.Equal(st.Manifests, set.rendered) {
		return wrote, nil
	}
	st.Manifests = set.rendered
	return wrote, in.writeState(st)
}

// manifestSet is the result of merging the manifests of a directory.
type manifestSet struct {
	// use holds the files for the cluster.
	use []state.File
	// deleted holds files that were written once and that the administrator
	// removed.
	deleted []state.File
	// stale lists the paths of unchanged files that are no longer rendered.
	stale []string
	// rendered holds the hash of each rendered file.
	rendered map[string]string
	// onDisk is true if the directory contains any manifest.
	onDisk bool
}

// mergeManifests merges what the configuration asks for, what was written
// before, and what the directory holds now. An administrator who deleted all
// manifests wants to start again, not a cluster without objects.
func (in *Installer) mergeManifests(s *site.Site, st *saved) (manifestSet, error) {
	rendered, err := Objects(s)
	if err != nil {
		return manifestSet{}, err
	}
	disk, err := in.manifestsOnDisk()
	if err != nil {
		return manifestSet{}, err
	}
	written := st.Manifests
	if len(disk) == 0 {
		written = nil
	}
	onDisk := len(disk) > 0
	set, err := merge(rendered, written, disk)
	set.onDisk = onDisk
	return set, err
}

// merge is a three-way merge of whole files. It refuses to choose if both the
// administrator and the configuration changed a file.
func merge(rendered []state.File, written map[string]string, disk map[string]state.File) (manifestSet, error) {
	set := manifestSet{rendered: map[string]string{}}
	var conflicts []string
	for _, f := range rendered {
		set.rendered[f.Path] = hash(f.Data)
		before, known := written[f.Path]
		found, there := disk[f.Path]
		delete(disk, f.Path)
		switch {
		case !there && known:
			set.deleted = append(set.deleted, f)
		case !there, hash(found.Data) == before, hash(found.Data) == hash(f.Data):
			set.use = append(set.use, f)
		case known && before != hash(f.Data):
			conflicts = append(conflicts, f.Path)
		default:
			set.use = append(set.use, state.File{Path: f.Path, Data: found.Data, Mode: f.Mode})
		}
	}
	for path, f := range disk {
		switch before, known := written[path]; {
		case !known:
			set.use = append(set.use, f)
		case before == hash(f.Data):
			set.stale = append(set.stale, path)
		default:
			conflicts = append(conflicts, path)
		}
	}
	slices.Sort(set.stale)
	state.SortFiles(set.use)
	return set, conflict(conflicts)
}

func conflict(paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	slices.Sort(paths)
	return &InputError{fmt.Errorf("%s was changed after these were changed by hand: %s: "+
		"delete them, run 'holdfast create manifests' and make your changes again", ConfigFile, strings.Join(paths, ", "))}
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Objects renders the objects of a site's cluster, ordered by path.
func Objects(s *site.Site) ([]state.File, error) {
	files, err := manifests.Render(s.Config, s.Topology())
	if err != nil {
		return nil, err
	}
	network, err := manifests.Network(s)
	if err != nil {
		return nil, err
	}
	files = append(files, network...)
	state.SortFiles(files)
	return files, nil
}

// manifestsOnDisk reads the manifests in the directory by path.
func (in *Installer) manifestsOnDisk() (map[string]state.File, error) {
	files := map[string]state.File{}
	for _, dir := range manifestDirs {
		err := filepath.WalkDir(filepath.Join(in.Dir, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !isManifest(path) {
				return ignoreMissing(err)
			}
			return in.addManifest(files, path)
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

func (in *Installer) addManifest(files map[string]state.File, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(in.Dir, path)
	files[rel] = state.File{Path: rel, Data: data, Mode: info.Mode().Perm()}
	return err
}

func isManifest(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) &&
		!strings.HasPrefix(filepath.Base(path), ".")
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
