package ingress

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
)

const (
	nodePortSpec = `{"endpointPublishingStrategy":{"type":"NodePortService"},"replicas":2}`
	publishing   = `{"spec":{"endpointPublishingStrategy":{"type":%q}}}`
)

func TestTheDefaultIngressControllerComesByItselfAndBecomesRouters(t *testing.T) {
	c := newCluster(t)
	wrote := c.settle()
	t.Logf("%d writes:\n%s", len(wrote), strings.Join(wrote, "\n"))
	ic := c.controller(decide.DefaultName)
	if ic.Spec.Replicas == nil || *ic.Spec.Replicas != 2 || ic.Spec.NodePlacement == nil {
		t.Errorf("the default one does not say where and how many: %+v", ic.Spec)
	}
	if s := ic.Status; s.EndpointPublishingStrategy.Type != operatorv1.HostNetworkStrategyType || !strings.HasPrefix(s.Domain, "apps.") || s.ObservedGeneration != ic.Generation {
		t.Errorf("%+v", s)
	}
	c.says(decide.DefaultName, "Admitted=True/Valid Available=False")
	c.runs(decide.DefaultName, 2)
	c.settle()
	c.says(decide.DefaultName, "Available=True Progressing=False Degraded=False")
	class := &networkingv1.IngressClass{}
	c.get("", "openshift-default", class)
	if class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] != "true" {
		t.Error("what names no class has no router")
	}
	c.must(c.admin.Patch(t.Context(), class, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`))))
	if wrote := c.settle(); len(wrote) != 0 {
		t.Errorf("a person took the default class away, and it came back: %q", wrote)
	}
}

// TestHardCase08_ZeroWritesInSteadyState plays ten minutes of the operator's
// time, beside an API server that fills in what this program does not know, with
// a host's heartbeat and restarts of the operator.
func TestHardCase08_ZeroWritesInSteadyState(t *testing.T) {
	c := newCluster(t)
	c.make("shard", nodePortSpec[:len(nodePortSpec)-1]+`,"domain":"shard.example","namespaceSelector":{"matchLabels":{"a":"b"}}}`)
	c.make("lb", `{"domain":"lb.example","endpointPublishingStrategy":{"type":"LoadBalancerService"}}`)
	c.settle()
	address := client.RawPatch(types.MergePatchType, []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.9"}]}}}`))
	c.must(c.admin.Status().Patch(t.Context(), c.service("router-lb"), address))
	for _, name := range []string{"default", "shard", "lb"} {
		c.runs(name, 2)
		d := c.deployment(name)
		c.patch(d, d.Name, `{"spec":{"revisionHistoryLimit":3,"template":{"metadata":{"annotations":{"later.example/default":"x"}},"spec":{"hostname":"x","shareProcessNamespace":false,"containers":[`+
			containerWith(t, d.Spec.Template.Spec.Containers[0], `"workingDir":"/","resizePolicy":[{"resourceName":"cpu","restartPolicy":"NotRequired"}]`)+`]}}}}`)
		c.patch(&corev1.Service{}, decide.InternalName(name), `{"spec":{"trafficDistribution":"PreferClose"}}`)
		c.runs(name, 2)
	}
	c.settle()
	for minute := range 10 {
		for range 5 {
			c.now = c.now.Add(12 * time.Second)
			c.must(c.pass())
		}
		if minute == 5 {
			if wrote := c.wire.written(); len(wrote) > 0 {
				t.Errorf("writes: %q", wrote)
			}
			c.start()
		}
	}
	if wrote := c.wire.written(); len(wrote) > 0 {
		t.Errorf("writes: %q", wrote)
	}
}

// containerWith returns a container with more fields, as JSON.
func containerWith(t *testing.T, container corev1.Container, more string) string {
	t.Helper()
	return strings.TrimSuffix(mustJSON(t, container), "}") + "," + more + "}"
}

