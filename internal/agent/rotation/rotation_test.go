package rotation

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/decide/rotation"
)

// replaced are the authorities that are replaced in these tests. The Kubernetes CA has
// its own, in kubernetes_test.go.
var replaced = []rotation.Authority{rotation.ServiceAccountKey, rotation.FrontProxyCA, rotation.EtcdCA}

// same fails the test unless all hosts have one authority, the same one, and not
// that from before.
func (c *cluster) same(a rotation.Authority, before rotation.ID) {
	c.t.Helper()
	first := c.hosts[0].files(a)
	for _, h := range c.hosts {
		now := h.files(a)
		if len(now.Trusts) != 1 || now.Trusts[0] == before || now.Key != now.Trusts[0] || now.Leaf != now.Key || !now.Loaded {
			c.t.Errorf("%s has of %s: %+v", h.Node, a, now.Have)
		}
		if now.publics[0].Block != first.publics[0].Block || now.key != first.key {
			c.t.Errorf("%s and %s derived different files of %s", h.Node, c.hosts[0].Node, a)
		}
	}
}

func TestEachAuthorityIsReplacedOnOneTwoAndThreeControlPlanes(t *testing.T) {
	for _, hosts := range []int{1, 2, 3} {
		for _, a := range replaced {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, hosts)
				before := c.hosts[0].files(a).Key
				modes := map[string]os.FileMode{}
				for _, path := range []string{places[a].trusts, places[a].key} {
					modes[path] = mode(t, c.hosts[0], path)
				}
				c.rotate(a)
				c.same(a, before)
				for path, want := range modes {
					if got := mode(t, c.hosts[0], path); got != want {
						t.Errorf("%s has mode %s, had %s", path, got, want)
					}
				}
				second := c.hosts[0].files(a).Key
				c.rotate(a)
				c.same(a, second)
				for _, other := range rotation.Authorities() {
					if now := c.hosts[0].files(other); other != a && (len(now.Trusts) != 1 || string(now.Trusts[0]) != c.installed(other)) {
						t.Errorf("%s changed with %s: %+v", other, a, now.Have)
					}
				}
			})
		}
	}
}

// installed returns the ID of an authority that nobody replaces in a test.
func (c *cluster) installed(a rotation.Authority) string { return string(c.hosts[0].files(a).Key) }

func mode(t *testing.T, h *controlPlane, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(h.root + path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

// What reads a file only when it starts is restarted for it, one host after the
// other, and nothing is for a CA that the API server follows. Another order of etcd's
// CAs restarts nothing.
func TestWhoIsRestartedForANewAuthority(t *testing.T) {
	for i, want := range [][3]int{{3, 1, 0}, {}, {2, 0, 2}} {
		a := replaced[i]
		for _, hosts := range []int{1, 2, 3} {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, hosts)
				c.rotate(a)
				for _, h := range c.hosts {
					if got := [3]int{h.starts[apiServer.Name] - 1, h.starts[controllerManager.Name] - 1, h.starts[etcdPod.Name] - 1}; got != want {
						t.Errorf("%s: %s of %d restarted API server, controller manager and etcd %v times, want %v", a, h.Node, hosts, got, want)
					}
				}
			})
		}
	}
}

// The agent ends an etcd under kubelet only together with the API server that uses
// it, and never one under the etcd keeper.
func TestAnEtcdUnderKubeletIsRestartedTogetherWithItsAPIServer(t *testing.T) {
	for hosts, want := range map[int]int{1: 2, 2: 0, 3: 6} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, hosts)
			c.rotate(rotation.EtcdCA)
			etcds := 0
			for i, what := range c.ended {
				if host, is := strings.CutSuffix(what, " "+etcdPod.Name); is {
					etcds++
					if i == 0 || c.ended[i-1] != host+" "+apiServer.Name {
						t.Errorf("with %d: %q", hosts, c.ended)
					}
				}
			}
			if etcds != want {
				t.Errorf("with %d, agents ended etcd %d times, want %d", hosts, etcds, want)
			}
		})
	}
}

