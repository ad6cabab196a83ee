package state

// How the agent of a control plane reaches the API: a kubeconfig, which is there
// once the agent has its rights, and its certificate and key in one file.
const (
	AgentKubeconfig = "/etc/kubernetes/holdfast-agent.conf"
	AgentPair       = "/etc/kubernetes/pki/holdfast-agent.pem"
)