func TestHardCase03_AnAbsentDefaultPlacementIsSettledOnce(t *testing.T) {
	c := newCluster(t)
	config := &configv1.Ingress{}
	c.get("", clusterName, config)
	c.unsettle()
	c.settle()
	c.get("", clusterName, config)
	if config.Status.DefaultPlacement != configv1.DefaultPlacementWorkers {
		t.Fatalf("settled to %q", config.Status.DefaultPlacement)
	}
	c.node("cp-3", true)
	c.start()
	if wrote := c.settle(); len(wrote) > 0 {
		t.Errorf("another host and a restart: %q", wrote)
	}
	err := c.admin.Status().Patch(t.Context(), config, client.RawPatch(types.MergePatchType, []byte(`{"status":{"defaultPlacement":"ControlPlane"}}`)))
	if err == nil || !strings.Contains(err.Error(), "fixed for the life of a cluster") {
		t.Errorf("it could be changed: %v", err)
	}
	c.must(c.admin.Delete(t.Context(), &corev1.Node{ObjectMeta: objectMeta("", "cp-3")}))
}

// TestHardCase04_AConflictStormOnTheDefaultPlacement shows that it is settled
// whoever is faster, and that nothing that others wrote is lost.
func TestHardCase04_AConflictStormOnTheDefaultPlacement(t *testing.T) {
	c := newCluster(t)
	c.unsettle()
	n := 0
	c.wire.meddle = func() {
		if n++; n <= 8 {
			config := &configv1.Ingress{ObjectMeta: objectMeta("", clusterName)}
			c.must(c.admin.Patch(t.Context(), config, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"storm":"%d"}}}`, n))))
		}
	}
	c.settle()
	config := &configv1.Ingress{}
	c.get("", clusterName, config)
	if config.Status.DefaultPlacement != configv1.DefaultPlacementWorkers || config.Annotations["storm"] != "8" {
		t.Errorf("%q, %v", config.Status.DefaultPlacement, config.Annotations)
	}
}

// TestAConflictStormOnEverything lets somebody touch every object before each
// write of the operator, for a while.
func TestAConflictStormOnEverything(t *testing.T) {
	c := newCluster(t)
	c.make("x", nodePortSpec[:len(nodePortSpec)-1]+`,"domain":"x.example"}`)
	n := 0
	c.wire.meddle = func() {
		if n++; n > 40 {
			return
		}
		touch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"storm":"%d"}}}`, n))
		if n%3 == 0 { // if it were each time, not even the finalizer would be written
			c.must(c.admin.Patch(t.Context(), &operatorv1.IngressController{ObjectMeta: objectMeta(decide.Namespace, "x")}, touch))
		}
		for _, o := range []client.Object{&corev1.Service{ObjectMeta: objectMeta(decide.OperandNamespace, "router-x")}, c.emptyDeployment("x")} {
			c.must(client.IgnoreNotFound(c.admin.Patch(t.Context(), o, touch)))
		}
	}
	for range maxPasses * 3 {
		c.must(c.pass())
	}
	if n < 20 {
		t.Fatalf("only %d writes: nothing was in the way", n)
	}
	c.settle()
	c.runs("x", 2)
	c.settle()
	c.says("x", "Admitted=True Available=True")
	if s := c.service("router-x"); s.Annotations["storm"] == "" || s.Spec.Type != corev1.ServiceTypeNodePort {
		t.Errorf("%+v", s)
	}
}

// TestHardCase01_ExternalGetsWorkersAndOneWarning also shows that there is no
// default IngressController that nobody asked for.
func TestHardCase01_ExternalGetsWorkersAndOneWarning(t *testing.T) {
	c := newCluster(t)
	c.topology(configv1.ExternalTopologyMode, configv1.HighlyAvailableTopologyMode)
	defer c.topology(configv1.DualReplicaTopologyMode, configv1.HighlyAvailableTopologyMode)
	c.settle()
	if c.there(decide.Namespace, decide.DefaultName, &operatorv1.IngressController{}) {
		t.Error("a default IngressController was made")
	}
	events := &recorder{}
	c.r.Events = events
	c.unsettleTo(configv1.DefaultPlacementControlPlane)
	defer c.unsettleTo(configv1.DefaultPlacementWorkers)
	c.make("x", `{"domain":"x.example"}`)
	for range 5 {
		c.settle()
	}
	d := c.deployment("x")
	if _, worker := d.Spec.Template.Spec.NodeSelector["node-role.kubernetes.io/worker"]; !worker || *d.Spec.Replicas != 2 {
		t.Errorf("%d on %v", *d.Spec.Replicas, d.Spec.Template.Spec.NodeSelector)
	}
	if got := events.about("Topology"); len(got) != 1 || !strings.Contains(got[0], "impossible with controlPlaneTopology External") {
		t.Errorf("%q", got)
	}
}

