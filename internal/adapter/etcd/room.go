package etcd

import (
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// databases is how many databases of etcd must fit on its disk: a backup, a snapshot for a new
// member, and what is written meanwhile.
const databases = 3

// Room reports whether the disk of etcd has room for what a plan about control planes may write on it.
// root is / but in tests.
func Room(root string) (bool, error) {
	data := filepath.Join("/", root, state.EtcdDataDir)
	info, err := os.Stat(filepath.Join(data, "member/snap/db"))
	if err != nil {
		return false, err
	}
	free, err := host.FreeSpace(data)
	return free >= databases*uint64(max(info.Size(), 0)), err
}
