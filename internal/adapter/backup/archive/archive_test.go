package archive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/holdfast/holdfast/internal/model/backup"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// made returns an archive of a small snapshot and two files.
func made(t testing.TB) []byte {
	t.Helper()
	db := filepath.Join(t.TempDir(), "snapshot.db")
	must(t, os.WriteFile(db, bytes.Repeat([]byte("db"), 3000), 0o600))
	var out bytes.Buffer
	must(t, Write(t.Context(), &out, backup.Entry{Format: backup.Format, ID: backup.NewID("cp-1", noon), Taken: noon}, db, []File{
		{Path: "/etc/a", Mode: 0o640, UID: 3, GID: 4, Data: []byte("hello")}, {Path: "/etc/b", Mode: 0o600},
	}))
	return out.Bytes()
}

func TestAnArchiveIsReadBackWithModesAndOwners(t *testing.T) {
	got := map[string]string{}
	m, err := Read(t.Context(), bytes.NewReader(made(t)), func(m Member, r io.Reader) error {
		text, err := io.ReadAll(r)
		got[m.Name] = string(text)
		return err
	})
	must(t, err)
	if len(m.Members) != 3 || m.Members[1].Path != "/etc/a" || m.Members[1].Mode != 0o640 || m.Members[1].UID != 3 || m.Members[1].GID != 4 {
		t.Errorf("%+v", m)
	}
	if got["host/etc/a"] != "hello" || len(got[SnapshotName]) != 6000 {
		t.Errorf("%v", got)
	}
	if !bytes.Equal(made(t), made(t)) {
		t.Error("the same input gives other bytes")
	}
}

// every position of an archive, and of an encrypted one, with something wrong there.
func TestNoByteOfAnArchiveCanBeCutOrFlipped(t *testing.T) {
	plain := made(t)
	id, err := age.GenerateX25519Identity()
	must(t, err)
	var crypt bytes.Buffer
	_, _, err = Encrypt(t.Context(), &crypt, bytes.NewReader(plain), []string{id.Recipient().String()})
	must(t, err)
	contents := 0 // bytes of the plain archive that are neither padding nor in an unused field
	for _, c := range []struct {
		text []byte
		key  string
		all  bool
	}{{crypt.Bytes(), id.String(), true}, {plain, "", false}} {
		for i := 0; i < len(c.text); i += 61 {
			if _, err := Open(t.Context(), bytes.NewReader(c.text[:i]), c.key, nil); err == nil && (c.all || i < len(plain)-1024) {
				t.Fatalf("cut at %d of %d it passes", i, len(c.text))
			}
			bad := slices.Clone(c.text)
			bad[i] ^= 4
			_, err := Open(t.Context(), bytes.NewReader(bad), c.key, nil)
			if err == nil && c.all {
				t.Fatalf("flipped at %d it passes", i)
			}
			if err != nil && !c.all {
				contents++
			}
		}
	}
	if contents < 100 {
		t.Errorf("only %d flips of the plain archive were noticed", contents)
	}
}