// TestHardCase07_ForeignObjectsAreNeverTouched covers every kind, and shows that
// everything else is kept nevertheless.
func TestHardCase07_ForeignObjectsAreNeverTouched(t *testing.T) {
	c := newCluster(t)
	c.make("x", nodePortSpec[:len(nodePortSpec)-1]+`,"domain":"x.example"}`)
	c.settle()
	versions := map[string]string{}
	foreign := func() []client.Object {
		out := []client.Object{}
		for _, o := range []client.Object{
			&corev1.Service{ObjectMeta: objectMeta(decide.OperandNamespace, "router-internal-x")},
			&policyv1.PodDisruptionBudget{ObjectMeta: objectMeta(decide.OperandNamespace, "router-x")},
			&networkingv1.NetworkPolicy{ObjectMeta: objectMeta(decide.OperandNamespace, "router-x")},
			c.emptyDeployment("x"),
		} {
			c.get(o.GetNamespace(), o.GetName(), o)
			out = append(out, o)
		}
		return out
	}
	for _, o := range foreign() {
		c.must(c.admin.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null}}`))))
	}
	for _, o := range foreign() {
		versions[fmt.Sprintf("%T", o)] = string(o.GetUID()) + o.GetResourceVersion()
	}
	c.change("x", `{"spec":{"replicas":1}}`)
	c.settle()
	for range 30 {
		c.must(c.pass())
	}
	if wrote := c.wire.written(); len(wrote) > 0 {
		t.Errorf("a hot loop: %q", wrote)
	}
	for _, o := range foreign() {
		if kind := fmt.Sprintf("%T", o); versions[kind] != string(o.GetUID())+o.GetResourceVersion() {
			t.Errorf("%s was touched", kind)
		}
	}
	c.says("x", "ObjectsOwned=False/ForeignObjects Degraded=True Admitted=True")
	if s := c.service("router-x"); !decide.Owned("x", s.Labels) {
		t.Error("what is ours was not kept")
	}
	for _, o := range foreign() {
		c.must(c.admin.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"x"}}}`, decide.LabelOwner))))
	}
	c.settle()
	c.says("x", "ObjectsOwned=True")
	if *c.deployment("x").Spec.Replicas != 1 {
		t.Error("what was handed over is not kept")
	}
}

// TestHardCase13_ScalingKeepsTheVersion scales by the subresource, as autoscalers
// and people do.
func TestHardCase13_ScalingKeepsTheVersion(t *testing.T) {
	c := newCluster(t)
	c.make("x", `{"domain":"x.example","replicas":1}`)
	c.settle()
	before := c.deployment("x")
	c.api.Kubectl(t, "-n", decide.Namespace, "scale", "ingresscontroller/x", "--replicas=3")
	c.settle()
	after := c.deployment("x")
	if *after.Spec.Replicas != 3 || mustJSON(t, before.Spec.Template) != mustJSON(t, after.Spec.Template) {
		t.Errorf("%d routers, another version: %v", *after.Spec.Replicas, mustJSON(t, before.Spec.Template) != mustJSON(t, after.Spec.Template))
	}
	if got := c.controller("x").Status.Selector; got != decide.Selector("x") {
		t.Errorf("selector %q", got)
	}
}

