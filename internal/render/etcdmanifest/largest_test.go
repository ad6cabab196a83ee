package etcdmanifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdhealth"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/etcdspace"
)

// etcd 3.6 has these without a flag, by its source: the quota, the entries that it keeps for
// members that are behind, and how long after it has sent a snapshot it drops none.
const (
	quota    = 2 << 30
	keeps    = 5000
	holdsFor = 30 * time.Second
)

// docs/facts/loss.md#hard-cases-of-loss, L64: no database is larger than etcd's quota, and up to
// that size the limits of Holdfast fit together: a learner that loads it within the time in which
// it must start finds the entries that it lacks, so it does not ask for one snapshot after
// the other.
func TestL64TheLimitsFitTheLargestDatabaseThatEtcdTakes(t *testing.T) {
	manifests, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	for _, path := range append(manifests, "../kubeadm/testdata/made/etcd.yaml") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range []string{"--quota-backend-bytes", "snapshot-catchup-entries"} {
			if strings.Contains(string(text), flag) {
				t.Errorf("%s has %s: the numbers of this test are those without it", path, flag)
			}
		}
	}
	const writes = 500 // a second
	loads := etcdhealth.Grace(quota) - etcdhealth.Grace(0)
	if waits := holdsFor + time.Second*keeps/writes; loads > waits {
		t.Errorf("a learner may take %s to load %d GiB, and at %d writes a second the leader keeps what it lacks for %s", loads, quota>>30, writes, waits)
	}
	if limit := etcdhealth.DefragmentLimit(quota); limit >= etcdhealth.DefragmentMost {
		t.Errorf("a defragmentation of %d GiB may take %s, which is the longest of all", quota>>30, limit)
	}
	if etcdspace.MaxInUse <= quota {
		t.Errorf("a database at its quota has no defragmentation, which is the way out")
	}
	if etcdmember.MostBehind >= keeps || etcdspace.Behind >= keeps {
		t.Errorf("a learner may be %d entries behind and a follower %d, and etcd keeps %d", etcdmember.MostBehind, etcdspace.Behind, keeps)
	}
}
