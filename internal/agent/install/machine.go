package install

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// ownPlatform is the platform of this host's programs.
const ownPlatform = "linux/" + runtime.GOARCH

// lookAtHost refuses a machine that cannot become this host, before anything is
// fetched or written for it.
func (r *run) lookAtHost(context.Context) error {
	gone, err := observe.InMemory("/etc", "/opt", "/var/lib")
	if err != nil {
		return err
	}
	return errors.Join(r.ownArchitecture(runtime.GOARCH), lasts(gone), r.ownClock(), r.roomForEtcd(host.Space))
}

// ownArchitecture compares the machine with the one architecture that
// install-config.yaml gives for all hosts.
func (r *run) ownArchitecture(own string) error {
	if want := r.Site.Config.ControlPlane.Architecture; want != "" && want != own {
		return fmt.Errorf("controlPlane.architecture in install-config.yaml says %s, and this machine is %s: "+
			"all hosts of a site must have the same architecture", want, own)
	}
	return nil
}

// lasts refuses a live image: a cluster in memory is gone with the next boot.
func lasts(gone []string) error {
	if len(gone) == 0 {
		return nil
	}
	return fmt.Errorf("what this machine writes to %s is lost at its next boot: is it a live image? "+
		"Put the operating system on its disk, boot from there, and apply the Ignition again", strings.Join(gone, " and "))
}

// checkRelease refuses programs for another kind of machine: each would fail with
// "exec format error".
func checkRelease(platform, where string) error {
	if platform == "" || platform == ownPlatform {
		return nil
	}
	return fmt.Errorf("the release %s is for %s, and this machine is %s: give it one that was built for %s (version %s)",
		where, platform, ownPlatform, ownPlatform, payload.Version)
}
