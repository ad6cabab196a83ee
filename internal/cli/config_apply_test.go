package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/testkit/golden"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

const configPods = `{apiVersion: machineconfiguration.openshift.io/v1, kind: KubeletConfig, metadata: {name: pods},
spec: {machineConfigPoolSelector: {matchLabels: {size: small}}, kubeletConfig: {maxPods: 150}}}
`

// applySite is configSite with a label at the pool of the workers, and with what the
// cluster was installed from.
func applySite(t *testing.T) (client.Client, *machineConfigs) {
	t.Helper()
	kept, err := yaml.Marshal(installConfigOf(t, "two-hosts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c, s, err := configSite(t, func(objects map[string]client.Object) {
		objects["worker"].SetLabels(map[string]string{"size": "small"})
		objects["site"] = &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-config-v1"}, Data: map[string]string{"install-config": string(kept)},
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

func installConfigOf(t *testing.T, example string) *config.InstallConfig {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../docs/examples", example))
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWhatApplyDoesIsShownAsApproved(t *testing.T) {
	c, s := applySite(t)
	var out bytes.Buffer
	apply := func(title, format string, dry bool, wish configWish) {
		t.Helper()
		out.WriteString("=== " + title + "\n")
		r, err := s.apply(t.Context(), c, wish, dry)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.print(&out, format); err != nil {
			t.Fatal(err)
		}
		if s, err = readMachineConfigs(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	nowhere := strings.NewReplacer("60-kernel", "70-gpu", "role: worker", "role: gpu").Replace(configKernel)
	all := configWish{wanted: wantedOf(t, configMotd+"---\n"+configKernel+"---\n"+configPods+"---\n"+nowhere)}
	apply("apply -f site --dry-run", "text", true, all)
	if len(s.objects.KubeletConfigs) > 0 || s.config("60-kernel") != nil {
		t.Error("a dry run wrote")
	}
	apply("apply -f site", "text", false, all)
	if len(s.objects.KubeletConfigs) != 1 || s.config("60-kernel") == nil {
		t.Error("nothing was written")
	}
	before := s.config("60-kernel").ResourceVersion
	apply("apply -f site, once more", "yaml", false, all)
	if s.config("60-kernel").ResourceVersion != before {
		t.Error("what is written already was written again")
	}
	file := installConfigOf(t, "two-hosts.yaml")
	file.SSHKey, file.Networking.MachineNetwork[0].CIDR = "ssh-ed25519 AAAA one\n", "192.0.2.0/24"
	keys, err := machineconfig.OfKeys(file.AuthorizedKeys())
	if err != nil {
		t.Fatal(err)
	}
	apply("apply --install-config install-config.yaml", "text", false, configWish{wanted: machineconfig.Wanted{MachineConfigs: keys}, install: file})
	golden.Check(t, "config-apply.txt", out.Bytes())
	if r, err := s.apply(t.Context(), c, configWish{wanted: machineconfig.Wanted{MachineConfigs: keys}, install: file}, true); err != nil || len(r.InstallConfig) != 1 || r.InstallConfig[0].Path == "sshKey" {
		t.Errorf("what was applied is still told as a difference: %+v, %v", r.InstallConfig, err)
	}
	if strings.Contains(out.String(), "secret-words") {
		t.Error("the contents of a file are shown")
	}
}

// TestSetsOfMirrorsAreAppliedLikeTheOthers, and refused before anything is written.
func TestSetsOfMirrorsAreAppliedLikeTheOthers(t *testing.T) {
	const digests = `{apiVersion: config.openshift.io/v1, kind: ImageDigestMirrorSet, metadata: {name: site}, spec: {imageDigestMirrors: [{source: quay.io, mirrors: [m.example/quay]}]}}`
	const tags = `{apiVersion: config.openshift.io/v1, kind: ImageTagMirrorSet, metadata: {name: site}, spec: {imageTagMirrors: [{source: quay.io, mirrors: [m.example/quay]}]}}`
	c, s := applySite(t)
	var refused *command.Coded
	if _, err := s.apply(t.Context(), c, configWish{wanted: wantedOf(t, tags)}, false); !errors.As(err, &refused) || refused.Code != command.ExitRefused || !strings.Contains(err.Error(), "ImageTagMirrorSet site: spec.imageTagMirrors.0.mirrors.0: ") {
		t.Errorf("%v", err)
	}
	r, err := s.apply(t.Context(), c, configWish{wanted: wantedOf(t, digests+"\n---\n"+tags)}, false)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.print(&out, "text"); err != nil || !strings.Contains(out.String(), "/etc/containerd/certs.d/quay.io/hosts.toml") {
		t.Errorf("%s %v", out.String(), err)
	}
	if s, err = readMachineConfigs(t.Context(), c); err != nil || len(s.objects.DigestMirrors) != 1 || len(s.objects.TagMirrors) != 1 {
		t.Errorf("%+v %v", s.objects.DigestMirrors, err)
	}
	if err := addWanted(&machineconfig.Wanted{}, []byte(strings.Replace(digests, "config.openshift.io/v1", "operator.openshift.io/v1alpha1", 1))); err == nil || !strings.Contains(err.Error(), "of config.openshift.io/v1") {
		t.Errorf("a set of another group: %v", err)
	}
	const rows = `{apiVersion: operator.openshift.io/v1, kind: MachineConfiguration, metadata: {name: cluster}}`
	if err := addWanted(&machineconfig.Wanted{}, []byte(rows)); err == nil || !strings.Contains(err.Error(), `kind "MachineConfiguration"`) || !strings.HasSuffix(err.Error(), "other kinds are for kubectl apply") {
		t.Errorf("a kind that it does not take: %v", err)
	}
}

// TestNothingIsWrittenIfOneObjectIsRefused: also not those that are right.
func TestNothingIsWrittenIfOneObjectIsRefused(t *testing.T) {
	c, s := applySite(t)
	wrong := strings.Replace(configPods, "150", "-1", 1) + "---\n" + strings.NewReplacer("name: pods", "name: nobody", "size: small", "size: none").Replace(configPods)
	unselected := strings.NewReplacer("70-wrong", "71-wrong", "role: worker", "role: gpu").Replace(configWrong)
	twice := strings.Replace(configMotd, "50-motd", "55-motd", 1)
	wish := configWish{wanted: wantedOf(t, configKernel+"---\n"+configWrong+"---\n"+unselected+"---\n"+wrong+"---\n"+twice+"---\n"+twice+"---\n"+strings.Replace(configMotd, "50-motd", "rendered-x", 1))}
	_, err := s.apply(t.Context(), c, wish, false)
	var refused *command.Coded
	if !errors.As(err, &refused) || refused.Code != command.ExitRefused {
		t.Fatalf("%v", err)
	}
	for _, words := range []string{
		"MachineConfig 70-wrong: spec.fips: ", "MachineConfig 71-wrong: spec.fips: ", "KubeletConfig pods: spec.kubeletConfig.maxPods: ",
		"KubeletConfig nobody: spec.machineConfigPoolSelector: ", "MachineConfig 55-motd: metadata.name: stands there twice", "MachineConfig rendered-x: metadata.name: ",
	} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%v\nwithout %q", err, words)
		}
	}
	var all mcfgv1.MachineConfigList
	if err := c.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, mc := range all.Items {
		if mc.Name == "60-kernel" || mc.Name == "55-motd" {
			t.Errorf("%s was written", mc.Name)
		}
	}
}

// TestAPoolThatWasRefusedBeforeKeepsNoOtherFromAChange: it is told as a note.
func TestAPoolThatWasRefusedBeforeKeepsNoOtherFromAChange(t *testing.T) {
	wrong := machineConfigOf(t, configWrong)
	c, s, err := configSite(t, func(objects map[string]client.Object) { objects["wrong"] = &wrong })
	if err != nil {
		t.Fatal(err)
	}
	wish := configWish{wanted: wantedOf(t, strings.Replace(configMotd, "role: worker", "role: master", 1))}
	wish.wanted.MachineConfigs[0].Name = "50-motd-of-masters"
	r, err := s.apply(t.Context(), c, wish, false)
	if err != nil || len(r.Steps) != 1 || r.Steps[0].Pool != "master" || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "pool worker is refused") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestAnObjectThatSomebodyChangedMeanwhileIsNotWrittenOver, since it was not what was
// checked.
func TestAnObjectThatSomebodyChangedMeanwhileIsNotWrittenOver(t *testing.T) {
	c, s := applySite(t)
	var meanwhile mcfgv1.MachineConfig
	if err := c.Get(t.Context(), client.ObjectKey{Name: "50-motd"}, &meanwhile); err != nil {
		t.Fatal(err)
	}
	meanwhile.Spec.KernelArguments = []string{"quiet"}
	if err := c.Update(t.Context(), &meanwhile); err != nil {
		t.Fatal(err)
	}
	wish := configWish{wanted: wantedOf(t, strings.Replace(configMotd, "secret-words", "other", 1))}
	if _, err := s.apply(t.Context(), c, wish, false); err == nil || !strings.Contains(err.Error(), "somebody changed it") {
		t.Errorf("%v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "50-motd"}, &meanwhile); err != nil || len(meanwhile.Spec.KernelArguments) != 1 {
		t.Errorf("%v %v", meanwhile.Spec.KernelArguments, err)
	}
}

func TestTheInstallConfigOfAnotherClusterIsRefused(t *testing.T) {
	c, s := applySite(t)
	var refused *command.Coded
	other := installConfigOf(t, "two-hosts.yaml")
	other.Metadata.Name = "other"
	if _, err := s.apply(t.Context(), c, configWish{install: other}, true); !errors.As(err, &refused) || refused.Code != command.ExitRefused {
		t.Errorf("%v", err)
	}
}

func TestAFolderIsReadWithoutWhatLiesBelowIt(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a.yaml": configMotd, "b.json": `{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"KubeletConfig","metadata":{"name":"pods"}}`, "README.md": "words", "below/c.yaml": "words"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wish, err := configInput{files: []string{dir}}.read(strings.NewReader(""))
	if err != nil || len(wish.wanted.MachineConfigs) != 1 || len(wish.wanted.KubeletConfigs) != 1 {
		t.Errorf("%+v %v", wish, err)
	}
	if _, err := (configInput{files: []string{filepath.Join(dir, "below", "..", "README.md"), t.TempDir()}}).read(strings.NewReader("")); err == nil ||
		!strings.Contains(err.Error(), "README.md") || !strings.Contains(err.Error(), "there is no file") {
		t.Errorf("%v", err)
	}
	if code, _, errs := runLine(t, "config", "apply"); code != ExitUsage || !strings.Contains(errs, "--install-config") {
		t.Errorf("%d %s", code, errs)
	}
}

// TestTheWayOutOfAnInstallConfigIsWritten into the objects that the operator reads, and
// compared with them: the cluster's copy of the file stays that of the installation. No
// password is printed, and one that alone is another one is written all the same.
func TestTheWayOutOfAnInstallConfigIsWritten(t *testing.T) {
	c, s := applySite(t)
	file := installConfigOf(t, "two-hosts.yaml")
	file.Proxy = &config.Proxy{HTTPProxy: "http://clerk:hush-one@10.98.0.9:3128", NoProxy: ".example.org"}
	file.AdditionalTrustBundle = sitetest.New(t, sitetest.OneNone).Identity.KubernetesCA.Cert
	apply := func(dry bool) string {
		t.Helper()
		r, err := s.apply(t.Context(), c, configWish{install: file}, dry)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		for _, format := range []string{"text", "json"} {
			if err := r.print(&out, format); err != nil {
				t.Fatal(err)
			}
		}
		if strings.Contains(out.String(), "hush") {
			t.Errorf("a password is printed: %s", out.String())
		}
		if s, err = readMachineConfigs(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	says := func(got string, words ...string) {
		t.Helper()
		for _, w := range words {
			if want, not := strings.CutPrefix(w, "!"); strings.Contains(got, want) == not {
				t.Errorf("%s\nwith %q", got, w)
			}
		}
	}
	const differs, both = "proxy.httpProxy: nothing in the cluster", "each host: restart holdfast-trust.service, then restart containerd.service"
	says(apply(true), differs, "additionalTrustBundle: nothing", "ConfigMap user-ca-bundle: would be created", "Proxy cluster: would be updated", both, "file /etc/holdfast/proxy.env (contents)")
	says(apply(false), differs, "Proxy cluster: updated", both)
	var kept corev1.ConfigMap
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "cluster-config-v1"}, &kept); err != nil || strings.Contains(kept.Data["install-config"], "10.98.0.9") {
		t.Errorf("%v, the copy says %s", err, kept.Data["install-config"])
	}
	if p := s.objects.Proxy; p.Proxy.Spec.HTTPProxy != file.Proxy.HTTPProxy || p.Proxy.Spec.TrustedCA.Name != "user-ca-bundle" || p.Bundle.Data["ca-bundle.crt"] != file.AdditionalTrustBundle {
		t.Errorf("%+v", p)
	}
	says(apply(false), "Proxy cluster: unchanged", "ConfigMap user-ca-bundle: unchanged", "!in the cluster")
	file.Proxy.HTTPProxy = strings.Replace(file.Proxy.HTTPProxy, "hush-one", "hush-two", 1)
	says(apply(false), "Proxy cluster: updated", "ConfigMap user-ca-bundle: unchanged", "!in the cluster")
	if got := s.objects.Proxy.Proxy.Spec.HTTPProxy; got != file.Proxy.HTTPProxy {
		t.Errorf("the cluster has %s", got)
	}
	file.Proxy, file.AdditionalTrustBundle = nil, ""
	says(apply(false), "!Proxy cluster: ", "!ConfigMap ", "the file has no proxy: that of the cluster stays", "the file has no additionalTrustBundle: that of the cluster stays")
}
