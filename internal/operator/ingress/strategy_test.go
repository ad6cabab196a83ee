package ingress

import (
	"fmt"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
)

// published returns a cluster with an IngressController x of strategy
// NodePortService.
func published(t *testing.T) *cluster {
	c := newCluster(t)
	c.make("x", nodePortSpec[:len(nodePortSpec)-1]+`,"domain":"x.example"}`)
	c.settle()
	return c
}

// ports returns the node ports of x's Service, as "http=30080 ...".
func (c *cluster) ports() string {
	c.t.Helper()
	var out []string
	for _, p := range c.service("router-x").Spec.Ports {
		out = append(out, fmt.Sprintf("%s=%d", p.Name, p.NodePort))
	}
	return strings.Join(out, " ")
}

// setPorts writes them as somebody does in an editor: the whole list.
func (c *cluster) setPorts(ports string) {
	c.t.Helper()
	var list []string
	for p := range strings.FieldsSeq(ports) {
		name, number, _ := strings.Cut(p, "=")
		port := map[string]int{"http": 80, "https": 443, "metrics": 1936, "web": 80}[name]
		list = append(list, fmt.Sprintf(`{"name":%q,"port":%d,"protocol":"TCP","targetPort":%q,"nodePort":%s}`,
			name, port, strings.Replace(name, "web", "http", 1), number))
	}
	c.patch(&corev1.Service{}, "router-x", `{"spec":{"ports":[`+strings.Join(list, ",")+`]}}`)
}

// TestHardCase05_StaticNodePortsStay tries every way to set them, over restarts
// and upgrades of the operator.
func TestHardCase05_StaticNodePortsStay(t *testing.T) {
	c := published(t)
	if s := c.service("router-x"); s.Annotations[decide.AnnotationNodePort] != "x" || len(s.Spec.Ports) != 3 {
		t.Fatalf("%+v", s)
	}
	unwritten := func(what, want string) {
		t.Helper()
		if wrote := c.settle(); count(wrote, "services") > 0 || c.ports() != want {
			t.Errorf("%s: %s, want %s; wrote %q", what, c.ports(), want, wrote)
		}
	}
	c.setPorts("http=30080 https=30443 metrics=30936")
	unwritten("by an edit", "http=30080 https=30443 metrics=30936")
	c.api.Kubectl(t, "-n", decide.OperandNamespace, "patch", "service", "router-x", "--type=json",
		`--patch=[{"op":"replace","path":"/spec/ports/0/nodePort","value":30081}]`)
	unwritten("by a patch", "http=30081 https=30443 metrics=30936")
	c.setPorts("http=30443 https=30081 metrics=30936")
	unwritten("swapped", "http=30443 https=30081 metrics=30936")
	c.setPorts("http=30443 https=30081")
	unwritten("without metrics", "http=30443 https=30081")
	c.start()
	unwritten("after a restart", "http=30443 https=30081")
	c.setPorts("http=30443 https=30081 metrics=31936")
	unwritten("with metrics again", "http=30443 https=30081 metrics=31936")

	t.Log("an upgrade: other routers, the same Service")
	c.change("x", `{"spec":{"logging":{"access":{"destination":{"type":"Container","container":{}}}},"endpointPublishingStrategy":{"nodePort":{"protocol":"PROXY"}}}}`)
	unwritten("after an upgrade", "http=30443 https=30081 metrics=31936")
	if args := strings.Join(c.deployment("x").Spec.Template.Spec.Containers[0].Args, " "); !strings.Contains(args, "--entrypoints.http.proxyprotocol.insecure=true") {
		t.Errorf("PROXY is not spoken: %s", args)
	}

	t.Log("another order is put right, with the same numbers")
	c.setPorts("metrics=31936 https=30081 http=30443")
	c.settle()
	if got := c.ports(); got != "http=30443 https=30081 metrics=31936" {
		t.Error(got)
	}
	t.Log("a renamed port loses its number, the others keep theirs")
	c.setPorts("web=30443 https=30081 metrics=31936")
	c.settle()
	if got := c.ports(); strings.Contains(got, "web") || !strings.HasSuffix(got, "https=30081 metrics=31936") {
		t.Error(got)
	}
	t.Log("0 is any")
	c.setPorts("http=0 https=30081 metrics=31936")
	unwritten("any", c.ports())
	t.Log("a number that another Service has is refused by the API, and nothing changes")
	before := c.ports()
	other := &corev1.Service{ObjectMeta: objectMeta("default", "other"), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Name: "a", Port: 1, NodePort: 32222}},
	}}
	c.must(c.admin.Create(t.Context(), other))
	defer func() { c.must(c.admin.Delete(t.Context(), other)) }()
	s := c.service("router-x")
	s.Spec.Ports[0].NodePort = 32222
	if err := c.admin.Update(t.Context(), s); !apierrors.IsInvalid(err) {
		t.Errorf("%v", err)
	}
	unwritten("after that", before)
	t.Log("a Service that is deleted comes back; its numbers are lost")
	c.must(c.admin.Delete(t.Context(), c.service("router-x")))
	c.settle()
	if got := c.service("router-x"); len(got.Spec.Ports) != 3 || got.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		t.Errorf("%+v", got.Spec)
	}
}

