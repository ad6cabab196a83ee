package deleted

// Spec describes one file that a host should have.
type Spec struct {
	Path string
	// Matters says what happens while it is missing.
	Matters string
	// Back is true if the agent keeps a copy and puts it back.
	Back bool
	// Optional is true for a file that some hosts of its kind do not have: it counts as missing
	// only if the agent has a copy of it.
	Optional bool
	// Identity is true if the host is in no cluster without it.
	Identity bool
	// Common is true for a file that all control planes have in common, as the keys and
	// certificates of authorities.
	Common bool
	// Command is the command for a person if the file is not put back.
	Command string
}

const (
	kubernetes = "/etc/kubernetes/"
	pki        = kubernetes + "pki/"
	manifests  = kubernetes + "manifests/"
	encryption = "/etc/holdfast/apiserver/encryption.yaml"
)

// Kind has the facts about a host on which the list of its files depends.
type Kind struct {
	ControlPlane bool
	// Pacemaker is true if Pacemaker runs etcd there, not kubelet.
	Pacemaker bool
	// Three is true if the site has three control planes or more.
	Three bool
	// Encrypts is true if the site has keys for what its API servers write: each control plane has
	// them in a file then, whether or not there is a copy of it.
	Encrypts bool
}

// Specs returns the files that a host should have. It lacks the files that the agent itself
// renders anew: those of keepalived, haproxy and CoreDNS, and certificates that are due. It
// also lacks admin.conf, which no program that runs needs and some people remove.
func Specs(k Kind) []Spec {
	out := []Spec{
		{Path: kubernetes + "kubelet.conf", Identity: true},
		{Path: pki + "ca.crt", Identity: true},
		{Path: "/var/lib/kubelet/config.yaml", Back: true, Matters: "kubelet runs on; it does not start again."},
		{Path: "/var/lib/kubelet/kubeadm-flags.env", Back: true, Optional: true, Matters: "kubelet runs on; at its next start it lacks its address."},
		{Path: "/etc/holdfast/site.json", Back: true, Matters: "holdfast-agent runs on; it does not start again."},
	}
	if !k.ControlPlane {
		return out
	}
	pods := []struct{ name, matters string }{
		{"kube-apiserver", "kubelet ends the API server of this host."},
		{"kube-controller-manager", "kubelet ends the controller manager of this host."},
		{"kube-scheduler", "kubelet ends the scheduler of this host."},
	}
	if !k.Pacemaker {
		pods = append(pods, struct{ name, matters string }{"etcd", "kubelet ends etcd of this host."})
	}
	for _, p := range pods {
		out = append(out, Spec{Path: manifests + p.name + ".yaml", Back: true, Matters: p.matters})
	}
	for _, name := range []string{"controller-manager.conf", "scheduler.conf"} {
		out = append(out, Spec{Path: kubernetes + name, Back: true, Optional: true, Matters: "Programs that use it run on; they do not start again."})
	}
	for _, name := range []string{
		"apiserver", "apiserver-kubelet-client", "apiserver-etcd-client", "front-proxy-client", "etcd/server", "etcd/peer", "etcd/healthcheck-client",
	} {
		for _, end := range []string{".crt", ".key"} {
			out = append(out, Spec{Path: pki + name + end, Back: true, Optional: true, Matters: "Programs that use it run on; they do not start again."})
		}
	}
	out = append(out, Spec{Path: encryption, Back: true, Common: true, Optional: !k.Encrypts, Matters: "The API server of this host cannot start again, and nobody reads Secrets without these keys."})
	return append(out, authorities()...)
}

// authorities are the files of authorities. A person is told of them, and there are no copies,
// because some people remove a key on purpose.
func authorities() []Spec {
	return []Spec{
		{Path: pki + "ca.key", Common: true, Matters: "This host signs no certificate: no host joins through it, and it renews none."},
		{Path: pki + "front-proxy-ca.crt", Common: true, Matters: "The API server of this host cannot start again."},
		{Path: pki + "front-proxy-ca.key", Common: true, Matters: "This host cannot renew the certificate of its API server to others."},
		{Path: pki + "sa.key", Common: true, Matters: "The controller manager of this host cannot start again, and its API server signs no token."},
		{Path: pki + "sa.pub", Common: true, Matters: "The API server of this host cannot start again."},
		{Path: pki + "etcd/ca.crt", Common: true, Matters: "etcd and the API server of this host cannot start again."},
		{Path: pki + "etcd/ca.key", Common: true, Matters: "This host cannot renew etcd's certificates."},
	}
}
