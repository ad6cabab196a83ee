package lab

import (
	"fmt"
	"net/netip"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/config"
)

// Pod and service networks of a lab's site, per family. They do not overlap the
// lab's own networks.
var (
	podNetworks = map[Family]config.ClusterNetworkEntry{
		V4: {CIDR: "10.128.0.0/14", HostPrefix: 23},
		V6: {CIDR: "fd01::/48", HostPrefix: 64},
	}
	serviceNetworks = map[Family]string{V4: "172.30.0.0/16", V6: "fd02::/112"}
)

// document is a YAML mapping; sigs.k8s.io/yaml writes its keys sorted.
type document = map[string]any

// InstallConfig returns the install-config of the lab's site. It holds the
// BMCs' passwords.
func (l Layout) InstallConfig() ([]byte, error) {
	s := l.Spec
	controlPlane := document{"name": "master"}
	l.setControlPlanes(controlPlane)
	site := document{
		"apiVersion":   "v1",
		"metadata":     document{"name": s.Name},
		"baseDomain":   BaseDomain,
		"networking":   l.networking(),
		"controlPlane": controlPlane,
		"compute":      []document{{"name": "worker", "replicas": s.Workers}},
		"platform":     l.platform(),
		"rendezvousIP": l.Hosts[0].Machine.addrs()[0].String(),
	}
	if s.CertificateValidity != "" {
		site["certificateValidityPeriod"] = s.CertificateValidity
	}
	if s.EtcdQuota > 0 {
		site["etcdQuotaGiB"] = s.EtcdQuota
	}
	return yaml.Marshal(site)
}

// setControlPlanes writes their number into controlPlane of an install-config, and the
// accounts with which two fence each other.
func (l Layout) setControlPlanes(controlPlane document) {
	controlPlane["replicas"] = l.Spec.ControlPlanes
	delete(controlPlane, "fencing")
	if l.Spec.ControlPlanes == 2 {
		controlPlane["fencing"] = document{"credentials": l.fencingCredentials()}
	}
}

func (l Layout) networking() document {
	var machine, pods []document
	var services []string
	for _, p := range l.MachineNetworks() {
		machine = append(machine, document{"cidr": p.String()})
	}
	for _, f := range l.Spec.Families {
		pods = append(pods, document{"cidr": podNetworks[f].CIDR, "hostPrefix": podNetworks[f].HostPrefix})
		services = append(services, serviceNetworks[f])
	}
	return document{"machineNetwork": machine, "clusterNetwork": pods, "serviceNetwork": services}
}

func (l Layout) fencingCredentials() []document {
	var out []document
	for _, h := range l.ControlPlanes() {
		out = append(out, document{
			"hostname": h.Name, "address": h.BMC.URL(), "username": h.BMC.Username, "password": h.BMC.Password,
			"certificateVerification": bmc.VerificationDisabled,
		})
	}
	return out
}

func (l Layout) platform() document {
	if l.Spec.Platform == PlatformNone {
		return document{"none": document{}}
	}
	metal := document{"apiVIPs": texts(l.APIVIPs), "ingressVIPs": texts(l.IngressVIPs)}
	l.setMachines(metal)
	return document{"baremetal": metal}
}

// setMachines writes the list of machines into platform.baremetal of an install-config. Sites
// of one or two control planes have none.
func (l Layout) setMachines(metal document) {
	delete(metal, "hosts")
	if l.Spec.ControlPlanes > 2 {
		metal["hosts"] = l.metalHosts()
	}
}

func (l Layout) metalHosts() []document {
	var out []document
	for _, h := range l.Hosts {
		if h.Former {
			continue // the site does not know it
		}
		role := "worker"
		if h.Role.ControlPlane() {
			role = "master"
		}
		out = append(out, document{
			"name": h.Name, "role": role, "bootMACAddress": h.Machine.MAC,
			"bmc": document{
				"address": h.BMC.URL(), "username": h.BMC.Username, "password": h.BMC.Password,
				"disableCertificateVerification": true,
			},
		})
	}
	return out
}

// URL returns the Redfish URL of the host's system, over the primary family.
func (b BMC) URL() string {
	return fmt.Sprintf("https://%s/redfish/v1/Systems/%s", literal(b.Addresses[0]), b.SystemID)
}

// literal writes an address as the host of a URL.
func literal(a netip.Addr) string {
	if a.Is6() {
		return "[" + a.String() + "]"
	}
	return a.String()
}

func texts(list []netip.Addr) []string {
	out := make([]string, 0, len(list))
	for _, a := range list {
		out = append(out, a.String())
	}
	return out
}
