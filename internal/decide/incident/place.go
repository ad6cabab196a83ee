package incident

// Each host publishes what it knows in a ConfigMap of this namespace, named by
// the prefix and the host's name.
const (
	ConfigMapNamespace = "kube-system"
	ConfigMapPrefix    = "holdfast-incidents-"
)
