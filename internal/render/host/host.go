// Package host renders what a role's Ignition makes of a machine: the units of
// the container runtime, kubelet and Holdfast's own, and the files they read.
// Whatever depends on the machine itself (addresses, interface, cgroups) is
// not here: the agent renders that on the host.
package host

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/holdfast/holdfast/internal/ignition"
	"github.com/holdfast/holdfast/internal/payload"
	"github.com/holdfast/holdfast/internal/site"
	"github.com/holdfast/holdfast/internal/state"
)

// Paths on the host.
const (
	// ManifestDir holds what the first host applies to the new cluster.
	ManifestDir = "/etc/holdfast/manifests"
	// PackagesPath lists the distribution's packages that the host needs.
	PackagesPath = "/etc/holdfast/packages.json"
	// ContainerdPath is containerd's configuration.
	ContainerdPath = "/etc/containerd/config.toml"
)

// User is the account that the site's SSH keys open, as on an Ignition-based
// OS.
const User = "core"

// Config returns the configuration of a role. The manifests go to the first
// host only; their paths are relative and end up below ManifestDir.
func Config(s *site.Site, role state.Role, manifests []state.File) (ignition.Config, error) {
	own, err := s.For(role)
	if err != nil {
		return ignition.Config{}, err
	}
	siteFile, err := own.Marshal()
	if err != nil {
		return ignition.Config{}, err
	}
	packages, err := packageFile(s, role)
	if err != nil {
		return ignition.Config{}, err
	}
	c := ignition.Config{
		Files: []state.File{
			{Path: site.Path, Data: siteFile, Mode: state.SecretFileMode},
			{Path: PackagesPath, Data: packages},
			{Path: "/etc/sysctl.d/90-holdfast.conf", Data: []byte(sysctls)},
			{Path: "/etc/modules-load.d/holdfast.conf", Data: []byte(modules)},
		},
		Units: Units(role),
		Users: users(s),
	}
	if s.Config.AdditionalTrustBundle != "" {
		c.Files = append(c.Files, state.File{
			Path: "/usr/local/share/ca-certificates/holdfast-site.crt", Data: []byte(s.Config.AdditionalTrustBundle),
		})
	}
	if role == state.RoleBootstrap {
		c.Files = append(c.Files, below(ManifestDir, manifests)...)
	}
	return c, nil
}

// below moves manifests into a folder of the host. Some hold passwords, and
// which ones is a person's to change: none is for others to read.
func below(dir string, files []state.File) []state.File {
	out := slices.Clone(files)
	for i := range out {
		out[i].Path, out[i].Mode = dir+"/"+out[i].Path, state.SecretFileMode
	}
	return out
}

func users(s *site.Site) []ignition.User {
	if s.Config.SSHKey == "" {
		return nil
	}
	return []ignition.User{{Name: User, SSHAuthorizedKeys: []string{s.Config.SSHKey}, Groups: []string{"sudo"}}}
}

// packageFile lists the packages of a role by package manager.
func packageFile(s *site.Site, role state.Role) ([]byte, error) {
	var extensions []payload.Extension
	if role.ControlPlane() && s.Topology().Fencing {
		extensions = append(extensions, payload.ExtensionTwoNodeHA)
	}
	data, err := json.MarshalIndent(map[payload.Family][]string{
		payload.APT: payload.HostPackagesFor(payload.APT, extensions...),
		payload.DNF: payload.HostPackagesFor(payload.DNF, extensions...),
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", PackagesPath, err)
	}
	return append(data, '\n'), nil
}

const modules = "br_netfilter\nnf_conntrack\noverlay\nvxlan\n"

const sysctls = `net.ipv4.ip_forward = 1
net.ipv6.conf.all.forwarding = 1
`
