package state

import "time"

// EtcdDefragmentationPath holds the note (EtcdDefragmentation) of a defragmentation that runs on
// this host. It ends with the boot.
const EtcdDefragmentationPath = "/run/holdfast/etcd-defragmentation.json"

// EtcdDefragmentation says that etcd on this host is defragmented, and so does not answer. It is
// written before a defragmentation begins and removed after it; without a program to remove it,
// it counts until its end.
type EtcdDefragmentation struct {
	// Began and Until are since boot.
	Began time.Duration `json:"began"`
	Until time.Duration `json:"until"`
}
