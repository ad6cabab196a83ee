package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/guards"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// rights holds all rights that an installation gives, and the pods that it
// makes.
type rights struct {
	// roles holds the rules of roles, by kind, namespace and name.
	roles map[string][]rbacv1.PolicyRule
	given []given
	// pods holds the pods of each account, by "NAMESPACE:NAME".
	pods map[string][]corev1.PodSpec
	// policies holds the names of the admission policies.
	policies map[string]bool
}

// given is a role that a subject has, in a namespace or, if that is empty, in
// the cluster.
type given struct {
	subject, namespace, role string
}

// rightsOf reads the objects of one installation.
func rightsOf(t *testing.T, config string) *rights {
	t.Helper()
	files, err := installer.Objects(sitetest.New(t, config))
	if err != nil {
		t.Fatal(err)
	}
	r := &rights{roles: map[string][]rbacv1.PolicyRule{}, pods: map[string][]corev1.PodSpec{}, policies: map[string]bool{}}
	for _, text := range documents(t, files) {
		r.take(t, text)
	}
	return r
}

// documents returns the objects of files, each as JSON.
func documents(t *testing.T, files []state.File) [][]byte {
	t.Helper()
	var out [][]byte
	for _, f := range files {
		reader := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(f.Data)))
		for buffer := make([]byte, 1<<20); ; {
			n, err := reader.Read(buffer)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", f.Path, err)
			}
			text, err := sigsyaml.YAMLToJSON(buffer[:n])
			if err != nil {
				t.Fatalf("%s: %v", f.Path, err)
			}
			if string(text) != "null" {
				out = append(out, text)
			}
		}
	}
	return out
}

func read[T any](t *testing.T, text []byte) T {
	t.Helper()
	var out T
	if err := sigsyaml.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (r *rights) take(t *testing.T, text []byte) {
	t.Helper()
	head := read[metav1.PartialObjectMetadata](t, text)
	switch head.Kind {
	case "ClusterRole", "Role":
		r.roles[head.Kind+" "+head.Namespace+"/"+head.Name] = read[rbacv1.ClusterRole](t, text).Rules
	case "ClusterRoleBinding", "RoleBinding":
		b := read[rbacv1.RoleBinding](t, text)
		role := b.RoleRef.Kind + " /" + b.RoleRef.Name
		if b.RoleRef.Kind == "Role" {
			role = b.RoleRef.Kind + " " + b.Namespace + "/" + b.RoleRef.Name
		}
		for _, s := range b.Subjects {
			r.given = append(r.given, given{subjectOf(s), b.Namespace, role})
		}
	case "Deployment":
		r.pod(head.Namespace, read[appsv1.Deployment](t, text).Spec.Template.Spec)
	case "DaemonSet":
		r.pod(head.Namespace, read[appsv1.DaemonSet](t, text).Spec.Template.Spec)
	case "StatefulSet", "Job", "CronJob", "Pod", "ReplicaSet":
		t.Fatalf("%s %s: say here where it runs", head.Kind, head.Name)
	case "ValidatingAdmissionPolicy":
		r.policies[head.Name] = true
	}
}

func subjectOf(s rbacv1.Subject) string {
	if s.Kind == rbacv1.ServiceAccountKind {
		return s.Namespace + ":" + s.Name
	}
	return s.Kind + " " + s.Name
}

func (r *rights) pod(namespace string, spec corev1.PodSpec) {
	account := namespace + ":" + spec.ServiceAccountName
	r.pods[account] = append(r.pods[account], spec)
}

// onWorkers reports whether root on a worker has an account. He does not if
// every pod of the account needs the label of a control plane. No kubelet gives
// itself that label, and because of the guard of the pod network nobody else on
// a worker does.
func (r *rights) onWorkers(subject string) bool {
	if subject == administrators || subject == agents || subject == apiServers {
		return false // the first is an administrator's certificate, which no host gets; the others are signed on control planes for themselves
	}
	pods := r.pods[subject]
	return len(pods) == 0 || slices.ContainsFunc(pods, func(p corev1.PodSpec) bool { return !onControlPlanes(&p) })
}

func onControlPlanes(p *corev1.PodSpec) bool {
	if _, ok := p.NodeSelector[state.LabelControlPlane]; ok {
		return true
	}
	if p.Affinity == nil || p.Affinity.NodeAffinity == nil || p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	// Each term alone lets a pod in.
	terms := p.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return len(terms) > 0 && !slices.ContainsFunc(terms, func(term corev1.NodeSelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return e.Key == state.LabelControlPlane && e.Operator == corev1.NodeSelectorOpExists
		})
	})
}