// What keeps a host from using etcd's new CA is published, and nothing is restarted
// meanwhile.
func TestWhatARotationOfEtcdsCAWaitsFor(t *testing.T) {
	for what, c := range map[string]struct {
		hosts int
		spoil func(*cluster)
		want  string
	}{
		"the operator's files": {2, func(c *cluster) { c.hosts[0].operator = func() (bool, error) { return false, nil } }, "the agent brings the operator's files for etcd up to date"},
		"they cannot be read": {2, func(c *cluster) {
			c.hosts[0].operator = func() (bool, error) { return false, errors.New("no such file") }
		}, "no such file"},
		"the keeper":                {2, func(*cluster) {}, "etcd accepts other authorities than those in its files: the operator has it restarted while the other host's etcd is healthy"},
		"another host's API server": {3, func(c *cluster) { c.hosts[2].down = true }, "the API server of this host is restarted only while that of cp-3 is ready"},
		"etcd does not answer": {1, func(c *cluster) {
			c.hosts[0].accepts = func(context.Context, string) ([]string, error) { return nil, errors.New("connection refused") }
		}, "etcd does not say which authorities it accepts: connection refused"},
	} {
		synctest.Test(t, func(t *testing.T) {
			cl := newCluster(t, c.hosts)
			cl.look()
			cl.command(rotation.EtcdCA, true)
			c.spoil(cl)
			h := cl.hosts[0]
			for range 3 {
				_, _ = h.step(t.Context()) // what it returns is published too
				if what != "the operator's files" && what != "they cannot be read" {
					h.keepOperator()
				}
			}
			hosts, _ := rotation.HostsOf(cl.nodes, rotation.EtcdCA)
			if r := hosts[0].Report; r == nil || !strings.Contains(r.Problem, c.want) || len(r.Trusts) != 0 {
				t.Errorf("%s: %+v", what, r)
			}
			if len(cl.ended) > 0 || len(h.files(rotation.EtcdCA).Trusts) != 2 {
				t.Errorf("%s: restarted %q", what, cl.ended)
			}
		})
	}
}

// TestAPowerCutAtAnyWriteIsMadeUpFor cuts the power of a host before and after each
// of its effects in a whole rotation.
func TestAPowerCutAtAnyWriteIsMadeUpFor(t *testing.T) {
	for _, a := range replaced {
		for _, hosts := range []int{1, 2} {
			cutAnywhere(t, a, hosts)
		}
	}
}

func cutAnywhere(t *testing.T, a rotation.Authority, hosts int) {
	t.Helper()
	effects := 0
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, hosts)
		c.rotate(a)
		effects = c.hosts[0].cut.Effects
	})
	if effects < 8 {
		t.Fatalf("%s: a rotation has %d effects on a host", a, effects)
	}
	for at := 1; at <= effects; at++ {
		for _, after := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, hosts)
				before := c.hosts[0].files(a).Key
				c.hosts[0].cut.At, c.hosts[0].cut.After = at, after
				c.rotate(a)
				c.same(a, before)
			})
		}
	}
}

// A host that is away holds the rotation where it is, whenever it goes; the others
// do nothing meanwhile.
func TestAHostThatGoesAwayHoldsTheRotation(t *testing.T) {
	for _, a := range replaced {
		for gone := 2; gone < 20; gone += 2 {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 2)
				before := c.hosts[0].files(a).Key
				for i := range gone {
					c.look()
					c.command(a, i == 0)
					time.Sleep(every)
				}
				if c.command(a, false).Kind == rotation.Settled {
					return // it was complete
				}
				c.nodes[1].Ready = false
				wish := string(c.secret[string(a)])
				for range 30 {
					if _, err := c.hosts[0].step(t.Context()); err != nil {
						t.Error(err)
					}
					if step := c.command(a, false); step.Kind != rotation.Wait || !strings.HasPrefix(step.Why, "cp-2 ") || !strings.Contains(step.Why, "not ready") {
						t.Fatalf("%s: %s", step.Kind, step.Why)
					}
					time.Sleep(every)
				}
				if string(c.secret[string(a)]) != wish {
					t.Error("the wish changed meanwhile")
				}
				c.nodes[1].Ready = true
				c.rotate(a)
				c.same(a, before)
			})
		}
	}
}

// A host whose old files are put back after a rotation mends itself, and nothing
// of the others is restarted (L-C4).
func TestAHostWithOlderFilesMendsItselfAfterARotation(t *testing.T) {
	for _, a := range replaced {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 2)
			h := c.hosts[1]
			old := map[string]string{}
			at := places[a]
			paths := []string{at.trusts, at.key}
			for _, path := range at.leaves {
				paths = append(paths, path+".crt")
			}
			for _, path := range paths {
				if data, err := os.ReadFile(h.root + path); err == nil {
					old[path] = string(data)
				}
			}
			before := h.files(a).Key
			c.rotate(a)
			restarts := c.hosts[0].starts[apiServer.Name]
			c.broken = true
			for path, text := range old {
				h.put(path, text, 0o600)
			}
			h.boot()
			for range 8 {
				if _, err := h.step(t.Context()); err != nil {
					t.Error(err)
				}
				h.keepOperator()
				c.operate()
				time.Sleep(3 * time.Minute)
			}
			c.same(a, before)
			if got := c.hosts[0].starts[apiServer.Name]; got != restarts {
				t.Errorf("the other host's API server was restarted %d times", got-restarts)
			}
		})
	}
}

