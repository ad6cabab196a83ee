package release

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// Switch makes a release that is in place the current one of a host, and the one
// before it the previous one. One rename changes all programs together; nothing
// is restarted. Before that it makes the stable links of the new release. A
// stable link that only one of the two releases has leads nowhere while the other
// one is current: that is as if the program were not there.
//
// On a host of an earlier Holdfast, whose programs are plain files, the first
// Switch makes a release of them and puts links in their places. It can be run
// again after a crash at any moment.
//
// Its kubelet is that of the same release, also if another one was held: on the way to
// a release, and on the way back, kubelet changes at the end.
func Switch(root, digest string) error { return on(root).switchTo(digest, "") }

// SwitchHolding is Switch with the kubelet of another release that lies on the host. That
// one stays until a Switch to the same release, and is the one that runs before: a cut
// leaves no other pair than both releases, or the new one with the kubelet of the old.
// With an empty digest of a kubelet it is Switch.
func SwitchHolding(root, digest, kubelet string) error { return on(root).switchTo(digest, kubelet) }

// Current returns the digest of the release whose programs a host starts, empty
// before the first Switch.
func Current(root string) (string, error) { return on(root).named(currentLink) }

// Kubelet returns the digest of the release whose kubelet a host starts: the current one,
// unless that of another one is held.
func Kubelet(root string) (string, error) { return on(root).kubelet() }

// Previous returns the digest of the release before the last Switch, empty if
// there is none.
func Previous(root string) (string, error) { return on(root).previous() }

// Verify reads all files of a release that is in place, and reports each that is
// missing or is not what the release brought.
func Verify(root, digest string) error { return on(root).verify(digest) }

func (d disk) previous() (string, error) {
	was, err := d.named(previousLink)
	if err != nil || was == "" {
		return "", err
	}
	now, err := d.named(currentLink)
	if err != nil || was == now { // a switch that was cut off has changed nothing yet
		return "", err
	}
	return was, nil
}

func (d disk) switchTo(digest, kubelet string) error {
	name, ok := digestHex(digest)
	if !ok {
		return fmt.Errorf("%q is not the digest of a release", digest)
	}
	held, ok := digestHex(kubelet)
	if !ok && kubelet != "" {
		return fmt.Errorf("%q is not the digest of a release", kubelet)
	}
	unlock, err := d.open()
	if err != nil {
		return err
	}
	defer unlock()
	to, err := d.whole(name)
	if err != nil {
		return err
	}
	old, err := d.takeOver()
	if err != nil {
		return fmt.Errorf("take over the programs that an earlier Holdfast wrote: %w", err)
	}
	if err := d.hold(held); err != nil {
		return fmt.Errorf("hold the kubelet of release %s: %w", kubelet, err)
	}
	if err := d.choose(name, to.files()); err != nil {
		return fmt.Errorf("switch to release %s: %w", digest, err)
	}
	if held == "" {
		if err := d.letGo(); err != nil {
			return fmt.Errorf("let kubelet be that of release %s: %w", digest, err)
		}
	}
	return d.endOld(old, to.files())
}

// whole returns the record of a release, if all its files are as they were
// written.
func (d disk) whole(name string) (record, error) {
	r, err := d.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("release sha256:%s is not on this host: put it into %s first", name, d.at())
	}
	if err != nil {
		return r, err
	}
	if bad := lost(d.at(name), r.Files, r.files()); len(bad) > 0 {
		return r, fmt.Errorf("in %s these files are missing or not as they were written: %s; put the release there again",
			d.at(name), paths(bad))
	}
	return r, nil
}

func paths(files []File) string {
	var out []string
	for _, f := range files {
		out = append(out, f.Path)
	}
	return strings.Join(out, ", ")
}

// choose makes a release the current one. On a host without a current release it
// does that before it makes the links: they would hide programs that are there.
func (d disk) choose(name string, files []File) error {
	now, err := d.named(currentLink)
	if err != nil {
		return err
	}
	if now == "" {
		if err := d.point(currentLink, name); err != nil {
			return err
		}
	}
	if err := d.link(files); err != nil {
		return err
	}
	was := strings.TrimPrefix(now, "sha256:")
	if was == "" || was == name {
		return nil
	}
	// In this order a cut leaves a host without a way back, but never with a wrong
	// one.
	if host.Exists(d.at(was)) {
		if err := d.point(previousLink, was); err != nil {
			return err
		}
	}
	return d.point(currentLink, name)
}

// point lets one of the two links name a release, durably.
func (d disk) point(link, name string) error {
	if err := d.setLink(d.at(link), name); err != nil {
		return err
	}
	return host.SyncDir(d.at())
}

