package machineconfig

import (
	"context"
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// withoutProxy is what hosts have of a site without proxy and authorities of its own.
const withoutProxy = state.ProxyPath + " 600 # This site has no proxy.\n" + state.TrustPath + " 644 # This site adds no authorities.\n"

// proxy writes the spec of the site's Proxy, as a person does. At its end a test leaves
// none.
func (s *site) proxy(spec configv1.ProxySpec) {
	s.t.Helper()
	write := func(spec configv1.ProxySpec) {
		o := s.hasProxy()
		o.Spec = spec
		must(s.t, s.admin.Update(context.WithoutCancel(s.t.Context()), o))
	}
	write(spec)
	s.t.Cleanup(func() { write(configv1.ProxySpec{}) })
}

func (s *site) hasProxy() *configv1.Proxy {
	s.t.Helper()
	o := &configv1.Proxy{}
	must(s.t, s.admin.Get(context.WithoutCancel(s.t.Context()), client.ObjectKey{Name: clusterName}, o))
	return o
}

// wayOut returns the files of the proxy and the authorities that a pool's hosts are to
// have.
func (s *site) wayOut(pool string) string {
	s.t.Helper()
	mc := &mcfgv1.MachineConfig{}
	must(s.t, s.admin.Get(s.t.Context(), client.ObjectKey{Name: s.pool(pool).Spec.Configuration.Name}, mc))
	cfg, err := decide.Read(*mc)
	must(s.t, err)
	var out strings.Builder
	for _, f := range cfg.ProxyFiles() {
		fmt.Fprintf(&out, "%s %o %s", f.Path, f.Perm(), f.Data)
	}
	return out.String()
}

// TestTheProxyAndTheAuthoritiesReachAllPools, one host after the other, with what the
// cluster itself never asks a proxy for, and go away when they are taken back. No event
// and no condition has a word of an account.
func TestTheProxyAndTheAuthoritiesReachAllPools(t *testing.T) {
	s := newSite(t)
	s.settle()
	if got := s.wayOut("worker"); got != withoutProxy {
		t.Errorf("without either: %s", got)
	}
	bundle := "# of the site\n" + sitetest.New(t, sitetest.OneNone).Identity.KubernetesCA.Cert
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: decide.BundleNamespace, Name: "own"}, Data: map[string]string{decide.BundleKey: bundle}}
	must(t, s.admin.Create(t.Context(), cm))
	t.Cleanup(func() { s.delete(cm) })
	s.proxy(configv1.ProxySpec{HTTPProxy: "http://clerk:hush@10.98.0.9:3128", NoProxy: ".example.org", TrustedCA: configv1.ConfigMapNameReference{Name: "own"}})
	if order := s.settle(); len(order) != 4 {
		t.Errorf("hosts were given it as %q", order)
	}
	const noProxy = ".apps.shop.example.test,.cluster.local,.example.org,.svc,10.128.0.0/14,10.98.0.0/24,127.0.0.1,172.30.0.0/16,::1," +
		"api-int.shop.example.test,api.shop.example.test,fd44::/56,fd96::/112,fd98::/64,localhost"
	const url = "http://clerk:hush@10.98.0.9:3128"
	want := state.ProxyPath + " 600 HTTP_PROXY=\"" + url + "\"\nhttp_proxy=\"" + url + "\"\nNO_PROXY=\"" + noProxy + "\"\nno_proxy=\"" + noProxy + "\"\n" + state.TrustPath + " 644 " + bundle
	for _, pool := range []string{"master", "worker"} {
		if got := s.wayOut(pool); got != want {
			t.Errorf("%s is to have\n%s\nwant\n%s", pool, got, want)
		}
		if made := s.pool(pool).Spec.Configuration.Source; len(made) != 1 || made[0].Kind != "Proxy" || made[0].APIVersion != "config.openshift.io/v1" {
			t.Errorf("%s is made from %+v", pool, made)
		}
	}
	if got := s.hasProxy().Status; got != (configv1.ProxyStatus{HTTPProxy: url, NoProxy: noProxy}) {
		t.Errorf("the status says %+v", got)
	}
	before := s.pool("worker").Spec.Configuration.Name
	s.proxy(configv1.ProxySpec{HTTPProxy: "socks5://clerk:hush@10.98.0.9", TrustedCA: configv1.ConfigMapNameReference{Name: "gone"}})
	s.looks()
	s.has("worker", refused, "True Proxy cluster: spec.trustedCA.name: there is no ConfigMap openshift-config/gone", "Proxy cluster: spec.httpProxy: must be a URL")
	if got := s.pool("worker").Spec.Configuration.Name; got != before || s.hasProxy().Status.HTTPProxy != url {
		t.Errorf("workers are to have %s, the status says %+v", got, s.hasProxy().Status)
	}
	s.proxy(configv1.ProxySpec{})
	s.settle()
	if got := s.wayOut("master"); got != withoutProxy || s.hasProxy().Status != (configv1.ProxyStatus{}) {
		t.Errorf("taken back: %s, %+v", got, s.hasProxy().Status)
	}
	if told := s.told() + s.condition("worker", refused); strings.Contains(told, "hush") || strings.Contains(told, "clerk") {
		t.Errorf("an account is told: %s", told)
	}
}

// TestAReleaseThatKnowsTheFilesWaitsUntilNobodyGoesBack: one of before could not read a
// configuration with them. Where hosts have them already, they follow.
func TestAReleaseThatKnowsTheFilesWaitsUntilNobodyGoesBack(t *testing.T) {
	s := newSite(t)
	s.formerRelease()
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: annotation.RecordNamespace, Name: annotation.RecordName}}
	text, err := annotation.Encode(annotation.Record{Upgrade: "u", From: "r1", To: "r2", Started: true})
	must(t, err)
	record.Data = map[string]string{annotation.RecordKey: text}
	must(t, s.admin.Create(t.Context(), record))
	s.settle()
	if got := s.wayOut("worker"); got != "" {
		t.Errorf("in the soak: %s", got)
	}
	record.Data[annotation.RecordKey] = ""
	must(t, s.admin.Update(t.Context(), record))
	s.settle()
	if got := s.wayOut("worker"); got != withoutProxy {
		t.Errorf("committed: %s", got)
	}
	record.Data[annotation.RecordKey] = text
	must(t, s.admin.Update(t.Context(), record))
	s.proxy(configv1.ProxySpec{HTTPProxy: "http://10.98.0.9:3128"})
	s.settle()
	if got := s.wayOut("worker"); !strings.Contains(got, "HTTP_PROXY=\"http://10.98.0.9:3128\"") {
		t.Errorf("in the soak of the next one: %s", got)
	}
}

// formerRelease removes the rendered objects of other tests, which have the files.
func (s *site) formerRelease() {
	s.t.Helper()
	var all mcfgv1.MachineConfigList
	must(s.t, s.admin.List(s.t.Context(), &all, client.HasLabels{decide.LabelRendered}))
	for i := range all.Items {
		must(s.t, s.own.Delete(s.t.Context(), &all.Items[i]))
	}
}
