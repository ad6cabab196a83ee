package etcdmanifest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdhealth"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/etcdspace"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// etcd 3.6 has these by its source: the entries that it keeps without a flag for members that are
// behind, and how long after it has sent a snapshot it drops none. writes is what Kubernetes may
// write in a second.
const (
	ownKeeps = 5000
	holdsFor = 30 * time.Second
	writes   = 500
)

// keeps returns how many entries the leader keeps with a quota.
func keeps(t *testing.T, q etcdpod.Quota) int {
	t.Helper()
	for _, f := range q.Flags() {
		if f.Name == "snapshot-catchup-entries" {
			n, err := strconv.Atoi(f.Value)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return ownKeeps
}

// docs/facts/loss.md#hard-cases-of-loss, L64: no database is larger than etcd's quota, and with each
// quota that a site may choose the limits of Holdfast fit together: a learner that loads the data
// within the time in which it must start finds the entries that it lacks, so it does not ask
// for one snapshot after the other.
func TestL64TheLimitsFitTheLargestDatabaseThatEtcdTakes(t *testing.T) {
	for q := etcdpod.OwnQuota; q <= etcdpod.LargestQuota; q++ {
		kept := keeps(t, q)
		loads := etcdhealth.Grace(q.Bytes()) - etcdhealth.Grace(0)
		if waits := holdsFor + time.Second*time.Duration(kept)/writes; loads > waits {
			t.Errorf("a learner may take %s to load %d GiB, and at %d writes a second the leader keeps what it lacks for %s", loads, q, writes, waits)
		}
		// Only the entries count, once etcd has waited its 30 s.
		if waits := time.Second * time.Duration(kept) / writes; len(q.Flags()) > 0 && loads > waits {
			t.Errorf("%d GiB: the entries last for %s, and a load for %s", q, waits, loads)
		}
		if most := etcdhealth.DefragmentLimit(1 << 50); etcdhealth.DefragmentLimit(q.Bytes()) == most && q < etcdpod.LargestQuota {
			t.Errorf("a defragmentation of %d GiB may take %s, which is the longest of all", q, most)
		}
		if kept < ownKeeps || etcdmember.MostBehind >= kept || etcdspace.Behind >= kept {
			t.Errorf("a learner may be %d entries behind and a follower %d, and etcd keeps %d", etcdmember.MostBehind, etcdspace.Behind, kept)
		}
	}
}

// The pods that are approved are those of sites without the field: they have no flag of it, so that an
// upgrade restarts no etcd for it.
func TestASiteThatChoosesNoQuotaHasNoFlagOfIt(t *testing.T) {
	manifests, err := filepath.Glob("testdata/pod-ipv?.yaml")
	if err != nil || len(manifests) != 2 {
		t.Fatalf("%q: %v", manifests, err)
	}
	for _, path := range append(manifests, "../kubeadm/testdata/made/etcd.yaml") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range etcdpod.LargestQuota.Flags() {
			if strings.Contains(string(text), f.Name) {
				t.Errorf("%s has %s", path, f.Name)
			}
		}
	}
}

// etcdspace.MaxInUse is of an etcd that kubelet runs: a person is told before the installation.
func TestAQuotaAtWhichNothingMayBeDefragmentedIsWarnedOf(t *testing.T) {
	for _, shape := range []string{sitetest.OneNone, sitetest.TwoDual, sitetest.ThreeV6} {
		for q := etcdpod.OwnQuota; q <= etcdpod.LargestQuota; q++ {
			c, err := config.Parse(fmt.Appendf([]byte(shape), "etcdQuotaGiB: %d\n", q))
			if err != nil {
				t.Fatal(err)
			}
			warned := slices.ContainsFunc(config.Warnings(c), func(w string) bool { return strings.HasPrefix(w, "etcdQuotaGiB: ") })
			if want := q.Bytes() > etcdspace.MaxInUse && c.ControlPlane.Fencing == nil; warned != want {
				t.Errorf("%d control planes, %d GiB: warned %t", c.ControlPlaneReplicas(), q, warned)
			}
		}
	}
}
