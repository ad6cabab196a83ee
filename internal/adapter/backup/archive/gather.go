package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfast/holdfast/internal/model/backup"
)

// maxFiles bounds all files of a host together, in bytes.
const maxFiles = 64 << 20

// Gathered are the files of a host.
type Gathered struct {
	Files []File
	// Missing names each file that does not exist, is no file or is too big, and says why.
	Missing []string
	// Lacks has the required ones among them. Without these files no backup is good.
	Lacks []string
}

// Data returns the content of a file; nil if it is not among them.
func (g Gathered) Data(path string) []byte {
	if i := slices.IndexFunc(g.Files, func(f File) bool { return f.Path == path }); i >= 0 {
		return g.Files[i].Data
	}
	return nil
}

// Gather reads files below root, which is "/" except in tests. A file that does not exist is
// no error; it is in Missing.
func Gather(root string, paths []backup.HostPath) (Gathered, error) {
	g := &gathering{root: root, seen: map[string]bool{}}
	for _, p := range paths {
		if err := g.path(p); err != nil {
			return Gathered{}, err
		}
	}
	slices.SortFunc(g.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return g.Gathered, nil
}

type gathering struct {
	Gathered
	root string
	seen map[string]bool
	size int64
}

func (g *gathering) path(p backup.HostPath) error {
	if !p.Folder {
		return g.file(p.Path, p)
	}
	found := false
	err := filepath.WalkDir(filepath.Join(g.root, p.Path), func(at string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // gone meanwhile, or never there
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(g.root, at)
		if err != nil || temporary(d.Name()) {
			return err
		}
		found = true
		return g.file("/"+rel, backup.HostPath{Path: p.Path, Quiet: true})
	})
	if err == nil && !found {
		g.lacks(p.Path, p, "not there")
	}
	return err
}

// temporary reports whether a file is one that somebody is writing: its name has the form of
// host.WriteAtomic, or that of a tool which does the same.
func temporary(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".tmp")
}

func (g *gathering) file(path string, p backup.HostPath) error {
	if g.seen[path] {
		return nil
	}
	f, why, err := read(g.root, path)
	if err != nil {
		return err
	}
	if why == "" && g.size+int64(len(f.Data)) > maxFiles {
		return fmt.Errorf("the files of this host for a backup have more than %d MiB together: %s is one too many", maxFiles>>20, path)
	}
	if why != "" {
		if why != notThere {
			p.Quiet = false
		}
		g.lacks(path, p, why)
		return nil
	}
	g.seen[path], g.size = true, g.size+int64(len(f.Data))
	g.Files = append(g.Files, f)
	return nil
}

func (g *gathering) lacks(path string, p backup.HostPath, why string) {
	if !p.Quiet {
		g.Missing = append(g.Missing, path+": "+why)
	}
	if p.Required {
		g.Lacks = append(g.Lacks, path+": "+why)
	}
}

const notThere = "not there"

// read reads a file; if it is none, why says what it is. Owner and mode are read from the
// open file.
func read(root, path string) (f File, why string, err error) {
	in, err := os.OpenFile(filepath.Join(root, path), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return File{}, notThere, nil
	case errors.Is(err, syscall.ELOOP):
		return File{}, "a link, and no file", nil
	case errors.Is(err, syscall.ENXIO): // a socket
		return File{}, "no file", nil
	case err != nil:
		return File{}, "", err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return File{}, "", err
	}
	if !info.Mode().IsRegular() {
		return File{}, "no file", nil
	}
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return File{}, "", err
	}
	if len(data) > maxFile {
		return File{}, fmt.Sprintf("bigger than %d MiB", maxFile>>20), nil
	}
	f = File{Path: path, Mode: info.Mode().Perm(), Data: data}
	if st, is := info.Sys().(*syscall.Stat_t); is {
		f.UID, f.GID = int(st.Uid), int(st.Gid)
	}
	return f, "", nil
}

// Authorities returns the fingerprints of the authorities among files: the SHA-256 of each
// PEM block. A file of a rotation has several.
func Authorities(files []File) []backup.Authority {
	var out []backup.Authority
	for _, path := range backup.AuthorityPaths() {
		i := slices.IndexFunc(files, func(f File) bool { return f.Path == path })
		if i < 0 {
			continue
		}
		for block, rest := pem.Decode(files[i].Data); block != nil; block, rest = pem.Decode(rest) {
			sum := sha256.Sum256(block.Bytes)
			out = append(out, backup.Authority{Name: strings.TrimPrefix(path, "/etc/kubernetes/pki/"), Fingerprint: hex.EncodeToString(sum[:])})
		}
	}
	return out
}
