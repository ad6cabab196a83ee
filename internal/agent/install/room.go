package install

import (
	"fmt"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/model/state"
)

// roomForEtcd refuses a control plane whose disk is too small for the quota that the site chose: etcd
// would find it full before it reaches the quota, or could neither be defragmented nor backed up. By
// then the data are the site's, and the quota cannot be changed.
func (r *run) roomForEtcd(space func(dir string) (free, size uint64, err error)) error {
	quota := r.Site.Config.EtcdQuota()
	need := etcdspace.Disk(quota)
	if need == 0 || !r.Site.Role.ControlPlane() {
		return nil
	}
	dir := state.EtcdDataDir
	for !host.Exists(dir) { // the installation makes it
		dir = filepath.Dir(dir)
	}
	_, size, err := space(dir)
	if err != nil || size >= need {
		return err
	}
	return fmt.Errorf("etcdQuotaGiB in install-config.yaml is %d, and the file system of %s has %d MiB: it must have %d MiB, %s. "+
		"Give it a larger disk, or begin the installation of all hosts anew with a smaller etcdQuotaGiB",
		quota, state.EtcdDataDir, size>>20, need>>20, etcdspace.DiskIsFor)
}