// TestHardCase14_AFencedHostLetsARollOutAndADrainGoOn also shows that there is no
// new version, and that everything is as before when the host is back.
func TestHardCase14_AFencedHostLetsARollOutAndADrainGoOn(t *testing.T) {
	c := newCluster(t)
	c.settle()
	c.runs(decide.DefaultName, 2)
	c.settle()
	before, budget := c.deployment(decide.DefaultName), &policyv1.PodDisruptionBudget{}
	c.node("cp-2", false)
	c.runs(decide.DefaultName, 1)
	c.settle()
	during := c.deployment(decide.DefaultName)
	c.get(decide.OperandNamespace, "router-default", budget)
	if got := during.Spec.Strategy.RollingUpdate.MaxUnavailable.String() + " " + budget.Spec.MaxUnavailable.String(); got != "2 2" {
		t.Errorf("maxUnavailable of Deployment and budget: %s", got)
	}
	if mustJSON(t, before.Spec.Template) != mustJSON(t, during.Spec.Template) {
		t.Error("a fenced host made a new version")
	}
	c.says(decide.DefaultName, "Available=True Degraded=False DeploymentReplicasAllAvailable=False")
	c.now = c.now.Add(time.Hour + time.Minute)
	c.settle()
	c.says(decide.DefaultName, "Available=True Degraded=True")
	c.node("cp-2", true)
	c.runs(decide.DefaultName, 2)
	c.settle()
	if after := c.deployment(decide.DefaultName); mustJSON(t, after.Spec) != mustJSON(t, before.Spec) {
		t.Error("it is not as before")
	}
	c.says(decide.DefaultName, "Available=True Degraded=False")
}

func TestHardCase15_TheOneThatWaitedIsAdmittedWhenTheFirstIsGone(t *testing.T) {
	c := newCluster(t)
	c.make("a", `{"domain":"same.example"}`)
	c.settle()
	c.make("b", `{"domain":"same.example"}`)
	c.settle()
	c.says("a", "Admitted=True")
	c.says("b", "Admitted=False/Invalid")
	if got := condition(c.controller("b").Status.Conditions, decide.Admitted).Message; got != "conflicts with: a" {
		t.Errorf("%q", got)
	}
	if c.there(decide.OperandNamespace, "router-b", c.emptyDeployment("b")) {
		t.Error("it has routers")
	}
	c.must(c.admin.Delete(t.Context(), c.controller("a")))
	c.settle()
	c.says("b", "Admitted=True")
	if !c.there(decide.OperandNamespace, "router-b", c.emptyDeployment("b")) {
		t.Error("it has no routers")
	}
}

// TestALaterInvalidOneKeepsItsRouters shows that they stay as they are.
func TestALaterInvalidOneKeepsItsRouters(t *testing.T) {
	c := newCluster(t)
	c.make("x", nodePortSpec[:len(nodePortSpec)-1]+`,"domain":"x.example"}`)
	c.settle()
	before := c.deployment("x")
	c.change("x", `{"spec":{"replicas":3,"endpointPublishingStrategy":{"type":"HostNetwork","hostNetwork":{"httpPort":443}}}}`)
	c.settle()
	c.says("x", "Admitted=False/Invalid Degraded=True")
	if after := c.deployment("x"); after.ResourceVersion != before.ResourceVersion {
		t.Error("its Deployment was changed")
	}
	c.service("router-x")
	c.change("x", `{"spec":{"endpointPublishingStrategy":{"type":"NodePortService","hostNetwork":null}}}`)
	c.settle()
	c.says("x", "Admitted=True")
	if *c.deployment("x").Spec.Replicas != 3 {
		t.Error("it is not followed again")
	}
}

// TestDriftIsReverted shows that for the routers' own fields; what others add
// stays.
func TestDriftIsReverted(t *testing.T) {
	c := newCluster(t)
	c.settle()
	for name, patch := range map[string]string{
		"node selector": `{"spec":{"template":{"spec":{"nodeSelector":{"zone":"a"}}}}}`,
		"tolerations":   `{"spec":{"template":{"spec":{"tolerations":[{"operator":"Exists"}]}}}}`,
		"host network":  `{"spec":{"template":{"spec":{"hostPID":true}}}}`,
		"affinity":      `{"spec":{"template":{"spec":{"affinity":{"podAntiAffinity":null,"nodeAffinity":null}}}}}`,
		"replicas":      `{"spec":{"replicas":7}}`,
		"strategy":      `{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":"100%"}}}}`,
		"a pause":       `{"spec":{"paused":true}}`,
	} {
		before := c.deployment(decide.DefaultName)
		c.patch(c.emptyDeployment(decide.DefaultName), "router-default", patch)
		wrote := c.settle()
		if after := c.deployment(decide.DefaultName); mustJSON(t, before.Spec) != mustJSON(t, after.Spec) || count(wrote, "deployments") != 1 {
			t.Errorf("%s: in %d writes it became\n%s", name, count(wrote, "deployments"), mustJSON(t, after.Spec))
		}
	}
	c.patch(c.emptyDeployment(decide.DefaultName), "router-default", `{"metadata":{"labels":{"team":"a"}},"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`)
	if wrote := c.settle(); len(wrote) > 0 {
		t.Errorf("a restart by hand was taken back: %q", wrote)
	}
}

