package etcdspace

import (
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
)

// DiskIsFor says for what Disk is, to people whose disk is smaller.
const DiskIsFor = "for the database, for the second copy of it that a backup or a defragmentation writes, and for 2 GiB that stay free"

// Disk returns the least size, in bytes, of the file system with etcd's data for a quota, zero for
// etcd's own, which asks nothing of a host. It is four times the quota and state.KeptFree: once the database; 2.2
// times for a backup, its snapshot and the restored copy, which may lie on the same file system; the
// rest for etcd's log and an archive that is kept. The second file of a defragmentation, once more the
// database, has its room where a backup has it: the two are never at work together.
func Disk(q etcdpod.Quota) uint64 {
	if q <= etcdpod.OwnQuota {
		return 0
	}
	return 4*uint64(q.Bytes()) + state.KeptFree //nolint:gosec // a quota is not negative
}
