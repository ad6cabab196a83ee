package controlplane

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/holdfast/holdfast/internal/agent/install"
	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/payload"
	"github.com/holdfast/holdfast/internal/render/keepalived"
	"github.com/holdfast/holdfast/internal/state"
)

// keepVIPs writes keepalived's files for the control planes there are and
// tells keepalived when something changed. A further control plane takes part
// only once it is joined and ready: by then the others have long listed it, and it
// hears their adverts instead of taking the VIP beside them.
func (r *run) keepVIPs(nodes []state.Node) error {
	stage := stageNow()
	bootstrapping := r.Site.Role == state.RoleBootstrap && stage != stageInstalled
	if !bootstrapping && stage == stageInstalling {
		return nil
	}
	instances := keepalived.Instances(keepalived.Site{
		Cluster: r.Site.Config.Metadata.Name, VIPs: r.Site.Config.APIVIPs(),
		Interface: r.facts.Interface, Own: r.facts.Addresses,
		ControlPlanes: controlPlaneAddresses(nodes), Bootstrap: bootstrapping,
	})
	if len(instances) == 0 {
		return nil
	}
	files, err := keepalived.Files(instances, payload.Image("keepalived"))
	if err != nil {
		return err
	}
	told, err := liveKeepalived.update(files)
	if told {
		r.logf("keepalived: %d peers, priority %d", len(instances[0].Peers), instances[0].Priority)
	}
	return err
}

// stage is how far this host's installation is, as far as its part in the
// virtual IPs depends on it.
type stage int

const (
	stageInstalling stage = iota
	stageReady            // the node is ready, and the others know it
	stageInstalled
)

// stageEvery is the pause between two looks at the stage.
const stageEvery = 250 * time.Millisecond

func stageNow() stage {
	if _, err := os.Stat(install.CompletePath); err == nil {
		return stageInstalled
	}
	if _, err := os.Stat(install.ReadyPath); err == nil {
		return stageReady
	}
	return stageInstalling
}

func controlPlaneAddresses(nodes []state.Node) []netip.Addr {
	var out []netip.Addr
	for _, n := range nodes {
		if n.ControlPlane() {
			out = append(out, n.Addresses...)
		}
	}
	return out
}

// keepalivedHost is keepalived on a host: its files, and how it is told that
// they changed.
type keepalivedHost struct {
	// root is where the host's files lie.
	root string
	// told holds the hash of the configuration that keepalived was last told
	// of. It must not outlive a boot: keepalived then reads what is there.
	told string
	// reload makes keepalived read its configuration.
	reload func() error
}

var liveKeepalived = keepalivedHost{
	root: "/", told: "/run/holdfast/keepalived.told",
	reload: func() error { return host.SignalPIDFile(keepalived.PIDFile, syscall.SIGHUP) },
}

// update writes files and tells keepalived if its configuration is another
// than it was told of: also if an earlier run wrote it and was killed, or
// failed, before it could tell. It reports whether it told.
func (k keepalivedHost) update(files []state.File) (told bool, err error) {
	before, err := k.known()
	if err != nil {
		return false, err
	}
	if _, err := host.WriteFiles(k.root, files); err != nil {
		return false, err
	}
	now, err := k.configuration()
	if err != nil || bytes.Equal(now, before) {
		return false, err
	}
	if err := k.reload(); err != nil {
		return false, err
	}
	return true, host.WriteFileAtomic(k.told, now, state.DefaultFileMode)
}

// known is the hash of the configuration that keepalived has: the one it was
// told of, or after a boot the one that it started with.
func (k keepalivedHost) known() ([]byte, error) {
	told, err := os.ReadFile(k.told)
	if !errors.Is(err, fs.ErrNotExist) {
		return told, err
	}
	now, err := k.configuration()
	if err != nil {
		return nil, err
	}
	return now, host.WriteFileAtomic(k.told, now, state.DefaultFileMode)
}

// configuration is the hash of what is in the file, empty without one.
func (k keepalivedHost) configuration() ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(k.root, keepalived.ConfigPath))
	if errors.Is(err, fs.ErrNotExist) {
		return []byte{}, nil
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return sum[:], nil
}
