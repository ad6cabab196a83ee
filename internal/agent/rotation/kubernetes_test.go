package rotation

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

const kubelet = "kubelet"

// client is what a client of the API has read at its start.
type client struct{ bundle, cert string }

// installKubernetes writes what only the Kubernetes CA has, as kubeadm and the agent
// do.
func (h *controlPlane) installKubernetes(id site.Identity) {
	ca := id.KubernetesCA
	for _, path := range places[rotation.KubernetesCA].confs {
		cert, key := leafOf(h.cluster.t, ca)
		user := fmt.Sprintf("{client-certificate-data: %s, client-key-data: %s}", base64.StdEncoding.EncodeToString([]byte(cert)), base64.StdEncoding.EncodeToString([]byte(key)))
		switch path {
		case "/etc/kubernetes/super-admin.conf":
			continue // a host that joined has none
		case state.KubeletKubeconfig:
			user = fmt.Sprintf("{client-certificate: %s, client-key: %[1]s}", kubeadm.KubeletCertificate)
		}
		h.put(path, fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://api:6443", certificate-authority-data: %s}}]
users: [{name: u, user: %s}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, base64.StdEncoding.EncodeToString([]byte(ca.Cert)), user), 0o600)
	}
	for link, name := range map[string]string{kubeadm.KubeletCertificate: "/kubelet-client-1.pem", kubeadm.ServingCertificate: "/kubelet-server-1.pem"} {
		cert, key := leafOf(h.cluster.t, ca)
		first := filepath.Dir(link) + name
		h.put(first, cert+key, 0o600)
		if err := os.Symlink(filepath.Base(first), h.root+link); err != nil {
			h.cluster.t.Fatal(err)
		}
	}
	h.put(state.SigningPair, ca.Cert+ca.Key, 0o600)
	cert, key := leafOf(h.cluster.t, ca)
	h.put(state.AgentPair, cert+key, 0o600)
}

// played are the effects on a host whose programs are played.
func (h *controlPlane) played() effects {
	return effects{
		reread: func(_ context.Context, name string) error {
			if h.clients[name] == h.clientOf(name) {
				return nil
			}
			return h.effect(func() error { h.start(name); return nil })
		},
		kubelet:  func() (string, error) { return fmt.Sprint(h.pids[kubelet]), nil },
		restart:  func(context.Context) error { return h.effect(func() error { h.start(kubelet); return nil }) },
		balancer: func(context.Context, []byte) (bool, error) { return true, nil },
		shown: func(_ context.Context, address string) ([]byte, error) {
			if address == kubeletEndpoint {
				return rawOf(h.serves)
			}
			return rawOf(h.text(leafcert.APIServer))
		},
	}
}

// rawOf returns the first certificate of a text.
func rawOf(text string) ([]byte, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("no certificate")
	}
	return block.Bytes, nil
}

// clientOf returns what a client would read now.
func (h *controlPlane) clientOf(name string) client {
	conf := map[string]string{kubelet: state.KubeletKubeconfig, leafcert.ControllerManager: "/etc/kubernetes/controller-manager.conf", leafcert.Scheduler: "/etc/kubernetes/scheduler.conf"}[name]
	data := []byte(h.text(conf))
	bundle, err := kube.Authorities(data)
	if err != nil {
		h.cluster.t.Fatal(err)
	}
	cert, _, err := kube.ClientPair(data)
	if err != nil {
		h.cluster.t.Fatal(err)
	}
	if name == kubelet {
		cert = []byte(h.text(kubeadm.KubeletCertificate))
	}
	return client{string(bundle), string(cert)}
}

// startClient starts a client of the API. A controller manager does not start with two
// certificates to sign with, and writes what pods trust.
func (h *controlPlane) startClient(name string) {
	h.clients[name] = h.clientOf(name)
	if name == kubelet {
		h.serves = h.text(kubeadm.ServingCertificate)
	}
	if name != leafcert.ControllerManager {
		return
	}
	cert, _ := keys.SplitPair(h.text(state.SigningPair))
	if strings.Count(cert, "BEGIN CERTIFICATE") != 1 {
		h.cluster.t.Fatalf("the controller manager of %s does not start", h.Node)
	}
	h.cluster.pods = h.text(places[rotation.KubernetesCA].trusts)
}

// checkKubernetes fails a test if a client on one host and an API server on another one
// do not know each other, or a pod does not know an API server.
func (c *cluster) checkKubernetes(shows, trusts *controlPlane) {
	c.t.Helper()
	server, bundle := shows.text(leafcert.APIServer), trusts.text(places[rotation.KubernetesCA].trusts)
	if !c.trusts(bundle, server) || !c.trusts(c.pods, server) {
		c.t.Fatalf("the API server of %s is not trusted by the agent of %s or by pods", shows.Node, trusts.Node)
	}
	for name, own := range trusts.clients {
		if !c.trusts(own.bundle, server) {
			c.t.Fatalf("%s of %s does not trust the API server of %s", name, trusts.Node, shows.Node)
		}
	}
	certs := map[string]string{"agent": shows.text(state.AgentPair), "API server as a client of kubelets": shows.text(places[rotation.KubernetesCA].leaves[0] + ".crt")}
	for name, own := range shows.clients {
		certs[name] = own.cert
	}
	certs["kubelet, as a server,"] = shows.serves
	certs["whoever the controller manager signs for"] = shows.text(state.SigningPair)
	for name, cert := range certs {
		if !c.trusts(bundle, cert) {
			c.t.Fatalf("%s does not take %s of %s", trusts.Node, name, shows.Node)
		}
	}
}

