package machineconfig_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/ignition"
	modelsite "github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// installed returns a site, and the objects of its installation that are about its way
// out.
func installed(t *testing.T, text string) (*modelsite.Site, *machineconfig.ClusterProxy) {
	t.Helper()
	s := sitetest.New(t, text)
	files, err := manifests.Render(s.Config, topology.Of(s.Config))
	if err != nil {
		t.Fatal(err)
	}
	out := &machineconfig.ClusterProxy{}
	for _, f := range files {
		var head metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(f.Data, &head); err != nil {
			continue // of several documents
		}
		var into any
		var cm corev1.ConfigMap
		switch head.Kind + " " + head.Name {
		case "Proxy cluster":
			into = &out.Proxy
		case "ConfigMap " + machineconfig.BundleName, "ConfigMap " + machineconfig.InstallName:
			into = &cm
		default:
			continue
		}
		if err := yaml.Unmarshal(f.Data, into); err != nil {
			t.Fatal(err)
		}
		if cm.Name == machineconfig.BundleName {
			out.Bundle = &cm
		}
		if cm.Name == machineconfig.InstallName {
			out.Install = cm.Data[machineconfig.InstallKey]
		}
	}
	return s, out
}

// wayOut is what an install-config says about the way out.
func wayOut(t *testing.T) string {
	t.Helper()
	bundle := strings.ReplaceAll("one\n"+certificate(t)+"two\n"+certificate(t), "\n", "\n  ")
	return "proxy: {httpProxy: 'http://clerk:hush-proxy@10.98.0.9:3128', httpsProxy: 'http://10.98.0.9:3128', noProxy: ' .example.org, 10.98.0.0/24'}\nadditionalTrustBundle: |\n  " + strings.TrimRight(bundle, " ")
}

func certificate(t *testing.T) string {
	t.Helper()
	return sitetest.New(t, sitetest.OneNone).Identity.KubernetesCA.Cert
}

func withProxy(p *machineconfig.ClusterProxy) machineconfig.Objects {
	return machineconfig.Objects{Proxy: p, Pools: []mcfgv1.MachineConfigPool{poolNamed("worker"), poolNamed("master")}}
}

// TestHostsHaveTheBytesOfTheirInstallation until somebody changes the objects: of each
// pool, with and without a proxy, and as the object of a host that reads it.
func TestHostsHaveTheBytesOfTheirInstallation(t *testing.T) {
	for _, text := range []string{sitetest.OneNone, sitetest.TwoDual, sitetest.ThreeV6, sitetest.TwoDual + wayOut(t), sitetest.OneNone + wayOut(t)} {
		s, p := installed(t, text)
		base, err := host.Config(s, state.RoleWorker, nil)
		if err != nil {
			t.Fatal(err)
		}
		var want []state.File
		for _, f := range base.Files {
			if slices.Contains(machineconfig.ProxyPaths, f.Path) {
				want = append(want, f)
			}
		}
		all := withProxy(p)
		for i := range all.Pools {
			made, err := machineconfig.Of(&all.Pools[i], all)
			if err != nil {
				t.Fatal(err)
			}
			read, err := machineconfig.Read(*made.Object())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, read.ProxyFiles()); diff != "" || len(want) != 2 {
				t.Error(diff)
			}
			if says := s.Config.Proxy != nil; slices.Contains(made.Sources, "Proxy/cluster") != says || machineconfig.ProxyFilesGiven([]mcfgv1.MachineConfig{*made.Object()}) != true {
				t.Errorf("made from %v", made.Sources)
			}
		}
		status, err := p.Status()
		if diff := cmp.Diff(p.Proxy.Status, status); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
	}
	all := withProxy(nil)
	if made, err := machineconfig.Of(&all.Pools[0], all); err != nil || len(made.Config.Ignition.Storage.Files) > 0 || machineconfig.ProxyFilesGiven([]mcfgv1.MachineConfig{*made.Object()}) {
		t.Errorf("a cluster that an earlier release operates: %+v, %v", made, err)
	}
}

// TestAProxyThatIsTakenBackIsGone, and an address without a proxy is of no interest.
func TestAProxyThatIsTakenBackIsGone(t *testing.T) {
	_, p := installed(t, sitetest.TwoDual+wayOut(t))
	p.Proxy.Spec = configv1.ProxySpec{NoProxy: ".example.org"}
	c, err := p.Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []state.File{modelsite.ProxyFile(c), modelsite.TrustFile(c)} {
		if !strings.HasPrefix(string(f.Data), "# This site ") {
			t.Errorf("%s: %s", f.Path, f.Data)
		}
	}
	if status, err := p.Status(); err != nil || status != (configv1.ProxyStatus{}) {
		t.Errorf("%+v %v", status, err)
	}
}

