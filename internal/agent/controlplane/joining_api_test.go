package controlplane

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/admission"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/testkit/builttest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// TestAWorkersTokenIsNobodyElsesIdentity plays docs/attacks.md, F3, with the
// tokens and the objects of a real cluster. It begins by showing that the attack
// works where nobody has removed kubeadm's binding, so that the rest proves
// something.
func TestAWorkersTokenIsNobodyElsesIdentity(t *testing.T) {
	c := newJoiningCluster(t)
	old := "kubead.0123456789abcdef"
	c.kubeadmToken(old)
	before := c.ask(c.api.WithToken(old), "f3-before", "system:node:cp-1", "system:nodes")
	if kind, _ := c.decided(before, soon); kind != certificatesv1.CertificateApproved {
		t.Fatalf("the attack does not work on a cluster without the mend: %s", kind)
	}
	c.runAgent()
	token := c.tokenFor("worker-1", state.RoleWorker)
	worker := c.api.WithToken(token.Token)
	t.Run("its own, within seconds", func(t *testing.T) {
		c.t = t
		start := time.Now()
		own := c.ask(worker, "f3-own", "system:node:worker-1", "system:nodes")
		kind, reason := c.decided(own, soon)
		if kind != certificatesv1.CertificateApproved || reason != "OwnToken" {
			t.Fatalf("%s %s", kind, reason)
		}
		t.Logf("approved after %s", time.Since(start))
		kubelet := c.as(c.issued(own))
		if _, err := kubelet.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}, metav1.CreateOptions{}); err != nil {
			t.Errorf("the kubelet cannot register: %v", err)
		}
		// The controller manager approves the rotation, as kubeadm binds it.
		again := c.ask(c.issued(own), "f3-rotated", "system:node:worker-1", "system:nodes")
		if kind, reason := c.decided(again, soon); kind != certificatesv1.CertificateApproved || reason != "AutoApproved" {
			t.Errorf("its next certificate: %s %s", kind, reason)
		}
		if _, err := c.tryAsk(c.issued(own), "f3-kubelet-as-cp", "system:node:cp-1", "system:nodes"); !apierrors.IsForbidden(err) {
			t.Errorf("a kubelet asked for a control plane's: %v", err)
		}
	})
	for _, x := range []struct{ name, cn, group, reason string }{
		{"f3-cp-1", "system:node:cp-1", "system:nodes", "AnotherName"},
		{"f3-cp-2", "system:node:cp-2", "system:nodes", "AnotherName"}, // which has not joined yet
		{"f3-worker-2", "system:node:worker-2", "system:nodes", "AnotherName"},
		{"f3-admin", "kubernetes-admin", "system:masters", "NotAKubelets"},
		{"f3-own-again", "system:node:worker-1", "system:nodes", "TokenUsed"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c.t = t
			kind, reason := c.decided(c.ask(worker, x.name, x.cn, x.group), soon)
			if kind != certificatesv1.CertificateDenied || reason != x.reason {
				t.Errorf("%s %s", kind, reason)
			}
		})
	}
	c.t = t
	t.Run("what a person makes by kubeadm waits for a person", func(t *testing.T) {
		c.t = t
		if kind, _ := c.decided(c.ask(c.api.WithToken(old), "f3-by-hand", "system:node:cp-1", "system:nodes"), time.Second); kind != "" {
			t.Errorf("it was decided: %s", kind)
		}
	})
	c.t = t
	c.opensNothingElse(worker)
	c.endsWhenItsHostIsReady(worker)
}

func (c *joiningCluster) opensNothingElse(worker *rest.Config) {
	c.t.Helper()
	set, ctx := c.as(worker), c.t.Context()
	for _, name := range []string{"kubeadm-config", "kubelet-config", "kube-proxy"} {
		if _, err := set.CoreV1().ConfigMaps("kube-system").Get(ctx, name, metav1.GetOptions{}); err != nil {
			c.t.Errorf("kubeadm needs %s: %v", name, err)
		}
	}
	if _, err := set.CoreV1().Nodes().Get(ctx, "cp-1", metav1.GetOptions{}); err != nil {
		c.t.Errorf("kubeadm looks for its node: %v", err)
	}
	_, secrets := set.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
	_, nodes := set.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	_, pods := set.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	_, other := set.CoreV1().ConfigMaps("kube-system").Get(ctx, "cluster-config-v1", metav1.GetOptions{})
	_, approval := set.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, "f3-cp-1", &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "f3-cp-1"},
	}, metav1.UpdateOptions{})
	for what, err := range map[string]error{"Secrets": secrets, "all nodes": nodes, "pods": pods, "a ConfigMap": other, "an approval": approval} {
		if !apierrors.IsForbidden(err) {
			c.t.Errorf("%s: %v", what, err)
		}
	}
}

