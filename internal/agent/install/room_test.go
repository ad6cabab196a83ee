package install

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestADiskThatIsTooSmallForTheQuotaIsRefused(t *testing.T) {
	const gib = 1 << 30
	for sentence, c := range map[string]struct {
		role  state.Role
		quota int64
		size  uint64
		err   error
		want  string
	}{
		"etcd's own quota asks nothing":          {state.RoleBootstrap, 0, 1, nil, ""},
		"nor does it if the file names it":       {state.RoleBootstrap, 2, 1, nil, ""},
		"a worker has no etcd":                   {state.RoleWorker, 8, 1, nil, ""},
		"just large enough":                      {state.RoleMaster, 4, 18 * gib, nil, ""},
		"a byte too small":                       {state.RoleMaster, 4, 18*gib - 1, nil, "etcdQuotaGiB in install-config.yaml is 4, and the file system of /var/lib/etcd has 18431 MiB: it must have 18432 MiB"},
		"the first host too":                     {state.RoleBootstrap, 8, 20 * gib, nil, "anew with a smaller etcdQuotaGiB"},
		"a file system that cannot be looked at": {state.RoleBootstrap, 8, 0, errors.New("no such file"), "no such file"},
	} {
		r, _ := newRun(t, c.role)
		if c.quota > 0 {
			r.Site.Config.EtcdQuotaGiB = new(c.quota)
		}
		err := r.roomForEtcd(func(string) (uint64, uint64, error) { return 0, c.size, c.err })
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", sentence, err)
		}
	}
}
