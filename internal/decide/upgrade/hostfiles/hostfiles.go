// Package hostfiles decides which files of a release a host gets on its way to another
// one, which arguments the programs of its control plane get, and what comes back on the
// way home.
//
// It is about files outside of the folder of a release: units, and settings of the kernel
// and of the distribution's tools. A file that is not as the release that runs would write
// it stays: a person may have changed it, or an earlier release wrote it and its successor
// could not say what it brings.
package hostfiles

import (
	"bytes"
	"cmp"
	"io/fs"
	"slices"

	"github.com/holdfast/holdfast/internal/model/state"
)

// File is a file of a host at one end of a way.
type File struct {
	Path string      `json:"path"`
	Mode fs.FileMode `json:"mode,omitempty"`
	Data []byte      `json:"data,omitempty"`
	// Gone is true if there is no such file.
	Gone bool `json:"gone,omitempty"`
	// Enabled is whether each boot starts the unit that the file is. It is nil for a file that is none,
	// and where nobody knows, such as in a list of a release of before lists said it: the unit then stays
	// as it is. A release does not say it: Installs does.
	Enabled *bool `json:"enabled,omitempty"`
}

// Way returns the files of a host that differ between the release that it runs and another
// one, as they are at either end, sorted by path. was and is are what both releases bring to
// this host, has what it has of them. off are paths of units that somebody had disabled when the host
// left the other release (Off). kept names those that stay.
func Way(was, is []state.File, has []File, off []string) (from, to []File, kept []string) {
	for _, have := range has {
		before, after := of(was, have.Path), of(is, have.Path)
		switch {
		case Changes(was, is, have):
			after.Enabled = enabled(before, have, after, slices.Contains(off, have.Path))
			from, to = append(from, have), append(to, after)
		case !before.Equal(after) && !have.Equal(after):
			kept = append(kept, have.Path)
		}
	}
	order := func(a, b File) int { return cmp.Compare(a.Path, b.Path) }
	slices.SortFunc(from, order)
	slices.SortFunc(to, order)
	slices.Sort(kept)
	return from, to, kept
}

// Changes reports whether the way from one release to another changes a file of a host: they bring it
// otherwise, and it is as the former one writes it.
func Changes(was, is []state.File, have File) bool {
	before, after := of(was, have.Path), of(is, have.Path)
	return !before.Equal(after) && !have.Equal(after) && have.same(before)
}

// of returns a file as a release brings it.
func of(files []state.File, path string) File {
	i := slices.IndexFunc(files, func(f state.File) bool { return f.Path == path })
	if i < 0 {
		return File{Path: path, Gone: true}
	}
	return File{Path: path, Mode: files[i].Perm(), Data: files[i].Data}
}

// same reports whether two files have the same contents, or neither is there.
func (f File) same(other File) bool { return f.Gone == other.Gone && bytes.Equal(f.Data, other.Data) }

// Equal reports whether two files have the same contents and mode, or neither is there.
func (f File) Equal(other File) bool { return f.same(other) && f.Mode == other.Mode }

// Paths lists the files that either release brings, sorted.
func Paths(was, is []state.File) []string {
	var out []string
	for _, f := range slices.Concat(was, is) {
		out = append(out, f.Path)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