// TestHardCase05_StaticNodePortsByApply shows that a person's own field manager
// keeps them, and that neither takes the other's fields.
func TestHardCase05_StaticNodePortsByApply(t *testing.T) {
	c := published(t)
	file := t.TempDir() + "/service.yaml"
	writeFile(t, file, `apiVersion: v1
kind: Service
metadata: {namespace: openshift-ingress, name: router-x}
spec:
  ports:
  - {name: http, port: 80, protocol: TCP, nodePort: 30180}
  - {name: https, port: 443, protocol: TCP, nodePort: 30543}
`)
	for range 3 {
		c.api.Kubectl(t, "apply", "--server-side", "--force-conflicts", "--field-manager=person", "-f", file)
		if wrote := c.settle(); len(wrote) > 0 || !strings.HasPrefix(c.ports(), "http=30180 https=30543 ") {
			t.Errorf("%s; wrote %q", c.ports(), wrote)
		}
	}
}

// TestHardCase06_OneWriteReverts shows that for what decides where traffic goes.
// A Service without its owner's label is named and left alone.
func TestHardCase06_OneWriteReverts(t *testing.T) {
	c := published(t)
	c.setPorts("http=30080 https=30443 metrics=30936")
	c.patch(&corev1.Service{}, "router-x", `{"metadata":{"labels":{"team":"a"},"annotations":{"note":"b","operator.openshift.io/node-port-service-for":"c"}},
		"spec":{"externalTrafficPolicy":"Cluster","internalTrafficPolicy":"Local","selector":{"app":"mine"},"sessionAffinity":"ClientIP","type":"LoadBalancer",
		"ports":[{"name":"http","port":80,"protocol":"TCP","targetPort":8080,"nodePort":30080},{"name":"https","port":443,"protocol":"TCP","targetPort":"https","nodePort":30443},{"name":"more","port":81,"protocol":"TCP"}]}}`)
	wrote := c.settle()
	s := c.service("router-x")
	if count(wrote, "services") != 1 || s.Spec.Type != corev1.ServiceTypeNodePort || s.Spec.ExternalTrafficPolicy != "Local" ||
		*s.Spec.InternalTrafficPolicy != "Cluster" || s.Spec.Selector[decide.LabelDeployment] != "x" || len(s.Spec.Selector) != 1 ||
		s.Spec.SessionAffinity != "None" || s.Spec.Ports[0].TargetPort.String() != "http" || s.Annotations[decide.AnnotationNodePort] != "x" {
		t.Errorf("%d writes: %+v", count(wrote, "services"), s)
	}
	if got := c.ports(); !strings.HasPrefix(got, "http=30080 https=30443") || strings.Contains(got, "more") {
		t.Error(got)
	}
	if s.Labels["team"] != "a" || s.Annotations["note"] != "b" {
		t.Errorf("%v %v", s.Labels, s.Annotations)
	}
	c.patch(&corev1.Service{}, "router-x", fmt.Sprintf(`{"metadata":{"labels":{%q:null}},"spec":{"externalTrafficPolicy":"Cluster"}}`, decide.LabelOwner))
	c.settle()
	for range 30 {
		c.must(c.pass())
	}
	if wrote := c.wire.written(); len(wrote) > 0 {
		t.Errorf("a hot loop: %q", wrote)
	}
	c.says("x", "ObjectsOwned=False/ForeignObjects Degraded=True")
	if s := c.service("router-x"); s.Spec.ExternalTrafficPolicy != "Cluster" {
		t.Error("it was touched")
	}
	c.patch(&corev1.Service{}, "router-x", fmt.Sprintf(`{"metadata":{"labels":{%q:"x"}}}`, decide.LabelOwner))
	c.settle()
	c.says("x", "ObjectsOwned=True")
	if s := c.service("router-x"); s.Spec.ExternalTrafficPolicy != "Local" {
		t.Error("it is not kept again")
	}
}

var strategies = []operatorv1.EndpointPublishingStrategyType{
	operatorv1.HostNetworkStrategyType, operatorv1.LoadBalancerServiceStrategyType,
	operatorv1.NodePortServiceStrategyType, operatorv1.PrivateStrategyType,
}

