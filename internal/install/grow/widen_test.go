package grow

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/alerts"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// wider returns a living site of two control planes, and the one of three that it becomes.
func wider(t *testing.T, text string) (installed, have, want *site.Site) {
	t.Helper()
	installed = sitetest.New(t, text)
	have = installed.For(state.RoleMaster).Settled()
	want, err := decide.ThreeOf(have)
	must(t, err)
	return installed, have, want
}

func TestOneOfTwoBecomesOneOfThreeThoughItIsCutAnywhere(t *testing.T) {
	_, have, want := wider(t, sitetest.TwoDual)
	fresh, err := decide.Kept(want).Marshal()
	must(t, err)
	for at := 0; ; at++ {
		m := pairedMachine(t, have)
		m.At = at
		err := m.host().Undress(t.Context(), want)
		if err != nil {
			if left := m.left(t, have, want); !m.two() && len(left) > 0 {
				t.Errorf("cut %d: site.json says three, and left are %q", at, left)
			}
			m.At, m.Dead = 0, false
			must(t, m.host().Undress(t.Context(), want))
		}
		if left := m.left(t, have, want); len(left) > 0 || m.read(site.Path) != string(fresh) || strings.Contains(m.read(renderhost.PackagesPath), "corosync") {
			t.Fatalf("cut %d: left are %q, or site.json is another", at, left)
		}
		if at > 0 && err == nil {
			if at < 8 {
				t.Fatalf("only %d effects", at)
			}
			return
		}
	}
}

func TestALivingClusterOfTwoBecomesOneOfThree(t *testing.T) {
	api := apitest.Own(t)
	installed, have, want := wider(t, reachable(sitetest.TwoDual))
	files, err := installer.Objects(installed)
	must(t, err)
	client, err := kube.Open(api.Kubeconfig())
	must(t, err)
	api.Install(t, files)
	must(t, client.PutSecret(t.Context(), manifests.NamespaceEtcd, "pacemaker-auth", map[string][]byte{"token": []byte("x")}))
	api.Kubectl(t, "create", "job", "two-node-auth-cp-2", "-n", manifests.NamespaceEtcd, "--image=x")
	giveAlerts(t, api)
	api.Kubectl(t, "patch", "etcd/cluster", "--type=merge", "--patch", `{"spec":{"unsupportedConfigOverrides":{"useExternalEtcdSupport":true}}}`)

	changes, err := Fewer(have, want)
	must(t, err)
	const because = "the site goes on with three control planes"
	now, lifted := time.Now(), false
	deadline := now.Add(3 * time.Minute) // a guard follows its binding late where processors are busy
	for {
		if _, err = Shrink(t.Context(), client.Bringer(), changes, []string{"cp-1", "cp-2"}, because, now); err == nil {
			break
		}
		if !lifted && strings.Contains(err.Error(), "denied request") { // either guard may come first
			if said := api.Kubectl(t, "get", "validatingadmissionpolicy", "holdfast-topology", "-o", `jsonpath={.metadata.annotations}`); !strings.Contains(said, because) {
				t.Errorf("the guard is not lifted: %s", said)
			}
			for _, name := range []string{"holdfast-topology", "holdfast-etcd-hand-over"} { // the operator
				api.Kubectl(t, "patch", "validatingadmissionpolicybinding", name, "--type=merge", "--patch", `{"spec":{"validationActions":["Warn","Audit"]}}`)
			}
			lifted = true
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(250 * time.Millisecond)
	}
	get := func(args ...string) string {
		return strings.TrimSpace(api.Kubectl(t, append([]string{"get"}, args...)...))
	}
	for what, c := range map[string]struct {
		args []string
		want string
	}{
		"the topology":         {[]string{"infrastructure", "cluster", "-o", `jsonpath={.status.controlPlaneTopology} {.status.infrastructureTopology}`}, "HighlyAvailable HighlyAvailable"},
		"the feature set":      {[]string{"featuregate", "cluster", "-o", `jsonpath={.spec.featureSet}`}, "CustomNoUpgrade"},
		"who runs etcd":        {[]string{"etcds.operator.openshift.io", "-o", "name"}, ""},
		"Jobs of the set-up":   {[]string{"jobs", "-n", manifests.NamespaceEtcd, "-o", "name"}, ""},
		"accounts and secrets": {[]string{"secrets", "-n", manifests.NamespaceEtcd, "-o", "name"}, ""},
		"alerts":               {[]string{"prometheusrules", "-n", manifests.NamespaceEtcd, "-o", "name"}, "prometheusrule.monitoring.coreos.com/holdfast-site"},
		"guards":               {[]string{"validatingadmissionpolicybinding", "holdfast-topology", "-o", "name", "--ignore-not-found"}, ""},
	} {
		if got := get(c.args...); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
	if config := get("configmap", "cluster-config-v1", "-n", "kube-system", "-o", "yaml"); !strings.Contains(config, "replicas: 3") || strings.Contains(config, "fencing") {
		t.Errorf("the cluster's copy of the install-config:\n%s", config)
	}
	if _, err := Shrink(t.Context(), client.Bringer(), changes, []string{"cp-1", "cp-2"}, because, now); err != nil {
		t.Errorf("the second run: %v", err)
	}
}

// giveAlerts plays the operator in a cluster with Prometheus' operator. The API of the shrinking
// cluster does not serve the kind.
func giveAlerts(t *testing.T, api *apitest.API) {
	t.Helper()
	crd, rules := filepath.Join(t.TempDir(), "crd.yaml"), filepath.Join(t.TempDir(), "rules.yaml")
	must(t, os.WriteFile(crd, []byte(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: prometheusrules.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  names: {kind: PrometheusRule, listKind: PrometheusRuleList, plural: prometheusrules, singular: prometheusrule}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`), 0o600))
	api.Kubectl(t, "apply", "--filename", crd)
	api.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "--filename", crd)
	for _, o := range []map[string]any{alerts.SiteObject(), alerts.Object()} {
		object, err := yaml.Marshal(o)
		must(t, err)
		must(t, os.WriteFile(rules, object, 0o600))
		api.Kubectl(t, "apply", "--filename", rules)
	}
}

// A cluster that was made three has what one has that was installed so, but for the feature set, which
// a cluster cannot leave.
func TestWhatBecomesOfTwoIsASiteOfThree(t *testing.T) {
	_, have, want := wider(t, sitetest.TwoDual)
	text := sitetest.TwoDual
	from, to := strings.Index(text, "controlPlane:"), strings.Index(text, "networking:")
	fresh := sitetest.New(t, text[:from]+"controlPlane: {replicas: 3}\n"+text[to:]+"featureSet: CustomNoUpgrade\n").For(state.RoleMaster).Settled()
	fresh.Identity = want.Identity
	left, err := Fewer(fresh, want)
	must(t, err)
	for _, c := range left {
		t.Errorf("%s differs", c.ObjectRef)
	}
	changes, err := Fewer(have, want)
	must(t, err)
	topology := slices.IndexFunc(changes, func(c manifests.Change) bool { return c.Kind == "Infrastructure" && c.Status })
	removed := slices.IndexFunc(changes, func(c manifests.Change) bool { return c.Way == manifests.Remove })
	if topology < 0 || removed < topology {
		t.Errorf("the topology is number %d, the first removal %d", topology, removed)
	}
}
