package config

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/holdfast/holdfast/internal/model/bmc"
)

// Warnings lists the parts of a valid configuration that are allowed but seldom
// wise, one sentence each, in a fixed order. None holds a secret.
func Warnings(c *InstallConfig) []string {
	var out []string
	if c.ControlPlane.Fencing != nil {
		out = fencingWarnings(c)
	}
	if c.ControlPlaneReplicas() == twoNodeReplicas && c.ComputeReplicas() > 0 {
		out = append(out, "compute: a site of two control planes is expected to have no workers beside them")
	}
	if c.Platform.None != nil && c.ControlPlaneReplicas() == 1 && c.ComputeReplicas() > 0 && c.RendezvousIP == "" {
		out = append(out, "rendezvousIP: without it workers find the control plane by api-int."+c.ClusterDomain()+" alone, which the site's name server has to know before they boot")
	}
	if n, hosts := c.PodShares(), c.ControlPlaneReplicas()+c.ComputeReplicas(); n > 0 && n < amplyShared*hosts {
		out = append(out, fmt.Sprintf("networking.clusterNetwork: has room for %s with its hostPrefix, and the site begins with %d: there can never be more, because this cannot be changed later; "+
			"make room for at least %d", count(n, "host"), hosts, amplyShared*hosts))
	}
	if c.ReleaseRegistry != "" && !strings.Contains(c.ReleaseRegistry, "@sha256:") {
		out = append(out, "releaseRegistry: names no digest: each host runs as root what the registry serves at that time, and two hosts may get different releases; "+
			"add the @sha256:DIGEST that 'holdfast release inspect' shows")
	}
	if c.CertificateLife() < warnedCertificate {
		out = append(out, "certificateValidityPeriod: is shorter than 90 days (2160h): a host that is off for longer than it comes back with expired certificates, and doctor warns before each renewal, since less than 30 days are left by then; below 21 days (504h) the alert HoldfastCertificateEnds fires before each, too")
	}
	if c.ControlPlane.Fencing == nil && c.EtcdQuota() > defragmented {
		out = append(out, fmt.Sprintf("etcdQuotaGiB: is more than %d: kubelet runs etcd on %s, and ends one that is mute for as long as a defragmentation of more may take; "+
			"so with more than %d GiB in use no space is given back until objects are deleted", defragmented, count(c.ControlPlaneReplicas(), "control plane"), defragmented))
	}
	return out
}

func fencingWarnings(c *InstallConfig) []string {
	var out []string
	for i, cred := range c.ControlPlane.Fencing.Credentials {
		path := fmt.Sprintf("controlPlane.fencing.credentials[%d]", i)
		if cred.CertificateVerification == bmc.VerificationDisabled && cred.CertificateFingerprint == "" {
			out = append(out, path+".certificateVerification: without it the first machine that answers at that address is trusted as the BMC: it gets the password, and may answer Off for a host that runs; name the BMC's certificate (certificateFingerprint)")
		}
		if cred.TLS == bmc.TLSLegacy {
			out = append(out, path+".tls: an attacker who records or changes the traffic to that BMC may learn the password; update its firmware where that is possible")
		}
		if inMachineNetwork(c, cred.Address) {
			out = append(out, path+".address: lies in a machine network; a BMC on a network of its own can still be reached when that one fails")
		}
	}
	return out
}

func inMachineNetwork(c *InstallConfig, address string) bool {
	place, err := bmc.Parse(address)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(place.Host)
	if err != nil {
		return false
	}
	for _, p := range c.MachineNetworks() {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// HoldsSecrets reports whether a configuration holds secrets that only its owner
// may read: passwords of BMCs, a pull secret, a proxy's password.
func HoldsSecrets(c *InstallConfig) bool {
	if c.PullSecret != "" || c.ControlPlane.Fencing != nil && len(c.ControlPlane.Fencing.Credentials) > 0 {
		return true
	}
	if p := c.Platform.BareMetal; p != nil && len(p.Hosts) > 0 {
		return true
	}
	return c.Proxy != nil && strings.Contains(c.Proxy.HTTPProxy+c.Proxy.HTTPSProxy, "@")
}
