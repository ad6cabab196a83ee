package lab

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/state"
)

// redfishTimeout bounds one request to a BMC.
const redfishTimeout = 20 * time.Second

// writeSite makes the site's files: the install configuration, and by the
// installer the Ignition of each role.
func (u *Builder) writeSite(ctx context.Context, b *Lab) error {
	text, err := b.Layout.InstallConfig()
	if err != nil {
		return err
	}
	path := filepath.Join(b.SiteDir(), "install-config.yaml")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := host.WriteFileAtomic(path, text, 0o600); err != nil {
			return err
		}
	}
	if err := os.Chmod(b.SiteDir(), 0o700); err != nil { //nolint:gosec // a directory needs x
		return err
	}
	if err := u.Installer.IgnitionConfigs(ctx, b.SiteDir(), text); err != nil {
		return fmt.Errorf("make the Ignition of lab %s: %w", b.Layout.Spec.Name, err)
	}
	return b.handOut()
}

// ignitionFiles are the installer's files per role.
var ignitionFiles = map[state.Role]string{
	state.RoleBootstrap: "bootstrap.ign",
	state.RoleMaster:    "master.ign",
	state.RoleWorker:    "worker.ign",
}

// handOut gives every host the Ignition of its role.
func (b *Lab) handOut() error {
	for _, h := range b.Layout.Hosts {
		data, err := os.ReadFile(filepath.Join(b.SiteDir(), ignitionFiles[h.Role]))
		if err != nil {
			return fmt.Errorf("ignition of host %s: %w", h.Name, err)
		}
		if err := b.giveIgnition(h, data); err != nil {
			return err
		}
	}
	return nil
}

// PowerOn switches a host on through its BMC, as a person at a site would.
func (b *Lab) PowerOn(ctx context.Context, h Host) error { return b.Reset(ctx, h, "On") }

// Reset asks a host's BMC for a reset over the fencing network.
func (b *Lab) Reset(ctx context.Context, h Host, kind string) error {
	ns := namespace(b.Layout.Switch())
	client := &http.Client{
		Timeout: redfishTimeout,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return ns.dial(ctx, network, addr)
			},
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a lab's BMC signs its own
			DisableKeepAlives: true,
		},
	}
	body := bytes.NewReader(fmt.Appendf(nil, `{"ResetType":%q}`, kind))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.BMC.URL()+"/Actions/ComputerSystem.Reset", body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.SetBasicAuth(h.BMC.Username, h.BMC.Password)
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("BMC of %s: %w", h.Name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= http.StatusMultipleChoices {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("BMC of %s: reset %s: %s: %s", h.Name, kind, resp.Status, bytes.TrimSpace(said))
	}
	return nil
}
