// Package host renders the contents of a role's Ignition config: the units of
// the container runtime, kubelet and Holdfast, and the files that they read.
// Everything that depends on the machine itself (addresses, interface, cgroups)
// is rendered by the agent on the host instead.
package host

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Paths on the host.
const (
	// ManifestDir is the folder of the manifests that the first host applies to
	// the new cluster.
	ManifestDir = "/etc/holdfast/manifests"
	// PackagesPath lists the distribution's packages that the host needs.
	PackagesPath = "/etc/holdfast/packages.json"
	// ContainerdPath is containerd's configuration.
	ContainerdPath = "/etc/containerd/config.toml"
	// PodmanBridge is the pod network that Debian's podman brings. Pods would land on it
	// where the cluster's own is not there yet.
	PodmanBridge = "/etc/cni/net.d/87-podman-bridge.conflist"
	// RegistryAuthPath is the account for the release's registry, in the format
	// and under the name that container tools expect.
	RegistryAuthPath = "/etc/holdfast/registry/config.json"
)

// User is the account for the site's SSH keys, as on an Ignition-based OS.
const User = "core"

// Config returns the configuration of a role. Only the first host gets the
// manifests; their paths are relative to ManifestDir.
func Config(s *site.Site, role state.Role, manifests []state.File) (ignition.Config, error) {
	own := s.For(role)
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
		Units: units(own, role),
		Users: users(s),
	}
	c.Files = append(c.Files, surroundings(own)...)
	pair := role.ControlPlane() && s.Topology().Fencing
	if pair {
		c.Files = append(c.Files, firstCIBFile())
	}
	c.Files = append(c.Files, updates(pair)...)
	if role == state.RoleBootstrap {
		c.Files = append(c.Files, below(ManifestDir, manifests)...)
	}
	return c, nil
}

// OfRelease returns the files that this release brings to each installed host of a site's shape:
// those of Config, with the files of its units, but without what the site chose, such as its proxy.
// The files of SurroundingUnits are among them: the agent of this release writes the same text.
func OfRelease(s *site.Site) ([]state.File, error) {
	c, err := Config(s, s.Role, nil)
	if err != nil {
		return nil, err
	}
	surrounds := surroundings(s.For(s.Role))
	out := slices.DeleteFunc(c.Files, func(f state.File) bool {
		return f.Path == site.Path || slices.ContainsFunc(surrounds, func(o state.File) bool { return o.Path == f.Path })
	})
	return append(out, UnitFiles(c.Units)...), nil
}

// UnitFiles returns the files of units. A unit that has only drop-ins is a distribution's.
func UnitFiles(units []ignition.Unit) []state.File {
	var out []state.File
	for _, u := range units {
		if u.Contents != "" {
			out = append(out, state.File{Path: path.Join(UnitDir, u.Name), Data: []byte(u.Contents)})
		}
		for _, d := range u.Dropins {
			out = append(out, state.File{Path: path.Join(UnitDir, u.Name+".d", d.Name), Data: []byte(d.Contents)})
		}
	}
	return out
}

// below moves manifests into a folder of the host. Some contain passwords, and
// administrators may change which ones: so only root may read any of them.
func below(dir string, files []state.File) []state.File {
	out := slices.Clone(files)
	for i := range out {
		out[i].Path, out[i].Mode = dir+"/"+out[i].Path, state.SecretFileMode
	}
	return out
}

// users returns the account for the site's SSH keys. It has no password and is
// in no group, because the groups that may become root differ between
// distributions.
func users(s *site.Site) []ignition.User {
	keys := s.Config.AuthorizedKeys()
	if len(keys) == 0 {
		return nil
	}
	return []ignition.User{{Name: User, SSHAuthorizedKeys: keys}}
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

// surroundings returns the files about the host's surroundings: people, proxy,
// certificates, registry.
func surroundings(s *site.Site) []state.File {
	var files []state.File
	if len(s.Config.AuthorizedKeys()) > 0 {
		files = append(files, state.File{Path: "/etc/sudoers.d/90-holdfast", Data: []byte(User + " ALL=(ALL) NOPASSWD: ALL\n"), Mode: 0o440})
	}
	files = append(files, site.ProxyFile(s.Config), site.TrustFile(s.Config))
	if auth := s.Config.ReleaseAuth(); auth != "" {
		files = append(files, state.File{Path: RegistryAuthPath, Data: []byte(auth.Reveal()), Mode: state.SecretFileMode})
	}
	return files
}

const modules = "br_netfilter\nnf_conntrack\noverlay\nvxlan\n"

// sysctls does four things. It lets a host forward packets.
//
// It lets more than 128 programs of root watch files: kubelet, containerd and
// each pod take some, and a keepalived without one does not learn its host's
// health.
//
// It gives keepalived's adverts to 500 hosts that are off a queue to wait in,
// besides those to running hosts (keepalived.BoundUnresolved). This one may fail:
// in a container, as in the lab, it belongs to the machine.
//
// Two settings are about ARP. If a host has two NICs in one network, each must
// answer only for its own address. Otherwise adverts would arrive at the one on
// which nobody listens. The agent sets these too, but starts later. How a
// forwarding host treats router advertisements depends on who processes them; the
// agent finds that out (internal/agent/network/links).
const sysctls = `net.ipv4.ip_forward = 1
net.ipv6.conf.all.forwarding = 1
net.ipv4.conf.all.arp_ignore = 1
net.ipv4.conf.all.arp_announce = 2
fs.inotify.max_user_instances = 1024
-net.core.wmem_default = 4194304
`