// whole checks that every object is of one strategy and none of another.
func (c *cluster) whole(t *testing.T, kind operatorv1.EndpointPublishingStrategyType) {
	t.Helper()
	ic := c.controller("x")
	if s := ic.Status.EndpointPublishingStrategy; s == nil || s.Type != kind ||
		(s.HostNetwork != nil) != (kind == strategies[0]) || (s.LoadBalancer != nil) != (kind == strategies[1]) ||
		(s.NodePort != nil) != (kind == strategies[2]) || (s.Private != nil) != (kind == strategies[3]) {
		t.Errorf("%s: status says %+v", kind, s)
	}
	if host := c.deployment("x").Spec.Template.Spec.HostNetwork; host != (kind == strategies[0]) {
		t.Errorf("%s: host network %v", kind, host)
	}
	s := &corev1.Service{}
	there := c.there(decide.OperandNamespace, "router-x", s)
	want := corev1.ServiceType("")
	switch kind {
	case operatorv1.LoadBalancerServiceStrategyType:
		want = corev1.ServiceTypeLoadBalancer
	case operatorv1.NodePortServiceStrategyType:
		want = corev1.ServiceTypeNodePort
	case operatorv1.HostNetworkStrategyType, operatorv1.PrivateStrategyType:
	}
	if there != (want != "") || there && s.Spec.Type != want {
		t.Errorf("%s: Service there %v, of type %s", kind, there, s.Spec.Type)
	}
	if there && (s.Annotations[decide.AnnotationNodePort] != "") != (kind == strategies[2]) {
		t.Errorf("%s: annotations %v", kind, s.Annotations)
	}
	if got := condition(ic.Status.Conditions, decide.LoadBalancerReady).Status; (got != "") != (kind == strategies[1]) {
		t.Errorf("%s: LoadBalancerReady %q", kind, got)
	}
}

// TestHardCase11_EachOfTheTwelveSwitchesIsDoneCompletely also cuts the operator
// off after each of its writes.
func TestHardCase11_EachOfTheTwelveSwitchesIsDoneCompletely(t *testing.T) {
	c := newCluster(t)
	c.make("x", `{"domain":"x.example"}`)
	c.settle()
	for _, from := range strategies {
		for _, to := range strategies {
			if from == to {
				continue
			}
			c.change("x", fmt.Sprintf(publishing, from))
			c.settle()
			c.whole(t, from)
			c.change("x", fmt.Sprintf(publishing, to))
			for cut := 1; c.cutAfter(1); cut++ {
				if cut > 10 {
					t.Fatalf("%s to %s takes more than %d writes", from, to, cut)
				}
			}
			c.whole(t, to)
		}
	}
}

// cutAfter starts an operator that is cut off after some writes, and reports
// whether it was. The next one does what it had not done.
func (c *cluster) cutAfter(writes int) bool {
	c.t.Helper()
	c.start()
	c.wire.limit = writes
	for range maxPasses {
		before := len(c.wire.writes)
		if err := c.pass(); err != nil {
			if !strings.Contains(err.Error(), errCut.Error()) {
				c.t.Fatal(err)
			}
			return true
		}
		if len(c.wire.writes) == before {
			c.start()
			return false
		}
	}
	c.t.Fatal("it writes on and on")
	return false
}

// TestHardCase11_ASwitchThatCannotBeDoneIsRefusedWithItsReason shows that nothing
// changes; once the switch is possible, it is done.
func TestHardCase11_ASwitchThatCannotBeDoneIsRefusedWithItsReason(t *testing.T) {
	c := newCluster(t)
	c.make("x", `{"domain":"x.example","endpointPublishingStrategy":{"type":"Private"}}`)
	c.settle()
	theirs := &corev1.Service{ObjectMeta: objectMeta(decide.OperandNamespace, "router-x"), Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Port: 1}},
	}}
	c.must(c.admin.Create(t.Context(), theirs))
	c.settle()
	c.says("x", "Admitted=True ObjectsOwned=True")
	before := c.deployment("x")
	for _, kind := range strategies[1:3] {
		c.change("x", fmt.Sprintf(publishing, kind))
		c.settle()
		c.says("x", "Admitted=False/Invalid")
		if got := condition(c.controller("x").Status.Conditions, decide.Admitted).Message; !strings.Contains(got, "Service openshift-ingress/router-x is needed for "+string(kind)) {
			t.Errorf("%q", got)
		}
		if s := c.controller("x").Status.EndpointPublishingStrategy; s.Type != operatorv1.PrivateStrategyType {
			t.Errorf("status says %+v", s)
		}
	}
	if after := c.deployment("x"); after.ResourceVersion != before.ResourceVersion {
		t.Error("the routers were changed")
	}
	c.must(c.admin.Delete(t.Context(), theirs))
	c.settle()
	c.says("x", "Admitted=True")
	c.whole(t, strategies[2])
}
