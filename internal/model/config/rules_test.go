package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// rule is one sentence about install-configs: the base file with the patch
// breaks it. testdata/rules.txt holds what Parse then reports.
type rule struct {
	sentence string
	base     string
	// patch is a JSON merge patch in YAML: null removes, lists replace.
	patch string
}

// secretPatch puts a secret into every place that takes one, so that each
// case can show whether its mistake makes one visible.
const secretPatch = `
pullSecret: '{"auths":{"registry.example.com":{"auth":"dXNlcjpTM2NyM3QtcHVsbA=="}}}'
proxy: {httpProxy: 'http://proxyuser:S3cr3t-proxy@proxy.example.com:3128'}
`

// cred is a fencing credential with the given fields first.
func cred(fields string) string {
	return "{" + fields + ", username: admin, password: S3cr3t-zero}"
}

// fenced is a two-node patch whose first credential is given.
func fenced(first string) string {
	return "controlPlane: {fencing: {credentials: [" + first +
		", {hostName: control-1, address: 'https://192.168.7.11', username: admin, password: S3cr3t-one}]}}"
}

// fencedAddress gives the first credential's address.
func fencedAddress(address string) string {
	return fenced(cred("hostName: control-0, address: '" + address + "'"))
}

// vipLists is a bare-metal patch.
func vipLists(api, ingress string) string {
	return "platform: {baremetal: {apiVIPs: [" + api + "], ingressVIPs: [" + ingress + "]}}"
}

// machines gives hosts to the three-one base: four good ones, of which the
// second is given.
func machines(second string) string {
	return "platform: {baremetal: {hosts: [" +
		host("cp-0", "52:54:00:00:00:10", "https://10.9.0.10") + "," + second + "," +
		host("cp-2", "52:54:00:00:00:12", "https://10.9.0.12") + "," +
		host("worker-0", "52:54:00:00:00:20", "https://10.9.0.20") + "]}}"
}

func host(name, mac, address string) string {
	return fmt.Sprintf("{name: '%s', bootMACAddress: '%s', bmc: {address: '%s', username: admin, password: S3cr3t-h}}", name, mac, address)
}

func machineNet(cidr string) string {
	return "networking: {machineNetwork: [{cidr: '" + cidr + "'}]}"
}