func (c *joiningCluster) endsWhenItsHostIsReady(worker *rest.Config) {
	c.t.Helper()
	client, err := c.agent.open()
	if err != nil {
		c.t.Fatal(err)
	}
	look := func() {
		if err := (&admission.Approver{Site: joining.Of(c.agent.Site.Config), API: client, Now: time.Now, Logf: c.agent.logf}).Decide(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
	look()
	if tokens, err := client.BootstrapTokens(c.t.Context()); err != nil || len(tokens) != 1 || tokens[0].UsedBy != "f3-own" {
		c.t.Fatalf("before the node is ready: %+v, %v", tokens, err)
	}
	c.ready("worker-1")
	look()
	if tokens, err := client.BootstrapTokens(c.t.Context()); err != nil || len(tokens) > 0 {
		c.t.Errorf("a token stays: %+v, %v", tokens, err)
	}
	ctx, stop := context.WithTimeout(c.t.Context(), soon)
	defer stop()
	for { // the API server's own list is a moment behind
		_, err := c.as(worker).CoreV1().Nodes().Get(ctx, "cp-1", metav1.GetOptions{})
		if apierrors.IsUnauthorized(err) {
			return
		}
		if host.Sleep(ctx, 50*time.Millisecond) != nil {
			c.t.Fatalf("it still opens: %v", err)
		}
	}
}

// The name of a reinstalled worker is refused until an administrator removes the
// old one.
func TestTheNameOfANodeIsGivenToNobody(t *testing.T) {
	c := newJoiningCluster(t)
	c.node("worker-5", false)
	own := jointoken.Claims{Purpose: jointoken.Host, Role: state.RoleWorker, Host: "worker-5", ID: "anew"}
	if _, err := c.give.Bootstrap(t.Context(), own, configserver.JoinRequest{}); err == nil || !strings.Contains(err.Error(), "holdfast host remove worker-5 --is-off worker-5") {
		t.Errorf("got %v", err)
	}
	if err := c.admin.CoreV1().Nodes().Delete(t.Context(), "worker-5", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.give.Bootstrap(t.Context(), own, configserver.JoinRequest{}); err != nil {
		t.Errorf("after a person took the old one out: %v", err)
	}
	// The power is cut after its kubelet has registered: the same installation goes on.
	c.node("worker-5", false)
	if _, err := c.give.Bootstrap(t.Context(), own, configserver.JoinRequest{}); err != nil {
		t.Errorf("the same installation: %v", err)
	}
	own.ID = "another"
	if _, err := c.give.Bootstrap(t.Context(), own, configserver.JoinRequest{}); err == nil {
		t.Error("another machine of its name was given a token")
	}
}

// Every control plane takes over the key that `holdfast join-secret rotate`
// writes.
func TestTheClustersKeyOfJoinSecretsCounts(t *testing.T) {
	c := newJoiningCluster(t)
	old, err := c.agent.Site.JoinToken(state.RoleWorker, "")
	if err != nil {
		t.Fatal(err)
	}
	at := sitetest.Created // a time at which the site's own secrets are valid
	c.give.Now = func() time.Time { return at }
	if _, err := c.give.Read(t.Context(), old, jointoken.Config); err != nil {
		t.Fatalf("before: %v", err)
	}
	person, err := c.agent.admin()
	if err != nil {
		t.Fatal(err)
	}
	key := []byte(strings.Repeat("n", jointoken.MinKeyBytes))
	if err := person.PutSecret(t.Context(), jointoken.KeyNamespace, jointoken.KeySecret, map[string][]byte{jointoken.KeyField: key}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.admin.CoreV1().Secrets(jointoken.KeyNamespace).Delete(context.WithoutCancel(t.Context()), jointoken.KeySecret, metav1.DeleteOptions{})
	})
	fresh := c.agent.giver() // another control plane, or a moment later
	fresh.Key.Stands, fresh.Key.Path, fresh.Now = c.give.Key.Stands, c.give.Key.Path, c.give.Now
	if _, err := fresh.Read(t.Context(), old, jointoken.Config); !errors.Is(err, jointoken.ErrInvalid) {
		t.Errorf("after: %v", err)
	}
}

// TestKubeadmReadsTheClusterWithAHostsToken runs the release's kubeadm, which
// discovers the cluster by the files of a joining host. It leaves out kubeadm's
// checks of this machine.
func TestKubeadmReadsTheClusterWithAHostsToken(t *testing.T) {
	c := newJoiningCluster(t)
	trust, err := os.ReadFile(filepath.Join(c.api.Certificates, "apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	s := *c.agent.Site
	s.Identity.KubernetesCA.Cert = string(trust)
	join, err := kubeadm.Join(&s, state.RoleWorker, state.HostFacts{NodeName: "worker-7", Addresses: s.Config.APIVIPs()}, kubeadm.Progress{})
	if err != nil {
		t.Fatal(err)
	}
	kubelet := c.api.As(t, "system:node:worker-7", "system:nodes")
	dir := t.TempDir()
	pair := filepath.Join(dir, "kubelet.pem")
	if err := os.WriteFile(pair, append(kubelet.CertData, kubelet.KeyData...), 0o600); err != nil {
		t.Fatal(err)
	}
	const here = "nodeRegistration:\n"
	if !strings.Contains(string(join), here) {
		t.Fatalf("got\n%s", join)
	}
	join = []byte(strings.Replace(string(join), here, here+"  ignorePreflightErrors: [all]\n", 1))
	for name, token := range map[string]string{"token": c.tokenFor("worker-7", state.RoleWorker).Token, "kubelet's certificate": "", "a wrong token": "abcdef.0123456789abcdef"} {
		access, err := kubeadm.Access(&s, token, "")
		if err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer("https://"+s.APIEndpoint(), c.api.Config.Host, kubeadm.KubeletCertificate, pair).Replace(string(access))
		conf, kubeconfig := filepath.Join(dir, "join.yaml"), filepath.Join(dir, "join.kubeconfig")
		for path, data := range map[string]string{kubeconfig: text, conf: strings.ReplaceAll(string(join), kubeadm.AccessPath, kubeconfig) + "timeouts: {discovery: 10s}\n"} {
			if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err = host.Run(t.Context(), host.Command(builttest.Program(t, "kubeadm"), "join", "phase", "preflight", "--config", conf, "--v=1"))
		if wrong := name == "a wrong token"; (err != nil) != wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}
