package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// Installer makes a site's Ignition configs: from the install-config it writes
// bootstrap.ign, master.ign, worker.ign and auth/kubeconfig into dir. It is
// called again after an interruption and must then finish its work.
type Installer interface {
	IgnitionConfigs(ctx context.Context, dir string, installConfig []byte) error
}

// Builder brings labs up.
type Builder struct {
	// Root is the directory of all labs, Cache that of built images.
	Root, Cache string
	// Packages are the distribution packages that every host needs.
	Packages []string
	// Installer may be nil for bare labs.
	Installer Installer
	Launch    Launcher
	// Log receives one line per step.
	Log io.Writer
}

// Prepare makes everything of a lab up to hosts that are wired and switched
// off, with the daemon running. It may be called again at any time: it keeps
// existing parts and makes the missing ones. It returns an error if a lab of
// the same name has other options.
func (u *Builder) Prepare(ctx context.Context, o Options) (*Lab, *Client, error) {
	b, c, release, err := u.prepare(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	release()
	return b, c, nil
}

// prepare is Prepare, but keeps the lab locked.
func (u *Builder) prepare(ctx context.Context, o Options) (b *Lab, c *Client, release func(), err error) {
	if err := CheckTools(); err != nil {
		return nil, nil, nil, err
	}
	image, err := HostImage("/", u.Packages)
	if err != nil {
		return nil, nil, nil, err
	}
	b, release, err = u.claim(ctx, o, image)
	if err != nil {
		return nil, nil, nil, err
	}
	c, err = u.build(ctx, b, image)
	if err != nil {
		release()
		return nil, nil, nil, err
	}
	return b, c, release, nil
}

func (u *Builder) build(ctx context.Context, b *Lab, image Image) (*Client, error) {
	if err := image.Ensure(ctx, u.Cache, u.Log); err != nil {
		return nil, err
	}
	u.say("wiring %d hosts", len(b.Layout.Hosts))
	if err := createNetwork(ctx, b.Layout); err != nil {
		return nil, err
	}
	if err := u.createHosts(ctx, b); err != nil {
		return nil, err
	}
	return b.EnsureDaemon(ctx, u.Launch)
}

func (u *Builder) say(format string, args ...any) {
	_, _ = fmt.Fprintf(u.Log, format+"\n", args...)
}

// Up brings a whole lab up: everything of Prepare, then the site's files, then
// power through each host's BMC. It does not wait for the hosts; Wait does. It
// leaves running hosts alone.
func (u *Builder) Up(ctx context.Context, o Options) (*Lab, *Client, error) {
	b, c, release, err := u.prepare(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	if !o.Spec.Bare {
		u.say("making the site's Ignition configs")
		if err := u.writeSite(ctx, b); err != nil {
			return nil, nil, err
		}
	}
	return b, c, u.powerOnAll(ctx, b, c)
}

// powerOnAll switches on the hosts that are off. A fault that keeps a host off
// is intended, and must be cleared first.
func (u *Builder) powerOnAll(ctx context.Context, b *Lab, c *Client) error {
	st, err := c.Status(ctx)
	if err != nil {
		return err
	}
	for _, f := range st.Faults {
		if _, power := powerFaults[f.Kind]; power {
			return fmt.Errorf("host %s is off because of a fault (%s): run 'holdfast lab fault clear --name %s' first", f.Host, f, b.Layout.Spec.Name)
		}
	}
	for i, h := range b.Layout.Hosts {
		if h.Spare || h.ID != h.Name || st.Hosts[i].Power != PowerOff { // a swapped machine is somebody's to switch on
			continue
		}
		u.say("switching on %s through its BMC", h.Name)
		if err := b.PowerOn(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// claim makes the lab's directory, locks it and records the lab's options.
func (u *Builder) claim(ctx context.Context, o Options, image Image) (*Lab, func(), error) {
	o.Image = image.Ref()
	b, err := New(u.Root, o)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return nil, nil, err
	}
	release, err := lockLab(ctx, b.Dir, b.Layout.Spec.Name)
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(waitForLeftBehind(ctx, b.Layout.Spec.Name), rememberMachine(u.Root), b.sameOrNew(ctx)); err != nil {
		_ = os.Remove(b.Dir) // fails unless it is empty and thus was made for nothing
		release()
		return nil, nil, err
	}
	return b, release, nil
}

// sameOrNew records the options of a new lab. It refuses other options for an
// existing lab of the same name. It first removes what is left of an old lab,
// so that a new one does not meet it.
func (b *Lab) sameOrNew(ctx context.Context) error {
	name := b.Options.Spec.Name
	old, err := Open(filepath.Dir(b.Dir), name)
	if errors.Is(err, ErrNoLab) {
		if err := checkOwner(ctx, name, b.Dir); err != nil {
			return err
		}
		return errors.Join(b.emptyDir(), removeContainers(ctx, name), removeNamespaces(name), b.save())
	}
	if err != nil {
		return err
	}
	if have, want := old.Options.Spec.String(), b.Options.Spec.String(); have != want {
		return fmt.Errorf("lab %s exists with other settings (%s): run 'holdfast lab down --name %s' first, or choose another name",
			name, have, name)
	}
	// These are no settings of 'lab up'.
	b.Options.Spec.Swaps, b.Options.Spec.Moves = old.Options.Spec.Swaps, old.Options.Spec.Moves
	b.Layout = NewLayout(b.Options.Spec)
	return b.save()
}

func (u *Builder) createHosts(ctx context.Context, b *Lab) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for _, h := range b.Layout.Hosts {
		group.Go(func() error { return b.createContainer(ctx, h, b.Options.Image) })
	}
	return group.Wait()
}

// tools lists the programs that a lab needs, with their Debian packages.
var tools = []struct{ program, pkg string }{
	{"podman", "podman"},
	{"runc", "runc"},
	{"conmon", "conmon"},
	{"mmdebstrap", "mmdebstrap"},
	{"nft", "nftables"},
	{"conntrack", "conntrack"},
	{"nsenter", "util-linux"},
	{"mkfs.ext4", "e2fsprogs"},
	{"losetup", "mount"},
}

// CheckTools returns an error if the caller is not root, or if the machine
// lacks packages for a lab. The error names every missing package.
func CheckTools() error {
	if os.Geteuid() != 0 {
		return errors.New("a lab needs root: run the command with sudo")
	}
	var missing []string
	for _, t := range tools {
		if _, err := host.LookPath(t.program); err != nil {
			missing = append(missing, t.pkg)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("this machine lacks %s: run 'apt-get install -y %[1]s'", strings.Join(missing, " "))
	}
	return nil
}