// keepAgent does what another loop of the agent does: its account follows the key.
func (h *controlPlane) keepAgent() {
	now := h.files(rotation.KubernetesCA)
	own := bundle([]rotation.ID{now.Key}, now, authority{})
	if own != "" && !h.cluster.trusts(own, h.text(state.AgentPair)) {
		cert, key := leafOf(h.cluster.t, site.KeyPair{Cert: own, Key: now.key})
		h.put(state.AgentPair, cert+key, 0o600)
	}
}

// person boots the host that a step names.
func (c *cluster) person(step rotation.Step, turn string) {
	if step.Kind != rotation.Hold || !strings.Contains(step.Why, "holdfast host reboot "+turn) {
		return
	}
	for _, h := range c.hosts {
		if h.Node == turn {
			h.begin(h.Node, h.ControlPlanes)
			h.boot()
		}
	}
	c.check()
}

func idsOf(t *testing.T, text string) (out []rotation.ID) {
	t.Helper()
	publics, err := keys.Publics(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range publics {
		out = append(out, rotation.ID(p.ID))
	}
	return out
}

// sameKubernetes fails the test unless all of every host is of one new authority.
func (c *cluster) sameKubernetes(before rotation.ID) {
	c.t.Helper()
	c.same(rotation.KubernetesCA, before)
	for _, h := range c.hosts {
		now := h.files(rotation.KubernetesCA)
		fresh := now.publics[0].Block
		if len(now.leaves) != 7 {
			c.t.Errorf("%s has %d leaf certificates", h.Node, len(now.leaves))
		}
		for _, l := range now.leaves {
			if l.signer != now.Key {
				c.t.Errorf("%s: %s is signed by another one", h.Node, l.path)
			}
		}
		for _, path := range places[rotation.KubernetesCA].confs {
			data, err := os.ReadFile(h.root + path)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if bundle, err := kube.Authorities(data); err != nil || string(bundle) != fresh {
				c.t.Errorf("%s: %s trusts %q, %v", h.Node, path, bundle, err)
			}
		}
		if got := h.text(state.SigningPair); got != fresh+now.key {
			c.t.Errorf("%s signs by %s", h.Node, got)
		}
		for _, name := range []string{leafcert.ControllerManager, leafcert.Scheduler} {
			if h.clients[name] != h.clientOf(name) {
				c.t.Errorf("%s of %s has former files", name, h.Node)
			}
		}
	}
	if c.pods != c.hosts[0].text(places[rotation.KubernetesCA].trusts) {
		c.t.Error("pods trust others")
	}
}

func TestTheKubernetesCAIsReplacedAndNobodyLosesTheAPI(t *testing.T) {
	for _, hosts := range []int{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, hosts)
			for range 2 {
				before := c.hosts[0].files(rotation.KubernetesCA).Key
				c.rotate(rotation.KubernetesCA)
				c.sameKubernetes(before)
			}
			for _, h := range c.hosts {
				// Two control planes boot in the first two phases instead: all begins anew.
				api, manager := 0, 6
				if hosts == 2 {
					api, manager = 4, 10
				}
				if got, want := [3]int{h.starts[apiServer.Name] - 1, h.starts[kubelet] - 1, h.starts[leafcert.ControllerManager] - 1}, [3]int{api, 4, manager}; got != want {
					t.Errorf("with %d, %s restarted API server, kubelet and controller manager %v times in two rotations, want %v", hosts, h.Node, got, want)
				}
			}
			if len(c.ended) > 0 {
				t.Errorf("ended %q", c.ended)
			}
		})
	}
}

// TestAPowerCutAnywhereInARotationOfTheKubernetesCA cuts the power of a host before and
// after each of its effects in a whole rotation.
func TestAPowerCutAnywhereInARotationOfTheKubernetesCA(t *testing.T) {
	for _, hosts := range []int{1, 2} {
		effects := 0
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, hosts)
			c.rotate(rotation.KubernetesCA)
			effects = c.hosts[0].cut.Effects
		})
		if effects < 25 {
			t.Fatalf("a rotation has %d effects on a host", effects)
		}
		for at := 1; at <= effects; at++ {
			for _, after := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, hosts)
					before := c.hosts[0].files(rotation.KubernetesCA).Key
					c.hosts[0].cut.At, c.hosts[0].cut.After = at, after
					c.rotate(rotation.KubernetesCA)
					c.sameKubernetes(before)
				})
			}
		}
	}
}