// After two rotations the whole of etcd is that of a backup from before the second one: no
// host goes back to what it dropped, one that joined since and knows nothing of the first
// rotation included. All say so, and one more rotation makes everything whole.
func TestNoHostGoesBackToWhatItDroppedWhenEtcdIsRestored(t *testing.T) {
	for _, a := range rotation.Authorities() {
		goesBackNever(t, a, `"phase":"done"`, true)
		goesBackNever(t, a, `"phase":"sign","turn":"cp-2"`, true) // and that host has the turn
	}
	for _, phase := range []string{"trust", "sign", "drop"} { // the backup is from the middle of the first one
		goesBackNever(t, rotation.FrontProxyCA, `"phase":"`+phase+`","turn":"cp-2"`, false)
	}
}

// goesBackNever plays two rotations, and the restore of etcd with the wish of the first one.
// forgets is true if one host came after both, and so remembers none.
func goesBackNever(t *testing.T, a rotation.Authority, phase string, forgets bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.rotate(a)
		first, dropped := string(c.secret[string(a)]), c.hosts[0].files(a).Key
		c.rotate(a)
		if forgets {
			if err := os.Remove(c.hosts[1].root + marks + string(a) + ".followed"); err != nil {
				t.Fatal(err)
			}
		}
		c.look()
		files := func() (out string) {
			for _, h := range c.hosts {
				out += h.text(places[a].trusts) + h.text(places[a].key)
			}
			return out
		}
		before, ended := files(), len(c.ended)
		c.secret[string(a)] = []byte(strings.Replace(first, `"phase":"done"`, phase, 1))
		for range 3 {
			c.look()
			time.Sleep(reloadTime)
		}
		if files() != before || len(c.ended) != ended {
			t.Fatalf("%s, %s: it went back, and restarted %q", a, phase, c.ended[ended:])
		}
		hosts, _ := rotation.HostsOf(c.nodes, a)
		for _, h := range hosts {
			if r := h.Report; !r.Restored || !r.ByPerson || !strings.Contains(r.Problem, "holdfast ca rotate "+string(a)) {
				t.Errorf("%s, %s: %s says %+v", a, phase, h.Name, r)
			}
		}
		if step := c.command(a, false); step.Kind != rotation.Due || !strings.HasPrefix(step.Why, "etcd was restored from before the last rotation") {
			t.Errorf("%s, %s: %s: %s", a, phase, step.Kind, step.Why)
		}
		c.rotate(a)
		c.same(a, dropped)
	})
}

// A rotation that vanishes in its middle, because somebody took its wish away or restored etcd from
// before it, leaves no host for which nobody knows what it trusts: another rotation begins and ends.
func TestARotationThatVanishesHoldsNoLaterOne(t *testing.T) {
	for _, a := range rotation.Authorities() {
		for _, gone := range []int{2, 10} {
			for _, restored := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) { vanishes(t, a, gone, restored) })
			}
		}
	}
}

func vanishes(t *testing.T, a rotation.Authority, gone int, restored bool) {
	t.Helper()
	c := newCluster(t, 2)
	former := ""
	if restored {
		c.rotate(a)
		former = string(c.secret[string(a)])
	}
	before := c.hosts[0].files(a).Key
	for i := range gone {
		c.command(a, i == 0)
		c.look()
		time.Sleep(every)
	}
	delete(c.secret, string(a))
	if restored {
		c.secret[string(a)] = []byte(former)
	}
	for range 20 {
		c.look()
		step := c.command(a, false)
		if step.Begins() {
			c.rotate(a)
			c.same(a, before)
			return
		}
		for _, h := range c.hosts {
			if strings.Contains(step.Why, "holdfast host reboot "+h.Node) {
				h.begin(h.Node, h.ControlPlanes)
				h.boot()
			}
		}
		time.Sleep(reloadTime)
	}
	t.Fatalf("%s, gone after %d looks, restored %t: no rotation may begin: %s", a, gone, restored, c.waited[len(c.waited)-1])
}

