package router

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/document"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// cluster is the cluster of the golden files.
var cluster = ingress.Cluster{
	ControlPlane: configv1.DualReplicaTopologyMode, Infrastructure: configv1.HighlyAvailableTopologyMode, Domain: "apps.prod.example",
}

// of returns the settled router of an IngressController.
func of(c ingress.Cluster, spec operatorv1.IngressControllerSpec) *ingress.Router {
	ic := &operatorv1.IngressController{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: spec}
	hosts := []ingress.Host{}
	for _, name := range []string{"cp-1", "cp-2"} {
		hosts = append(hosts, ingress.Host{Name: name, Ready: true, Labels: map[string]string{
			corev1.LabelOSStable: "linux", state.LabelWorker: "", state.LabelMaster: "",
		}})
	}
	s := ingress.Snapshot{Controller: ic, Cluster: c, Hosts: hosts, Gateways: true, ClientCA: "authorities\n"}
	return ingress.RouterOf(s, ingress.Admit(ic, nil, c, nil))
}

func strategy(kind operatorv1.EndpointPublishingStrategyType) *operatorv1.EndpointPublishingStrategy {
	return &operatorv1.EndpointPublishingStrategy{Type: kind}
}

// all returns the objects in the order of the struct, without nil ones.
func all(t *testing.T, o Objects) []byte {
	t.Helper()
	var out []byte
	for _, value := range []any{o.Config, o.Deployment, o.Internal, o.Published, o.Budget, o.Policy, o.Class, o.GatewayClass, o.Monitor, o.Marker, o.Hosts} {
		if fmt.Sprint(value) == "<nil>" {
			continue
		}
		data, err := document.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(append(out, "---\n"...), data...)
	}
	return out
}

func TestEachStrategyMatchesTheApprovedFile(t *testing.T) {
	lone := ingress.Cluster{
		ControlPlane: configv1.SingleReplicaTopologyMode, Infrastructure: configv1.HighlyAvailableTopologyMode,
		Placement: configv1.DefaultPlacementControlPlane, Domain: "apps.edge.example",
	}
	for name, r := range map[string]*ingress.Router{
		"host-network": of(cluster, operatorv1.IngressControllerSpec{}),
		"lone-host":    of(lone, operatorv1.IngressControllerSpec{}),
		"node-port":    of(cluster, operatorv1.IngressControllerSpec{Replicas: new(int32(2)), EndpointPublishingStrategy: strategy(operatorv1.NodePortServiceStrategyType)}),
		"private": of(cluster, operatorv1.IngressControllerSpec{
			EndpointPublishingStrategy: strategy(operatorv1.PrivateStrategyType),
			NamespaceSelector:          &metav1.LabelSelector{}, RouteSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"shard": "a"}},
			ClientTLS: operatorv1.ClientTLS{ClientCertificatePolicy: operatorv1.ClientCertificatePolicyRequired, ClientCA: configv1.ConfigMapNameReference{Name: "people"}},
		}),
		"load-balancer": of(cluster, operatorv1.IngressControllerSpec{EndpointPublishingStrategy: &operatorv1.EndpointPublishingStrategy{
			Type: operatorv1.LoadBalancerServiceStrategyType, LoadBalancer: &operatorv1.LoadBalancerStrategy{AllowedSourceRanges: []operatorv1.CIDR{"192.0.2.0/24"}},
		}}),
	} {
		golden.Check(t, name+".yaml", all(t, Render(r, Traefik{})))
	}
}

