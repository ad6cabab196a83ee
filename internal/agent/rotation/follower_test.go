package rotation

import (
	"context"
	"crypto/x509"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// A worker that sees the restored etcd before any control plane does, with what was said and
// published then, does not go back either.
func TestAWorkerDoesNotGoBackWhenEtcdIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		w := c.addWorker("worker-1")
		c.rotate(rotation.KubernetesCA)
		wish, nodes, pods := c.secret[string(rotation.KubernetesCA)], slices.Clone(c.nodes), c.pods
		c.rotate(rotation.KubernetesCA)
		trusts, second := w.text(places[rotation.KubernetesCA].trusts), c.hosts[0].files(rotation.KubernetesCA).Key
		pods, c.pods = c.pods, pods
		c.secret[string(rotation.KubernetesCA)], c.nodes = wish, nodes
		c.broken = true // pods are told the replaced one, until a controller manager writes
		w.look()
		c.broken, c.pods = false, pods
		c.look()
		w.begin(w.Node) // another agent remembers as much
		c.look()
		if w.text(places[rotation.KubernetesCA].trusts) != trusts {
			t.Error("it trusts another authority")
		}
		said := state.ParseAnnotation[rotation.Reports](c.nodes[1].Annotations[state.AnnotationTrust]).Value.Authorities[rotation.KubernetesCA]
		if !strings.Contains(said.Problem, "cp-1 does not follow: etcd was restored from before the last rotation") || said.Signs != second {
			t.Errorf("it says %+v", said)
		}
		c.rotate(rotation.KubernetesCA)
		c.sameKubernetes(second)
		c.sameOnWorkers()
	})
}

// sameOnWorkers fails the test unless all of every worker is of the control planes' one
// authority.
func (c *cluster) sameOnWorkers() {
	c.t.Helper()
	want := c.hosts[0].text(places[rotation.KubernetesCA].trusts)
	for _, w := range c.workers {
		if got := w.text(places[rotation.KubernetesCA].trusts); got != want {
			c.t.Errorf("%s trusts\n%s", w.Node, got)
		}
		if got := w.trusts(w.root + state.KubeletKubeconfig); got != want {
			c.t.Errorf("kubelet's kubeconfig of %s trusts\n%s", w.Node, got)
		}
		if cert, _ := keys.SplitPair(w.text(kubeadm.KubeletCertificate)); !c.trusts(want, cert) {
			c.t.Errorf("kubelet of %s has a certificate of another one", w.Node)
		}
		if w.serves != "" && !c.trusts(want, w.serves) {
			c.t.Errorf("kubelet of %s serves by a certificate of another one", w.Node)
		}
		entries, _ := os.ReadDir(w.root + marks)
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == string(rotation.KubernetesCA)+".followed" })
		if len(entries) > 0 {
			c.t.Errorf("%s keeps %v", w.Node, entries)
		}
	}
}

func TestWorkersFollowTheKubernetesCAAndLoseTheAPINever(t *testing.T) {
	for _, hosts := range []int{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, hosts)
			for _, name := range []string{"worker-1", "worker-2"} {
				c.addWorker(name)
			}
			for range 2 {
				before := c.hosts[0].files(rotation.KubernetesCA).Key
				c.rotate(rotation.KubernetesCA)
				c.sameKubernetes(before)
				c.sameOnWorkers()
			}
			for _, w := range c.workers {
				if w.pid-1 != 4 || len(w.signed) != 4 {
					t.Errorf("%s: kubelet started %d times, %d certificates", w.Node, w.pid-1, len(w.signed))
				}
			}
		})
	}
}

// A worker of a site whose kubelets sign their own certificates requests none.
func TestAWorkerWithoutAServingCertificateFollowsTheKubernetesCA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		w := c.addWorker("worker-1")
		if err := os.Remove(w.root + kubeadm.ServingCertificate); err != nil {
			t.Fatal(err)
		}
		w.start()
		c.rotate(rotation.KubernetesCA)
		c.sameOnWorkers()
		if len(w.signed) != 1 {
			t.Errorf("%d certificates", len(w.signed))
		}
	})
}