func TestSomethingBehindAnArchiveIsDamage(t *testing.T) {
	if _, err := Read(t.Context(), bytes.NewReader(append(made(t), "more"...)), nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
}

func TestAnotherKeyAndNoKeyAreTold(t *testing.T) {
	one, err := age.GenerateX25519Identity()
	must(t, err)
	other, err := age.GenerateX25519Identity()
	must(t, err)
	var crypt bytes.Buffer
	_, sent, err := Encrypt(t.Context(), &crypt, bytes.NewReader(made(t)), []string{one.Recipient().String(), other.Recipient().String()})
	must(t, err)
	if sent.Size != int64(crypt.Len()) {
		t.Errorf("%+v", sent)
	}
	for _, id := range []*age.X25519Identity{one, other} {
		if _, err := Open(t.Context(), bytes.NewReader(crypt.Bytes()), "# a comment\n"+id.String()+"\n", nil); err != nil {
			t.Error(err)
		}
	}
	third, err := age.GenerateX25519Identity()
	must(t, err)
	for identity, want := range map[string]error{"": ErrNoIdentity, third.String(): ErrWrongIdentity} {
		if _, err := Open(t.Context(), bytes.NewReader(crypt.Bytes()), identity, nil); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if _, err := Open(t.Context(), bytes.NewReader(crypt.Bytes()), "S3cr3t", nil); err == nil || strings.Contains(err.Error(), "S3cr3t") {
		t.Errorf("%v", err)
	}
	if _, _, err := Encrypt(t.Context(), io.Discard, strings.NewReader(""), nil); err == nil {
		t.Error("it is encrypted to nobody")
	}
}

// tarOf writes a tar whose manifest is changed, with the members of a whole one.
func tarOf(t *testing.T, change func(*Manifest)) []byte {
	t.Helper()
	var out bytes.Buffer
	from, to := tar.NewReader(bytes.NewReader(made(t))), tar.NewWriter(&out)
	for {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		text, err := io.ReadAll(from)
		must(t, err)
		if h.Name == ManifestName {
			var m Manifest
			must(t, json.Unmarshal(text, &m))
			change(&m)
			text, err = json.Marshal(m)
			must(t, err)
			h.Size = int64(len(text))
		}
		must(t, to.WriteHeader(h))
		_, err = to.Write(text)
		must(t, err)
	}
	must(t, to.Close())
	return out.Bytes()
}

func TestAManifestThatLeadsSomewhereElseIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Manifest){
		"out of the folder":        func(m *Manifest) { m.Members[1].Path, m.Members[1].Name = "/../etc/a", "host/../etc/a" },
		"a relative path":          func(m *Manifest) { m.Members[1].Path, m.Members[1].Name = "etc/a", "host/etc/a" },
		"a name that is another":   func(m *Manifest) { m.Members[1].Name = "host/etc/c" },
		"a setuid file":            func(m *Manifest) { m.Members[1].Mode = os.ModeSetuid | 0o755 },
		"no snapshot":              func(m *Manifest) { m.Members = m.Members[1:] },
		"one member too many":      func(m *Manifest) { m.Members = append(m.Members, Member{Name: "host/etc/c", Path: "/etc/c"}) },
		"one member too few":       func(m *Manifest) { m.Members = m.Members[:2] },
		"another id than its own":  func(m *Manifest) { m.Entry.ID = backup.NewID("cp-2", noon) },
		"an id that is a path":     func(m *Manifest) { m.ID, m.Entry.ID = "../x", "../x" },
		"a line that it draws":     func(m *Manifest) { m.Entry.Site = "shop.example.com\n  authority  AB:CD\x1b[8m" },
		"a newer format":           func(m *Manifest) { m.Format = backup.Format + 1 },
		"another digest":           func(m *Manifest) { m.Members[1].SHA256 = m.Members[2].SHA256 },
		"another size of snapshot": func(m *Manifest) { m.Members[0].Size++ },
	} {
		if _, err := Read(t.Context(), bytes.NewReader(tarOf(t, change)), nil); err == nil {
			t.Errorf("%s passes", name)
		}
	}
	if _, err := Read(t.Context(), bytes.NewReader(tarOf(t, func(*Manifest) {})), nil); err != nil {
		t.Errorf("unchanged it does not pass: %v", err)
	}
}

func TestHostFilesAreGatheredWithWhatIsMissing(t *testing.T) {
	root := t.TempDir()
	put := func(path, text string, mode os.FileMode) {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o700))
		must(t, os.WriteFile(filepath.Join(root, path), []byte(text), mode))
	}
	put("/etc/one", "1", 0o640)
	put("/etc/dir/a/b", "2", 0o600)
	put("/etc/dir/.b.123", "half", 0o600)
	must(t, os.Symlink("one", filepath.Join(root, "etc/link")))
	must(t, syscall.Mkfifo(filepath.Join(root, "etc/dir/pipe"), 0o600))
	g, err := Gather(root, []backup.HostPath{
		{Path: "/etc/one", Required: true},
		{Path: "/etc/dir", Folder: true},
		{Path: "/etc/dir", Folder: true},
		{Path: "/etc/link"},
		{Path: "/etc/none"},
		{Path: "/etc/quiet", Quiet: true},
		{Path: "/etc/needed", Required: true},
		{Path: "/etc/empty", Folder: true},
	})
	must(t, err)
	var paths []string
	for _, f := range g.Files {
		paths = append(paths, f.Path)
	}
	if !slices.Equal(paths, []string{"/etc/dir/a/b", "/etc/one"}) || g.Files[1].Mode != 0o640 || string(g.Files[1].Data) != "1" || g.Files[1].UID != os.Getuid() {
		t.Errorf("%v", g.Files)
	}
	want := []string{"/etc/dir/pipe: no file", "/etc/link: a link, and no file", "/etc/none: not there", "/etc/needed: not there", "/etc/empty: not there"}
	slices.Sort(want)
	slices.Sort(g.Missing)
	g.Missing = slices.Compact(g.Missing)
	if !slices.Equal(g.Missing, want) || !slices.Equal(g.Lacks, []string{"/etc/needed: not there"}) {
		t.Errorf("%v, %v", g.Missing, g.Lacks)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(made(f))
	f.Add([]byte("age-encryption.org/v1\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Open(t.Context(), bytes.NewReader(data), "", nil)
		if err != nil {
			return
		}
		for _, one := range m.Members[1:] {
			if !strings.HasPrefix(one.Path, "/") || strings.Contains(one.Path, "/../") {
				t.Errorf("%q", one.Path)
			}
		}
	})
}
