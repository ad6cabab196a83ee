package release

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/payload"
)

// tree holds the content of several packages as a file system in memory, with
// /bin, /sbin and /lib merged into /usr as distributions do.
type tree struct {
	files map[string]treeFile
}

type treeFile struct {
	// pkg is the package that contains the file.
	pkg  string
	mode fs.FileMode
	link string
	data []byte
}

// merged lists the folders that are links into /usr.
var merged = []string{"bin", "lib", "lib64", "sbin"}

func usrPath(name string) string {
	clean := path.Clean("/" + name)
	first, _, _ := strings.Cut(clean[1:], "/")
	if slices.Contains(merged, first) {
		return "/usr" + clean
	}
	return clean
}

// maxPackageFile bounds a file of a package, in bytes: the holes of a sparse file
// take no room in the archive, but do in memory.
const maxPackageFile = 512 << 20

// skipped lists folders that no program of an image reads.
var skipped = []string{"/usr/share/doc/", "/usr/share/locale/", "/usr/share/man/"}

func readTree(ctx context.Context, dir string, packages []debPackage) (*tree, error) {
	t := &tree{files: map[string]treeFile{}}
	for _, p := range packages {
		content, err := unpackDeb(ctx, filepath.Join(dir, p.File))
		if err != nil {
			return nil, fmt.Errorf("open package %s: %w", p.Name, err)
		}
		if err := t.add(p.Name, content); err != nil {
			return nil, fmt.Errorf("open package %s: %w", p.Name, err)
		}
	}
	return t, nil
}

func (t *tree) add(pkg string, content io.Reader) error {
	tr := tar.NewReader(content)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := usrPath(h.Name)
		if slices.ContainsFunc(skipped, func(s string) bool { return strings.HasPrefix(name, s) }) {
			continue
		}
		f := treeFile{pkg: pkg, mode: fs.FileMode(h.Mode).Perm()} //nolint:gosec // Perm keeps nine bits
		switch h.Typeflag {
		case tar.TypeReg:
			if f.data, err = io.ReadAll(io.LimitReader(tr, maxPackageFile+1)); err != nil {
				return err
			}
			if len(f.data) > maxPackageFile {
				return fmt.Errorf("%s has more than %d MiB", name, maxPackageFile>>20)
			}
		case tar.TypeSymlink:
			f.link = h.Linkname
		case tar.TypeLink:
			f = t.files[usrPath(h.Linkname)]
		default:
			continue
		}
		t.files[name] = f
	}
}

// pick returns the files that match a pattern (of path.Match), the programs and
// libraries that these need at run time, and the links on the way. It also
// returns the names of the packages that contain them.
func (t *tree) pick(patterns []string) ([]entry, []string, error) {
	p := picker{tree: t, taken: map[string]bool{}}
	for _, pattern := range patterns {
		found := false
		for name := range t.files {
			if ok, err := path.Match(pattern, name); err != nil {
				return nil, nil, err
			} else if ok {
				found = true
				p.take(name)
			}
		}
		if !found {
			p.missing = append(p.missing, pattern)
		}
	}
	if len(p.missing) > 0 {
		slices.Sort(p.missing)
		return nil, nil, fmt.Errorf("the packages do not contain %s", strings.Join(slices.Compact(p.missing), ", "))
	}
	return p.entries, p.packages(), nil
}

type picker struct {
	tree    *tree
	taken   map[string]bool
	entries []entry
	missing []string
}

// packages lists the packages that contain the taken files.
func (p *picker) packages() []string {
	var names []string
	for name := range p.taken {
		names = append(names, p.tree.files[name].pkg)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (p *picker) take(name string) {
	if p.taken[name] {
		return
	}
	f, ok := p.tree.files[name]
	if !ok {
		p.missing = append(p.missing, name)
		return
	}
	p.taken[name] = true
	if f.link != "" {
		p.entries = append(p.entries, linkEntry(name, f.link))
		p.take(target(name, f.link))
		return
	}
	p.entries = append(p.entries, dataEntry(name, f.mode, f.data))
	p.needs(f.data)
}

// needs takes the files that the dynamic loader would load for a program.
func (p *picker) needs(data []byte) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return // a script or a plain file
	}
	for _, prog := range f.Progs {
		if prog.Type != elf.PT_INTERP {
			continue
		}
		if loader, err := io.ReadAll(prog.Open()); err == nil {
			p.take(usrPath(string(bytes.TrimRight(loader, "\x00"))))
		}
	}
	libs, err := f.ImportedLibraries()
	if err != nil {
		return // statically linked
	}
	for _, lib := range libs {
		p.takeLibrary(lib)
	}
}

// takeLibrary finds a library in the folders that the loader searches: those
// directly below /usr/lib.
func (p *picker) takeLibrary(lib string) {
	candidates := []string{"/usr/lib64/" + lib, "/usr/lib/" + lib}
	for name := range p.tree.files {
		if path.Base(name) == lib && path.Dir(path.Dir(name)) == "/usr/lib" {
			candidates = append(candidates, name)
		}
	}
	slices.Sort(candidates)
	for _, name := range candidates {
		if _, ok := p.tree.files[name]; ok {
			p.take(name)
			return
		}
	}
	p.missing = append(p.missing, lib)
}

// target returns the target of a link, in the merged tree.
func target(name, link string) string {
	if path.IsAbs(link) {
		return usrPath(link)
	}
	return usrPath(path.Join(path.Dir(name), link))
}

// imageRoot returns the files and folders that a distribution's programs expect
// to exist.
func imageRoot() []entry {
	entries := []entry{
		dirEntry("/run", 0o755),
		dirEntry("/tmp", 0o777|fs.ModeSticky),
		dataEntry("/etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/usr/sbin/nologin\n")),
		dataEntry("/etc/group", 0o644, []byte("root:x:0:\n")),
	}
	for _, dir := range merged {
		entries = append(entries, dirEntry("/usr/"+dir, 0o755), linkEntry("/"+dir, "usr/"+dir))
	}
	return entries
}

// packageEntries returns the content of an image's package layer, and the names
// of the packages that contributed a file.
func packageEntries(ctx context.Context, dir string, packages []debPackage, spec payload.ImageSpec) ([]entry, []string, error) {
	t, err := readTree(ctx, dir, packages)
	if err != nil {
		return nil, nil, err
	}
	entries, used, err := t.pick(spec.Keep)
	if err != nil {
		return nil, nil, fmt.Errorf("image %s: %w", spec.Name, err)
	}
	entries = append(entries, imageRoot()...)
	for link, to := range spec.Links {
		entries = append(entries, linkEntry(link, to))
	}
	return entries, used, nil
}
