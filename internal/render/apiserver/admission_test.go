package apiserver_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/render/apiserver"
)

// pod is one of our pods, from an approved file of its renderer.
type pod struct {
	from string
	meta metav1.ObjectMeta
	spec corev1.PodSpec
}

// podsIn returns the pods in approved files, whatever kind of object creates
// them.
func podsIn(t *testing.T, pattern string) []pod {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var out []pod
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if p, ok := podOf(document); ok {
				p.from = path
				out = append(out, p)
			}
		}
	}
	return out
}

func podOf(document []byte) (pod, bool) {
	var o struct {
		Kind     string            `json:"kind"`
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if yaml.Unmarshal(document, &o) != nil {
		return pod{}, false // a file of another kind
	}
	switch o.Kind {
	case "Pod":
		var p corev1.Pod
		if yaml.Unmarshal(document, &p) != nil {
			return pod{}, false
		}
		return pod{meta: p.ObjectMeta, spec: p.Spec}, true
	case "Deployment", "DaemonSet", "Job":
		var p struct {
			Spec struct {
				Template corev1.PodTemplateSpec `json:"template"`
			} `json:"spec"`
		}
		if yaml.Unmarshal(document, &p) != nil {
			return pod{}, false
		}
		meta := p.Spec.Template.ObjectMeta
		meta.Namespace, meta.Name = o.Metadata.Namespace, o.Metadata.Name
		return pod{meta: meta, spec: p.Spec.Template.Spec}, true
	}
	return pod{}, false
}

// ours returns all pods that Holdfast brings into a cluster: its own, and those
// that kubeadm makes from its configuration.
func ours(t *testing.T) []pod {
	t.Helper()
	out := append(podsIn(t, "../*/testdata/*.yaml"), podsIn(t, "../kubeadm/testdata/made/*.yaml")...)
	for _, want := range []string{
		"kube-apiserver", "etcd", "kube-proxy", "keepalived", "haproxy", "holdfast-coredns", "coredns", "kube-flannel",
		"holdfast-operator", "holdfast-dashboard", "router-default", "two-node-setup",
	} {
		if !slices.ContainsFunc(out, func(p pod) bool { return p.meta.Name == want }) {
			t.Fatalf("%s is not among the pods that were found", want)
		}
	}
	return out
}

// refused returns why a level refuses a pod, by the API server's own rules.
func refused(t *testing.T, level podsecurity.Level, p pod) string {
	t.Helper()
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	result := policy.AggregateCheckResults(checks.EvaluatePod(
		podsecurity.LevelVersion{Level: level, Version: podsecurity.LatestVersion()}, &p.meta, &p.spec))
	if result.Allowed {
		return ""
	}
	return result.ForbiddenDetail()
}

func TestAPodOfOursThatNeedsItsHostIsInANamespaceThatIsExempt(t *testing.T) {
	for _, p := range ours(t) {
		if why := refused(t, podsecurity.LevelBaseline, p); why != "" && !slices.Contains(apiserver.Exempt(), p.meta.Namespace) {
			t.Errorf("%s: %s/%s would be refused: %s", p.from, p.meta.Namespace, p.meta.Name, why)
		}
	}
}

// Each exempt namespace has a pod that needs the exemption; no other namespace
// is exempt.
func TestNoNamespaceIsExemptForNothing(t *testing.T) {
	need := map[string]string{}
	for _, p := range ours(t) {
		if why := refused(t, podsecurity.LevelBaseline, p); why != "" {
			need[p.meta.Namespace] = fmt.Sprintf("%s: %s", p.meta.Name, why)
		}
	}
	for _, name := range apiserver.Exempt() {
		if need[name] == "" {
			t.Errorf("no pod in %s needs the exemption", name)
		}
		t.Logf("%s, for example %s", name, need[name])
	}
	if len(need) != len(apiserver.Exempt()) {
		t.Errorf("exempt are %v, needed is it by %v", apiserver.Exempt(), need)
	}
}

// The pods of the lab's tests are those of a user: they run without an
// exemption.
func TestPodsOfTheLabsTestsAreWhatAPersonMayCreate(t *testing.T) {
	pods := podsIn(t, "../../../test/*/testdata/*.yaml")
	if len(pods) == 0 {
		t.Fatal("no pod was found")
	}
	for _, p := range pods {
		if why := refused(t, podsecurity.LevelBaseline, p); why != "" {
			t.Errorf("%s: %s: %s", p.from, p.meta.Name, why)
		}
	}
}

// Each of our containers that is not root of the host by design has a filter of
// system calls, whatever kubelet's default is.
func TestEveryPodOfOursHasAFilterOfSystemCalls(t *testing.T) {
	for _, p := range ours(t) {
		filtered := func(profile *corev1.SeccompProfile) bool {
			return profile != nil && profile.Type == corev1.SeccompProfileTypeRuntimeDefault
		}
		if p.spec.SecurityContext != nil && filtered(p.spec.SecurityContext.SeccompProfile) {
			continue
		}
		for _, c := range p.spec.Containers {
			s := c.SecurityContext
			if s == nil || !filtered(s.SeccompProfile) && (s.Privileged == nil || !*s.Privileged) {
				if strings.Contains(p.from, "etcdmanifest") {
					continue // podman runs it, with its own default
				}
				t.Errorf("%s: container %s of %s has none", p.from, c.Name, p.meta.Name)
			}
		}
	}
}
