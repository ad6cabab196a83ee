package rotation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/builttest"
	"github.com/holdfast/holdfast/internal/testkit/porttest"
)

// realHost is a control plane's files with a real API server that reads them. A
// kubelet of the test starts the server again whenever it ends.
type realHost struct {
	*controlPlane
	address string
	set     kubernetes.Interface
}

const realToken = "administrator"

// robot is a service account of the tests.
var robot = metav1.ObjectMeta{Name: "robot", Namespace: "default"}

// newRealCluster makes two control planes that share the etcd of the tests.
func newRealCluster(t *testing.T) (*cluster, []*realHost) {
	t.Helper()
	a := apitest.Need(t, real)
	binary := builttest.Program(t, "kube-apiserver")
	c := newCluster(t, 2)
	c.broken = true // real servers answer, not the simulated ones
	var hosts []*realHost
	ctx, stop := context.WithCancel(t.Context())
	var kubelets sync.WaitGroup
	t.Cleanup(func() { stop(); kubelets.Wait() })
	for _, h := range c.hosts {
		port, err := porttest.Take()
		if err != nil {
			t.Fatal(err)
		}
		r := &realHost{controlPlane: h, address: fmt.Sprintf("127.0.0.1:%d", port)}
		r.use(t)
		h.put("/tokens", realToken+`,admin,admin,"system:masters"`+"\n", 0o600)
		kubelets.Go(func() { r.kubelet(ctx, binary, a.Etcd, "/"+t.Name(), strconv.Itoa(int(port))) })
		hosts = append(hosts, r)
	}
	for _, r := range hosts {
		h := r.controlPlane
		h.Endpoint = r.address
		h.OpenAt = func(address string) (Server, error) {
			for i, other := range hosts {
				if address == other.address || address == fmt.Sprintf("10.98.0.%d:6443", 11+i) {
					return kube.Open(other.root + "/kubeconfig")
				}
			}
			return nil, errors.New("nobody is at " + address)
		}
		h.running = func(p host.PodProgram) ([]int, error) {
			if p.Name == controllerManager.Name {
				return nil, nil // there is none
			}
			return h.processes(p)
		}
		h.write, h.remove, h.end, h.accepts = host.WriteFileAtomic, os.Remove, host.EndProcess, accepted
		r.ready(t)
	}
	return c, hosts
}

// use makes the access to a host's API server.
func (r *realHost) use(t *testing.T) {
	t.Helper()
	conf := clientcmdapi.NewConfig()
	conf.Clusters["it"] = &clientcmdapi.Cluster{Server: "https://" + r.address, InsecureSkipTLSVerify: true}
	conf.AuthInfos["it"] = &clientcmdapi.AuthInfo{Token: realToken}
	conf.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	conf.CurrentContext = "it"
	if err := clientcmd.WriteToFile(*conf, r.root+"/kubeconfig"); err != nil {
		t.Fatal(err)
	}
	set, err := kubernetes.NewForConfig(r.as(realToken))
	if err != nil {
		t.Fatal(err)
	}
	r.set = set
}

func (r *realHost) as(token string) *rest.Config {
	return &rest.Config{Host: "https://" + r.address, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 100, Burst: 100}
}