// TestAPowerCutAnywhereOnAWorker cuts the power of a worker before and after each of its
// effects in a whole rotation.
func TestAPowerCutAnywhereOnAWorker(t *testing.T) {
	effects := 0
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		w := c.addWorker("worker-1")
		c.rotate(rotation.KubernetesCA)
		effects = w.cut.Effects
	})
	if effects < 15 {
		t.Fatalf("a rotation has %d effects on a worker", effects)
	}
	for at := 1; at <= effects; at++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 1)
				w := c.addWorker("worker-1")
				before := c.hosts[0].files(rotation.KubernetesCA).Key
				w.cut.At, w.cut.After = at, after
				c.rotate(rotation.KubernetesCA)
				c.sameKubernetes(before)
				for range 3 {
					c.look()
				}
				c.sameOnWorkers()
			})
		}
	}
}

// A worker whose power was cut in its turn of a rotation that then vanished has kubelet read its
// files, wherever that was: the next rotation begins and ends.
func TestARotationThatVanishesHoldsNoWorker(t *testing.T) {
	marked := 0
	for at := range 8 {
		for _, restored := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 1)
				w := c.addWorker("worker-1")
				former := map[string][]byte{}
				if restored {
					c.rotate(rotation.KubernetesCA)
					former = maps.Clone(c.secret)
				}
				before := c.hosts[0].files(rotation.KubernetesCA).Key
				c.until(rotation.Trust, w.Node)
				w.cut = powercut.Cut{At: at + 1, After: true}
				w.look()
				if words, _ := w.files.unread(rotation.KubernetesCA); len(words) > 0 {
					marked++
				}
				c.secret = former
				for range 5 {
					c.look()
					time.Sleep(reloadTime)
				}
				c.rotate(rotation.KubernetesCA)
				c.sameKubernetes(before)
				c.sameOnWorkers()
			})
		}
	}
	if marked < 4 {
		t.Errorf("a worker kept a mark %d times: nothing was played", marked)
	}
}

// until plays a rotation until the wish is a worker's turn in a phase.
func (c *cluster) until(phase rotation.Phase, turn string) {
	c.t.Helper()
	for i := range 200 {
		c.look()
		c.command(rotation.KubernetesCA, i == 0)
		if w, _ := rotation.ParseWish(c.secret[string(rotation.KubernetesCA)]); w.Phase == phase && w.Turn == turn {
			for _, h := range c.hosts { // they say so in their nodes
				if _, err := h.step(c.t.Context()); err != nil {
					c.t.Fatal(err)
				}
			}
			return
		}
		time.Sleep(reloadTime / 2)
	}
	c.t.Fatalf("it does not come to %s of %s: %s", phase, turn, strings.Join(slices.Compact(c.waited), "\n"))
}

