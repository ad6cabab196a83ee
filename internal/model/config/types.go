// Package config holds a person's description of a site: the install-config, its
// defaults and every rule that it must keep. It turns bytes into a valid value
// or into a list of all mistakes, and changes nothing else.
package config

import (
	"net/netip"
	"strings"

	"github.com/holdfast/holdfast/internal/model/secret"
)

// APIVersion is the only accepted apiVersion of an install-config.
const APIVersion = "v1"

// InstallConfig describes one cluster. Parse returns only values that keep
// every rule, with defaults filled in.
type InstallConfig struct {
	APIVersion string     `json:"apiVersion"`
	Metadata   Metadata   `json:"metadata"`
	BaseDomain string     `json:"baseDomain"`
	Networking Networking `json:"networking"`
	// ControlPlane is the pool named master.
	ControlPlane MachinePool `json:"controlPlane"`
	// Compute holds at most one pool, named worker. Absent means no workers.
	Compute  []MachinePool `json:"compute,omitempty"`
	Platform Platform      `json:"platform"`
	// BootstrapInPlace is refused. Earlier builds accepted the field, and hosts of
	// those builds have it in their copy.
	BootstrapInPlace *BootstrapInPlace `json:"bootstrapInPlace,omitempty"`
	// RendezvousIP is the machine address of the control-plane host that
	// starts the cluster. Empty means that the host given bootstrap.ign does.
	RendezvousIP string `json:"rendezvousIP,omitempty"`
	// FeatureSet is empty, TechPreviewNoUpgrade, DevPreviewNoUpgrade or
	// CustomNoUpgrade. The spelling Default is read as empty.
	FeatureSet string `json:"featureSet,omitempty"`
	// FeatureGates are entries "Name=true" or "Name=false".
	FeatureGates []string `json:"featureGates,omitempty"`
	// SSHKey holds authorized keys, one a line.
	SSHKey string `json:"sshKey,omitempty"`
	// PullSecret is a registry authentication file in JSON, with "auths".
	PullSecret secret.Text `json:"pullSecret,omitempty"`
	Proxy      *Proxy      `json:"proxy,omitempty"`
	// ReleaseRegistry is the place from which hosts without a release of their own
	// pull it: HOST[:PORT]/REPOSITORY with a tag, a digest, or neither for the
	// version that made the Ignition config.
	ReleaseRegistry string `json:"releaseRegistry,omitempty"`
	// CertificateValidityPeriod is the life of the certificates that kubeadm and
	// kube-controller-manager sign, and of those that follow them, as Go writes a
	// duration. Empty means CertificateLife. What Holdfast makes for itself lives no
	// longer (ShorterLife).
	CertificateValidityPeriod string `json:"certificateValidityPeriod,omitempty"`
	// EtcdQuotaGiB is the size in GiB that etcd's database may reach. Absent means etcd's own,
	// and a file that names that one is read as one without the field; see EtcdQuota.
	EtcdQuotaGiB *int64 `json:"etcdQuotaGiB,omitempty"`
	// AdditionalTrustBundle holds certificates in PEM.
	AdditionalTrustBundle string `json:"additionalTrustBundle,omitempty"`
}

// Metadata names the cluster.
type Metadata struct {
	Name string `json:"name"`
}

// Networking holds the address plan. The order of entries is the order of
// address families: the first one is the primary family.
type Networking struct {
	// NetworkType names the pod network; Flannel is the default, None means
	// that the site brings its own.
	NetworkType    string                `json:"networkType,omitempty"`
	MachineNetwork []MachineNetworkEntry `json:"machineNetwork,omitempty"`
	ClusterNetwork []ClusterNetworkEntry `json:"clusterNetwork,omitempty"`
	// ServiceNetwork are CIDRs, one per family.
	ServiceNetwork []string `json:"serviceNetwork,omitempty"`
}

// MachineNetworkEntry is one network of the hosts.
type MachineNetworkEntry struct {
	CIDR string `json:"cidr"`
}

// ClusterNetworkEntry is one pod network.
type ClusterNetworkEntry struct {
	CIDR string `json:"cidr"`
	// HostPrefix is the prefix length, in bits, of each host's share.
	HostPrefix int32 `json:"hostPrefix,omitempty"`
}

// MachinePool is a set of hosts with one role.
type MachinePool struct {
	Name         string   `json:"name"`
	Replicas     *int64   `json:"replicas,omitempty"`
	Architecture string   `json:"architecture,omitempty"`
	Fencing      *Fencing `json:"fencing,omitempty"`
}

// Fencing holds the accounts with which the two control-plane hosts switch each
// other off.
type Fencing struct {
	Credentials []FencingCredential `json:"credentials,omitempty"`
}

