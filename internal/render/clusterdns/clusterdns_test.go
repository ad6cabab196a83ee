package clusterdns_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/clusterdns"
	"github.com/holdfast/holdfast/internal/render/coredns"
	"github.com/holdfast/holdfast/internal/testkit/golden"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

func TestManifestsMatchTheApprovedFile(t *testing.T) {
	for name, config := range map[string]string{
		"one-none.yaml": sitetest.OneNone, "two-dual.yaml": sitetest.TwoDual, "three-v6.yaml": sitetest.ThreeV6,
	} {
		t.Run(name, func(t *testing.T) { golden.Check(t, name, manifests(t, config)) })
	}
}

func manifests(t *testing.T, config string) []byte {
	t.Helper()
	file, err := clusterdns.Manifests(sitetest.New(t, config))
	if err != nil {
		t.Fatal(err)
	}
	return file.Data
}

// one returns the object of a kind.
func one[T any](t *testing.T, config, kind string) T {
	t.Helper()
	var out T
	for doc := range bytes.SplitSeq(manifests(t, config), []byte("---\n")) {
		if !bytes.Contains(doc, []byte("\nkind: "+kind+"\n")) {
			continue
		}
		if err := yaml.UnmarshalStrict(doc, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	t.Fatalf("there is no %s", kind)
	return out
}

// Both of kubeadm's two pods ran on one host, and its loss took DNS from every
// pod (docs/facts/findings.md#lab, K1).
func TestEveryHostHasADNSOfItsOwnWhateverItsTaints(t *testing.T) {
	spec := one[appsv1.DaemonSet](t, sitetest.TwoDual, "DaemonSet").Spec.Template.Spec
	if len(spec.Tolerations) != 1 || spec.Tolerations[0].Operator != corev1.TolerationOpExists || spec.Tolerations[0].Key != "" || spec.Tolerations[0].Effect != "" {
		t.Errorf("it tolerates %v", spec.Tolerations)
	}
	if spec.Affinity != nil || len(spec.NodeSelector) != 1 || spec.NodeSelector[corev1.LabelOSStable] != "linux" {
		t.Errorf("it keeps to some hosts: %v %v", spec.NodeSelector, spec.Affinity)
	}
	if spec.HostNetwork {
		t.Error("port 53 of the host is its own name server's")
	}
}

func TestAPodAsksTheDNSOfItsOwnHostAndAnotherOneWhileThatIsAway(t *testing.T) {
	spec := one[corev1.Service](t, sitetest.TwoDual, "Service").Spec
	if spec.TrafficDistribution == nil || *spec.TrafficDistribution != corev1.ServiceTrafficDistributionPreferSameNode {
		t.Errorf("trafficDistribution is %v", spec.TrafficDistribution)
	}
	if spec.InternalTrafficPolicy != nil {
		t.Errorf("internalTrafficPolicy %s would drop queries while the host's own one restarts", *spec.InternalTrafficPolicy)
	}
	pods := one[appsv1.DaemonSet](t, sitetest.TwoDual, "DaemonSet").Spec.Template.Labels
	for key, value := range spec.Selector {
		if pods[key] != value {
			t.Errorf("pods have no label %s=%s", key, value)
		}
	}
}

func TestAChangeOfTheDNSLeavesNoHostWithoutOneAndWaitsForNoLostHost(t *testing.T) {
	update := one[appsv1.DaemonSet](t, sitetest.TwoDual, "DaemonSet").Spec.UpdateStrategy.RollingUpdate
	if update.MaxUnavailable.IntValue() != 0 || update.MaxSurge.String() != "100%" {
		t.Errorf("maxUnavailable %s, maxSurge %s", update.MaxUnavailable, update.MaxSurge)
	}
}

// The cluster's own names in pods depend on nobody's answer. The pod mounts the
// folder of the file, because the file is replaced.
func TestTheNamesOfTheClusterComeFromTheHostsOwnFile(t *testing.T) {
	template := one[appsv1.DaemonSet](t, sitetest.TwoDual, "DaemonSet").Spec.Template
	folder := ""
	for _, v := range template.Spec.Volumes {
		if v.HostPath != nil {
			folder = v.HostPath.Path
		}
	}
	mounts := template.Spec.Containers[0].VolumeMounts
	if i := slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.MountPath == folder }); folder != filepath.Dir(coredns.ZonePath) || i < 0 || !mounts[i].ReadOnly {
		t.Errorf("%q is not mounted for reading: %v", folder, mounts)
	}
	conf := one[corev1.ConfigMap](t, sitetest.TwoDual, "ConfigMap").Data["Corefile"]
	if !strings.Contains(conf, "\n    cluster "+coredns.ZonePath+"\n") || !strings.Contains(conf, " domain api-int.shop.example.test\n") {
		t.Error(conf)
	}
	if _, ok := template.Labels[state.LabelHostNames]; !ok {
		t.Errorf("doctor does not know it by %v", template.Labels)
	}
}

func TestTheAddressIsTheOneThatKubeadmTellsKubelets(t *testing.T) {
	for network, want := range map[string]string{
		"10.96.0.0/12": "10.96.0.10", "172.30.0.0/16": "172.30.0.10", "10.96.0.192/26": "10.96.0.202", "fd96::/112": "fd96::a",
	} {
		got, err := clusterdns.Address([]string{network, "fd00::/112"})
		if err != nil || got.String() != want {
			t.Errorf("%s: %v %v, want %s", network, got, err, want)
		}
	}
	for _, bad := range [][]string{nil, {"no"}, {"10.0.0.0/29"}} {
		if got, err := clusterdns.Address(bad); err == nil {
			t.Errorf("%v: %v", bad, got)
		}
	}
}