// TestTheServiceOfTheNodePortStrategyIsTheSpecifications compares name by name.
func TestTheServiceOfTheNodePortStrategyIsTheSpecifications(t *testing.T) {
	s := Render(of(cluster, operatorv1.IngressControllerSpec{EndpointPublishingStrategy: strategy(operatorv1.NodePortServiceStrategyType)}), Traefik{}).Published
	if s.Name != "router-default" || s.Namespace != "openshift-ingress" || s.Annotations["operator.openshift.io/node-port-service-for"] != "default" ||
		s.Spec.Type != corev1.ServiceTypeNodePort || s.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal ||
		len(s.Spec.Selector) != 1 || s.Spec.Selector["ingresscontroller.operator.openshift.io/deployment-ingresscontroller"] != "default" {
		t.Errorf("%+v", s)
	}
	for i, want := range []string{"http 80 TCP http", "https 443 TCP https"} {
		p := s.Spec.Ports[i]
		if got := fmt.Sprint(p.Name, " ", p.Port, " ", p.Protocol, " ", p.TargetPort.String()); got != want || p.NodePort != 0 {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestHardCase13_ScalingMakesNoNewVersion: the number of routers, the way in
// which they are replaced, and the budget for a drain are not part of a
// version.
func TestHardCase13_ScalingMakesNoNewVersion(t *testing.T) {
	version := func(kind operatorv1.EndpointPublishingStrategyType, replicas int32) (string, string) {
		r := of(cluster, operatorv1.IngressControllerSpec{Replicas: new(replicas), EndpointPublishingStrategy: strategy(kind)})
		d := Render(r, Traefik{}).Deployment
		data, err := document.Marshal(d.Spec.Template)
		if err != nil {
			t.Fatal(err)
		}
		return d.Spec.Template.Labels[ingress.LabelHash], string(data)
	}
	for _, kind := range []operatorv1.EndpointPublishingStrategyType{operatorv1.NodePortServiceStrategyType, operatorv1.HostNetworkStrategyType} {
		hash, template := version(kind, 1)
		for n := range int32(6) {
			if h, tmpl := version(kind, n); h != hash || tmpl != template {
				t.Errorf("%s: %d routers are another version", kind, n)
			}
		}
	}
	// A lost host changes the way in which routers are replaced, but not the
	// routers.
	r := of(cluster, operatorv1.IngressControllerSpec{})
	before := Render(r, Traefik{}).Deployment.Spec.Template.Labels[ingress.LabelHash]
	r.Rollout.MaxUnavailable.IntVal = 7
	if after := Render(r, Traefik{}).Deployment.Spec.Template.Labels[ingress.LabelHash]; after != before {
		t.Error("a lost host makes a new version")
	}
}

func TestWhatRoutersAreMakesANewVersion(t *testing.T) {
	version := func(spec operatorv1.IngressControllerSpec) string {
		return Render(of(cluster, spec), Traefik{}).Deployment.Spec.Template.Labels[ingress.LabelHash]
	}
	seen := map[string]string{}
	for name, spec := range map[string]operatorv1.IngressControllerSpec{
		"nothing":   {},
		"strategy":  {EndpointPublishingStrategy: strategy(operatorv1.PrivateStrategyType)},
		"ports":     {EndpointPublishingStrategy: &operatorv1.EndpointPublishingStrategy{Type: operatorv1.HostNetworkStrategyType, HostNetwork: &operatorv1.HostNetworkStrategy{HTTPPort: 81}}},
		"proxy":     {EndpointPublishingStrategy: &operatorv1.EndpointPublishingStrategy{Type: operatorv1.HostNetworkStrategyType, HostNetwork: &operatorv1.HostNetworkStrategy{Protocol: operatorv1.ProxyProtocol}}},
		"placement": {NodePlacement: &operatorv1.NodePlacement{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}},
		"shard":     {RouteSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
		"headers":   {HTTPHeaders: &operatorv1.IngressControllerHTTPHeaders{ForwardedHeaderPolicy: operatorv1.ReplaceHTTPHeaderPolicy}},
		"log":       {Logging: &operatorv1.IngressControllerLogging{Access: &operatorv1.AccessLogging{}}},
	} {
		v := version(spec)
		if other, there := seen[v]; there {
			t.Errorf("%s and %s are one version", name, other)
		}
		seen[v] = name
	}
}

func TestRoutersNeedAHostsRightsOnlyForAHostsPorts(t *testing.T) {
	for _, kind := range []operatorv1.EndpointPublishingStrategyType{
		operatorv1.HostNetworkStrategyType, operatorv1.PrivateStrategyType, operatorv1.NodePortServiceStrategyType, operatorv1.LoadBalancerServiceStrategyType,
	} {
		p := Render(of(cluster, operatorv1.IngressControllerSpec{EndpointPublishingStrategy: strategy(kind)}), Traefik{}).Deployment.Spec.Template.Spec
		host := kind == operatorv1.HostNetworkStrategyType
		root := *p.SecurityContext.RunAsUser == 0
		added := len(p.Containers[0].SecurityContext.Capabilities.Add) > 0
		ports := slices.ContainsFunc(p.Containers[0].Ports, func(c corev1.ContainerPort) bool { return c.HostPort != 0 })
		if p.HostNetwork != host || root != host || added != host || ports != host || (p.DNSPolicy == corev1.DNSClusterFirstWithHostNet) != host {
			t.Errorf("%s: host network %v, root %v, capabilities %v, host ports %v, DNS %s", kind, p.HostNetwork, root, added, ports, p.DNSPolicy)
		}
	}
}

func TestHardCase10_TwoIngressControllersShareAHostWithTheirOwnPorts(t *testing.T) {
	r := of(cluster, operatorv1.IngressControllerSpec{EndpointPublishingStrategy: &operatorv1.EndpointPublishingStrategy{
		Type: operatorv1.HostNetworkStrategyType, HostNetwork: &operatorv1.HostNetworkStrategy{HTTPPort: 9080, HTTPSPort: 9453, StatsPort: 9936},
	}})
	o := Render(r, Traefik{})
	var got []string
	for _, p := range o.Deployment.Spec.Template.Spec.Containers[0].Ports {
		got = append(got, fmt.Sprint(p.Name, " ", p.ContainerPort, " ", p.HostPort))
	}
	if strings.Join(got, ", ") != "http 9080 9080, https 9453 9453, metrics 9936 9936" {
		t.Errorf("%q", got)
	}
	if o.Internal.Spec.Ports[0].Port != 80 || o.Internal.Spec.Ports[1].Port != 443 || o.Internal.Spec.Ports[0].TargetPort.String() != "http" {
		t.Errorf("the Service inside the cluster has other ports: %+v", o.Internal.Spec.Ports)
	}
	if probe := o.Deployment.Spec.Template.Spec.Containers[0].ReadinessProbe.HTTPGet; probe.Port.IntVal != 9936 || probe.Path != "/healthz/ready" {
		t.Errorf("%+v", probe)
	}
}

// TestTheMarkerIsAmongWhatIsSelected: the marker matches whatever an
// administrator selects. If nothing can match, no start waits for it.
func TestTheMarkerIsAmongWhatIsSelected(t *testing.T) {
	in := metav1.LabelSelectorRequirement{Key: "shard", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}}
	not := metav1.LabelSelectorRequirement{Key: "shard", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a"}}
	for _, tt := range []struct {
		name  string
		s     *metav1.LabelSelector
		waits bool
	}{
		{"everything", nil, true},
		{"labels", &metav1.LabelSelector{MatchLabels: map[string]string{"shard": "a"}}, true},
		{"one of several", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{in}}, true},
		{"all but some", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{not}}, true},
		{"nothing at all", &metav1.LabelSelector{MatchLabels: map[string]string{"shard": "a"}, MatchExpressions: []metav1.LabelSelectorRequirement{not}}, false},
	} {
		r := of(cluster, operatorv1.IngressControllerSpec{RouteSelector: tt.s})
		o := Render(r, Traefik{})
		path := o.Deployment.Spec.Template.Spec.Containers[0].StartupProbe.HTTPGet.Path
		if waits := strings.HasPrefix(path, "/api/"); waits != tt.waits || strings.Contains(o.Config.Data[configKey], "holdfast-started") != tt.waits {
			t.Errorf("%s: the start asks %s", tt.name, path)
		}
		if o.Marker.Labels[ingress.LabelOwner] != "default" && tt.waits {
			t.Errorf("%s: not known as ours: %v", tt.name, o.Marker.Labels)
		}
	}
}

func TestASelectorOfNoNamespaceServesNoneOfThem(t *testing.T) {
	r := of(cluster, operatorv1.IngressControllerSpec{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}})
	if args := Arguments(r); !slices.Contains(args, "--providers.kubernetesingress.namespaces=openshift-ingress") {
		t.Errorf("%q", args)
	}
}

// Programs that create DNS records or wait for an address read it there, and it
// was missing (docs/facts/findings.md#lab, K4).
func TestIngressesAndGatewaysShowTheAddressThatLeadsToTheirRouters(t *testing.T) {
	site := cluster
	site.Address = "10.98.0.6"
	shown := func(c ingress.Cluster, name string, s *operatorv1.EndpointPublishingStrategy) string {
		ic := &operatorv1.IngressController{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: operatorv1.IngressControllerSpec{EndpointPublishingStrategy: s}}
		r := ingress.RouterOf(ingress.Snapshot{Controller: ic, Cluster: c, Gateways: true}, ingress.Admit(ic, nil, c, nil))
		var out []string
		for _, arg := range Arguments(r) {
			if strings.Contains(arg, "ingressendpoint") || strings.Contains(arg, "statusaddress") {
				out = append(out, strings.TrimPrefix(arg, "--providers.kubernetes"))
			}
		}
		return strings.Join(out, " ")
	}
	other := &operatorv1.EndpointPublishingStrategy{
		Type: operatorv1.HostNetworkStrategyType, HostNetwork: &operatorv1.HostNetworkStrategy{HTTPPort: 9080, HTTPSPort: 9453, StatsPort: 9936},
	}
	for _, tt := range []struct{ name, got, want string }{
		{"the default routers", shown(site, "default", nil), "ingress.ingressendpoint.ip=10.98.0.6 gateway.statusaddress.ip=10.98.0.6"},
		{"a site without VIPs", shown(cluster, "default", nil), ""},
		{"routers to which the VIP does not lead", shown(site, "inner", nil), ""},
		{"ports that are not those of the VIP", shown(site, "default", other), ""},
		{"node ports", shown(site, "default", strategy(operatorv1.NodePortServiceStrategyType)), ""},
		{
			"a load balancer", shown(site, "inner", strategy(operatorv1.LoadBalancerServiceStrategyType)),
			"ingress.ingressendpoint.publishedservice=openshift-ingress/router-inner " +
				"gateway.statusaddress.service.namespace=openshift-ingress gateway.statusaddress.service.name=router-inner",
		},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, tt.got, tt.want)
		}
	}
	mayWrite := slices.ContainsFunc(Traefik{}.Rules(), func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, "ingresses/status") && slices.Contains(r.Verbs, "update")
	})
	if !mayWrite {
		t.Error("routers may not write the status of Ingresses")
	}
}