// kubelet runs the API server until the context ends.
func (r *realHost) kubelet(ctx context.Context, binary, etcd, prefix, port string) {
	at := func(a rotation.Authority) place { return places[a] }
	sa, front, ca := at(rotation.ServiceAccountKey), at(rotation.FrontProxyCA), at(rotation.KubernetesCA)
	for ctx.Err() == nil {
		log, err := os.OpenFile(filepath.Join(r.root, "apiserver.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return
		}
		cmd := exec.CommandContext(ctx, "setpriv", "--pdeathsig", "KILL", "--", binary,
			"--etcd-servers="+etcd, "--etcd-prefix="+prefix, "--bind-address=127.0.0.1", "--secure-port="+port,
			"--cert-dir="+r.root+"/certs", "--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC",
			"--disable-admission-plugins=ServiceAccount", "--token-auth-file="+r.root+"/tokens", "--client-ca-file="+r.root+ca.trusts,
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file="+r.root+sa.trusts, "--service-account-signing-key-file="+r.root+sa.key,
			"--requestheader-client-ca-file="+r.root+front.trusts, "--requestheader-allowed-names=front-proxy-client",
			"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--proxy-client-cert-file="+r.root+front.leaves[0]+".crt", "--proxy-client-key-file="+r.root+front.leaves[0]+".key")
		cmd.Stdout, cmd.Stderr = log, log
		_ = cmd.Run() // it is started again, as kubelet does
		_ = log.Close()
		_ = host.Sleep(ctx, 100*time.Millisecond)
	}
}

// ready waits until the API server answers.
func (r *realHost) ready(t *testing.T) {
	t.Helper()
	client, err := kube.Open(r.root + "/kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	for client.APIReady(ctx) != nil {
		if host.Sleep(ctx, 200*time.Millisecond) != nil {
			log, _ := os.ReadFile(filepath.Join(r.root, "apiserver.log"))
			t.Fatalf("the API server does not start:\n%s", log[max(0, len(log)-3000):])
		}
	}
}

// token asks the API server for a token, as kubelet does for a pod.
func (r *realHost) token(ctx context.Context) (string, error) {
	got, err := r.set.CoreV1().ServiceAccounts("default").CreateToken(ctx, "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return got.Status.Token, nil
}

// knows reports whether the API server takes a token; unknown while it does not
// answer.
func (r *realHost) knows(ctx context.Context, token string) state.Fact[bool] {
	set, err := kubernetes.NewForConfig(r.as(token))
	if err != nil {
		return state.Fact[bool]{}
	}
	_, err = set.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	switch {
	case err == nil:
		return state.Known(true)
	case apierrors.IsUnauthorized(err):
		return state.Known(false)
	}
	return state.Fact[bool]{}
}

// TestRealAPIServersTakeEachOthersTokensDuringARotation replaces the key of service
// accounts of two real API servers that share one etcd. At each moment each server
// takes the tokens of the other one, and none takes an old token afterwards.
func TestRealAPIServersTakeEachOthersTokensDuringARotation(t *testing.T) {
	c, hosts := newRealCluster(t)
	if err := makeAccount(t, hosts[0], robot); err != nil {
		t.Fatal(err)
	}
	old, err := hosts[0].token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var pods sync.WaitGroup
	defer pods.Wait()
	defer stop()
	var asked, refused int
	pods.Go(func() {
		for ctx.Err() == nil {
			for _, from := range hosts {
				token, err := from.token(ctx)
				for _, to := range hosts {
					if took := to.knows(ctx, token); err == nil && took.Known {
						asked++
						if !took.Value {
							refused++
						}
					}
				}
			}
			_ = host.Sleep(ctx, 100*time.Millisecond)
		}
	})
	rotateForReal(t, c, rotation.ServiceAccountKey)
	stop()
	pods.Wait()
	if refused > 0 || asked < 20 {
		t.Errorf("%d of %d fresh tokens were refused", refused, asked)
	}
	t.Logf("%d tokens were taken", asked)
	for _, r := range hosts {
		if !state.Is(r.knows(t.Context(), old), false) {
			t.Errorf("%s still takes a token of the old key", r.Node)
		}
		fresh, err := r.token(t.Context())
		if err != nil || !state.Is(hosts[0].knows(t.Context(), fresh), true) || !state.Is(hosts[1].knows(t.Context(), fresh), true) {
			t.Errorf("a token of %s is refused: %v", r.Node, err)
		}
	}
}

func makeAccount(t *testing.T, r *realHost, of metav1.ObjectMeta) error {
	t.Helper()
	_, err := r.set.CoreV1().ServiceAccounts(of.Namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: of}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// rotateForReal plays a rotation to its end against the wall clock.
func rotateForReal(t *testing.T, c *cluster, a rotation.Authority) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 8*time.Minute)
	defer stop()
	for i := 0; ; i++ {
		for _, h := range c.hosts {
			if _, err := h.step(ctx); err != nil {
				t.Errorf("%s: %v", h.Node, err)
			}
		}
		step := c.command(a, i == 0)
		if i > 0 && step.Kind == rotation.Settled {
			return
		}
		if step.Kind == rotation.Hold { // nobody holds an old token but this test
			w, err := rotation.ParseWish(c.secret[string(a)])
			if err != nil {
				t.Fatal(err)
			}
			w.Signed = w.Signed.Add(-time.Hour)
			c.secret[string(a)] = []byte(w.String())
		}
		if host.Sleep(ctx, 300*time.Millisecond) != nil {
			t.Fatalf("the rotation does not end: %q", slices.Compact(c.waited))
		}
	}
}

// A real API server follows the file of the front proxy's CA without a restart,
// names what it accepts, takes clients of either CA meanwhile, and publishes both.
func TestARealAPIServerFollowsTheFrontProxysCA(t *testing.T) {
	c, hosts := newRealCluster(t)
	a, h := rotation.FrontProxyCA, hosts[0]
	w := rotation.Wish{Phase: rotation.Trust, Salt: []byte(strings.Repeat("s", 32)), Began: time.Now().Add(-time.Minute).UTC().Truncate(time.Second), Turn: h.Node}
	fresh, err := h.derive(h.files(a), w)
	if err != nil {
		t.Fatal(err)
	}
	old := h.files(a)
	oldLeaf, oldKey := old.leaves[0].cert, old.leaves[0].key
	if got := h.asProxy(t, oldLeaf, oldKey); got != "somebody" {
		t.Fatalf("the old certificate makes %q", got)
	}
	h.until(t, c, w)
	h.untilPublished(t, 2)
	freshLeaf, freshKey := signedBy(t, fresh)
	for _, pair := range [][2]string{{oldLeaf, oldKey}, {freshLeaf, freshKey}} {
		if got := h.asProxy(t, pair[0], pair[1]); got != "somebody" {
			t.Errorf("while both are trusted, a certificate makes %q", got)
		}
	}
	h.put(places[a].key, fresh.key, 0o600) // the phase of signing, by hand
	h.put(places[a].trusts, fresh.cert, 0o644)
	h.put(places[a].leaves[0]+".crt", freshLeaf, 0o644)
	h.put(places[a].leaves[0]+".key", freshKey, 0o600)
	deadline := time.Now().Add(3 * time.Minute)
	for h.followed(t.Context(), c, h.files(a)) != nil {
		if time.Now().After(deadline) || host.Sleep(t.Context(), time.Second) != nil {
			t.Fatal("the API server does not drop the old CA")
		}
	}
	if got := h.asProxy(t, oldLeaf, oldKey); got == "somebody" {
		t.Error("the old certificate still counts")
	}
	if got := h.asProxy(t, freshLeaf, freshKey); got != "somebody" {
		t.Errorf("the new certificate makes %q", got)
	}
}

// untilPublished waits until the ConfigMap names this many CAs of the front proxy: an
// API server follows its file first, and publishes it by a queue of its own.
func (r *realHost) untilPublished(t *testing.T, n int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		published, err := r.set.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		if err == nil && strings.Count(published.Data["requestheader-client-ca-file"], "BEGIN") == n {
			return
		}
		if time.Now().After(deadline) || host.Sleep(t.Context(), 200*time.Millisecond) != nil {
			t.Fatalf("published is %s: %v", published.Data["requestheader-client-ca-file"], err)
		}
	}
}

