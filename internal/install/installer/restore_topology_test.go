package installer_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/restore"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// Control planes of install configurations that differ in nothing else.
const (
	fencing = `  replicas: 2
  fencing:
    credentials:
    - {hostname: cp-1, address: "https://10.99.0.111/redfish/v1/Systems/1", username: admin, password: hush-1}
    - {hostname: cp-2, address: "https://10.99.0.112/redfish/v1/Systems/1", username: admin, password: hush-2}
`
	one, three = "  replicas: 1\n", "  replicas: 3\n"
)

// keyOf returns where the API server keeps an object of a kind that a site may lose with its
// topology.
func keyOf(t *testing.T, o metav1.PartialObjectMetadata) string {
	t.Helper()
	folder := map[string]string{
		"ValidatingAdmissionPolicy": "validatingadmissionpolicies/", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings/",
		"Secret": "secrets/", "Etcd": "operator.openshift.io/etcds/", "Infrastructure": "config.openshift.io/infrastructures/",
	}[o.Kind]
	if folder == "" {
		return ""
	}
	if o.Namespace != "" {
		folder += o.Namespace + "/"
	}
	return restore.Root + folder + o.Name
}

// objectsOf returns the objects with which a site is installed, by what they are.
func objectsOf(t *testing.T, s *site.Site) map[string]metav1.PartialObjectMetadata {
	t.Helper()
	files, err := manifests.Render(s.Config, s.Topology())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]metav1.PartialObjectMetadata{}
	for _, f := range files {
		var o metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(f.Data, &o); err != nil {
			t.Fatalf("%s: %v", f.Path, err)
		}
		out[o.Kind+" "+o.Namespace+"/"+o.Name] = o
	}
	return out
}

// docs/facts/loss.md#hard-cases-of-loss, L54 and L88: a site is restored with another number of
// control planes than it had. It is the site of its install configuration, and nothing of the
// backup says otherwise.
func TestL54TheSiteOfABackupIsRestoredWithAnyNumberOfControlPlanes(t *testing.T) {
	with := func(plane string) string { return strings.Replace(sitetest.TwoDual, fencing, plane, 1) }
	for _, c := range []struct {
		name, from, to string
		planes         int
		topology       string
	}{
		{"L54: two on one", fencing, one, 1, "SingleReplica"},
		{"L54: three on two", three, fencing, 2, "DualReplica"},
		{"L88: one at three", one, three, 3, "HighlyAvailable"},
		{"two at three", fencing, three, 3, "HighlyAvailable"},
		{"one on two", one, fencing, 2, "DualReplica"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := sitetest.New(t, with(c.from))
			b, err := installer.OfHost(hostFiles(t, before))
			if err != nil {
				t.Fatal(err)
			}
			b.Snapshot, b.SHA256 = strings.NewReader("etcd"), digestOf("etcd")
			d := newDirectory(t, "")
			if _, err := d.Restore(b); err != nil {
				t.Fatal(err)
			}
			d.write(installer.ConfigFile, with(c.to))
			d.must(d.IgnitionConfigs)
			first := d.siteOf("bootstrap.ign")
			if got := first.Config.ControlPlaneReplicas(); got != c.planes || first.Topology().Fencing != (c.planes == 2) || string(first.Topology().ControlPlaneTopology) != c.topology {
				t.Errorf("%d control planes, %+v", got, first.Topology())
			}
			if first.Restore == nil || first.Identity.KubernetesCA != before.Identity.KubernetesCA {
				t.Errorf("the first host restores %+v", first.Restore)
			}
			now := objectsOf(t, first)
			for what, o := range objectsOf(t, before) {
				if _, stays := now[what]; stays {
					continue // the installation writes it over what the backup has
				}
				key := keyOf(t, o)
				if key == "" {
					if o.Kind != "CustomResourceDefinition" && !strings.HasPrefix(o.Kind, "Role") && !strings.HasPrefix(o.Kind, "ClusterRole") && o.Kind != "ServiceAccount" {
						t.Errorf("%s comes from the backup and is none of this topology; nobody has said whether it does harm", what)
					}
					continue
				}
				if fate := restore.Of(key).Fate; fate != restore.Drop {
					t.Errorf("%s is none of this topology, and the restore does this with it: %s", what, fate)
				}
			}
		})
	}
}
