package ingress

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	render "github.com/holdfast/holdfast/internal/render/router"
)

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestARestartAfterAnyWriteChangesNothingAboutTheEnd makes an IngressController,
// and cuts the operator off after each of its writes in turn.
func TestARestartAfterAnyWriteChangesNothingAboutTheEnd(t *testing.T) {
	c := newCluster(t)
	c.make("x", nodePortSpec[:len(nodePortSpec)-1]+`,"domain":"x.example"}`)
	cuts := 0
	for c.cutAfter(1) {
		if cuts++; cuts > 60 {
			t.Fatal("it never ends")
		}
	}
	t.Logf("cut off %d times", cuts)
	if cuts < 10 {
		t.Error("hardly anything was cut off")
	}
	c.whole(t, operatorv1.NodePortServiceStrategyType)
	for _, name := range []string{"default", "x"} {
		c.runs(name, 2)
	}
	c.settle()
	c.says("x", "Available=True Degraded=False ObjectsOwned=True")
	c.says("default", "Available=True Degraded=False")
}

// pod makes a router's pod.
func (c *cluster) pod(name, node string, finalizers ...string) *corev1.Pod {
	c.t.Helper()
	p := &corev1.Pod{ObjectMeta: objectMeta(decide.OperandNamespace, name), Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Name: "router", Image: "x"}}, TerminationGracePeriodSeconds: new(int64(60)),
	}}
	p.Labels, p.Finalizers = decide.PodLabels("x"), finalizers
	c.must(c.admin.Create(c.t.Context(), p))
	return p
}

// TestHardCase17_ADeletionEndsDuringARollOutWithAPodThatIsStuck also cuts the
// operator off after each of its writes.
func TestHardCase17_ADeletionEndsDuringARollOutWithAPodThatIsStuck(t *testing.T) {
	c := published(t)
	c.pod("x-old", "cp-1")
	stuck := c.pod("x-stuck", "cp-2", "test.example/never")
	defer func() {
		c.must(client.IgnoreNotFound(c.admin.Patch(t.Context(), stuck, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))))
	}()
	c.change("x", `{"spec":{"logging":{"access":{"destination":{"type":"Container","container":{}}}}}}`)
	c.settle()
	c.must(c.admin.Delete(t.Context(), c.controller("x")))
	for c.cutAfter(1) {
	}
	if c.there(decide.OperandNamespace, "router-x", c.emptyDeployment("x")) {
		t.Error("the routers' Deployment is there")
	}
	if !c.there(decide.OperandNamespace, "router-x", &corev1.Service{}) {
		t.Error("what leads to the routers went before them")
	}
	if !c.there(decide.Namespace, "x", &operatorv1.IngressController{}) {
		t.Fatal("it was forgotten while its routers ran")
	}
	for _, name := range []string{"x-old", "x-stuck"} {
		c.must(c.admin.Delete(t.Context(), &corev1.Pod{ObjectMeta: objectMeta(decide.OperandNamespace, name)}))
	}
	c.must(c.admin.Delete(t.Context(), &corev1.Pod{ObjectMeta: objectMeta(decide.OperandNamespace, "x-old")}, client.GracePeriodSeconds(0)))
	c.settle()
	if !c.there(decide.Namespace, "x", &operatorv1.IngressController{}) {
		t.Fatal("it was forgotten while a router drained")
	}
	c.now = c.now.Add(3 * time.Minute) // a minute's grace, and the surcharge on it
	for c.cutAfter(1) {
	}
	if c.there(decide.Namespace, "x", &operatorv1.IngressController{}) {
		t.Error("the finalizer is still there")
	}
	for name, o := range map[string]client.Object{
		"router-x": &corev1.Service{}, "router-internal-x": &corev1.Service{}, "router-config-x": &corev1.ConfigMap{}, "router-certs-x": &corev1.Secret{},
		"router-hosts-x": &render.RouteHosts{},
	} {
		if c.there(decide.OperandNamespace, name, o) {
			t.Errorf("%s is left", name)
		}
	}
}