// link makes the stable links of a release's files, durably.
func (d disk) link(files []File) error {
	var folders []string
	for _, f := range files {
		path := filepath.Join(d.root, f.Path)
		if d.holder(f.Path) != "" {
			continue // hold and letGo change it
		}
		if err := d.setLink(path, stable(f.Path)); err != nil {
			return err
		}
		folders = append(folders, filepath.Dir(path))
	}
	return syncAll(folders)
}

func syncAll(folders []string) error {
	slices.Sort(folders)
	for _, dir := range slices.Compact(folders) {
		if err := host.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// stable returns where the stable link at a host's path leads. It is absolute, so
// that it leads there wherever somebody has moved the folder of the link.
func stable(path string) string { return payload.CurrentRelease + path }

func (d disk) verify(digest string) error {
	name, ok := digestHex(digest)
	if !ok {
		return fmt.Errorf("%q is not the digest of a release", digest)
	}
	r, err := d.read(name)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range r.Files {
		path := filepath.Join(d.at(name), f.Path)
		got, size, err := digestFile(path)
		if err == nil && (got != f.Digest || size != f.Size) {
			err = fmt.Errorf("%s is damaged: %d bytes with %s, not %d with %s", path, size, got, f.Size, f.Digest)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Remove removes a release from a host's disk, with the stable links that no
// other release has. It refuses the current and the previous release, and one
// whose programs still run. A release that is not there is no error.
func Remove(root, digest string) error { return on(root).remove(digest) }

func (d disk) remove(digest string) error {
	name, ok := digestHex(digest)
	if !ok {
		return fmt.Errorf("%q is not the digest of a release", digest)
	}
	unlock, err := d.open()
	if err != nil {
		return err
	}
	defer unlock()
	if err := d.clean(); err != nil {
		return err
	}
	if _, err := os.Lstat(d.at(name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := d.mayGo(name, digest); err != nil {
		return fmt.Errorf("remove release %s: %w", digest, err)
	}
	if err := d.unlink(name); err != nil {
		return err
	}
	err = d.effect(func() error { return os.Rename(d.at(name), d.at(name+unfinished)) })
	if err := cmp.Or(err, host.SyncDir(d.at())); err != nil {
		return err
	}
	return d.clean()
}

// mayGo returns an error for a release that somebody needs.
func (d disk) mayGo(name, digest string) error {
	now, err := d.named(currentLink)
	if err != nil {
		return err
	}
	was, err := d.named(previousLink)
	if err != nil {
		return err
	}
	kubelet, err := d.kubelet()
	if err != nil {
		return err
	}
	switch digest {
	case now:
		return errors.New("it is the current release of this host; switch to another one first")
	case kubelet:
		return errors.New("this host starts its kubelet until the upgrade is committed and the host is raised")
	case was:
		return errors.New("it is the previous release of this host, the way back; it may go once another one is")
	}
	users, err := d.users(d.at(name))
	if err != nil {
		return fmt.Errorf("find out whether its programs run: %w", err)
	}
	if len(users) > 0 {
		return fmt.Errorf("its programs still run: %s; restart their units, or wait for the end of these containers", strings.Join(users, ", "))
	}
	return nil
}

// unlink removes the stable links that only this release has.
func (d disk) unlink(name string) error {
	gone, err := d.read(name)
	if err != nil {
		return nil //nolint:nilerr // nobody knows its links; one that leads nowhere does no harm
	}
	names, err := d.placed()
	if err != nil {
		return err
	}
	stay := map[string]bool{}
	for _, other := range names {
		if other == name {
			continue
		}
		r, err := d.read(other)
		if err != nil {
			return nil //nolint:nilerr // it may have any of these links
		}
		for _, f := range r.Files {
			stay[f.Path] = true
		}
	}
	var folders []string
	for _, f := range gone.Files {
		path := filepath.Join(d.root, f.Path)
		if target, err := os.Readlink(path); stay[f.Path] || err != nil || target != stable(f.Path) {
			continue
		}
		err := d.effect(func() error { return errors.Join(removeFile(path), removeFile(besideOf(path))) })
		if err != nil {
			return err
		}
		folders = append(folders, filepath.Dir(path))
	}
	return syncAll(folders)
}

// Placed returns an error unless the programs of a release lie on the host as they
// were written, by size and time; Verify reads them.
func Placed(root, digest string) error {
	name, ok := digestHex(digest)
	if !ok {
		return fmt.Errorf("%q is not the digest of a release", digest)
	}
	_, err := on(root).whole(name)
	return err
}

// Digests lists the releases whose programs lie on the host, sorted.
func Digests(root string) ([]string, error) {
	names, err := on(root).placed()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for i, name := range names {
		names[i] = "sha256:" + name
	}
	return names, err
}