// Accounts by name, as in a subject.
const (
	routers = "openshift-ingress:router"
	flannel = "kube-flannel:flannel"
	dns     = "kube-system:coredns"
	hosts   = "Group system:nodes"
	nobody  = "Group system:authenticated"

	administrators = "Group " + site.AdministratorsGroup
	agents         = "Group " + site.AgentsGroup
	apiServers     = "User kube-apiserver-kubelet-client"

	joiners = "Group " + joining.Group
)

// allowed returns the rights that accounts on workers may have, each as "GROUP
// RESOURCE VERB", with the namespace if it holds in only one, and as
// "RESOURCE=NAME" if it holds for one object. Any other right
// leads from a worker to a control plane, or needs a decision: a Secret of
// another namespace, a node, a pod that somebody makes, a role, an approval, a
// token, a policy. Whoever adds a line gives the reason.
func allowed() map[string][]string {
	const gateway = decide.GatewayGroup
	out := map[string][]string{
		// The identity of the hosts, and the virtual IPs. The machine configuration
		// that a host is given, by its name: there is no right to list them. The names
		// of the hosts that were taken out: no host on that list makes its Node again.
		hosts: append(of("", " nodes", "config.openshift.io infrastructures"),
			"machineconfiguration.openshift.io machineconfigs get", retired.Namespace+"/ configmaps="+retired.ConfigMap+" get"),
		// Names of Services and the addresses of their pods; no Secret, no
		// ConfigMap.
		dns: without(" get", of("", " endpoints", " services", " pods", " namespaces", "discovery.k8s.io endpointslices")),
		// Subnets of nodes, and its own pod.
		flannel: append(of("", " nodes"), " pods get", guarded),
		// Routes and their targets. The Secrets that it serves are copied for
		// it.
		routers: slices.Concat(
			of("", " namespaces", " nodes", " services", "discovery.k8s.io endpointslices", "networking.k8s.io ingressclasses", "networking.k8s.io ingresses",
				gateway+" backendtlspolicies", gateway+" gatewayclasses", gateway+" gateways", gateway+" grpcroutes", gateway+" httproutes",
				gateway+" referencegrants", gateway+" tlsroutes"),
			of(decide.CertificatesNamespace+"/", " configmaps", " secrets"),
			says("networking.k8s.io ingresses", gateway+" backendtlspolicies", gateway+" gatewayclasses", gateway+" gateways",
				gateway+" grpcroutes", gateway+" httproutes", gateway+" tlsroutes"),
		),
		// To read the cluster's configuration, to check whether its name is
		// taken, and to request its certificate, for an hour until it is a
		// node. The approval is not included.
		joiners: {
			" nodes get", "kube-system/ configmaps=kubeadm-config get", "kube-system/ configmaps=kubelet-config get", "kube-system/ configmaps=kube-proxy get",
			"certificates.k8s.io certificatesigningrequests create", "certificates.k8s.io certificatesigningrequests get",
			"certificates.k8s.io certificatesigningrequests list", "certificates.k8s.io certificatesigningrequests watch",
		},
		// Whoever creates a NetworkPolicy gets a warning; the group of all
		// users gets no right.
		nobody: nil,
	}
	return out
}

// guarded is a right over every node that the guard of the pod network limits
// to the node of the token.
const guarded = " nodes/status patch"

// of returns the rights to read the resources.
func of(namespace string, resources ...string) []string {
	var out []string
	for _, r := range resources {
		for _, verb := range []string{"get", "list", "watch"} {
			out = append(out, namespace+r+" "+verb)
		}
	}
	return out
}

func without(verb string, rights []string) []string {
	return slices.DeleteFunc(rights, func(r string) bool { return strings.HasSuffix(r, verb) })
}

// says returns the rights to write the status of resources.
func says(resources ...string) []string {
	var out []string
	for _, r := range resources {
		out = append(out, r+"/status update", r+"/status patch")
	}
	return out
}

// each returns every right of a rule, in the form of allowed.
func each(namespace string, rule rbacv1.PolicyRule) []string {
	if namespace != "" {
		namespace += "/"
	}
	var out []string
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				right := namespace + group + " " + resource
				if len(rule.ResourceNames) == 0 {
					out = append(out, right+" "+verb)
				}
				for _, name := range rule.ResourceNames {
					out = append(out, right+"="+name+" "+verb)
				}
			}
		}
		for _, url := range rule.NonResourceURLs {
			out = append(out, "URL "+url+" "+verb)
		}
	}
	return out
}

