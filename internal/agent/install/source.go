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
// pulled before, or pulls it. Once a host has a release it needs no registry.
func (r *run) openRelease(ctx context.Context) error {
	for _, dir := range []string{r.Release, r.pulled} {
		store, err := release.Open(dir)
		if err == nil {
			r.store = store
			return checkRelease(store.Manifest().Platform, "in "+dir)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	ref := r.Site.Config.ReleaseRegistry
	if ref == "" {
		return fmt.Errorf("no release at %s: put one there (the lab and an image of yours do), "+
			"or name a registry as releaseRegistry in install-config.yaml", r.Release)
	}
	from := release.Remote{Ref: versioned(ref), PlainHTTP: r.Site.Config.ReleaseByAddress(), CAFile: host.TrustFile("/")}
	from.Accept = func(m release.Manifest) error { return checkRelease(m.Platform, "at "+from.Ref) }
	r.wait("pulling " + from.Ref)
	store, err := release.Pull(ctx, from, r.pulled)
	r.store = store
	return err
}

// versioned adds this program's version to a reference that names none.
func versioned(ref string) string {
	last := ref[strings.LastIndexByte(ref, '/')+1:]
	if strings.ContainsAny(last, ":@") {
		return ref
	}
	return ref + ":" + payload.Version
}
