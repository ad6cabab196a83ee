package incident

// Where each host shows what it knows: a ConfigMap of this namespace, whose name
// is the prefix and the host's.
const (
	ConfigMapNamespace = "kube-system"
	ConfigMapPrefix    = "holdfast-incidents-"
)