// What keeps a host from using the new authority is published, and it does not say that
// it trusts it.
func TestWhatARotationOfTheKubernetesCAWaitsFor(t *testing.T) {
	ca := places[rotation.KubernetesCA].trusts
	for what, c := range map[string]struct {
		hosts  int
		spoil  func(*controlPlane)
		want   string
		person bool
	}{
		"an earlier release": {1, func(h *controlPlane) { _ = os.Remove(h.root + state.SigningPair) }, "signs by ca.crt itself", false},
		"no controller manager": {1, func(h *controlPlane) {
			h.running = func(host.PodProgram) ([]int, error) { return nil, nil }
		}, "no controller manager runs on this host that signs by /etc/kubernetes/pki/ca-signing.pem", false},
		"the agent's account": {1, func(h *controlPlane) { h.put(state.AgentPair, "x", 0o600) }, "the agent gets its own certificate from the present authority", false},
		"the balancer": {1, func(h *controlPlane) {
			h.kubernetes.balancer = func(context.Context, []byte) (bool, error) { return false, nil }
		}, "the agent brings the balancer of the API up to date", false},
		"a balancer that is silent": {1, func(h *controlPlane) {
			h.kubernetes.balancer = func(context.Context, []byte) (bool, error) { return false, errors.New("refused") }
		}, "the balancer of the API: refused", false},
		"a program that does not start": {1, func(h *controlPlane) {
			h.kubernetes.reread = func(context.Context, string) error { return errors.New("kubelet has not started it") }
		}, "restart kube-controller-manager: kubelet has not started it", false},
		"the API server": {1, func(h *controlPlane) {
			old := h.text(ca)
			h.accepts = func(context.Context, string) ([]string, error) { return subjectsOf(h.cluster.t, old), nil }
		}, "the API server accepts other authorities than those in its files", false},
		"what it shows": {1, func(h *controlPlane) {
			h.kubernetes.shown = func(context.Context, string) ([]byte, error) { return []byte("x"), nil }
		}, "the API server shows another certificate", false},
		"what kubelet shows": {1, func(h *controlPlane) {
			shown := h.kubernetes.shown
			h.kubernetes.shown = func(ctx context.Context, address string) ([]byte, error) {
				if address == kubeletEndpoint {
					return []byte("x"), nil
				}
				return shown(ctx, address)
			}
		}, "kubelet shows another certificate", false},
		"no kubelet":          {1, func(h *controlPlane) { h.kubernetes.kubelet = func() (string, error) { return "", nil } }, "kubelet does not run", false},
		"Pacemaker's kubelet": {2, func(*controlPlane) {}, "holdfast host reboot cp-1", true},
		"another one's API":   {3, func(h *controlPlane) { h.cluster.hosts[2].down = true }, "only while that of cp-3 is ready", false},
		"a kubelet that cannot": {1, func(h *controlPlane) {
			h.kubernetes.restart = func(context.Context) error { return errors.New("masked") }
		}, "restart kubelet: masked", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			cl := newCluster(t, c.hosts)
			cl.look()
			cl.command(rotation.KubernetesCA, true)
			h := cl.hosts[0]
			cl.broken = true
			c.spoil(h)
			for range 4 {
				ctx, stop := context.WithTimeout(t.Context(), limit)
				_, _ = h.step(ctx) // what it returns is published too
				stop()
			}
			hosts, _ := rotation.HostsOf(cl.nodes, rotation.KubernetesCA)
			r := hosts[0].Report
			if r == nil || !strings.Contains(r.Problem, c.want) || r.ByPerson != c.person || slices.Contains(r.Trusts, r.New) {
				t.Errorf("%s: %+v", what, r)
			}
			if two := what != "an earlier release" && what != "no controller manager"; len(idsOf(t, h.text(ca))) == 2 != two {
				t.Errorf("%s: ca.crt has %d", what, len(idsOf(t, h.text(ca))))
			}
			if (what == "an earlier release") != (r.Unable != "") {
				t.Errorf("%s: unable: %q", what, r.Unable)
			}
		})
	}
}

// A kubeconfig that a person wrote, or kubeadm for a host that joined, trusts one
// authority alone: the host does not say that it trusts both before that is put right.
func TestAKubeconfigThatTrustsLessIsPutRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		h := c.hosts[0]
		c.look()
		c.command(rotation.KubernetesCA, true)
		old := h.text(state.AdminKubeconfig)
		c.look()
		h.put(state.AdminKubeconfig, old, 0o600)
		if now := h.files(rotation.KubernetesCA); now.Loaded || !slices.Equal(now.uneven, []string{state.AdminKubeconfig}) {
			t.Errorf("%+v %q", now.Have, now.uneven)
		}
		c.look()
		time.Sleep(time.Minute)
		c.look()
		if now := h.files(rotation.KubernetesCA); !now.Loaded || len(now.Trusts) != 2 {
			t.Errorf("%+v %q", now.Have, now.uneven)
		}
	})
}
