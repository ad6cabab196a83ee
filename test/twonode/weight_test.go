package twonode_test

import (
	"fmt"
	"testing"
)

// weights prints the weight of etcd's group where processes wait for a processor, and that of
// all pods of the host, in the unit of the kernel's version of control groups. Groups may be
// named from outside of the host: its first process tells where those of the host begin.
const weights = `of() { sed -n 's/^[0-9]*:cpu[^:]*://p; s/^0:://p' /proc/$1/cgroup | head -n 1; }
begin=$(of 1) && begin=${begin%/init.scope} && begin=${begin%/}
group=$(of $(pidof etcd)) && group=${group#"$begin"}
[ "$(dirname "$group")" = / ] || { echo "etcd is in $group, below a group that has a weight of its own" >&2; exit 1; }
cd /sys/fs/cgroup/cpu 2>/dev/null || cd /sys/fs/cgroup
cat ".$group"/cpu.weight ".$group"/cpu.shares kubepods*/cpu.weight kubepods*/cpu.shares 2>/dev/null || true`

// TestEtcdComesBeforePods looks at the weights of a whole cluster: on a host that has more to do
// than it has processors, etcd gets one before the pods do.
func TestEtcdComesBeforePods(t *testing.T) {
	s := open(t)
	tr := newTrial(t, s, "etcd comes before pods", 0)
	tr.eventually(wholeWithin, "the cluster is whole", func() error { return tr.whole(tr.Context()) })
	for _, h := range s.hosts() {
		var etcd, pods int
		out := tr.on(h, weights)
		if n, err := fmt.Sscan(out, &etcd, &pods); n != 2 || err != nil {
			t.Fatalf("%s prints %q: %v", h, out, err)
		}
		if etcd <= pods {
			t.Errorf("%s: etcd has the weight %d, and all pods together %d", h, etcd, pods)
		}
	}
}
