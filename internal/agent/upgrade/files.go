package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hostfiles"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	unit "github.com/holdfast/holdfast/internal/render/host"
)

// OfThisRelease writes the files that this release brings to a host, as JSON: what Files asks
// the programs of two releases for.
func OfThisRelease(s *site.Site) ([]byte, error) {
	files, err := unit.OfRelease(s)
	if err != nil {
		return nil, err
	}
	out := []hostfiles.File{}
	for _, f := range files {
		out = append(out, hostfiles.File{Path: f.Path, Mode: f.Perm(), Data: f.Data})
	}
	return json.Marshal(out)
}

// Files are the files of a host outside of the folders of its releases that differ between two
// of them. What each release has lies in a file of its own; the one link that chooses a release
// chooses these too, by Settle.
type Files struct {
	// Root is "/" except in tests.
	Root      string
	WriteFile func(path string, data []byte, mode fs.FileMode) error
	Remove    func(path string) error
	Systemctl func(ctx context.Context, args ...string) ([]byte, error)
	// Current is the release to which the link leads. Left is the one that a host has left for it on
	// its way there, empty on a way back.
	Current, Left func() (string, error)
	// Of returns the files that a release brings to this host; unknown for a release that
	// cannot say so.
	Of func(ctx context.Context, digest string) (state.Fact[[]state.File], error)
	// tried is the way that Check has found possible: a host that waits to leave looks each
	// second, and Of starts programs.
	tried *[2]string
}

// filesFolder is that of the lists, below Folder. offFile, beside it, outlives them: it names the units
// that somebody had disabled when the host left a release.
const (
	filesFolder = "files"
	offFile     = "off.json"
)

func (f Files) at(digest string) string {
	return filepath.Join(f.Root, Folder, filesFolder, strings.TrimPrefix(digest, "sha256:")+".json")
}

// Prepare writes the lists of two releases, one of which is the current one. It returns the
// files that stay because they are not as the current release writes them.
func (f Files) Prepare(ctx context.Context, from, to string) (kept []string, err error) {
	*f.tried = [2]string{}
	lists, kept, err := f.lists(ctx, from, to)
	if err != nil {
		return nil, fmt.Errorf("prepare this host's files: %w", err)
	}
	for digest, list := range lists {
		data, err := json.Marshal(list)
		if err == nil {
			err = f.WriteFile(f.at(digest), data, state.SecretFileMode)
		}
		if err != nil {
			return nil, fmt.Errorf("prepare this host's files: %w", err)
		}
	}
	if err := f.noteOff(from, lists[from]); err != nil {
		return nil, fmt.Errorf("prepare this host's files: %w", err)
	}
	return kept, nil
}

// Check does what Prepare does, and writes nothing. It asks the programs once for a way.
func (f Files) Check(ctx context.Context, from, to string) error {
	way := [2]string{from, to}
	if *f.tried == way {
		return nil
	}
	if _, _, err := f.lists(ctx, from, to); err != nil {
		return fmt.Errorf("prepare this host's files: %w", err)
	}
	*f.tried = way
	return nil
}

// lists returns the files of two releases that differ between them. They are empty where one of
// the two cannot say what it brings: nobody knows then which file is its own. On a way back they
// are also empty where its program fails: files are worth less than the return.
func (f Files) lists(ctx context.Context, from, to string) (lists map[string][]hostfiles.File, kept []string, err error) {
	lists = map[string][]hostfiles.File{from: {}, to: {}}
	current, err := f.Current()
	if err != nil || from == to {
		return lists, nil, err
	}
	other := to
	if current == to {
		other = from
	}
	was, err := f.Of(ctx, current)
	if err != nil && current == to {
		return lists, nil, nil
	}
	if err != nil || !was.Known {
		return lists, nil, err
	}
	is, err := f.Of(ctx, other)
	if err != nil || !is.Known {
		return lists, nil, err
	}
	var has []hostfiles.File
	for _, path := range hostfiles.Paths(was.Value, is.Value) {
		have, err := f.read(path)
		if err == nil && have.Installs() && hostfiles.Changes(was.Value, is.Value, have) {
			if have.Enabled, err = f.enabled(ctx, have.Unit()); current == to {
				err = nil // a unit counts for less than the return: it stays as it is
			}
		}
		if err != nil {
			return nil, nil, err
		}
		has = append(has, have)
	}
	var off []string
	if current == to { // the list of the release to return to is gone once a way there has ended
		off = f.offWith(other)
	}
	lists[current], lists[other], kept = hostfiles.Way(was.Value, is.Value, has, off)
	return lists, kept, nil
}

