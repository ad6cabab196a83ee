package restore

import (
	"cmp"
	"fmt"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/model/backup"
)

// Release compares the release that wrote a backup with the one that a site would be installed
// with. It returns an error if that one is older: an older etcd or API server does not read what
// a newer one wrote. Otherwise it returns what a person should know before, or nothing.
func Release(wrote, installs backup.Release) (note string, err error) {
	for _, p := range []struct{ what, wrote, installs string }{
		{"Kubernetes", wrote.Kubernetes, installs.Kubernetes}, {"etcd", wrote.Etcd, installs.Etcd},
	} {
		was, bad := gate.ParseVersion(p.wrote)
		if bad != nil {
			note = "the backup does not say which " + p.what + " wrote it: install the release that the site had"
			continue
		}
		is, bad := gate.ParseVersion(p.installs)
		if bad != nil {
			return "", fmt.Errorf("%s of this holdfast: %w", p.what, bad)
		}
		switch {
		case was.Major != is.Major || was.Minor > is.Minor:
			return "", fmt.Errorf("the backup is of %s %s, and this holdfast installs %s %s, which does not read what a newer one wrote: "+
				"take the holdfast and the release %s", p.what, p.wrote, p.what, p.installs, named(wrote))
		case is.Minor > was.Minor+1:
			note = fmt.Sprintf("the backup is of %s %s, and this holdfast installs %s: it need not read all that one of more than a minor release before wrote. "+
				"If you have it, restore with the release %s and upgrade then", p.what, p.wrote, p.installs, named(wrote))
		}
	}
	if note == "" && wrote.Version != installs.Version {
		note = fmt.Sprintf("the site had the release %s, and this holdfast installs %s", named(wrote), cmp.Or(installs.Version, "another one"))
	}
	return note, nil
}

// named returns how a person finds a release.
func named(r backup.Release) string {
	name := cmp.Or(r.Version, "of that site")
	if r.Digest != "" {
		name += " (" + r.Digest + ")"
	}
	return name
}