var rules = []rule{
	// The file as a whole.
	{"apiVersion is required", "one", `apiVersion: null`},
	{"apiVersion is v1", "one", `apiVersion: v1beta4`},
	{"an unknown field is named with its path", "one", `{networking: {clusterNetworks: []}, controlPlane: {replica: 2}, fips: true}`},
	{"a field that was meant is named, and nothing follows from its absence", "two-baremetal", `{basedomain: example.com, baseDomain: null, networking: {machineNetwork: null, machineNetworks: [{cidr: 192.168.5.0/24}]}}`},
	{"an older installer's VIPs are named as they are written now", "two-baremetal", `platform: {baremetal: {apiVIPs: null, apiVIP: 192.168.5.5, ingressVIPs: null, ingressVIP: 192.168.5.6}}`},
	{"an arbiter is explained", "one", `arbiter: {name: arbiter, replicas: 1}`},
	{"text must be text", "two-none", fenced(`{hostName: 7, address: 'https://192.168.7.10', username: admin, password: 12345}`)},
	{"a number must be a number", "two-none", `controlPlane: {replicas: two}`},
	{"a number must be whole", "one", `controlPlane: {replicas: 1.5}`},
	{"a list must be a list", "two-baremetal", `platform: {baremetal: {apiVIPs: 192.168.5.5}}`},
	{"a mapping must be a mapping", "one", `networking: [10.0.0.0/16]`},
	{"true or false must be one of them", "three-one", machines(`{name: cp-1, bootMACAddress: '52:54:00:00:00:11', bmc: {address: 'https://10.9.0.11', username: a, password: S3cr3t-x, disableCertificateVerification: 'yes'}}`)},
	{"an unreadable network does not bring mistakes about what lies in it", "two-baremetal", `networking: {machineNetwork: [{cidr: 5}]}`},

	// Names.
	{"a cluster needs a name", "one", `metadata: {name: null}`},
	{"a cluster's name is a DNS label", "one", `metadata: {name: Edge_1}`},
	{"a cluster's name has no dots", "one", `metadata: {name: edge.one}`},
	{"a cluster's name has at most 63 characters", "one", `metadata: {name: ` + strings.Repeat("a", 64) + `}`},
	{"a base domain is required", "one", `baseDomain: null`},
	{"a base domain is a DNS name", "one", `baseDomain: exa_mple.com`},
	{"a base domain is in lower case", "one", `baseDomain: Example.com`},
	{"a base domain has no trailing dot", "one", `baseDomain: example.com.`},
	{"a base domain is no address", "one", `baseDomain: 192.0.2.1`},
	{"a base domain has labels of at most 63 characters", "one", `baseDomain: ` + strings.Repeat("b", 64) + `.com`},
	{"the cluster's domain leaves room for host names", "one", `baseDomain: ` + strings.Repeat("abcdefghi.", 18) + `example.com`},
	{"the cluster's domain is not Kubernetes' own", "one", `{metadata: {name: cluster}, baseDomain: local}`},
	{"the cluster's domain is not below Kubernetes' own", "one", `baseDomain: cluster.local`},

	// Networks.
	{"the network type is Flannel or None", "one", `networking: {networkType: OVNKubernetes}`},
	{"a machine network is needed", "one", `networking: {machineNetwork: []}`},
	{"a cluster network is needed", "one", `networking: {clusterNetwork: []}`},
	{"a service network is needed", "one", `networking: {serviceNetwork: []}`},
	{"an IPv6 machine network has no default pod and service networks", "one", machineNet("fd98::/64")},
	{"a network is a CIDR", "one", `networking: {machineNetwork: [{cidr: 10.0.0.0}], clusterNetwork: [{cidr: ''}], serviceNetwork: [172.30.0.0/33]}`},
	{"a network has no bits outside its mask", "one", machineNet("10.0.0.1/16")},
	{"a network has no zone", "one", machineNet("fd98::%eth0/64")},
	{"a network is not written as mapped IPv4", "one", machineNet("::ffff:10.0.0.0/112")},
	{"a network holds no loopback addresses", "one", machineNet("127.0.0.0/16")},
	{"a network holds no link-local addresses", "one", machineNet("fe80::/64")},
	{"a network holds no multicast addresses", "one", `networking: {serviceNetwork: [239.0.0.0/16]}`},
	{"a network is not all addresses", "one", machineNet("0.0.0.0/0")},
	{"a network is not reserved", "one", machineNet("240.0.0.0/8")},
	{"at most 32 machine networks are allowed", "one", `networking: {machineNetwork: [` + manyNetworks(33) + `]}`},
	{"machine and cluster network do not overlap", "one", machineNet("10.128.4.0/24")},
	{"machine and service network do not overlap", "one", machineNet("172.30.0.0/24")},
	{"cluster and service network do not overlap", "one", `networking: {serviceNetwork: [10.129.0.0/16]}`},
	{"machine networks do not overlap each other", "one", `networking: {machineNetwork: [{cidr: 10.0.0.0/16}, {cidr: 10.0.3.0/24}]}`},
	{"a network is not given twice", "one", `networking: {machineNetwork: [{cidr: 10.0.0.0/24}, {cidr: 10.0.0.0/24}]}`},
	{"there is one cluster network of each family", "one", `networking: {clusterNetwork: [{cidr: 10.128.0.0/16}, {cidr: 10.129.0.0/16}]}`},
	{"there is one service network of each family", "one", `networking: {serviceNetwork: [172.30.0.0/16, 172.31.0.0/16, fd02::/112]}`},
	{"dual stack needs both families in every list", "dual", `networking: {clusterNetwork: [{cidr: 10.128.0.0/14}], serviceNetwork: [fd02::/112]}`},
	{"a second family needs a machine network", "one", `networking: {clusterNetwork: [{cidr: 10.128.0.0/14}, {cidr: 'fd01::/48'}], serviceNetwork: [172.30.0.0/16, 'fd02::/112']}`},
	{"a single family is the same everywhere", "ipv6", `networking: {serviceNetwork: [172.30.0.0/16]}`},
	{"the primary family is the first everywhere", "dual", `networking: {clusterNetwork: [{cidr: 'fd01::/48'}, {cidr: 10.128.0.0/14}], serviceNetwork: ['fd02::/112', 172.30.0.0/16]}`},
	{"hostPrefix is not shorter than the mask", "one", `networking: {clusterNetwork: [{cidr: 10.128.0.0/24, hostPrefix: 23}]}`},
	{"hostPrefix is not negative", "one", `networking: {clusterNetwork: [{cidr: 10.128.0.0/24, hostPrefix: -1}]}`},
	{"hostPrefix leaves addresses for pods", "one", `networking: {clusterNetwork: [{cidr: 10.128.0.0/24, hostPrefix: 29}]}`},
	{"hostPrefix is 64 for IPv6", "ipv6", `networking: {clusterNetwork: [{cidr: 'fd01::/48', hostPrefix: 80}]}`},
	{"a cluster network has at most 65536 shares", "ipv6", `networking: {clusterNetwork: [{cidr: 'fd01::/47'}]}`},
	{"a cluster network has a share for every host", "three-one", `{networking: {clusterNetwork: [{cidr: 10.132.0.0/24, hostPrefix: 25}]}}`},
	{"a service network is not too large", "dual", `networking: {serviceNetwork: [172.0.0.0/11, 'fd02::/107']}`},
	{"a service network is not too small", "dual", `networking: {serviceNetwork: [172.30.0.0/29, 'fd02::/125']}`},
	{"a machine network has an address for every host and VIP", "three-one", `{networking: {machineNetwork: [{cidr: 10.0.0.4/30}]}, platform: {baremetal: {apiVIPs: [10.0.0.5], ingressVIPs: [10.0.0.6]}}}`},

	// Pools.
	{"the control-plane pool is master", "one", `controlPlane: {name: control}`},
	{"four control planes are explained", "one", `controlPlane: {replicas: 4}`},
	{"no control plane is refused", "one", `controlPlane: {replicas: 0}`},
	{"a negative number of control planes is refused", "one", `controlPlane: {replicas: -1}`},
	{"six control planes are refused", "one", `controlPlane: {replicas: 6}`},
	{"the compute pool is worker", "one", `compute: [{name: infra, replicas: 1}]`},
	{"there is one compute pool", "one", `compute: [{name: worker, replicas: 1}, {name: worker, replicas: 1}]`},
	{"a negative number of workers is refused", "one", `compute: [{replicas: -1}]`},
	{"more workers than Kubernetes carries are refused", "one", `compute: [{replicas: 9223372036854775807}]`},
	{"an architecture is known", "one", `controlPlane: {architecture: riscv64}`},
	{"all pools have one architecture", "three-one", `compute: [{replicas: 1, architecture: arm64}]`},
	{"nothing is installed in place", "one", `bootstrapInPlace: {installationDisk: /dev/sda}`},
	{"nothing is installed in place on any disk", "one", `bootstrapInPlace: {}`},

	// Fencing.
	{"two control planes need fencing", "one", `controlPlane: {replicas: 2}`},
	{"two control planes need credentials", "one", `controlPlane: {replicas: 2, fencing: {credentials: []}}`},
	{"fencing needs two control planes, not one", "two-none", `controlPlane: {replicas: 1}`},
	{"fencing needs two control planes, not three", "two-none", `controlPlane: {replicas: 3}`},
	{"one credential is too few", "two-none", `controlPlane: {fencing: {credentials: [` + cred(`hostName: control-0, address: 'https://192.168.7.10'`) + `]}}`},
	{"three credentials are too many", "two-none", `controlPlane: {fencing: {credentials: [` +
		cred(`hostName: a, address: 'https://192.168.7.10'`) + `,` + cred(`hostName: b, address: 'https://192.168.7.11'`) + `,` + cred(`hostName: c, address: 'https://192.168.7.12'`) + `]}}`},
	{"fencing and hosts exclude each other", "two-baremetal", `platform: {baremetal: {hosts: [` +
		host("control-0", "52:54:00:00:00:10", "https://10.9.0.10") + `,` + host("control-1", "52:54:00:00:00:11", "https://10.9.0.11") + `]}}`},
	{"fencing is for the control-plane pool only", "two-none", `compute: [{name: worker, replicas: 0, fencing: {credentials: [` + cred(`hostName: w, address: 'https://192.168.7.12'`) + `]}}]`},
	{"every field of a credential is required", "two-none", fenced(`{}`)},
	{"hostname and hostName are not given together", "two-none", fenced(cred(`hostname: control-0, hostName: control-0, address: 'https://192.168.7.10'`))},
	{"host names differ", "two-none", fenced(cred(`hostName: control-1, address: 'https://192.168.7.10'`))},
	{"a short name and its long form are one host", "two-none", fenced(cred(`hostName: control-1.example.com, address: 'https://192.168.7.10'`))},
	{"two long names with one short name would be one node name", "two-none", `controlPlane: {fencing: {credentials: [` +
		cred(`hostName: control.a.example.com, address: 'https://192.168.7.10'`) + `,` + cred(`hostName: control.b.example.com, address: 'https://192.168.7.11'`) + `]}}`},
	{"host names are all short or all long", "two-none", fenced(cred(`hostName: control-0.example.com, address: 'https://192.168.7.10'`))},
	{"a host name is in lower case", "two-none", fenced(cred(`hostName: Control-0, address: 'https://192.168.7.10'`))},
	{"a host name is a DNS name", "two-none", fenced(cred(`hostName: control_0, address: 'https://192.168.7.10'`))},
	{"a host name is no address", "two-none", fenced(cred(`hostName: 192.168.7.10, address: 'https://192.168.7.10'`))},
	{"a host name fits Linux", "two-none", fenced(cred(`hostName: ` + strings.Repeat("abcdefgh.", 8) + `abc, address: 'https://192.168.7.10'`))},
	{"a host name is not one of the cluster's", "two-none", fenced(cred(`hostName: api-int, address: 'https://192.168.7.10'`))},
	{"a host name is not localhost", "two-none", fenced(cred(`hostName: localhost.localdomain, address: 'https://192.168.7.10'`))},
	{"a username has no colon", "two-none", fenced(`{hostName: control-0, address: 'https://192.168.7.10', username: 'a:b', password: S3cr3t-x}`)},
	{"a username has no surrounding space", "two-none", fenced(`{hostName: control-0, address: 'https://192.168.7.10', username: ' admin', password: S3cr3t-x}`)},
	{"a password has no line break", "two-none", fenced(`{hostName: control-0, address: 'https://192.168.7.10', username: admin, password: "S3cr3t\nx"}`)},
	{"a password has no surrounding space", "two-none", fenced(`{hostName: control-0, address: 'https://192.168.7.10', username: admin, password: 'S3cr3t-x '}`)},
	{"a password is not its own placeholder", "two-none", fenced(`{hostName: control-0, address: 'https://192.168.7.10', username: admin, password: <redacted>}`)},
	{"certificateVerification is Enabled or Disabled", "two-none", fenced(cred(`hostName: control-0, address: 'https://192.168.7.10', certificateVerification: enabled`))},

	{"a certificateFingerprint is a SHA-256", "two-none", fenced(cred(`hostName: control-0, address: 'https://192.168.7.10', certificateFingerprint: 'SHA1:ab'`))},

	{"tls is Default or Legacy", "two-none", fenced(cred(`hostName: control-0, address: 'https://192.168.7.10', tls: '1.0'`))},
	{"a systemID has no surrounding space", "two-none", fenced(cred(`hostName: control-0, address: 'https://192.168.7.10', systemID: ' CZJ123'`))},
	{"a systemID has no line break", "two-none", fenced(cred(`hostName: control-0, address: 'https://192.168.7.10', systemID: "CZJ\n123"`))},
	{"one systemID is not that of two hosts", "two-none", `controlPlane: {fencing: {credentials: [` +
		cred(`hostName: control-0, address: 'https://192.168.7.10', systemID: czj123`) + `,` + cred(`hostName: control-1, address: 'https://192.168.7.11', systemID: CZJ123`) + `]}}`},

	// BMC addresses.
	{"a BMC address is a URL", "two-none", fencedAddress("https://user:S3cr3t%40host")},
	{"a BMC address without a scheme would be IPMI", "two-none", fencedAddress("192.168.7.10")},
	{"a BMC address has no userinfo", "two-none", fencedAddress("https://admin:S3cr3t-url@192.168.7.10/redfish/v1/Systems/1")},
	{"a BMC address has no odd userinfo", "two-none", fencedAddress("https://admin:S3cr3t/url@192.168.7.10")},
	{"a BMC address without scheme has no userinfo", "two-none", fencedAddress("admin:S3cr3t-url@192.168.7.10")},
	{"IPMI is refused", "two-none", fencedAddress("ipmi://192.168.7.10")},
	{"IPMI with userinfo is refused", "two-none", fencedAddress("ipmi://admin:S3cr3t-url@192.168.7.10")},
	{"plain http is refused", "two-none", fencedAddress("http://192.168.7.10")},
	{"plain Redfish is refused", "two-none", fencedAddress("redfish+http://192.168.7.10")},
	{"another scheme is refused", "two-none", fencedAddress("irmc://192.168.7.10")},
	{"a BMC address has a host", "two-none", fencedAddress("https:///redfish/v1/Systems/1")},
	{"a BMC address has no query", "two-none", fencedAddress("https://192.168.7.10/?password=S3cr3t-query")},
	{"a BMC address has no fragment", "two-none", fencedAddress("https://192.168.7.10/#S3cr3t-fragment")},
	{"a BMC's port is a port", "two-none", fencedAddress("https://192.168.7.10:0")},
	{"a BMC's port is not too large", "two-none", fencedAddress("https://192.168.7.10:70000")},
	{"a BMC's host is a name or an address", "two-none", fencedAddress("https://192.168.7.300")},
	{"a BMC's host is a sound name", "two-none", fencedAddress("https://bmc_0.example.com")},
	{"a BMC is not at a loopback address", "two-none", fencedAddress("https://127.0.0.1:8000")},
	{"a BMC is not at localhost", "two-none", fencedAddress("https://localhost:8000")},
	{"a BMC is not at a link-local address", "two-none", fencedAddress("https://[fe80::1%25eth0]")},
	{"a BMC's path names a system", "two-none", fencedAddress("https://192.168.7.10/redfish/v1/Managers/1")},
	{"a BMC is not given twice: port 443", "two-none", fencedAddress("https://192.168.7.11:443")},
	{"a BMC is not given twice: trailing slash", "two-none", fencedAddress("https://192.168.7.11/")},
	{"a BMC is not given twice: another scheme", "two-none", fencedAddress("redfish+https://192.168.7.11/redfish/v1/")},
	{"a BMC is not given twice: one system of it", "two-none", fencedAddress("https://192.168.7.11/redfish/v1/Systems/1")},
	{"a BMC is not given twice: mapped IPv4", "two-none", fencedAddress("https://[::ffff:192.168.7.11]")},
	{"a BMC is not given twice: case of the name", "two-none", `controlPlane: {fencing: {credentials: [` +
		cred(`hostName: control-0, address: 'https://BMC.Example.com/redfish/v1/Systems/1'`) + `,` + cred(`hostName: control-1, address: 'HTTPS://bmc.example.com.:443/redfish/v1/Systems/1/'`) + `]}}`},
	{"a BMC is not given twice: forms of IPv6", "two-none", `controlPlane: {fencing: {credentials: [` +
		cred(`hostName: control-0, address: 'https://[FD99:0:0::0A]'`) + `,` + cred(`hostName: control-1, address: 'https://[fd99::a]:443/'`) + `]}}`},
	{"a BMC is not at a virtual IP", "two-baremetal", fencedAddress("https://192.168.5.5")},
	{"a BMC is not at the rendezvous host", "two-baremetal", fencedAddress("https://192.168.5.10")},
	{"a BMC is not in the pod network", "two-none", fencedAddress("https://10.130.0.1")},
	{"a BMC is not in the service network", "two-none", fencedAddress("https://172.30.0.9")},

	// Platforms.
	{"a platform is chosen", "one", `platform: {none: null}`},
	{"a cloud platform is not supported", "one", `platform: {none: null, aws: {region: eu}}`},
	{"one platform is chosen", "two-baremetal", `platform: {none: {}}`},
	{"the API needs a VIP", "two-baremetal", `platform: {baremetal: {apiVIPs: []}}`},
	{"ingress needs a VIP", "two-baremetal", `platform: {baremetal: {ingressVIPs: null}}`},
	{"a list of VIPs has at most two", "dual", vipLists("10.98.0.5, 'fd98::5', 10.98.0.7", "10.98.0.6, 'fd98::6', 10.98.0.8")},
	{"both lists of VIPs have one length", "dual", vipLists("10.98.0.5, 'fd98::5'", "10.98.0.6")},
	{"a VIP is an address", "two-baremetal", vipLists("vip.example.com", "''")},
	{"a VIP has no zone", "ipv6", vipLists("'fd98::5%eth0'", "'fd98::6'")},
	{"a VIP is not written as mapped IPv4", "two-baremetal", vipLists("'::ffff:192.168.5.5'", "192.168.5.6")},
	{"a VIP is not unspecified", "two-baremetal", vipLists("0.0.0.0", "192.168.5.6")},
	{"a VIP is no loopback address", "two-baremetal", vipLists("127.0.0.1", "192.168.5.6")},
	{"a VIP is no multicast address", "ipv6", vipLists("'ff02::12'", "'fd98::6'")},
	{"a VIP is no link-local address", "two-baremetal", vipLists("169.254.1.1", "192.168.5.6")},
	{"a VIP is not the limited broadcast", "two-baremetal", vipLists("255.255.255.255", "192.168.5.6")},
	{"a VIP is not the network's address", "two-baremetal", vipLists("192.168.5.0", "192.168.5.6")},
	{"a VIP is not the network's broadcast", "two-baremetal", vipLists("192.168.5.255", "192.168.5.6")},
	{"a VIP is not the subnet-router address", "ipv6", vipLists("'fd98::'", "'fd98::6'")},
	{"a VIP lies in a machine network", "two-baremetal", vipLists("192.168.6.5", "192.168.5.6")},
	{"a VIP is not in the pod network", "two-baremetal", vipLists("10.128.0.5", "192.168.5.6")},
	{"a VIP is not in the service network", "two-baremetal", vipLists("192.168.5.5", "172.30.0.10")},
	{"API and ingress have different VIPs", "two-baremetal", vipLists("192.168.5.5", "192.168.5.5")},
	{"VIPs differ however they are written", "ipv6", vipLists("'fd98::5'", "'FD98:0:0:0:0:0:0:5'")},
	{"VIPs differ across positions", "dual", vipLists("10.98.0.5, 'fd98::5'", "10.98.0.6, 'fd98::5'")},
	{"two VIPs are of two families", "two-baremetal", vipLists("192.168.5.5, 192.168.5.7", "192.168.5.6, 192.168.5.8")},
	{"a single VIP is of the primary family", "dual", vipLists("'fd98::5'", "'fd98::6'")},
	{"the VIP of the primary family is the first", "dual", vipLists("'fd98::5', 10.98.0.5", "10.98.0.6, 'fd98::6'")},
	{"a VIP is of the machine network's family", "two-baremetal", vipLists("'fd98::5'", "192.168.5.6")},
	{"the rendezvous host has an address", "two-baremetal", `rendezvousIP: control-0`},
	{"the rendezvous host lies in a machine network", "two-baremetal", `rendezvousIP: 10.77.0.1`},
	{"the rendezvous host is not at a broadcast address", "two-baremetal", `rendezvousIP: 192.168.5.255`},
	{"the rendezvous host is not at a VIP", "two-baremetal", `rendezvousIP: 192.168.5.6`},

	// Hosts of the bare-metal platform.
	{"there is a host for every replica", "three-one", `platform: {baremetal: {hosts: [` + host("cp-0", "52:54:00:00:00:10", "https://10.9.0.10") + `]}}`},
	{"there is a host for every control plane", "three-one", machines(`{name: cp-1, role: worker, bootMACAddress: '52:54:00:00:00:11', bmc: {address: 'https://10.9.0.11', username: a, password: S3cr3t-x}}`) + "\ncontrolPlane: {replicas: 5}\ncompute: []"},
	{"roles leave enough control planes", "three-one", `{compute: [{replicas: 0}], platform: {baremetal: {hosts: [` +
		strings.ReplaceAll(host("a", "52:54:00:00:00:10", "https://10.9.0.10")+","+host("b", "52:54:00:00:00:11", "https://10.9.0.11")+","+host("c", "52:54:00:00:00:12", "https://10.9.0.12"), "{name", "{role: worker, name") + `]}}}`},
	{"roles leave enough workers", "three-one", `{platform: {baremetal: {hosts: [` +
		strings.ReplaceAll(host("a", "52:54:00:00:00:10", "https://10.9.0.10")+","+host("b", "52:54:00:00:00:11", "https://10.9.0.11")+","+host("c", "52:54:00:00:00:12", "https://10.9.0.12")+","+host("d", "52:54:00:00:00:13", "https://10.9.0.13"), "{name", "{role: master, name") + `]}}}`},
	{"a host's role is master or worker", "three-one", machines(`{name: cp-1, role: arbiter, bootMACAddress: '52:54:00:00:00:11', bmc: {address: 'https://10.9.0.11', username: a, password: S3cr3t-x}}`)},
	{"a host has a name and a MAC address", "three-one", machines(`{}`)},
	{"a host's BMC is whole or left out", "three-one", machines(`{name: cp-1, bootMACAddress: '52:54:00:00:00:11', bmc: {username: admin}}`)},
	{"hosts have different names", "three-one", machines(host("cp-0", "52:54:00:00:00:11", "https://10.9.0.11"))},
	{"hosts have different MAC addresses however written", "three-one", machines(host("cp-1", "52-54-00-00-00-10", "https://10.9.0.11"))},
	{"a MAC address is one", "three-one", machines(host("cp-1", "5254.0000.0011", "https://10.9.0.11"))},
	{"a MAC address has one kind of separator", "three-one", machines(host("cp-1", "52:54-00:00:00:11", "https://10.9.0.11"))},
	{"a MAC address is not a group's", "three-one", machines(host("cp-1", "01:54:00:00:00:11", "https://10.9.0.11"))},
	{"a MAC address is not zero", "three-one", machines(host("cp-1", "00:00:00:00:00:00", "https://10.9.0.11"))},
	{"hosts have different BMCs", "three-one", machines(host("cp-1", "52:54:00:00:00:11", "https://10.9.0.10:443/"))},
	{"hosts take no IPMI", "three-one", machines(host("cp-1", "52:54:00:00:00:11", "ipmi://10.9.0.11"))},

	// Features.
	{"a feature set is known", "one", `featureSet: Everything`},
	{"feature gates need CustomNoUpgrade", "one", `featureGates: [Alpha=true]`},
	{"a feature gate is Name=true or Name=false", "full", `featureGates: [Alpha, Beta=yes, '=true', Gamma=true]`},
	{"a feature gate is given once", "full", `featureGates: [Alpha=true, Alpha=false]`},
	{"two control planes take no other feature set", "two-none", `featureSet: TechPreviewNoUpgrade`},
	{"two control planes keep their gate", "two-none", `{featureSet: CustomNoUpgrade, featureGates: [DualReplicaTopology=false]}`},
	{"other numbers of control planes have no such gate", "full", `featureGates: [DualReplicaTopology=true]`},

	// Access.
	{"an SSH key is a public key", "one", `sshKey: "ssh-ed25519 S3cr3t\nssh-rsa"`},
	{"an SSH key is not a private key", "one", `sshKey: "-----BEGIN OPENSSH PRIVATE KEY-----\nS3cr3t\n-----END OPENSSH PRIVATE KEY-----\n"`},
	{"a pull secret is JSON", "one", `pullSecret: S3cr3t-pull`},
	{"a pull secret is one JSON value", "one", `pullSecret: '{"auths":{"r.example.com":{"auth":"dXNlcjpTM2NyM3QtcHVsbA=="}}} S3cr3t'`},
	{"a pull secret names registries", "one", `pullSecret: '{"auth":"dXNlcjpTM2NyM3QtcHVsbA=="}'`},
	{"a pull secret holds base64", "one", `pullSecret: '{"auths":{"r.example.com":{"auth":"S3cr3t!"},"S3cr3t":{"auth":"S3cr3t!"}}}'`},
	{"a pull secret holds a name and a password", "one", `pullSecret: '{"auths":{"r.example.com":{"auth":"dXNlcg=="}}}'`},
	{"a pull secret holds a password beside a name", "one", `pullSecret: '{"auths":{"r.example.com":{"username":"S3cr3t-user"}}}'`},
	{"a pull secret is not its own placeholder", "one", `pullSecret: <redacted>`},
	{"a proxy has a URL", "one", `proxy: {httpProxy: null, noProxy: example.com}`},
	{"a proxy's URL is one", "one", `proxy: {httpProxy: 'http://user:S3cr3t proxy', httpsProxy: 'http://user:S3cr3t%@proxy'}`},
	{"a proxy's scheme fits", "one", `proxy: {httpProxy: 'https://user:S3cr3t@proxy.example.com', httpsProxy: 'socks5://user:S3cr3t@proxy.example.com'}`},
	{"a proxy's URL names a host", "one", `proxy: {httpProxy: 'http://user:S3cr3t@:3128'}`},
	{"a proxy's URL has no path", "one", `proxy: {httpProxy: 'http://user:S3cr3t@proxy.example.com/a?S3cr3t'}`},
	{"noProxy has no empty entry in between", "one", `proxy: {noProxy: 'example.com,,10.0.0.1,'}`},
	{"noProxy holds domains, addresses and networks", "one", `proxy: {noProxy: 'example.com,,http://u:S3cr3t@h,10.0.0.0/8,10.0.0.1'}`},
	{"the release's registry is a reference", "one", `releaseRegistry: 'https://user:S3cr3t@registry.example.com/holdfast/release'`},
	{"the release's registry names a host", "one", `releaseRegistry: holdfast/release`},
	{"the release's registry holds no capitals", "one", `releaseRegistry: registry.example.com/Holdfast`},
	{"a registry named by its address needs a digest", "one", `releaseRegistry: '10.0.0.9:5000/holdfast/release:1.0'`},
	{"a registry named by its IPv6 address needs a digest", "one", `releaseRegistry: '[fd00::9]:5000/holdfast/release'`},
	{"the life of certificates is a duration", "one", `certificateValidityPeriod: a year`},
	{"the life of certificates has a unit", "one", `certificateValidityPeriod: '365'`},
	{"a certificate lives ten minutes at least", "one", `certificateValidityPeriod: 9m59s`},
	{"a certificate lives a year at most", "one", `certificateValidityPeriod: 8760h1s`},
	{"a certificate does not live a negative time", "one", `certificateValidityPeriod: -8760h`},
	{"the life of certificates is whole seconds", "one", `certificateValidityPeriod: 600s1ms`},
	{"etcd's quota is a whole number", "one", `etcdQuotaGiB: 4Gi`},
	{"etcd's quota is no fraction", "one", `etcdQuotaGiB: 2.5`},
	{"etcd's quota is at least its own", "one", `etcdQuotaGiB: 1`},
	{"etcd's quota is not zero", "one", `etcdQuotaGiB: 0`},
	{"etcd's quota is not negative", "one", `etcdQuotaGiB: -4`},
	{"etcd's quota is at most what etcd advises", "one", `etcdQuotaGiB: 9`},
	{"etcd's quota is in GiB, not in bytes", "one", `etcdQuotaGiB: 4294967296`},
	{"a trust bundle holds certificates", "one", `additionalTrustBundle: nonsense`},
	{"a trust bundle holds nothing else", "one", `additionalTrustBundle: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"`},
	{"a trust bundle is whole", "one", `additionalTrustBundle: "-----BEGIN CERTIFICATE-----\nAAAA\n"`},
	{"a trust bundle is whole to its end", "one", `additionalTrustBundle: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\nAAAA\n"`},
	{"a trust bundle holds no private key", "one", `additionalTrustBundle: "-----BEGIN RSA PRIVATE KEY-----\nS3cr3t\n-----END RSA PRIVATE KEY-----\n"`},

	// Together.
	{"all mistakes are reported at once", "two-none", `{apiVersion: v2, baseDomain: null, platform: {none: null, gcp: {}}, sshKey: x, controlPlane: {replicas: 4}}`},
}

