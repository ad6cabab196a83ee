// Package archive writes and reads the file of a backup. The file is a tar: first a manifest
// with the digest of each other member, then the snapshot of etcd, then the files of the host
// that a restore needs besides. The package also encrypts archives to recipients of age, and
// opens them.
//
// Open reads the whole archive and compares each member with the manifest before it says that
// the archive is whole.
package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast/holdfast/internal/model/backup"
)

// Names in an archive.
const (
	ManifestName = "manifest.json"
	SnapshotName = "snapshot.db"
	hostPrefix   = "host/"
)

// maxManifest and maxFile bound files that are kept in memory, in bytes; maxMembers bounds the
// list of members.
const (
	maxManifest = 4 << 20
	maxFile     = 8 << 20
	maxMembers  = 10_000
)

// Manifest is the first member of an archive.
type Manifest struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	// Entry is that of the catalogue as it was before the archive was written. It lacks the
	// digest of the archive and everything that was added later.
	Entry   backup.Entry `json:"entry"`
	Members []Member     `json:"members"`
}

// Member is one member of an archive after the manifest, in their order.
type Member struct {
	Name string `json:"name"`
	// Path is the path of the file on its host; empty for the snapshot.
	Path   string      `json:"path,omitempty"`
	Mode   fs.FileMode `json:"mode"`
	UID    int         `json:"uid"`
	GID    int         `json:"gid"`
	Size   int64       `json:"size"`
	SHA256 string      `json:"sha256"`
}

// File is a file of the host with its contents.
type File struct {
	Path     string
	Mode     fs.FileMode
	UID, GID int
	Data     []byte
}

func hexOf(sum []byte) string { return hex.EncodeToString(sum) }

// Write writes an archive of the snapshot in a file and of files of the host to w, which it
// does not close. The same input gives the same bytes.
func Write(ctx context.Context, w io.Writer, entry backup.Entry, snapshot string, files []File) error {
	m := Manifest{Format: backup.Format, ID: entry.ID, Entry: entry}
	size, sum, err := digest(ctx, snapshot)
	if err != nil {
		return err
	}
	m.Members = append(m.Members, Member{Name: SnapshotName, Mode: 0o600, Size: size, SHA256: sum})
	for _, f := range files {
		s := sha256.Sum256(f.Data)
		m.Members = append(m.Members, Member{
			Name: path.Join(hostPrefix, f.Path), Path: f.Path, Mode: f.Mode.Perm(), UID: f.UID, GID: f.GID, Size: int64(len(f.Data)), SHA256: hexOf(s[:]),
		})
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	if err := put(out, Member{Name: ManifestName, Mode: 0o600, Size: int64(len(text))}, entry.Taken, bytes.NewReader(text)); err != nil {
		return err
	}
	if err := putFile(ctx, out, m.Members[0], entry.Taken, snapshot); err != nil {
		return err
	}
	for i, f := range files {
		if err := put(out, m.Members[i+1], entry.Taken, bytes.NewReader(f.Data)); err != nil {
			return err
		}
	}
	return out.Close()
}

func putFile(ctx context.Context, out *tar.Writer, m Member, at time.Time, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	return errors.Join(put(out, m, at, reader{ctx, f}), f.Close())
}

func put(out *tar.Writer, m Member, at time.Time, from io.Reader) error {
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: m.Name, Mode: int64(m.Mode.Perm()), Uid: m.UID, Gid: m.GID, Size: m.Size, ModTime: at.UTC().Truncate(time.Second), Format: tar.FormatPAX,
	}
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(out, from)
	return err
}

// digest returns the size and the SHA-256 of a file.
func digest(ctx context.Context, file string) (int64, string, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	n, err := io.Copy(h, reader{ctx, f})
	return n, hexOf(h.Sum(nil)), err
}

// Digest returns the size and the SHA-256 of a file as the catalogue has them.
func Digest(ctx context.Context, file string) (backup.File, error) {
	size, sum, err := digest(ctx, file)
	return backup.File{Name: path.Base(file), Size: size, SHA256: sum}, err
}

// reader is a reader that ends with its context.
type reader struct {
	ctx  context.Context //nolint:containedctx // it lives as long as one copy
	from io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}

