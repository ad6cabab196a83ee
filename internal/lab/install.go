package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/secret"
	"github.com/holdfast/holdfast/internal/model/state"
)

// writeSite makes the site's files: it writes the install-config, and the
// installer makes the Ignition config of each role.
func (u *Builder) writeSite(ctx context.Context, b *Lab) error {
	text, err := b.installConfig()
	if err != nil {
		return err
	}
	path := filepath.Join(b.SiteDir(), "install-config.yaml")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := host.WriteFileAtomic(path, text, 0o600); err != nil {
			return err
		}
	}
	if err := os.Chmod(b.SiteDir(), 0o700); err != nil {
		return err
	}
	if err := u.Installer.IgnitionConfigs(ctx, b.SiteDir(), text); err != nil {
		return fmt.Errorf("make the Ignition configs of lab %s: %w", b.Layout.Spec.Name, err)
	}
	return b.handOut()
}

// ignitionFiles are the installer's files per role.
var ignitionFiles = map[state.Role]string{
	state.RoleBootstrap: "bootstrap.ign",
	state.RoleMaster:    "master.ign",
	state.RoleWorker:    "worker.ign",
}

// handOut gives the hosts with which the site is installed, and its spare workers, the
// Ignition config of their role.
func (b *Lab) handOut() error {
	for _, h := range b.Layout.Hosts {
		if h.ID != h.Name || h.awaitsJoinFile() {
			continue // it gets or has a join file of its own, or had its turn
		}
		data, err := os.ReadFile(filepath.Join(b.SiteDir(), ignitionFiles[h.Role]))
		if err != nil {
			return fmt.Errorf("the Ignition config of host %s: %w", h.Name, err)
		}
		if err := b.giveIgnition(h, data); err != nil {
			return err
		}
	}
	return nil
}

// PowerOn switches a host on through its BMC, as an administrator at a site
// would.
func (b *Lab) PowerOn(ctx context.Context, h Host) error { return b.Reset(ctx, h, redfish.ResetOn) }

// Reset asks a host's BMC for a reset over the fencing network.
func (b *Lab) Reset(ctx context.Context, h Host, kind redfish.ResetType) error {
	address, err := bmc.Parse(h.BMC.URL())
	if err != nil {
		return err
	}
	e := redfish.Endpoint{
		Address: address, Username: h.BMC.Username, Password: secret.Text(h.BMC.Password),
		DialContext: namespace(b.Layout.Switch()).dial,
		UUID:        h.UUID, Serial: h.Serial,
	}
	shown, err := redfish.CertificateShown(ctx, e) // a lab's BMC has a self-signed certificate
	if err != nil {
		return fmt.Errorf("BMC of %s: %w", h.Name, err)
	}
	e.Fingerprint = shown.Fingerprint
	c, err := redfish.Open(ctx, e)
	if err != nil {
		return fmt.Errorf("BMC of %s: %w", h.Name, err)
	}
	defer c.Close()
	if err := c.Reset(ctx, kind); err != nil {
		return fmt.Errorf("BMC of %s: %w", h.Name, err)
	}
	return nil
}