// certificate returns what is served for an IngressController.
func (c *cluster) certificate(name string) *x509.Certificate {
	c.t.Helper()
	s := &corev1.Secret{}
	c.get(decide.OperandNamespace, decide.CertificateName(name), s)
	block, _ := pem.Decode(s.Data[corev1.TLSCertKey])
	cert, err := x509.ParseCertificate(block.Bytes)
	c.must(err)
	return cert
}

// trust returns the authorities that clients are told of.
func (c *cluster) trust() *x509.CertPool {
	c.t.Helper()
	cm := &corev1.ConfigMap{}
	c.get(NamespaceManaged, trustName, cm)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(cm.Data["ca-bundle.crt"])) {
		c.t.Fatal("no authority is published")
	}
	return pool
}

// TestHardCase16_CertificatesOverFourYears shows that at every moment the served
// certificate is valid and was signed by an authority that clients knew for long.
// Routers are never replaced for it.
func TestHardCase16_CertificatesOverFourYears(t *testing.T) {
	c := newCluster(t)
	c.settle()
	domain := c.controller(decide.DefaultName).Status.Domain
	version := c.deployment(decide.DefaultName).Spec.Template
	known := c.trust()
	serials := map[string]bool{}
	const month = 30 * 24 * time.Hour
	for range 4 * 12 {
		c.now = c.now.Add(month)
		c.settle()
		cert := c.certificate(decide.DefaultName)
		serials[cert.SerialNumber.String()] = true
		if _, err := cert.Verify(x509.VerifyOptions{DNSName: "console." + domain, Roots: known, CurrentTime: c.now}); err != nil {
			t.Fatalf("with what clients knew a month ago: %v", err)
		}
		if left := cert.NotAfter.Sub(c.now); left < month {
			t.Errorf("it ends in %s", left)
		}
		known = c.trust()
	}
	if len(serials) < 4 || len(serials) > 8 {
		t.Errorf("%d certificates in four years", len(serials))
	}
	if mustJSON(t, version) != mustJSON(t, c.deployment(decide.DefaultName).Spec.Template) {
		t.Error("routers were replaced for a certificate")
	}
}