// What keeps a worker from following is published, and it says no more than its kubelet
// has read.
func TestWhatAWorkerWaitsFor(t *testing.T) {
	ca := places[rotation.KubernetesCA].trusts
	for what, c := range map[string]struct {
		phase rotation.Phase
		spoil func(*worker)
		want  string
		left  int
	}{
		"nothing is published": {rotation.Trust, func(w *worker) { w.cluster.pods = w.text(ca) }, "does not publish the new authority", 1},
		"what is no text":      {rotation.Trust, func(w *worker) { w.cluster.pods = "x" }, "ConfigMap kube-flannel/kube-root-ca.crt", 1},
		"a kubelet that cannot": {rotation.Trust, func(w *worker) {
			w.files.kubernetes.restart = func(context.Context) error { return errors.New("masked") }
		}, "restart kubelet: masked", 2},
		"control planes that differ": {rotation.Trust, func(w *worker) { w.cluster.nodes[0].Annotations = nil }, "cp-1 does not say what is wished", 1},
		"the former one signs": {rotation.Sign, func(w *worker) {
			w.cluster.hosts[1].put(state.SigningPair, w.cluster.hosts[1].signedBefore, 0o600)
		}, "signs by another authority than the new one", 2},
		"nobody signs": {rotation.Sign, func(w *worker) {
			w.Try = func(ctx context.Context, _ string, do func(context.Context, WorkerAPI) error) error {
				return do(ctx, silent{account{w}})
			}
		}, "has not signed it yet", 2},
		"the former one is published": {rotation.Drop, func(w *worker) { w.cluster.pods = w.text(ca) }, "publishes others beside the new authority", 2},
		"a server of the former one": {rotation.Drop, func(w *worker) {
			try := w.Try
			w.Try = func(ctx context.Context, kubeconfig string, do func(context.Context, WorkerAPI) error) error {
				if strings.HasSuffix(kubeconfig, candidate) {
					return x509.UnknownAuthorityError{}
				}
				return try(ctx, kubeconfig, do)
			}
		}, "does not reach the API by the new authority alone yet", 2},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t, 2)
				w := cl.addWorker("worker-1")
				for _, h := range cl.hosts {
					h.signedBefore = h.text(state.SigningPair)
				}
				cl.until(c.phase, "worker-1")
				cl.broken = true
				c.spoil(w)
				for range 3 {
					w.Nodes(slices.Clone(cl.nodes))
					ctx, stop := context.WithTimeout(t.Context(), limit)
					_, _ = w.step(ctx) // what it returns is published too
					stop()
				}
				r := rotation.FollowersOf(cl.nodes, rotation.KubernetesCA)[0].Report
				if r == nil || !strings.Contains(r.Problem, c.want) {
					t.Errorf("%+v", r)
				}
				if got := len(idsOf(t, w.text(ca))); got != c.left {
					t.Errorf("it trusts %d, want %d", got, c.left)
				}
			})
		})
	}
}

// silent signs nothing.
type silent struct{ account }

func (silent) IssuedCertificate(context.Context, string) ([]byte, error) { return nil, nil }

// A host that slept through a rotation knows no API server. It keeps what it has, and
// says what to type.
func TestAWorkerThatSleptThroughARotationKeepsWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		w := c.addWorker("worker-1")
		c.workers, c.nodes = nil, slices.DeleteFunc(c.nodes, func(n state.Node) bool { return n.Name == w.Node }) // it is off, and its Node was deleted
		before := w.text(places[rotation.KubernetesCA].trusts)
		c.rotate(rotation.KubernetesCA)
		_, err := w.step(t.Context())
		if err == nil || !strings.Contains(err.Error(), "switch it off, type holdfast host remove worker-1 --is-off worker-1 on a control plane") || !strings.Contains(err.Error(), "holdfast host add worker-1") {
			t.Errorf("it says %v", err)
		}
		if got := w.text(places[rotation.KubernetesCA].trusts); got != before {
			t.Errorf("it trusts\n%s", got)
		}
	})
}

// A worker that is away holds a rotation; without its Node it goes on.
func TestAWorkerThatIsAwayHoldsARotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		w := c.addWorker("worker-1")
		c.until(rotation.Sign, "cp-1")
		c.workers, c.broken = nil, true
		i := slices.IndexFunc(c.nodes, func(n state.Node) bool { return n.Name == w.Node })
		c.nodes[i].Ready = false
		for range 100 {
			c.look()
			if step := c.command(rotation.KubernetesCA, false); step.Kind == rotation.Ask || !strings.Contains(step.Why, "worker-1 not ready") {
				t.Fatalf("%+v", step)
			}
			time.Sleep(reloadTime)
		}
		c.nodes = slices.Delete(c.nodes, i, i+1)
		c.rotate(rotation.KubernetesCA)
		c.same(rotation.KubernetesCA, "")
		if got := slices.Collect(maps.Keys(w.signed)); len(got) > 0 {
			t.Errorf("requests %q", got)
		}
	})
}