// beyond returns the rights of accounts on workers that are not allowed.
func (r *rights) beyond() []string {
	var out []string
	for _, g := range r.given {
		if !r.onWorkers(g.subject) {
			continue
		}
		rules, known := r.roles[g.role]
		if !known {
			out = append(out, fmt.Sprintf("%s has %s, which is none of ours: who knows what that may do", g.subject, g.role))
		}
		for _, rule := range rules {
			for _, right := range each(g.namespace, rule) {
				switch {
				case !slices.Contains(allowed()[g.subject], right):
					out = append(out, fmt.Sprintf("%s may %q", g.subject, right))
				case right == guarded && (g.subject != strings.TrimPrefix(guards.PodNetworkAccount, "system:serviceaccount:") || !r.policies[guards.PodNetwork().Name()]):
					out = append(out, fmt.Sprintf("%s may %q and no guard keeps it to its own node", g.subject, right))
				}
			}
		}
	}
	return out
}

func everySite() map[string]string {
	return map[string]string{"one": sitetest.OneNone, "two": sitetest.TwoDual, "three": sitetest.ThreeV6}
}

// Root on a worker has each account whose pods may run there, by its token on
// the disk or by kubelet's right to request another one.
func TestNoAccountOnAWorkerMayMoreThanItsWork(t *testing.T) {
	for name, config := range everySite() {
		r := rightsOf(t, config)
		for _, beyond := range r.beyond() {
			t.Errorf("%s: %s", name, beyond)
		}
		var seen []string
		for _, g := range r.given {
			if r.onWorkers(g.subject) && !slices.Contains(seen, g.subject) {
				seen = append(seen, g.subject)
			}
		}
		slices.Sort(seen)
		if got := strings.Join(seen, ", "); got != strings.Join([]string{joiners, hosts, flannel, dns, routers}, ", ") {
			t.Errorf("%s: accounts on workers are %s", name, got)
		}
	}
}

// If an allowed right has no owner, a later object could get it unnoticed.
func TestNothingIsAllowedThatNobodyHas(t *testing.T) {
	have := map[string]bool{}
	for _, config := range everySite() {
		r := rightsOf(t, config)
		for _, g := range r.given {
			for _, rule := range r.roles[g.role] {
				for _, right := range each(g.namespace, rule) {
					have[g.subject+" "+right] = true
				}
			}
		}
	}
	for subject, list := range allowed() {
		for _, right := range list {
			if !have[subject+" "+right] {
				t.Errorf("%s: %q", subject, right)
			}
		}
	}
}

// The test above finds the rights that it must find.
func TestARightThatLeadsFromAWorkerToAControlPlaneIsFound(t *testing.T) {
	rule := func(group, resource, verb string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}
	}
	for name, change := range map[string]func(*rights){
		"routers that read all Secrets": func(r *rights) {
			r.roles["ClusterRole /holdfast-routers"] = append(r.roles["ClusterRole /holdfast-routers"], rule("", "secrets", "list"))
		},
		"a new agent on every host that reads Secrets": func(r *rights) {
			r.roles["ClusterRole /agent"] = []rbacv1.PolicyRule{rule("", "secrets", "get")}
			r.given = append(r.given, given{"monitoring:agent", "", "ClusterRole /agent"})
			r.pod("monitoring", corev1.PodSpec{ServiceAccountName: "agent"})
		},
		"the same in one namespace": func(r *rights) {
			r.roles["Role openshift-etcd/agent"] = []rbacv1.PolicyRule{rule("", "secrets", "get")}
			r.given = append(r.given, given{"monitoring:agent", "openshift-etcd", "Role openshift-etcd/agent"})
		},
		"somebody else's role":          func(r *rights) { r.given = append(r.given, given{dns, "", "ClusterRole /cluster-admin"}) },
		"all hosts that change nodes":   func(r *rights) { r.roles["ClusterRole /holdfast-hosts"][0].Verbs = []string{"patch"} },
		"a wildcard":                    func(r *rights) { r.roles["ClusterRole /flannel"][0].Resources = []string{"*"} },
		"flannel without its guard":     func(r *rights) { delete(r.policies, "holdfast-pod-network") },
		"the operator on every host":    func(r *rights) { r.pods["openshift-etcd:holdfast-operator"][0].Affinity = nil },
		"an operator that may move out": func(r *rights) { r.pod("openshift-etcd", corev1.PodSpec{ServiceAccountName: "holdfast-operator"}) },
		"a right for everybody": func(r *rights) {
			r.given = append(r.given, given{nobody, "", "ClusterRole /holdfast-hosts"})
		},
	} {
		r := rightsOf(t, sitetest.TwoDual)
		if change(r); len(r.beyond()) == 0 {
			t.Errorf("%s: nothing is found", name)
		}
	}
}

// subjects returns the accounts on workers, for requests.
func (r *rights) subjects() []string {
	set := map[string]bool{}
	for _, g := range r.given {
		if r.onWorkers(g.subject) {
			set[g.subject] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}
