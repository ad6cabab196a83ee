package rotation

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

// TestWhatIsInAHostsWayForAWholeRunIsPublished: to wait for it once used up the time in which the host says so.
func TestWhatIsInAHostsWayForAWholeRunIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.look()
		c.command(rotation.ServiceAccountKey, true)
		h := c.hosts[0]
		h.running = func(host.PodProgram) ([]int, error) { return []int{7}, nil } // kubelet starts nothing
		h.end = func(context.Context, int, func() bool) error { return nil }
		ctx, stop := context.WithTimeout(t.Context(), limit)
		defer stop()
		_, err := h.step(ctx)
		hosts, _ := rotation.HostsOf(c.nodes, rotation.ServiceAccountKey)
		if r := hosts[0].Report; err == nil || r == nil || r.Problem != "kubelet has not started kube-apiserver again" {
			t.Errorf("%v, %+v", err, r)
		}
	})
}

func TestWhatIsInAWorkersWayForAWholeRunIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		w := c.addWorker("worker-1")
		w.files.kubernetes.restart = func(context.Context) error { return nil } // kubelet does not start
		for i := range 30 {
			c.look()
			c.command(rotation.KubernetesCA, i == 0)
			said := state.ParseAnnotation[rotation.Reports](c.nodes[1].Annotations[state.AnnotationTrust]).Value.Authorities[rotation.KubernetesCA]
			if strings.Contains(said.Problem, "kubelet starts") {
				return
			}
			time.Sleep(every)
		}
		t.Error("nobody is told")
	})
}

// TestWhileNobodyReplacesAnAuthorityItsFilesAreReadOnceAMinute: to read them at each look was a twentieth of what
// an agent costs while nothing happens. A wish ends the rest.
func TestWhileNobodyReplacesAnAuthorityItsFilesAreReadOnceAMinute(t *testing.T) {
	for what, c := range map[string]struct {
		then func(c *cluster)
		read bool
	}{
		"at the next look":           {func(*cluster) { time.Sleep(every) }, false},
		"when a minute is over":      {func(*cluster) { time.Sleep(restFor) }, true},
		"when somebody replaces one": {func(c *cluster) { c.command(rotation.ServiceAccountKey, true) }, true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t, 1)
				h := cl.hosts[0]
				h.rest = restFor
				cl.look()
				c.then(cl)
				h.put(marks+string(rotation.FrontProxyCA)+".unread", markLeaf, 0o600)
				if _, err := h.step(t.Context()); err != nil {
					t.Error(err)
				}
				hosts, _ := rotation.HostsOf(cl.nodes, rotation.FrontProxyCA)
				if r := hosts[0].Report; r == nil || (len(r.Trusts) == 0) != c.read {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}