// FencingCredential is the account of one host's BMC.
type FencingCredential struct {
	// HostName is the name of the node. The specification spells the key
	// "hostname", the shipped schema "hostName"; both are read.
	HostName string `json:"hostName"`
	// Address is the Redfish URL of the system; see bmc.Parse.
	Address  string      `json:"address"`
	Username string      `json:"username"`
	Password secret.Text `json:"password"`
	// CertificateVerification is Enabled (default) or Disabled. If no authority
	// vouches for the certificate, it is pinned at first sight.
	CertificateVerification string `json:"certificateVerification,omitempty"`
	// CertificateFingerprint is the SHA-256 of the only certificate to trust.
	CertificateFingerprint string `json:"certificateFingerprint,omitempty"`
	// TLS is Default, or Legacy for a BMC that has nothing newer than TLS 1.1, or
	// no key exchange with forward secrecy.
	TLS string `json:"tls,omitempty"`
	// SystemID is the UUID or serial number that the BMC reports, needed if neither
	// is that of the host's own SMBIOS.
	SystemID string `json:"systemID,omitempty"`
}

// Platform is a union: exactly one field is set.
type Platform struct {
	None      *NonePlatform      `json:"none,omitempty"`
	BareMetal *BareMetalPlatform `json:"baremetal,omitempty"`
}

// NonePlatform means that the site brings load balancer and DNS itself.
type NonePlatform struct{}

// BareMetalPlatform asks for virtual IPs held by the hosts themselves.
type BareMetalPlatform struct {
	// APIVIPs and IngressVIPs hold one address, or one of each family.
	APIVIPs     []string `json:"apiVIPs,omitempty"`
	IngressVIPs []string `json:"ingressVIPs,omitempty"`
	Hosts       []Host   `json:"hosts,omitempty"`
}

// Host is one machine of the bare-metal platform.
type Host struct {
	Name string `json:"name"`
	// Role is master or worker; empty lets the installer choose.
	Role           string `json:"role,omitempty"`
	BootMACAddress string `json:"bootMACAddress"`
	// BMC may be left out: the installer installs no host through it.
	BMC BMC `json:"bmc,omitzero"`
}

// BMC is the account of a host's management controller.
type BMC struct {
	Address                        string      `json:"address"`
	Username                       string      `json:"username"`
	Password                       secret.Text `json:"password"`
	DisableCertificateVerification bool        `json:"disableCertificateVerification,omitempty"`
}

// BootstrapInPlace names the disk onto which a host would install itself.
type BootstrapInPlace struct {
	InstallationDisk string `json:"installationDisk,omitempty"`
}

// Proxy is the site's way out. The URLs may carry a name and a password, so
// formatting and JSON leave those out.
type Proxy struct {
	HTTPProxy  string `json:"httpProxy,omitempty"`
	HTTPSProxy string `json:"httpsProxy,omitempty"`
	NoProxy    string `json:"noProxy,omitempty"`
}

// ClusterDomain returns the domain below which all names of the cluster lie.
func (c *InstallConfig) ClusterDomain() string { return c.Metadata.Name + "." + c.BaseDomain }

// AuthorizedKeys returns the lines of SSHKey that contain a key.
func (c *InstallConfig) AuthorizedKeys() []string {
	var out []string
	for line := range strings.Lines(c.SSHKey) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// ControlPlaneReplicas returns the number of control-plane hosts.
func (c *InstallConfig) ControlPlaneReplicas() int { return replicas(c.ControlPlane) }

// ComputeReplicas returns the number of workers for which the installation
// waits.
func (c *InstallConfig) ComputeReplicas() int {
	n := 0
	for _, pool := range c.Compute {
		n += replicas(pool)
	}
	return n
}

func replicas(p MachinePool) int {
	if p.Replicas == nil {
		return 0
	}
	return int(*p.Replicas)
}

// APIVIPs returns the parsed API addresses, empty on platform none.
func (c *InstallConfig) APIVIPs() []netip.Addr {
	if c.Platform.BareMetal == nil {
		return nil
	}
	return addrs(c.Platform.BareMetal.APIVIPs)
}

// IngressVIPs returns the parsed ingress addresses, empty on platform none.
func (c *InstallConfig) IngressVIPs() []netip.Addr {
	if c.Platform.BareMetal == nil {
		return nil
	}
	return addrs(c.Platform.BareMetal.IngressVIPs)
}

func addrs(list []string) []netip.Addr {
	out := make([]netip.Addr, 0, len(list))
	for _, s := range list {
		if a, err := netip.ParseAddr(s); err == nil {
			out = append(out, a.Unmap())
		}
	}
	return out
}
