package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// pulledRelease is the folder of the release that a host pulled.
const pulledRelease = "/var/lib/holdfast/release"

// openRelease opens the release that the host brings along, or one that was
// pulled before, or pulls it. Once a host has a release it needs no registry. A
// release that is not the one of the site does not count.
func (r *run) openRelease(ctx context.Context) error {
	var other error
	for _, dir := range []string{r.Release, r.pulled} {
		store, err := release.Open(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		m := store.Manifest()
		if want := r.Site.Release; want != "" && want != m.Digest {
			other = fmt.Errorf("the site runs the release %s, and the one in %s is %s, %s: put that of the site there", want, dir, m.Version, m.Digest)
			continue
		}
		r.store = store
		return checkRelease(m.Platform, "in "+dir)
	}
	ref := r.Site.Config.ReleaseRegistry
	if ref == "" && other != nil {
		return other
	}
	if ref == "" {
		return fmt.Errorf("no release at %s: put one there (the lab and an image of yours do), "+
			"or name a registry as releaseRegistry in install-config.yaml", r.Release)
	}
	from := release.Remote{Ref: sites(ref, r.Site.Release), PlainHTTP: r.Site.Config.ReleaseByAddress(), CAFile: host.TrustFile("/")}
	from.Accept = func(m release.Manifest) error { return checkRelease(m.Platform, "at "+from.Ref) }
	r.wait("pulling " + from.Ref)
	store, err := release.Pull(ctx, from, r.pulled)
	r.store = store
	return err
}

// sites returns the reference of the release that the site runs, in the repository of the
// one with which it was installed; of that one itself if nobody knows.
func sites(ref, running string) string {
	if running == "" {
		return versioned(ref)
	}
	repository, _, _ := strings.Cut(ref, "@")
	if last := strings.LastIndexByte(repository, ':'); last > strings.LastIndexByte(repository, '/') {
		repository = repository[:last]
	}
	return repository + "@" + running
}

// versioned adds this program's version to a reference that names none.
func versioned(ref string) string {
	last := ref[strings.LastIndexByte(ref, '/')+1:]
	if strings.ContainsAny(last, ":@") {
		return ref
	}
	return ref + ":" + payload.Version
}