// until has the host do what is wished.
func (r *realHost) until(t *testing.T, c *cluster, w rotation.Wish) {
	t.Helper()
	a := rotation.FrontProxyCA
	c.secret[string(a)] = []byte(w.String())
	deadline := time.Now().Add(3 * time.Minute)
	for {
		if _, err := r.step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now := r.files(a); now.Loaded && len(now.Trusts) == 2 {
			return
		}
		if time.Now().After(deadline) || host.Sleep(t.Context(), time.Second) != nil {
			t.Fatal("the API server does not take the new CA")
		}
	}
}

// signedBy makes a client certificate of a CA.
func signedBy(t *testing.T, ca authority) (cert, key string) {
	t.Helper()
	return leafOf(t, site.KeyPair{Cert: ca.cert, Key: ca.key})
}

// asProxy returns as whom the API server sees a front proxy that names a user.
func (r *realHost) asProxy(t *testing.T, cert, key string) string {
	t.Helper()
	set, err := kubernetes.NewForConfig(&rest.Config{Host: "https://" + r.address, TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertData: []byte(cert), KeyData: []byte(key)}})
	if err != nil {
		t.Fatal(err)
	}
	var got authenticationv1.SelfSubjectReview
	err = set.AuthenticationV1().RESTClient().Post().Resource("selfsubjectreviews").Body(&authenticationv1.SelfSubjectReview{}).
		SetHeader("X-Remote-User", "somebody").SetHeader("X-Remote-Group", "system:authenticated").Do(t.Context()).Into(&got)
	if err != nil {
		return err.Error()
	}
	return got.Status.UserInfo.Username
}
