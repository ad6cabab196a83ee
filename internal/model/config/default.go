package config

import (
	"net/netip"

	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
)

// The values of absent fields. The networks are those that OpenShift's installer
// uses, so that existing address plans fit.
const (
	defaultControlPlanes  = 3
	defaultNetworkType    = NetworkTypeFlannel
	defaultMachineNetwork = "10.0.0.0/16"
	defaultClusterNetwork = "10.128.0.0/14"
	defaultServiceNetwork = "172.30.0.0/16"
	defaultHostPrefixV4   = 23
	defaultHostPrefixV6   = 64
)

// The names of the machine pools.
const (
	ControlPlanePool = "master"
	ComputePool      = "worker"
)

// The values of networking.networkType.
const (
	NetworkTypeFlannel = "Flannel"
	// NetworkTypeNone leaves the pod network to the site.
	NetworkTypeNone = "None"
)

// Default fills in the fields that were left out. An IPv6 machine network has
// no default pod and service networks: a site's prefix cannot be guessed.
func Default(c *InstallConfig) {
	defaultPools(c)
	defaultNetworking(&c.Networking)
	if c.FeatureSet == "Default" {
		c.FeatureSet = ""
	}
}

func defaultPools(c *InstallConfig) {
	setDefault(&c.ControlPlane.Name, ControlPlanePool)
	if c.ControlPlane.Replicas == nil {
		c.ControlPlane.Replicas = new(int64(defaultControlPlanes))
	}
	for i := range c.Compute {
		setDefault(&c.Compute[i].Name, ComputePool)
		if c.Compute[i].Replicas == nil {
			c.Compute[i].Replicas = new(int64(0))
		}
	}
	if c.ControlPlane.Fencing == nil {
		return
	}
	for i := range c.ControlPlane.Fencing.Credentials {
		setDefault(&c.ControlPlane.Fencing.Credentials[i].CertificateVerification, bmc.VerificationEnabled)
	}
}

func defaultNetworking(n *Networking) {
	setDefault(&n.NetworkType, defaultNetworkType)
	if n.MachineNetwork == nil {
		n.MachineNetwork = []MachineNetworkEntry{{CIDR: defaultMachineNetwork}}
	}
	if len(n.MachineNetwork) == 0 || !isIPv6(n.MachineNetwork[0].CIDR) {
		if n.ClusterNetwork == nil {
			n.ClusterNetwork = []ClusterNetworkEntry{{CIDR: defaultClusterNetwork}}
		}
		if n.ServiceNetwork == nil {
			n.ServiceNetwork = []string{defaultServiceNetwork}
		}
	}
	for i := range n.ClusterNetwork {
		entry := &n.ClusterNetwork[i]
		switch {
		case entry.HostPrefix != 0:
		case isIPv6(entry.CIDR):
			entry.HostPrefix = defaultHostPrefixV6
		default:
			entry.HostPrefix = defaultHostPrefixV4
		}
	}
}

func isIPv6(cidr string) bool {
	p, err := netip.ParsePrefix(cidr)
	return err == nil && p.Addr().Is6()
}

func setDefault(s *string, value string) {
	if *s == "" {
		*s = value
	}
}

// normalize writes the addresses of a valid configuration in their canonical
// form, so that the rest of Holdfast may compare them as text, and leaves out
// what is as it would be without the field.
func normalize(c *InstallConfig) {
	if c.EtcdQuota() == etcdpod.OwnQuota {
		c.EtcdQuotaGiB = nil
	}
	n := &c.Networking
	for i := range n.MachineNetwork {
		n.MachineNetwork[i].CIDR = canonicalPrefix(n.MachineNetwork[i].CIDR)
	}
	for i := range n.ClusterNetwork {
		n.ClusterNetwork[i].CIDR = canonicalPrefix(n.ClusterNetwork[i].CIDR)
	}
	for i := range n.ServiceNetwork {
		n.ServiceNetwork[i] = canonicalPrefix(n.ServiceNetwork[i])
	}
	c.RendezvousIP = canonicalAddr(c.RendezvousIP)
	bm := c.Platform.BareMetal
	if bm == nil {
		return
	}
	for _, list := range [][]string{bm.APIVIPs, bm.IngressVIPs} {
		for i := range list {
			list[i] = canonicalAddr(list[i])
		}
	}
	for i := range bm.Hosts {
		if mac, ok := canonicalMAC(bm.Hosts[i].BootMACAddress); ok {
			bm.Hosts[i].BootMACAddress = mac
		}
	}
}

func canonicalPrefix(s string) string {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.String()
	}
	return s
}

func canonicalAddr(s string) string {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.String()
	}
	return s
}