func manyNetworks(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("{cidr: 10.0.%d.0/24}", i))
	}
	return strings.Join(list, ", ")
}

func TestEveryRuleHasItsExactMessage(t *testing.T) {
	corpus := validConfigs(t)
	var got strings.Builder
	for _, r := range rules {
		data := patched(t, corpus[r.base], secretPatch, r.patch)
		_, err := Parse(data)
		var invalid *InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: accepted:\n%s", r.sentence, data)
			continue
		}
		noSecretsInError(t, r.sentence, err)
		fmt.Fprintf(&got, "%s\n", r.sentence)
		for _, e := range invalid.Errors() {
			fmt.Fprintf(&got, "    %s\n", e)
		}
	}
	golden(t, "testdata/rules.txt", got.String())
}

// golden compares got with a file, which -update rewrites.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

// patched applies merge patches to a YAML document.
func patched(t testing.TB, data []byte, patches ...string) []byte {
	t.Helper()
	var doc map[string]any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	for _, p := range patches {
		var patch map[string]any
		if err := yaml.Unmarshal([]byte(p), &patch); err != nil {
			t.Fatalf("%v in patch:\n%s", err, p)
		}
		merge(doc, patch)
	}
	out, err := yaml.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func merge(doc, patch map[string]any) {
	for key, val := range patch {
		inner, isMap := val.(map[string]any)
		target, hasMap := doc[key].(map[string]any)
		switch {
		case val == nil:
			delete(doc, key)
		case isMap && hasMap:
			merge(target, inner)
		default:
			doc[key] = val
		}
	}
}
