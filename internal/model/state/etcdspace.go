package state

// Files by which a person and the agent of a control plane agree about a defragmentation. They end
// with the boot.
const (
	// EtcdSpacePath is what the agent found last, and what follows from it.
	EtcdSpacePath = "/run/holdfast/etcd-space.json"
	// EtcdDefragmentWantedPath is a person's wish to have etcd on this host defragmented.
	EtcdDefragmentWantedPath = "/run/holdfast/etcd-defragment-wanted"
)
