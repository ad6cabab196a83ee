package cis

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/render/apiserver"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// facts holds the inputs of the controls, all from rendered files, or from the
// files that the release's kubeadm makes of them.
type facts struct {
	// flags holds the arguments of each program, by its name.
	flags map[string]map[string]string
	// kubelet is the configuration of kubelet.
	kubelet map[string]any
	pods    []pod
	roles   []role
	// bound holds the subjects of ClusterRoleBindings and RoleBindings by their
	// role.
	bound []binding
	// level is the level of Pod Security that every namespace enforces by
	// default.
	level podsecurity.LevelVersion
	// audit and encryption hold the API server's files.
	audit, encryption string
}

type pod struct {
	meta   metav1.ObjectMeta
	spec   corev1.PodSpec
	static bool
}

type role struct {
	name, namespace string
	rules           []rbacv1.PolicyRule
}

type binding struct {
	name, namespace, role string
	subjects              []rbacv1.Subject
}

const made = "../../render/kubeadm/testdata/made/"

// gather reads the approved files. The tests of their renderers keep them true.
func gather(t *testing.T) facts {
	t.Helper()
	f := facts{flags: map[string]map[string]string{}}
	for _, program := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
		var p corev1.Pod
		parse(t, made+program+".yaml", &p)
		f.flags[program] = arguments(p.Spec.Containers[0].Command)
	}
	var two corev1.Pod
	parse(t, "../../render/etcdmanifest/testdata/pod-ipv4.yaml", &two)
	f.flags["etcd under podman"] = arguments(two.Spec.Containers[0].Command)
	parse(t, made+"kubelet.yaml", &f.kubelet)
	for _, pattern := range []string{"../../render/*/testdata/*.yaml", made + "*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			f.objectsOf(t, path)
		}
	}
	files, err := apiserver.Files(sitetest.New(t, sitetest.TwoDual))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		switch file.Path {
		case apiserver.AuditPolicyPath:
			f.audit = string(file.Data)
		case apiserver.EncryptionPath:
			f.encryption = string(file.Data)
		case apiserver.AdmissionPath:
			f.level = enforced(t, file.Data)
		}
	}
	return f
}

func parse(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func arguments(command []string) map[string]string {
	out := map[string]string{}
	for _, word := range command {
		if name, value, ok := strings.Cut(strings.TrimPrefix(word, "--"), "="); ok {
			out[name] = value
		}
	}
	return out
}

func enforced(t *testing.T, data []byte) podsecurity.LevelVersion {
	t.Helper()
	var c struct {
		Plugins []struct {
			Name          string
			Configuration struct{ Defaults map[string]string }
		}
	}
	if err := yaml.Unmarshal(data, &c); err != nil || len(c.Plugins) != 1 {
		t.Fatalf("%v: %d plugins", err, len(c.Plugins))
	}
	level, err := podsecurity.ParseLevel(c.Plugins[0].Configuration.Defaults["enforce"])
	if err != nil {
		t.Fatal(err)
	}
	return podsecurity.LevelVersion{Level: level, Version: podsecurity.LatestVersion()}
}

// objectsOf takes pods, roles and bindings from a file. It leaves out all other
// objects, and files of another kind.
func (f *facts) objectsOf(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		f.add(document)
	}
}

func (f *facts) add(document []byte) {
	var o struct {
		Kind     string              `json:"kind"`
		Metadata metav1.ObjectMeta   `json:"metadata"`
		Spec     map[string]any      `json:"spec"`
		Rules    []rbacv1.PolicyRule `json:"rules"`
		RoleRef  rbacv1.RoleRef      `json:"roleRef"`
		Subjects []rbacv1.Subject    `json:"subjects"`
	}
	if yaml.Unmarshal(document, &o) != nil {
		return
	}
	switch o.Kind {
	case "Pod":
		var p corev1.Pod
		if yaml.Unmarshal(document, &p) == nil {
			f.pods = append(f.pods, pod{p.ObjectMeta, p.Spec, true})
		}
	case "Deployment", "DaemonSet", "Job":
		var p struct {
			Spec struct {
				Template corev1.PodTemplateSpec `json:"template"`
			} `json:"spec"`
		}
		if yaml.Unmarshal(document, &p) == nil {
			f.pods = append(f.pods, pod{o.Metadata, p.Spec.Template.Spec, false})
		}
	case "Role", "ClusterRole":
		f.roles = append(f.roles, role{o.Metadata.Name, o.Metadata.Namespace, o.Rules})
	case "RoleBinding", "ClusterRoleBinding":
		f.bound = append(f.bound, binding{o.Metadata.Name, o.Metadata.Namespace, o.RoleRef.Name, o.Subjects})
	}
}

// has reports whether a program has a flag, with the value if one is given.
func (f facts) has(program, flag string, value ...string) bool {
	got, set := f.flags[program][flag]
	return set && (len(value) == 0 || slices.Contains(strings.Split(got, ","), value[0]))
}

// refuses reports whether a namespace with the default level refuses a pod.
func (f facts) refuses(t *testing.T, change func(*corev1.PodSpec)) bool {
	t.Helper()
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "one", Image: "one", SecurityContext: &corev1.SecurityContext{}}}}
	change(&spec)
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return !policy.AggregateCheckResults(checks.EvaluatePod(f.level, &metav1.ObjectMeta{}, &spec)).Allowed
}

// rules returns the names of those roles of ours that have a fitting rule.
func (f facts) rules(fits func(role, rbacv1.PolicyRule) bool) []string {
	var out []string
	for _, r := range f.roles {
		if slices.ContainsFunc(r.rules, func(rule rbacv1.PolicyRule) bool { return fits(r, rule) }) && !slices.Contains(out, r.name) {
			out = append(out, r.name)
		}
	}
	slices.Sort(out)
	return out
}

// allows reports whether a rule gives one of the verbs on a resource for all
// objects.
func allows(rule rbacv1.PolicyRule, resource string, verbs ...string) bool {
	if len(rule.ResourceNames) > 0 || !slices.Contains(rule.Resources, resource) && !slices.Contains(rule.Resources, "*") {
		return false
	}
	return slices.ContainsFunc(rule.Verbs, func(v string) bool { return v == "*" || slices.Contains(verbs, v) })
}