// An API server is restarted only while those of all other control planes are
// ready.
func TestNoAPIServerIsRestartedWhileAnotherOneIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.hosts[1].down = true
		for i := range 10 {
			c.look()
			c.command(rotation.ServiceAccountKey, i == 0)
			time.Sleep(every)
		}
		h := c.hosts[0]
		if h.starts[apiServer.Name] != 1 || len(h.files(rotation.ServiceAccountKey).Trusts) != 2 {
			t.Errorf("started %d times, trusts %v", h.starts[apiServer.Name], h.files(rotation.ServiceAccountKey).Trusts)
		}
		if why := c.waited[len(c.waited)-1]; !strings.Contains(why, "cp-1: the API server of this host is restarted only while that of cp-2 is ready") {
			t.Errorf("a person reads %q", why)
		}
		c.hosts[1].down = false
		c.rotate(rotation.ServiceAccountKey)
	})
}

func TestAHostWithoutAWishSaysWhatItHasAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.look()
		for _, a := range rotation.Authorities() {
			hosts, _ := rotation.HostsOf(c.nodes, a)
			r := hosts[0].Report
			if r == nil || len(r.Trusts) != 1 || r.Signs != r.Trusts[0] || r.Of != "" || r.New != "" || r.Problem != "" {
				t.Errorf("%s: %+v", a, r)
			}
			if isKey := a == rotation.ServiceAccountKey; r != nil && r.Ends.IsZero() != isKey {
				t.Errorf("%s ends %s", a, r.Ends)
			}
		}
		if c.hosts[0].cut.Effects != 0 {
			t.Errorf("%d effects", c.hosts[0].cut.Effects)
		}
	})
}

func TestWhatIsInAHostsWayIsPublished(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(*cluster)
		want  string
	}{
		"no root":          {func(c *cluster) { c.hosts[0].Secret = nil }, "the site has no root for keys"},
		"no key":           {func(c *cluster) { _ = os.Remove(c.hosts[0].root + "/etc/kubernetes/pki/sa.key") }, "sa.key: no such file"},
		"a file of others": {func(c *cluster) { c.hosts[0].put("/etc/kubernetes/pki/sa.pub", "hush", 0o600) }, "sa.pub: is not PEM"},
		"a strange wish":   {func(c *cluster) { c.secret["service-account-key"] = []byte(`{"phase":"x"}`) }, `"path":"/data/service-account-key"`},
		"a damaged past":   {func(c *cluster) { c.hosts[0].put(marks+"service-account-key.followed", "hush", 0o600) }, "which rotations this host has followed"},
	} {
		synctest.Test(t, func(t *testing.T) {
			cl := newCluster(t, 1)
			cl.look()
			cl.command(rotation.ServiceAccountKey, true)
			before := cl.hosts[0].cut.Effects
			c.spoil(cl)
			_, err := cl.hosts[0].step(t.Context())
			hosts, _ := rotation.HostsOf(cl.nodes, rotation.ServiceAccountKey)
			r := hosts[0].Report
			if err == nil && what != "a strange wish" || r == nil || !strings.Contains(r.Problem, c.want) || strings.Contains(r.Problem, "hush") {
				t.Errorf("%s: %v, %+v", what, err, r)
			}
			if cl.hosts[0].cut.Effects != before {
				t.Errorf("%s: it went on", what)
			}
		})
	}
}

// The clock of the command is ahead: the new CA is not valid yet, and nobody would take what
// it signs. A rotation begins once it is, and the key of tokens needs no time.
func TestACAThatIsNotValidYetIsNotTrusted(t *testing.T) {
	for _, a := range rotation.Authorities() {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 1)
			c.look()
			before := c.hosts[0].files(a).Key
			c.secret[string(a)] = []byte(rotation.Wish{Phase: rotation.Trust, Turn: "cp-1", Salt: bytes.Repeat([]byte{9}, 32), Began: time.Now().Add(2 * time.Hour).UTC()}.String())
			c.look()
			hosts, _ := rotation.HostsOf(c.nodes, a)
			waits := strings.Contains(hosts[0].Report.Problem, "the new authority is valid from ")
			if isKey := a == rotation.ServiceAccountKey; waits == isKey || (len(c.hosts[0].files(a).Trusts) == 2) != isKey {
				t.Errorf("%s: %+v, trusts %v", a, hosts[0].Report, c.hosts[0].files(a).Trusts)
			}
			time.Sleep(time.Hour + time.Second)
			c.rotate(a)
			c.same(a, before)
		})
	}
}

func TestAnAPIThatDoesNotAnswerChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.look()
		c.command(rotation.ServiceAccountKey, true)
		c.err = errors.New("connection refused")
		if _, err := c.hosts[0].step(t.Context()); err == nil || c.hosts[0].cut.Effects != 0 {
			t.Errorf("%v, %d effects", err, c.hosts[0].cut.Effects)
		}
	})
}
