package ingress

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	render "github.com/holdfast/holdfast/internal/render/router"
)

// guest is the account of an API server that somebody added to the cluster.
const guest = "system:serviceaccount:default:guest"

// guestMay gives it the rights that the documentation of aggregated API servers
// asks for: policies and namespaces, but nothing that policies have as
// parameters.
func (c *cluster) guestMay() kubernetes.Interface {
	c.t.Helper()
	admin, err := kubernetes.NewForConfig(c.api.Config)
	c.must(err)
	read := []string{"get", "list", "watch"}
	named := metav1.ObjectMeta{Name: "guest"}
	_, err = admin.RbacV1().ClusterRoles().Create(c.t.Context(), &rbacv1.ClusterRole{ObjectMeta: named, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: read},
		{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"*"}, Verbs: read},
	}}, metav1.CreateOptions{})
	c.must(err)
	_, err = admin.RbacV1().ClusterRoleBindings().Create(c.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: named, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "guest"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: guest}},
	}, metav1.CreateOptions{})
	c.must(err)
	return admin
}

// addedServer plays the part of an added API server that judges by policies: the
// plugin that each has by default, and its answer about informers once it has
// looked at all policies.
func (c *cluster) addedServer() error {
	c.t.Helper()
	cfg := rest.CopyConfig(c.api.Config)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: guest, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	set, err := kubernetes.NewForConfig(cfg)
	c.must(err)
	dynamics, err := dynamic.NewForConfig(cfg)
	c.must(err)
	factory := informers.NewSharedInformerFactory(set, 0)
	plugin, err := validating.NewPlugin(nil)
	c.must(err)
	stop := make(chan struct{})
	defer close(stop)
	plugin.SetExternalKubeInformerFactory(factory)
	plugin.SetExternalKubeClientSet(set)
	plugin.SetDynamicClient(dynamics)
	plugin.SetRESTMapper(restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(set.Discovery())))
	plugin.SetAuthorizer(authorizerfactory.NewAlwaysDenyAuthorizer())
	plugin.SetDrainedNotification(stop)
	c.must(plugin.ValidateInitialization())
	factory.Start(stop)
	if !plugin.WaitForReady() {
		c.t.Fatal("it did not read the policies")
	}
	// The check informer-sync of /readyz asks for this.
	now := make(chan struct{})
	close(now)
	for kind, synced := range factory.WaitForCacheSync(now) {
		if !synced {
			return fmt.Errorf("it waits for %s", kind)
		}
	}
	return nil
}

// TestAnAPIServerThatMayReadNothingIsReadyBesideOurPolicies plays such a server,
// as Conformance's sample API server is. Beside a policy with a ConfigMap it is
// not ready: so the test would notice.
func TestAnAPIServerThatMayReadNothingIsReadyBesideOurPolicies(t *testing.T) {
	c := newCluster(t)
	c.settle()
	admin := c.guestMay()
	if err := c.addedServer(); err != nil {
		t.Errorf("an API server that somebody adds is never ready: %v", err)
	}

	named := metav1.ObjectMeta{Name: "of-a-configmap"}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: named, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		ParamKind: &admissionv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{"nobody.example"}, APIVersions: []string{"*"}, Resources: []string{"nothings"}},
			},
		}}},
		Validations: []admissionv1.Validation{{Expression: "true"}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: named.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		ParamRef: &admissionv1.ParamRef{Name: "x", Namespace: "default", ParameterNotFoundAction: new(admissionv1.AllowAction)},
	}}
	policies := admin.AdmissionregistrationV1()
	_, err := policies.ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{})
	c.must(err)
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	c.must(err)
	err = c.addedServer()
	c.must(policies.ValidatingAdmissionPolicyBindings().Delete(t.Context(), named.Name, metav1.DeleteOptions{}))
	c.must(policies.ValidatingAdmissionPolicies().Delete(t.Context(), named.Name, metav1.DeleteOptions{}))
	if err == nil || !strings.Contains(err.Error(), "ConfigMap") {
		t.Errorf("a policy that has a ConfigMap as its parameter is not noticed: %v", err)
	}
}

