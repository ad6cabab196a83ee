package etcdpod_test

import (
	"encoding/pem"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/etcdmanifest"
)

func manifest(t testing.TB, name, one, two string) []byte {
	t.Helper()
	out, err := etcdmanifest.Pod(etcdmanifest.Spec{
		Name: name, Image: payload.Image("etcd"), CABundle: []byte("an authority\n"),
		Nodes: [2]etcdmanifest.Node{{Name: "cp-1", Address: netip.MustParseAddr(one)}, {Name: "cp-2", Address: netip.MustParseAddr(two)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAManifestReadsBackAsItsContainer(t *testing.T) {
	got, err := etcdpod.Parse(manifest(t, "cp-2", "fd98::11", "fd98::12"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Revision) != 64 || got.Command[0] != "etcd" || !slices.Contains(got.Command, "--name=cp-2") {
		t.Errorf("got %+v", got)
	}
	got.Revision, got.Command = "", nil
	want := state.Container{Name: "etcd", Image: payload.Image("etcd"), Mounts: []state.Mount{
		{Source: state.EtcdPKIDir, Target: state.EtcdPKIDir, ReadOnly: true}, {Source: state.EtcdDataDir, Target: state.EtcdDataDir},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheAddressOfAHostIsReadBack(t *testing.T) {
	for name, want := range map[string]netip.Addr{"cp-1": netip.MustParseAddr("10.98.0.11"), "cp-2": netip.MustParseAddr("10.98.0.12")} {
		if got, err := etcdpod.AddressOf(manifest(t, name, "10.98.0.11", "10.98.0.12")); err != nil || got != want {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	if got, err := etcdpod.AddressOf(manifest(t, "cp-2", "fd98::11", "fd98::12")); err != nil || got != netip.MustParseAddr("fd98::12") {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := etcdpod.AddressOf([]byte("kind: Pod")); err == nil {
		t.Error("a manifest without etcd has an address")
	}
}

func TestAManifestThatPodmanCannotFollowIsRefused(t *testing.T) {
	good := string(manifest(t, "cp-1", "10.98.0.11", "10.98.0.12"))
	for name, c := range map[string]struct{ old, now, want string }{
		"nothing":               {good, "", "one Pod"},
		"no YAML":               {good, "\t", "read etcd's pod"},
		"another kind":          {"kind: Pod", "kind: Job", "one Pod"},
		"an unknown field":      {"  hostNetwork: true", "  hostNetwork: true\n  hostNetwrk: true", "hostNetwrk"},
		"a field of a mount":    {"      readOnly: true", "      readOnle: true", "spec.containers[].volumeMounts[].readOnle"},
		"a field twice":         {"  hostNetwork: true", "  hostNetwork: true\n  hostNetwork: true", "hostNetwork"},
		"a network of its own":  {"hostNetwork: true", "hostNetwork: false", "hostNetwork"},
		"another container":     {"name: etcd\n    resources", "name: web\n    resources", "the name etcd"},
		"a volume that is none": {"      name: etcd-data\n", "      name: etcd-gone\n", "etcd-gone"},
		"part of a volume":      {"      name: etcd-data\n", "      name: etcd-data\n      subPath: a\n", "a part"},
		"a value of a secret":   {"    image:", "    env: [{name: A, valueFrom: {fieldRef: {fieldPath: x}}}]\n    image:", "plain values"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(good, c.old, c.now, 1)
			if bad == good {
				t.Fatal("the test changes nothing")
			}
			if got, err := etcdpod.Parse([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v, %v; want an error that says %q", got, err, c.want)
			}
		})
	}
}

func TestTheEnvironmentAndTheArgumentsAreTaken(t *testing.T) {
	good := string(manifest(t, "cp-1", "10.98.0.11", "10.98.0.12"))
	more := strings.Replace(good, "    image:", "    args: [--log-level=warn]\n    env: [{name: GOGC, value: \"50\"}]\n    image:", 1)
	got, err := etcdpod.Parse([]byte(more))
	if err != nil || !slices.Equal(got.Env, []string{"GOGC=50"}) || got.Command[len(got.Command)-1] != "--log-level=warn" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// FuzzParse compares with Kubernetes' own types, which read the same text.
func FuzzParse(f *testing.F) {
	f.Add(manifest(f, "cp-1", "10.98.0.11", "10.98.0.12"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := etcdpod.Parse(text)
		if err == nil && (c.Name != "etcd" || len(c.Command) == 0 || c.Revision == "") {
			t.Errorf("%+v was taken", c)
		}
		var pod corev1.Pod
		if yaml.UnmarshalStrict(text, &pod) != nil {
			return
		}
		if err != nil && strings.Contains(err.Error(), "no such field") {
			t.Errorf("Kubernetes takes it: %v", err)
		}
		if err == nil && (c.Image != pod.Spec.Containers[0].Image || len(c.Env) != len(pod.Spec.Containers[0].Env) || !pod.Spec.HostNetwork) {
			t.Errorf("Kubernetes reads %+v, podman is told %+v", pod.Spec, c)
		}
	})
}

func TestWhatKubernetesKnowsAndPodmanDoesNotNeedIsTaken(t *testing.T) {
	good := string(manifest(t, "cp-1", "10.98.0.11", "10.98.0.12"))
	for what, c := range map[string]struct{ old, now string }{
		"as older libraries wrote it": {"  labels:\n", "  creationTimestamp: null\n  labels:\n"},
		"a probe":                     {"    image:", "    livenessProbe: {httpGet: {path: /health, port: 2381}}\n    image:"},
		"a value that is a number":    {"    image:", "    env: [{name: GOGC, value: 50}]\n    image:"},
		"another case":                {"hostNetwork: true", "HostNetwork: true"},
	} {
		changed := strings.Replace(good, c.old, c.now, 1)
		got, err := etcdpod.Parse([]byte(changed))
		if changed == good || err != nil || got.Name != "etcd" || strings.Contains(c.now, "GOGC") && !slices.Equal(got.Env, []string{"GOGC=50"}) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}

// A rotation of etcd's CA turns the order of two authorities round, which is no
// reason to restart etcd.
func TestABundlesDigestDoesNotDependOnItsOrder(t *testing.T) {
	block := func(text string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(text)}))
	}
	a, b, c := block("a"), block("b"), block("c")
	of := func(text string) string { return etcdpod.DigestOf([]byte(text)) }
	if of(a+b) != of(b+a) || of(a+b) != of("# the new one\n"+b+a) {
		t.Error("the order counts")
	}
	seen := map[string]string{}
	for _, text := range []string{a, b, a + b, a + c, a + b + c, "an authority\n", ""} {
		if former, there := seen[of(text)]; there {
			t.Errorf("%q and %q have the same digest", former, text)
		}
		seen[of(text)] = text
	}
}
