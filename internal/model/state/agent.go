package state

import (
	"encoding/pem"
	"net/netip"
	"time"
)

// The files with which the agent of a control plane reaches the API: a
// kubeconfig, which exists once the agent has its rights, and its certificate
// and key in one file.
const (
	AgentKubeconfig = "/etc/kubernetes/holdfast-agent.conf"
	AgentPair       = "/etc/kubernetes/pki/holdfast-agent.pem"
)

// InstalledPath exists once a host is installed.
const InstalledPath = "/var/lib/holdfast/install/complete"

// The installation of a host keeps one empty file below InstallStepsDir for each step that is done.
// InstallBegunPath is the first that a later installation would not do again.
const (
	InstallStepsDir  = "/var/lib/holdfast/install/done"
	InstallBegunPath = InstallStepsDir + "/unpack-release"
)

// SigningPair is the file by which the controller manager signs: the certificate
// and the key of the one authority that signs now. It takes exactly one
// certificate, and ca.crt has two while an authority is replaced.
const SigningPair = "/etc/kubernetes/pki/ca-signing.pem"

// AgentSocket is where a shutdown of the host asks its agent to give the virtual IPs
// away. Root alone may open it.
const AgentSocket = "/run/holdfast/agent.sock"

// NetworkStatusPath is the file in which a host's agent reports the state of its
// network.
const NetworkStatusPath = "/run/holdfast/network.json"

// NetworkStatus is the part of that file which other programs read. The agent adds
// the states of its reconcilers.
type NetworkStatus struct {
	At time.Time `json:"at"`
	// Holds are the virtual IPs that the host has now.
	Holds []netip.Addr `json:"holds"`
	View  NetworkView  `json:"view"`
}

// Kubeconfigs that kubeadm makes: the administrator's on control planes, which
// only a few programs may use (internal/testkit/arch has the table), and
// kubelet's on every host.
const (
	AdminKubeconfig   = "/etc/kubernetes/admin.conf"
	KubeletKubeconfig = "/etc/kubernetes/kubelet.conf"
)

// KubernetesCA is the file with the authorities of the API's servers and clients, where kubeadm
// keeps it on every host.
const KubernetesCA = "/etc/kubernetes/pki/ca.crt"

// KubeletFolder has files with settings of kubelet, which it reads when it starts, by
// their names, after the file that kubeadm writes.
const KubeletFolder = "/etc/kubernetes/kubelet.conf.d/"

// MirrorsFolder has a folder for each registry, in which containerd looks for its
// mirrors at each pull.
const MirrorsFolder = "/etc/containerd/certs.d/"

// The files of a host about its way out of the site, with a line of comment where the
// site has none of that.
const (
	// ProxyPath has the site's proxy as environment variables, perhaps with a password.
	ProxyPath = "/etc/holdfast/proxy.env"
	// TrustPath has the authorities that the site adds, as it wrote them.
	TrustPath = "/etc/holdfast/trust-bundle.pem"
)

// HasAuthorities reports whether the contents of the file at TrustPath name any.
func HasAuthorities(data []byte) bool {
	block, _ := pem.Decode(data)
	return block != nil
}