func count(wrote []string, resource string) int {
	n := 0
	for _, w := range wrote {
		if strings.Contains(w, "/"+resource+"/") {
			n++
		}
	}
	return n
}

func TestTheOperatorMayDoNoMoreThanItHasTo(t *testing.T) {
	c := newCluster(t)
	own := c.r.Client
	for name, try := range map[string]error{
		"make a secret of others":          own.Create(t.Context(), &corev1.Secret{ObjectMeta: objectMeta("kube-system", "x")}),
		"change a secret of others":        own.Patch(t.Context(), &corev1.Secret{ObjectMeta: objectMeta("default", "x")}, client.RawPatch(types.MergePatchType, []byte(`{"data":{}}`))),
		"delete a secret of others":        own.Delete(t.Context(), &corev1.Secret{ObjectMeta: objectMeta("default", "x")}),
		"write to the site's own":          own.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: objectMeta("openshift-config", "x")}),
		"delete an IngressController":      own.Delete(t.Context(), &operatorv1.IngressController{ObjectMeta: objectMeta(decide.Namespace, "default")}),
		"delete a router's pod":            own.Delete(t.Context(), &corev1.Pod{ObjectMeta: objectMeta(decide.OperandNamespace, "x")}),
		"change what it published besides": own.Patch(t.Context(), &corev1.ConfigMap{ObjectMeta: objectMeta("openshift-config-managed", "x")}, client.RawPatch(types.MergePatchType, []byte(`{"data":{}}`))),
	} {
		if try == nil || !strings.Contains(try.Error(), "forbidden") {
			t.Errorf("%s: %v", name, try)
		}
	}
}

func TestWarningsOfNothingKnownAreNone(t *testing.T) {
	c := newCluster(t)
	events := &recorder{}
	c.r.Events = events
	c.settle()
	if got := events.about("Topology"); len(got) > 0 {
		t.Errorf("%q", got)
	}
	if got := slices.Sorted(maps.Keys(events.reasons())); !slices.Contains(got, "Certificates") {
		t.Errorf("no word of a new certificate: %q", got)
	}
}

// TestRoutersShowTheIngressVIPAlsoAfterItHasChanged plays 'holdfast vip', which
// changes the VIPs in the status of the Infrastructure object, which hosts hold.
func TestRoutersShowTheIngressVIPAlsoAfterItHasChanged(t *testing.T) {
	c := newCluster(t)
	infra := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: clusterName}}
	held := func(vip string) {
		patch := fmt.Sprintf(`{"status":{"platformStatus":{"baremetal":{"ingressIPs":[%q,"fd98::6"]}}}}`, vip)
		c.must(c.admin.Status().Patch(t.Context(), infra, client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	for _, vip := range []string{"10.98.0.6", "10.98.0.60", "10.98.0.6"} {
		held(vip)
		c.settle()
		var d appsv1.Deployment
		c.get(decide.OperandNamespace, decide.RouterName(decide.DefaultName), &d)
		args := d.Spec.Template.Spec.Containers[0].Args
		if !slices.Contains(args, "--providers.kubernetesingress.ingressendpoint.ip="+vip) || !slices.Contains(args, "--providers.kubernetesgateway.statusaddress.ip="+vip) {
			t.Errorf("%s: %q", vip, args)
		}
	}
}