// ErrDamaged is returned for an archive that does not match its manifest.
var ErrDamaged = errors.New("the archive is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

// Take is called for each member, in their order, with its contents. The caller must not
// trust its results before Read has returned without an error.
type Take func(m Member, contents io.Reader) error

// Read reads a whole archive and compares every member with the manifest; take may be nil.
// ErrDamaged also stands for a missing or an additional member, another order, and bytes after
// the end.
func Read(ctx context.Context, r io.Reader, take Take) (Manifest, error) {
	in := tar.NewReader(reader{ctx, r})
	m, err := readManifest(in)
	if err != nil {
		return Manifest{}, err
	}
	for _, want := range m.Members {
		if err := readMember(in, want, take); err != nil {
			return Manifest{}, err
		}
	}
	switch h, err := in.Next(); {
	case err == nil:
		return Manifest{}, damaged("it holds %q, which its manifest does not have", h.Name)
	case !errors.Is(err, io.EOF):
		return Manifest{}, unreadable(ctx, err)
	}
	// The tar may end before its file does. The rest is read too, so that decrypted bytes are
	// authenticated to the last one; only zeros may stand there.
	if _, err := io.Copy(zeros{}, reader{ctx, r}); err != nil {
		return Manifest{}, unreadable(ctx, err)
	}
	return m, nil
}

// zeros is a writer that refuses every byte but zero.
type zeros struct{}

func (zeros) Write(p []byte) (int, error) {
	if i := bytes.IndexFunc(p, func(r rune) bool { return r != 0 }); i >= 0 {
		return i, errors.New("there are bytes after its end")
	}
	return len(p), nil
}

// unreadable returns the cause if the context has ended, and ErrDamaged otherwise.
func unreadable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return damaged("%w", err)
}

func readManifest(in *tar.Reader) (Manifest, error) {
	h, err := in.Next()
	if err != nil {
		return Manifest{}, damaged("its first member cannot be read: %w", err)
	}
	if h.Name != ManifestName || h.Typeflag != tar.TypeReg {
		return Manifest{}, fmt.Errorf("%w, or no archive of Holdfast: it does not begin with %s", ErrDamaged, ManifestName)
	}
	if h.Size > maxManifest {
		return Manifest{}, damaged("its manifest has %d bytes", h.Size)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return Manifest{}, damaged("its manifest ends early: %w", err)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return Manifest{}, damaged("its manifest is not readable: %w", err)
	}
	if m.Format < 1 || m.Format > backup.Format {
		return Manifest{}, fmt.Errorf("the archive has the format %d, and this build reads up to %d: read it with the release that wrote it", m.Format, backup.Format)
	}
	return m, m.check()
}

// check refuses members that would be unpacked outside of their folder, and lists that no
// archive of ours has.
func (m Manifest) check() error {
	if !backup.ValidID(m.ID) || m.ID != m.Entry.ID {
		return damaged("its manifest has the id %q", m.ID)
	}
	// Commands print these beside what proves whose backup it is: a forged one draws no line of its own.
	e := m.Entry
	for _, text := range []string{e.Site, e.Host, e.Reason, e.Release.Digest, e.Release.Version, e.Release.Kubernetes, e.Release.Etcd} {
		if strings.ContainsFunc(text, unicode.IsControl) {
			return damaged("its manifest has control characters in %q", text)
		}
	}
	if len(m.Members) == 0 || m.Members[0].Name != SnapshotName || m.Members[0].Path != "" {
		return damaged("it holds no snapshot of etcd")
	}
	if len(m.Members) > maxMembers {
		return damaged("it lists %d members", len(m.Members))
	}
	for _, one := range m.Members[1:] {
		if !path.IsAbs(one.Path) || path.Clean(one.Path) != one.Path || one.Path == "/" || one.Name != path.Join(hostPrefix, one.Path) ||
			one.Size < 0 || one.Size > maxFile || one.Mode != one.Mode.Perm() || strings.ContainsRune(one.Path, 0) {
			return damaged("its manifest lists %q for %q", one.Name, one.Path)
		}
	}
	return nil
}

func readMember(in *tar.Reader, want Member, take Take) error {
	h, err := in.Next()
	if err != nil {
		return damaged("%s is missing: %w", want.Name, err)
	}
	if h.Name != want.Name || h.Typeflag != tar.TypeReg || h.Size != want.Size {
		return damaged("%q with %d bytes stands where %q with %d should", h.Name, h.Size, want.Name, want.Size)
	}
	sum := sha256.New()
	contents := io.TeeReader(in, sum)
	if take != nil {
		if err := take(want, contents); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, contents); err != nil {
		return damaged("%s ends early: %w", want.Name, err)
	}
	if got := hexOf(sum.Sum(nil)); got != want.SHA256 {
		return damaged("%s has the digest %s, and its manifest says %s", want.Name, got, want.SHA256)
	}
	return nil
}
