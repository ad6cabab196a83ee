package install

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
)

// errHandOver ends this program, so that its unit starts the one of the release that it put
// in place.
var errHandOver = errors.New("its own program goes on with the installation")

// errAnew ends this program, so that its unit starts it with the configuration that was applied
// meanwhile.
var errAnew = errors.New("another configuration was applied to this host: the installation goes on with it")

// sameSite returns errAnew once site.json is another one than this program began with. A file that
// cannot be read is none: without it the unit would not start the program again.
func (r *run) sameSite() error {
	data, err := os.ReadFile(filepath.Join(r.root, site.Path))
	if err != nil || bytes.Equal(data, r.Text) {
		return nil //nolint:nilerr // see above
	}
	return errAnew
}

// ends reports whether an error ends this program.
func ends(err error) bool { return errors.Is(err, errHandOver) || errors.Is(err, errAnew) }

// handOver ends this program if it is not of the version of the release that is in place now: a host
// that was wiped begins with the program of its earlier life, and an image with the one that it
// was made with. Such a program would ask for the images of its own release, which nobody brings. It ends
// only once for a release: a program that is another one even then was not started by the link.
func (r *run) handOver(version, digest string) error {
	if version == payload.Version {
		return nil
	}
	before, err := r.started("hand over to " + digest)
	switch {
	case err != nil:
		return err
	case before:
		return fmt.Errorf("the release in place is %s, but the program that installs is of %s, although it was started again: "+
			"%s has to lead to it (%s); mend that, and restart holdfast-install.service", version, payload.Version, agentLink, payload.CurrentRelease+agentLink)
	}
	return fmt.Errorf("release %s is in place, and this program is of %s: %w", version, payload.Version, errHandOver)
}

// agentLink is where units find the agent of the release in place.
const agentLink = "/usr/local/bin/holdfast-agent"