// TestWhatIsWrongWithTheWayOutIsToldAtOnce, with object and field, and without a word of
// an account.
func TestWhatIsWrongWithTheWayOutIsToldAtOnce(t *testing.T) {
	_, p := installed(t, sitetest.TwoDual)
	p.Proxy.Spec = configv1.ProxySpec{
		HTTPProxy: "https://clerk:hush@p", HTTPSProxy: "http://clerk:hush@p/?hush", NoProxy: "a.example,http://u:hush@h",
		TrustedCA: configv1.ConfigMapNameReference{Name: "own"},
	}
	told := func(want string) {
		t.Helper()
		for _, pool := range []string{"worker", "master"} {
			named := poolNamed(pool)
			_, err := machineconfig.Of(&named, withProxy(p))
			if _, all := errors.AsType[machineconfig.Mistakes](err); !all || err.Error() != want {
				t.Errorf("%s: %v\nwant %s", pool, err, want)
			}
		}
		if _, err := p.Status(); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("the status: %v", err)
		}
	}
	const urls = `
Proxy cluster: spec.httpProxy: must be a URL, http://...
Proxy cluster: spec.httpsProxy: must not have a path, query or fragment
Proxy cluster: spec.noProxy: entry 2 must be a domain, an address, a network in CIDR form or *`
	told("Proxy cluster: spec.trustedCA.name: there is no ConfigMap openshift-config/own" + urls)
	p.Bundle = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "own"}}
	told("ConfigMap openshift-config/own: data.ca-bundle.crt: is missing or empty; leave spec.trustedCA.name of Proxy cluster empty if the site adds no authorities" + urls)
	p.Install = "nonsense: ["
	p.Bundle.Data = map[string]string{machineconfig.BundleKey: "-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\n"}
	told("ConfigMap openshift-config/own: data.ca-bundle.crt: holds a private key: give the public one, and replace the key if others have seen this file" + urls +
		"\nConfigMap kube-system/cluster-config-v1: data.install-config: cannot be read: nobody knows the cluster's own networks and names, which a proxy must not be asked for")
	if _, err := (&machineconfig.ClusterProxy{Install: p.Install}).Read(); err == nil || !strings.Contains(err.Error(), "Proxy cluster: metadata.name: somebody has deleted the object") {
		t.Errorf("deleted: %v", err)
	}
	p.Proxy.Spec, p.Install = configv1.ProxySpec{HTTPProxy: "http://p", TrustedCA: p.Proxy.Spec.TrustedCA}, ""
	p.Bundle.Data[machineconfig.BundleKey] = "words"
	told("ConfigMap openshift-config/own: data.ca-bundle.crt: must hold certificates in PEM form" +
		"\nConfigMap kube-system/cluster-config-v1: data.install-config: is not there: nobody knows the cluster's own networks and names, which a proxy must not be asked for")
}

// TestAHostBelievesNoFileOfTheAPI: not one that sets something else, and not one that
// is no bundle.
func TestAHostBelievesNoFileOfTheAPI(t *testing.T) {
	for path, text := range map[string]string{
		state.ProxyPath: "LD_PRELOAD=\"/hush\"\n",
		state.TrustPath: "-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\n",
	} {
		mc := made(t, "50-site", withFiles(fmt.Sprintf(`{path: %s, contents: {source: "%s"}}`, path, ignition.DataURL([]byte(text)))))
		if _, err := machineconfig.Read(mc); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := machineconfig.Render("worker", []mcfgv1.MachineConfig{mc}); err == nil || !strings.Contains(err.Error(), path+" belongs to Holdfast") {
			t.Errorf("a MachineConfig of somebody: %v", err)
		}
	}
}

// TestWhatAnInstallConfigSaysOfTheWayOutIsWritten, and what it does not say stays.
func TestWhatAnInstallConfigSaysOfTheWayOutIsWritten(t *testing.T) {
	s, p := installed(t, sitetest.TwoDual+wayOut(t))
	verbs := func(c *config.InstallConfig) string {
		t.Helper()
		all := withProxy(p)
		wanted := p.Wanted(c)
		if err := all.Check(wanted); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, w := range all.Writes(wanted) {
			out = append(out, w.Kind+" "+w.Name+" "+string(w.Verb))
		}
		return strings.Join(out, ", ")
	}
	if got := verbs(s.Config); got != "ConfigMap user-ca-bundle unchanged, Proxy cluster unchanged" {
		t.Errorf("the same: %s", got)
	}
	other := *s.Config
	other.Proxy = &config.Proxy{HTTPProxy: "http://clerk:another-password@10.98.0.9:3128", HTTPSProxy: other.Proxy.HTTPSProxy, NoProxy: other.Proxy.NoProxy}
	if got := verbs(&other); got != "ConfigMap user-ca-bundle unchanged, Proxy cluster updated" {
		t.Errorf("a password alone: %s", got)
	}
	other.Proxy, other.AdditionalTrustBundle = nil, certificate(t)
	p.Proxy.Spec.ReadinessEndpoints, p.Proxy.ResourceVersion = []string{"https://x"}, "7"
	if got := verbs(&other); got != "ConfigMap user-ca-bundle updated, Proxy cluster unchanged" {
		t.Errorf("authorities alone: %s", got)
	}
	then := withProxy(p).With(p.Wanted(&other)).Proxy
	if said, bundle := then.Said(); said == nil || said.NoProxy != " .example.org, 10.98.0.0/24" || bundle != other.AdditionalTrustBundle {
		t.Errorf("%+v %s", said, bundle)
	}
	other.AdditionalTrustBundle = ""
	if got := verbs(&other); got != "" {
		t.Errorf("a file that says nothing of it: %s", got)
	}
	_, empty := installed(t, sitetest.TwoDual)
	p = empty
	if got := verbs(s.Config); got != "ConfigMap user-ca-bundle created, Proxy cluster updated" {
		t.Errorf("a site without: %s", got)
	}
	if made := withProxy(p).Writes(p.Wanted(s.Config))[0].Object; made.GetNamespace() != machineconfig.BundleNamespace {
		t.Errorf("it is written to %s", made.GetNamespace())
	}
	wrong := p.Wanted(s.Config)
	wrong.Bundles[0].Data[machineconfig.BundleKey] = "words"
	if err := withProxy(p).Check(wrong); err == nil || !strings.Contains(err.Error(), "ConfigMap openshift-config/user-ca-bundle: data.ca-bundle.crt: must hold") {
		t.Errorf("%v", err)
	}
}
