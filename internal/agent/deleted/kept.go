package deleted

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/decide/deleted"
	"github.com/holdfast/holdfast/internal/model/corosync"
)

// Dir is the folder with the copies. It is not below the folders of the originals, and
// only root reads it, because some copies are keys.
const Dir = deleted.KeptDir

// rests is how long a file must not have changed before it is copied. By then the
// change is complete, and its author has seen whether it works.
const rests = 30 * time.Second

// maxCopy bounds a file that is copied, in bytes. The largest has some 10 kB.
const maxCopy = 1 << 20

// Store keeps copies of files of a host.
type Store struct {
	// Root is put before every path; it is empty on a real host.
	Root string
	Now  func() time.Time
	// EncryptionRoot is what the keys of encryption.yaml are derived from; empty on a site without.
	EncryptionRoot []byte

	seen map[string]seen // the version that was copied last
}

// seen identifies a version of a file without reading it.
type seen struct {
	size int64
	time time.Time
}

func (s *Store) path(p string) string { return filepath.Join("/", s.Root, p) }
func (s *Store) copyOf(p string) string {
	return filepath.Join("/", s.Root, Dir, p)
}

// Has reports whether there is a copy of a file.
func (s *Store) Has(p string) bool { return host.Exists(s.copyOf(p)) }

// there reports whether something has the name of a file, and whether that has no content.
func (s *Store) there(p string) (there, empty bool) {
	info, err := os.Stat(s.path(p))
	if err != nil {
		return false, false
	}
	return true, info.Mode().IsRegular() && info.Size() == 0 || info.IsDir() && emptyFolder(s.path(p))
}

func emptyFolder(path string) bool {
	list, err := os.ReadDir(path) // an error for a file
	return err == nil && len(list) == 0
}

// Keep copies a file that has rested, if its copy differs. good reports whether the
// content is worth a copy; nil accepts any.
func (s *Store) Keep(p string, good func([]byte) bool) error {
	info, err := os.Stat(s.path(p))
	if err != nil {
		return err
	}
	is := seen{info.Size(), info.ModTime()}
	if s.seen[p] == is && s.Has(p) || s.Now().Sub(is.time) < rests || info.Size() > maxCopy {
		return nil
	}
	data, err := read(s.path(p))
	if err != nil {
		return err
	}
	if len(bytes.Trim(data, "\x00")) == 0 || good != nil && !good(data) {
		return nil // a power cut may also leave zeros in a file
	}
	if have, err := os.ReadFile(s.copyOf(p)); err != nil || !bytes.Equal(have, data) {
		if err := s.mkdir(filepath.Dir(s.copyOf(p))); err != nil {
			return err
		}
		if err := host.WriteFileAtomic(s.copyOf(p), data, info.Mode().Perm()); err != nil {
			return fmt.Errorf("keep a copy of %s: %w", p, err)
		}
	}
	if s.seen == nil {
		s.seen = map[string]seen{}
	}
	s.seen[p] = is
	return nil
}

// mkdir makes a folder of copies. Only root may enter it.
func (s *Store) mkdir(dir string) error {
	top := s.copyOf("")
	if err := os.MkdirAll(top, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(top, 0o700); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o700)
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxCopy+1))
	return data, errors.Join(err, f.Close())
}

// Put restores a file from its copy, with the mode of the copy.
func (s *Store) Put(p string) error {
	info, err := os.Stat(s.copyOf(p))
	if err != nil {
		return fmt.Errorf("put %s back: %w", p, err)
	}
	data, err := read(s.copyOf(p))
	if err != nil {
		return fmt.Errorf("put %s back: %w", p, err)
	}
	if err := os.MkdirAll(filepath.Dir(s.path(p)), 0o755); err != nil {
		return fmt.Errorf("put %s back: %w", p, err)
	}
	if emptyFolder(s.path(p)) { // no file takes the place of a folder
		if err := os.Remove(s.path(p)); err != nil {
			return fmt.Errorf("put %s back: %w", p, err)
		}
	}
	if err := host.WriteFileAtomic(s.path(p), data, info.Mode().Perm()); err != nil {
		return fmt.Errorf("put %s back: %w", p, err)
	}
	return nil
}

// KeepCorosync copies Corosync's key and configuration, if both are there and make this
// host one of two.
func (s *Store) KeepCorosync(self string) error {
	ours := func(data []byte) bool {
		conf, err := corosync.Parse(data)
		there := false
		for _, n := range conf.Nodes {
			there = there || n.Name == self
		}
		return err == nil && len(conf.Nodes) == 2 && conf.TwoNode && there
	}
	if _, err := os.Stat(s.path(twonode.CorosyncKey)); err != nil {
		return err
	}
	data, err := read(s.path(corosync.Path))
	if err != nil || !ours(data) {
		return err
	}
	if err := s.Keep(twonode.CorosyncKey, nil); err != nil {
		return err
	}
	return s.Keep(corosync.Path, ours)
}

// hosts returns the hosts that a corosync.conf lists, nil if there is none.
func hosts(path string) (list []string, broken string, err error) {
	data, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	conf, err := corosync.Parse(data)
	if err != nil {
		return []string{}, err.Error(), nil //nolint:nilerr // it is told
	}
	list = []string{}
	for _, n := range conf.Nodes {
		list = append(list, n.Name)
	}
	return list, "", nil
}