// read returns a file of this host.
func (f Files) read(path string) (hostfiles.File, error) {
	at := filepath.Join(f.Root, path)
	info, err := os.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return hostfiles.File{Path: path, Gone: true}, nil
	case err != nil:
		return hostfiles.File{}, err
	case !info.Mode().IsRegular(): // a link, such as that of a masked unit: somebody's
		return hostfiles.File{Path: path, Data: []byte(info.Mode().Type().String())}, nil
	}
	data, err := os.ReadFile(at)
	return hostfiles.File{Path: path, Mode: info.Mode().Perm(), Data: data}, err
}

// Settle has the host have the files of the current release, as far as they can be written, and
// its units run. It does nothing where none were prepared. Whoever calls it has systemd read its
// files anew.
func (f Files) Settle(ctx context.Context) error {
	current, err := f.Current()
	if err != nil || current == "" {
		return err
	}
	list, err := f.list(current)
	if err != nil {
		return err
	}
	if left, err := f.Left(); err == nil && left != "" && left != current {
		if before, err := f.list(left); err == nil {
			list = hostfiles.Came(list, before)
		}
	}
	var errs []error
	for _, want := range list {
		if err := f.put(ctx, want); err != nil {
			errs = append(errs, fmt.Errorf("write the files of release %s: %w", current, err))
		}
	}
	if err := f.rise(ctx, list); err != nil {
		errs = append(errs, fmt.Errorf("start the units of release %s: %w", current, err))
	}
	return errors.Join(errs...)
}

// list reads the list of a release, empty where none was prepared.
func (f Files) list(digest string) ([]hostfiles.File, error) {
	data, err := os.ReadFile(f.at(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []hostfiles.File
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", f.at(digest), err)
	}
	return list, nil
}

func (f Files) put(ctx context.Context, want hostfiles.File) error {
	have, err := f.read(want.Path)
	if err != nil || have.Equal(want) {
		return err
	}
	unended, err := f.end(ctx, have, want)
	switch {
	case err != nil:
	case want.Gone:
		err = f.Remove(filepath.Join(f.Root, want.Path))
	default:
		err = f.WriteFile(filepath.Join(f.Root, want.Path), want.Data, want.Mode)
	}
	return errors.Join(unended, err)
}

// Forget removes the lists, once the way has ended: what somebody changes after that is theirs.
func (f Files) Forget() error {
	return forget(f.Root, filesFolder)
}

// sayTime bounds the answer of a program: the host may be down meanwhile.
const sayTime = 20 * time.Second

// filesOf asks the program of a release below root what it brings to this host.
func filesOf(ctx context.Context, root, digest string) (state.Fact[[]state.File], error) {
	store, err := layoutOf(root, digest)
	if err != nil {
		return state.Fact[[]state.File]{}, err
	}
	if about := store.Manifest().About; about == nil || !about.Has(payload.FormatHostFiles) {
		return state.Fact[[]state.File]{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, sayTime)
	defer cancel()
	out, err := host.Run(ctx, host.Command(filepath.Join(root, unit.ReleaseAgent(digest)), "parachute", "--files"))
	if err != nil {
		return state.Fact[[]state.File]{}, err
	}
	var list []hostfiles.File
	if err := json.Unmarshal(out, &list); err != nil {
		return state.Fact[[]state.File]{}, fmt.Errorf("the files of release %s: %w", digest, err)
	}
	if len(list) == 0 { // the host would lose all units of ours
		return state.Fact[[]state.File]{}, fmt.Errorf("release %s says that it brings no file to this host", digest)
	}
	files := []state.File{}
	for _, f := range list {
		if !filepath.IsAbs(f.Path) || filepath.Clean(f.Path) != f.Path {
			return state.Fact[[]state.File]{}, fmt.Errorf("the files of release %s: %q is no path of a file", digest, f.Path)
		}
		files = append(files, state.File{Path: f.Path, Mode: f.Mode, Data: f.Data})
	}
	return state.Known(files), nil
}