// TestTheListOfAnEarlierReleaseGivesWayToTheKind shows that whoever had a host by
// the old list has it by the new one, even if another namespace's object is
// older.
func TestTheListOfAnEarlierReleaseGivesWayToTheKind(t *testing.T) {
	c := newCluster(t)
	c.make("x", `{"domain":"x.example"}`)
	c.namespaces("bank", "older")
	c.unbound()
	c.create(rule("older", "web", "bank.example.com", "/", "api"))
	c.create(rule("bank", "web", "bank.example.com", "/", "api"))
	former := &corev1.ConfigMap{ObjectMeta: objectMeta(decide.OperandNamespace, decide.HostsName("x")), Data: map[string]string{"bank.example.com": "bank *"}}
	former.Labels = decide.OwnerLabels("x")
	former.Labels[decide.LabelHosts] = decide.HostsListed
	foreign := &corev1.ConfigMap{ObjectMeta: objectMeta(decide.OperandNamespace, decide.HostsName(decide.DefaultName))}
	c.create(former)
	c.create(foreign)
	for c.cutAfter(1) { // each operator is lost on the way
	}
	c.settle()
	list := &render.RouteHosts{}
	c.get(decide.OperandNamespace, decide.HostsName("x"), list)
	if got := list.Data["bank.example.com"]; got != "bank *" {
		t.Errorf("the host is %q", got)
	}
	if c.there(decide.OperandNamespace, former.Name, &corev1.ConfigMap{}) {
		t.Error("the former list is left")
	}
	if !c.there(decide.OperandNamespace, foreign.Name, &corev1.ConfigMap{}) {
		t.Error("somebody else's ConfigMap is gone")
	}
	c.says(decide.DefaultName, "ObjectsOwned=True")

	t.Log("what a person changes is set back, what he deletes is written again")
	c.patch(&render.RouteHosts{}, list.Name, `{"data":{"bank.example.com":"older *","more.example.com":"older *"}}`)
	c.settle()
	c.get(decide.OperandNamespace, list.Name, list)
	if _, more := list.Data["more.example.com"]; more {
		t.Errorf("%v", list.Data)
	}
	c.must(c.admin.Delete(t.Context(), list))
	c.settle()
	c.get(decide.OperandNamespace, list.Name, &render.RouteHosts{})
}

// TestTheOperatorKeepsRoutersWithoutTheKind plays an operator that is newer than
// the cluster's objects. It then leaves the former list of whose hosts are.
func TestTheOperatorKeepsRoutersWithoutTheKind(t *testing.T) {
	c := newCluster(t)
	c.make("x", `{"domain":"x.example"}`)
	former := &corev1.ConfigMap{ObjectMeta: objectMeta(decide.OperandNamespace, decide.HostsName("x"))}
	former.Labels = decide.OwnerLabels("x")
	c.create(former)
	events := &recorder{}
	c.r.Events, c.r.lists = events, false
	c.settle()
	c.deployment("x")
	if c.there(decide.OperandNamespace, former.Name, &render.RouteHosts{}) || !c.there(decide.OperandNamespace, former.Name, &corev1.ConfigMap{}) {
		t.Error("it wrote lists")
	}
	if got := events.about("Hosts"); len(got) == 0 || !strings.Contains(got[0], "RouteHosts of holdfast.io") {
		t.Errorf("%q", got)
	}
	if knows, err := knowsLists(c.admin.RESTMapper()); err != nil || !knows {
		t.Errorf("%v %v", knows, err)
	}
}

// TestAFullListFitsIntoTheAPI tries names that are as long, and as short, as they
// may be.
func TestAFullListFitsIntoTheAPI(t *testing.T) {
	c := newCluster(t)
	for _, length := range []int{8, 60, 250} {
		var objects []decide.Routed
		for i := range 150_000 {
			host := fmt.Sprintf("%07d.%s", i, strings.Repeat("x", length))[:length]
			objects = append(objects, decide.Routed{Kind: "Ingress", Namespace: "bank", Name: host, Class: "openshift-x", Asked: []decide.Asked{{Host: host}}})
		}
		list := decide.Hosts("x", nil, objects, nil)
		if list.Unlisted == 0 {
			t.Fatalf("%d bytes: it is not full", length)
		}
		o := &render.RouteHosts{ObjectMeta: objectMeta(decide.OperandNamespace, fmt.Sprintf("full-%d", length)), Data: list.Data}
		if err := c.admin.Create(t.Context(), o); err != nil {
			t.Errorf("%d hosts of %d bytes: %v", len(list.Data), length, err)
			continue
		}
		before := o.DeepCopyObject().(client.Object)
		o.Data["more"] = "bank *"
		if err := c.admin.Patch(t.Context(), o, lockedMerge(before)); err != nil {
			t.Errorf("%d hosts of %d bytes, changed: %v", len(list.Data), length, err)
		}
		c.must(c.admin.Delete(t.Context(), o))
	}
}
