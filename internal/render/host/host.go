// Package host renders what a role's Ignition makes of a machine: the units of
// the container runtime, kubelet and Holdfast's own, and the files they read.
// Whatever depends on the machine itself (addresses, interface, cgroups) is
// not here: the agent renders that on the host.
package host

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Paths on the host.
const (
	// ManifestDir holds what the first host applies to the new cluster.
	ManifestDir = "/etc/holdfast/manifests"
	// PackagesPath lists the distribution's packages that the host needs.
	PackagesPath = "/etc/holdfast/packages.json"
	// ContainerdPath is containerd's configuration.
	ContainerdPath = "/etc/containerd/config.toml"
	// ProxyPath holds the site's proxy as environment variables.
	ProxyPath = "/etc/holdfast/proxy.env"
	// TrustPath holds the site's certificates, as they were configured.
	TrustPath = "/etc/holdfast/trust-bundle.pem"
	// RegistryAuthPath is the account for the release's registry, in the form
	// and under the name that container tools look for.
	RegistryAuthPath = "/etc/holdfast/registry/config.json"
)

// User is the account that the site's SSH keys open, as on an Ignition-based
// OS.
const User = "core"

// Config returns the configuration of a role. The manifests go to the first
// host only; their paths are relative and end up below ManifestDir.
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
	if role.ControlPlane() && s.Topology().Fencing {
		c.Files = append(c.Files, firstCIBFile())
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

// users is the account of the site's SSH keys. It has no password and belongs
// to no group, since the groups that may become root differ between
// distributions.
func users(s *site.Site) []ignition.User {
	keys := authorizedKeys(s.Config.SSHKey)
	if len(keys) == 0 {
		return nil
	}
	return []ignition.User{{Name: User, SSHAuthorizedKeys: keys}}
}

// authorizedKeys returns the lines of a text that hold a key.
func authorizedKeys(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
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

// surroundings are the files that tell a host of what the site has around it:
// people, proxy, certificates, registry.
func surroundings(s *site.Site) []state.File {
	var files []state.File
	if len(authorizedKeys(s.Config.SSHKey)) > 0 {
		files = append(files, state.File{Path: "/etc/sudoers.d/90-holdfast", Data: []byte(User + " ALL=(ALL) NOPASSWD: ALL\n"), Mode: 0o440})
	}
	if env := s.ProxyEnv(); len(env) > 0 {
		files = append(files, state.File{Path: ProxyPath, Data: environment(env), Mode: state.SecretFileMode})
	}
	if bundle := s.Config.AdditionalTrustBundle; bundle != "" {
		files = append(files, state.File{Path: TrustPath, Data: []byte(bundle)})
		files = append(files, anchors(bundle)...)
	}
	if auth := s.Config.ReleaseAuth(); auth != "" {
		files = append(files, state.File{Path: RegistryAuthPath, Data: []byte(auth.Reveal()), Mode: state.SecretFileMode})
	}
	return files
}

// environment writes variables, NAME=value, as systemd reads them.
func environment(vars []string) []byte {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	var out strings.Builder
	for _, v := range vars {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&out, "%s=\"%s\"\n", name, escape.Replace(value))
	}
	return []byte(out.String())
}

// anchorDirs are where distributions look for further authorities.
var anchorDirs = []string{"/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors"}

// anchors writes each certificate to a file of its own, as Debian's tool wants.
func anchors(bundle string) []state.File {
	var files []state.File
	rest := []byte(bundle)
	for i := 0; ; i++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return files
		}
		for _, dir := range anchorDirs {
			files = append(files, state.File{Path: fmt.Sprintf("%s/holdfast-site-%d.crt", dir, i), Data: pem.EncodeToMemory(block)})
		}
	}
}

const modules = "br_netfilter\nnf_conntrack\noverlay\nvxlan\n"

// sysctls let a host forward; let more than 128 programs of root follow files:
// kubelet, containerd and each pod take some, and a keepalived that gets none
// does not hear how healthy its host is; and give its adverts to 500 hosts that
// are off a place to wait in, beside those to hosts that are not
// (keepalived.BoundUnresolved). The last may fail: in a container, as the lab's
// hosts are, it is the machine's. Two are about ARP: with two NICs in one network
// each answers for its own address alone, or adverts would come to the one that
// nobody listens on; the agent sees to them too, but starts later. What a host
// that forwards does with router advertisements depends on who takes them, and
// is the agent's to find out (internal/agent/network/links).
const sysctls = `net.ipv4.ip_forward = 1
net.ipv6.conf.all.forwarding = 1
net.ipv4.conf.all.arp_ignore = 1
net.ipv4.conf.all.arp_announce = 2
fs.inotify.max_user_instances = 1024
-net.core.wmem_default = 4194304
`