// TestHardCase16_AClockThatJumpsAndComesBack: by a clock that is years ahead for an hour the
// authority has ended. Its replacement serves once the clock is right, and who knew the former
// one finds it still in what is published.
func TestHardCase16_AClockThatJumpsAndComesBack(t *testing.T) {
	c := newCluster(t)
	c.settle()
	domain, served, right := c.controller(decide.DefaultName).Status.Domain, c.certificate(decide.DefaultName), c.now
	c.now = right.Add(decide.AuthorityLifetime + 24*time.Hour)
	c.settle()
	if c.certificate(decide.DefaultName).Equal(served) {
		t.Fatal("one that has ended is served")
	}
	c.now = right.Add(time.Hour)
	c.settle()
	for what, cert := range map[string]*x509.Certificate{"what is served": c.certificate(decide.DefaultName), "what was served before": served} {
		if _, err := cert.Verify(x509.VerifyOptions{DNSName: "console." + domain, Roots: c.trust(), CurrentTime: c.now}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	c.says(decide.DefaultName, "DefaultCertificateValid=True Upgradeable=True")
	secret := &corev1.Secret{}
	c.get(decide.Namespace, decide.AuthoritySecret, secret)
	again, err := decide.ParsePair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	c.must(err)
	former, _ := pem.Decode(secret.Data[decide.PreviousCert])
	if first, err := x509.ParseCertificate(former.Bytes); err != nil || !first.NotBefore.Equal(again.NotBefore) || served.CheckSignatureFrom(first) != nil {
		t.Errorf("it is valid from %s on: %v", again.NotBefore, err)
	}
	c.now = right.Add(2 * time.Hour)
	before := c.certificate(decide.DefaultName)
	if c.settle(); !c.certificate(decide.DefaultName).Equal(before) {
		t.Error("it is made again and again")
	}
}

// installConfig returns what replaces the configuration that the cluster was installed by, and its text.
func (c *cluster) installConfig() (write func(text string), before string) {
	c.t.Helper()
	install := &corev1.ConfigMap{}
	c.get(machineconfig.InstallNamespace, machineconfig.InstallName, install)
	return func(text string) {
		install.Data = map[string]string{machineconfig.InstallKey: text}
		c.must(c.admin.Update(c.t.Context(), install))
	}, install.Data[machineconfig.InstallKey]
}

// refused is a reader of the API that may read nothing.
type refused struct{ client.Reader }

func (refused) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewForbidden(corev1.Resource("configmaps"), key.Name, errors.New("somebody deleted the Role"))
}

// TestAnOperatorThatMayNotReadThePeriodDoesTheRest: it deletes, and renews. Once it may read it, what it
// made is replaced. That it may not is logged once.
func TestAnOperatorThatMayNotReadThePeriodDoesTheRest(t *testing.T) {
	c := newCluster(t)
	write, before := c.installConfig()
	defer write(before)
	write(before + "certificateValidityPeriod: 10m\n")
	may := c.r.Live
	c.r.Live = refused{may}
	c.make("x", `{"domain":"x.example"}`)
	c.settle()
	first := c.certificate(decide.DefaultName)
	c.must(c.admin.Delete(t.Context(), c.controller("x")))
	c.settle()
	c.now = c.now.Add(decide.LeafLifetime*4/5 + time.Hour)
	c.settle()
	last := c.certificate(decide.DefaultName)
	if left := last.NotAfter.Sub(c.now); last.Equal(first) || left != decide.LeafLifetime {
		t.Errorf("it is not renewed: %t, and %s are left", last.Equal(first), left)
	}
	if c.there(decide.Namespace, "x", &operatorv1.IngressController{}) {
		t.Error("an IngressController is not deleted")
	}
	var said bytes.Buffer
	ctx := log.IntoContext(t.Context(), logr.FromSlogHandler(slog.NewTextHandler(&said, nil)))
	c.r.periodUnread = false // as in a new process
	for range 3 {
		if period := c.r.knownPeriod(ctx); period != 0 {
			t.Errorf("it takes %s for what it may not read", period)
		}
	}
	if lines := strings.Count(said.String(), "\n"); lines != 1 || !strings.Contains(said.String(), "somebody deleted the Role") {
		t.Errorf("it logs %d times: %s", lines, said.String())
	}
	c.r.Live = may
	c.settle()
	if left := c.certificate(decide.DefaultName).NotAfter.Sub(c.now); left != 10*time.Minute {
		t.Errorf("once it may read the period, one lives for %s", left)
	}
}

// TestCertificatesOfRoutersFollowTheSitesPeriod, once the operator can read it. What an operator made
// that could not is replaced.
func TestCertificatesOfRoutersFollowTheSitesPeriod(t *testing.T) {
	c := newCluster(t)
	write, before := c.installConfig()
	defer write(before)
	write("colour: red\n") // nobody can read it
	c.settle()
	first := c.certificate(decide.DefaultName)
	if left := first.NotAfter.Sub(c.now); left != decide.LeafLifetime {
		t.Errorf("with a period that nobody can read it lives for %s", left)
	}
	write(before + "certificateValidityPeriod: 10m\n")
	c.settle()
	last := c.certificate(decide.DefaultName)
	if last.Equal(first) {
		t.Fatal("one that lives for a year is served")
	}
	for range 5 {
		c.now = c.now.Add(6 * time.Minute)
		if c.settle(); !c.certificate(decide.DefaultName).Equal(last) {
			t.Error("it is made again and again")
		}
		c.now = c.now.Add(time.Minute)
		c.settle()
		cert := c.certificate(decide.DefaultName)
		if left := cert.NotAfter.Sub(c.now); cert.Equal(last) || left != 10*time.Minute {
			t.Errorf("it lives for %s, anew %t", left, !cert.Equal(last))
		}
		last = cert
	}
}

// TestHardCase16_AnAuthorityThatNobodyCanReadIsNotTrusted: nobody did.
func TestHardCase16_AnAuthorityThatNobodyCanReadIsNotTrusted(t *testing.T) {
	c := newCluster(t)
	c.settle()
	secret := &corev1.Secret{}
	c.get(decide.Namespace, decide.AuthoritySecret, secret)
	secret.Data[corev1.TLSCertKey] = []byte("junk")
	c.must(c.admin.Update(t.Context(), secret))
	c.settle()
	c.get(decide.Namespace, decide.AuthoritySecret, secret)
	if _, err := decide.ParsePair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); err != nil || secret.Data[decide.PreviousCert] != nil {
		t.Errorf("%v, previous %q", err, secret.Data[decide.PreviousCert])
	}
}

// TestHardCase16_AnOwnDefaultCertificate shows that it is served once it exists
// and is valid, and the last good one until then.
func TestHardCase16_AnOwnDefaultCertificate(t *testing.T) {
	c := newCluster(t)
	c.settle()
	served := c.certificate(decide.DefaultName)
	c.change(decide.DefaultName, `{"spec":{"defaultCertificate":{"name":"mine"}}}`)
	c.settle()
	c.says(decide.DefaultName, "DefaultCertificateValid=False/NotUsable Degraded=True Admitted=True")
	secret := &corev1.Secret{ObjectMeta: objectMeta(decide.OperandNamespace, "mine"), Data: map[string][]byte{corev1.TLSCertKey: []byte("junk")}}
	c.must(c.admin.Create(t.Context(), secret))
	c.settle()
	c.says(decide.DefaultName, "DefaultCertificateValid=False/NotUsable")
	if !c.certificate(decide.DefaultName).Equal(served) {
		t.Error("junk is served")
	}
	domain := c.controller(decide.DefaultName).Status.Domain
	authority, err := newAuthority(c.r.Random, c.now, nil)
	c.must(err)
	own, err := newLeaf(c.r.Random, map[string][]byte{corev1.TLSCertKey: authority.cert, corev1.TLSPrivateKeyKey: authority.key}, domain, decide.LeafLifetime, c.now)
	c.must(err)
	secret.Data = map[string][]byte{corev1.TLSCertKey: own.cert, corev1.TLSPrivateKeyKey: own.key}
	c.must(c.admin.Update(t.Context(), secret))
	c.settle()
	c.says(decide.DefaultName, "DefaultCertificateValid=True Degraded=False Upgradeable=True")
	now := &corev1.Secret{}
	c.get(decide.OperandNamespace, decide.CertificateName(decide.DefaultName), now)
	if !bytes.Equal(now.Data[corev1.TLSCertKey], own.cert) {
		t.Error("the own certificate is not served")
	}
	c.must(c.admin.Delete(t.Context(), secret))
	c.settle()
	c.says(decide.DefaultName, "DefaultCertificateValid=False")
	if c.get(decide.OperandNamespace, now.Name, now); !bytes.Equal(now.Data[corev1.TLSCertKey], own.cert) {
		t.Error("the last good one is not served")
	}
	for _, cond := range c.controller(decide.DefaultName).Status.Conditions {
		if strings.Contains(cond.Message, "PRIVATE") {
			t.Errorf("%s shows a key", cond.Type)
		}
	}
}

// TestClientsAuthoritiesReachTheRouters shows that they come with the
// configuration, and are never left out.
func TestClientsAuthoritiesReachTheRouters(t *testing.T) {
	c := newCluster(t)
	c.make("x", `{"domain":"x.example","clientTLS":{"clientCertificatePolicy":"Required","clientCA":{"name":"people"}}}`)
	c.settle()
	c.says("x", "Admitted=False/Invalid")
	cm := &corev1.ConfigMap{ObjectMeta: objectMeta(namespaceConfig, "people"), Data: map[string]string{"ca-bundle.pem": "one"}}
	c.must(c.admin.Create(t.Context(), cm))
	c.settle()
	config := &corev1.ConfigMap{}
	c.get(decide.OperandNamespace, "router-config-x", config)
	if config.Data["client-ca.pem"] != "one" || !strings.Contains(config.Data["router.yaml"], "RequireAndVerifyClientCert") {
		t.Errorf("%+v", config.Data)
	}
	t.Log("without them nobody new gets in: what routers have stays")
	c.must(c.admin.Delete(t.Context(), cm))
	c.settle()
	c.says("x", "Admitted=False/Invalid")
	if c.get(decide.OperandNamespace, "router-config-x", config); config.Data["client-ca.pem"] != "one" {
		t.Errorf("%+v", config.Data)
	}
}
