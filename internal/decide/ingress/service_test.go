package ingress

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// wantedNodePort returns the rendered Service of a NodePort strategy.
func wantedNodePort() *corev1.Service {
	port := func(name string, number int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: number, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString(name)}
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: OperandNamespace, Name: "router-default", Labels: OwnerLabels("default"),
			Annotations: map[string]string{AnnotationNodePort: "default"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Selector: PodLabels("default"), ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
			InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyCluster), SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{port("http", 80), port("https", 443), port("metrics", 1936)},
		},
	}
}

// live returns that Service as an API server stores it, with the defaults of
// today's server and of a later one.
func live(change ...func(*corev1.Service)) *corev1.Service {
	s := wantedNodePort()
	s.ResourceVersion, s.UID = "7", "u"
	s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.0.0.9", []string{"10.0.0.9"}
	s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = []corev1.IPFamily{corev1.IPv4Protocol}, new(corev1.IPFamilyPolicySingleStack)
	s.Spec.TrafficDistribution = new("SomethingNew")
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].NodePort = 30001 + int32(i)
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func edited(name string, change func(*corev1.ServicePort)) func(*corev1.Service) {
	return func(s *corev1.Service) {
		for i := range s.Spec.Ports {
			if s.Spec.Ports[i].Name == name {
				change(&s.Spec.Ports[i])
			}
		}
	}
}

func without(name string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		var out []corev1.ServicePort
		for _, p := range s.Spec.Ports {
			if p.Name != name {
				out = append(out, p)
			}
		}
		s.Spec.Ports = out
	}
}

// TestHardCase05_NodePortsArePeoplesByTheNameOfTheirPort also covers the other
// fields of a Service that belong to administrators. None of these edits causes
// a write.
func TestHardCase05_NodePortsArePeoplesByTheNameOfTheirPort(t *testing.T) {
	for sentence, change := range map[string]func(*corev1.Service){
		"nothing was changed":              func(*corev1.Service) {},
		"a static node port":               edited("http", func(p *corev1.ServicePort) { p.NodePort = 30080 }),
		"node ports of two swapped":        func(s *corev1.Service) { s.Spec.Ports[0].NodePort, s.Spec.Ports[1].NodePort = 30002, 30001 },
		"the port for metrics taken away":  without("metrics"),
		"its own number for metrics":       edited("metrics", func(p *corev1.ServicePort) { p.NodePort = 31936 }),
		"an application protocol":          edited("http", func(p *corev1.ServicePort) { p.AppProtocol = new("http") }),
		"addresses":                        func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} },
		"families":                         func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack) },
		"a port for health":                func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true },
		"labels and annotations of others": func(s *corev1.Service) { s.Labels["team"], s.Annotations["note"] = "a", "b" },
		"owners":                           func(s *corev1.Service) { s.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} },
	} {
		s := live(change)
		got, changed, err := Service(s, wantedNodePort())
		if err != nil || changed {
			t.Errorf("%s: changed %v, %v:\n%s", sentence, changed, err, cmp.Diff(s, got))
		}
	}
}

// TestHardCase06_WhatDecidesWhereTrafficGoesIsRevertedInOneWrite tries each
// such edit alone and all of them together.
func TestHardCase06_WhatDecidesWhereTrafficGoesIsRevertedInOneWrite(t *testing.T) {
	all := map[string]func(*corev1.Service){
		"externalTrafficPolicy": func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster },
		"internalTrafficPolicy": func(s *corev1.Service) {
			s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
		},
		"selector":         func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "mine"} },
		"more of selector": func(s *corev1.Service) { s.Spec.Selector["zone"] = "a" },
		"type":             func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer },
		"sessionAffinity": func(s *corev1.Service) {
			s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(60))}}
		},
		"an added port": func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "more", Port: 81})
		},
		"a removed port":         without("https"),
		"a target":               edited("https", func(p *corev1.ServicePort) { p.TargetPort = intstr.FromInt32(8443) }),
		"a port's number":        edited("https", func(p *corev1.ServicePort) { p.Port = 8443 }),
		"the managed annotation": func(s *corev1.Service) { s.Annotations[AnnotationNodePort] = "other" },
	}
	clean, _, err := Service(live(), wantedNodePort())
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range all {
		got, changed, err := Service(live(change), wantedNodePort())
		if err != nil || !changed {
			t.Errorf("%s: changed %v, %v", name, changed, err)
			continue
		}
		want := clean.DeepCopy()
		if name == "a removed port" {
			want.Spec.Ports[1].NodePort = 0 // its number was lost with the port
		}
		if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if again, changed, _ := Service(got, wantedNodePort()); changed {
			t.Errorf("%s: a second write:\n%s", name, cmp.Diff(got, again))
		}
	}
	together := live()
	for _, change := range all {
		change(together)
	}
	if got, _, _ := Service(together, wantedNodePort()); got.Spec.Type != corev1.ServiceTypeNodePort || len(got.Spec.Ports) != 3 ||
		got.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		t.Errorf("all at once: %+v", got.Spec)
	}
}

func TestHardCase05_ARenamedPortLosesItsNumberAndTheOthersKeepTheirs(t *testing.T) {
	got, changed, err := Service(live(edited("http", func(p *corev1.ServicePort) { p.Name = "web" })), wantedNodePort())
	if err != nil || !changed {
		t.Fatal(changed, err)
	}
	var ports []int32
	for _, p := range got.Spec.Ports {
		ports = append(ports, p.NodePort)
	}
	if diff := cmp.Diff([]int32{0, 30002, 30003}, ports); diff != "" {
		t.Error(diff)
	}
}

func TestHardCase05_PortsInAnotherOrderKeepTheirNumbers(t *testing.T) {
	got, _, err := Service(live(func(s *corev1.Service) {
		s.Spec.Ports[0], s.Spec.Ports[2] = s.Spec.Ports[2], s.Spec.Ports[0]
	}), wantedNodePort())
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range got.Spec.Ports {
		if p.NodePort != 30001+int32(i) {
			t.Errorf("%s has %d", p.Name, p.NodePort)
		}
	}
}

// TestHardCase11_AServiceOfAnotherTypeBecomesThisOneWholly checks a change from
// a load balancer and one to it.
func TestHardCase11_AServiceOfAnotherTypeBecomesThisOneWholly(t *testing.T) {
	balanced := live(func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Spec.HealthCheckNodePort, s.Spec.LoadBalancerSourceRanges = 32000, []string{"192.0.2.0/24"}
		s.Spec.AllocateLoadBalancerNodePorts, s.Spec.LoadBalancerClass = new(true), new("metal.example/lb")
		s.Annotations = map[string]string{AnnotationSourceRanges: "default", "note": "kept"}
	})
	got, _, err := Service(balanced, wantedNodePort())
	if err != nil {
		t.Fatal(err)
	}
	want := live(func(s *corev1.Service) { s.Annotations["note"] = "kept" })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	lb := wantedNodePort()
	lb.Spec.Type, lb.Annotations = corev1.ServiceTypeLoadBalancer, nil
	if got, _, err = Service(live(), lb); err != nil || got.Annotations[AnnotationNodePort] != "" || got.Spec.Ports[0].NodePort != 30001 {
		t.Errorf("to a load balancer: %v %+v", err, got)
	}
}

func TestSourceRangesArePeoplesUnlessTheIngressControllerSetsThem(t *testing.T) {
	lb := wantedNodePort()
	lb.Spec.Type, lb.Annotations = corev1.ServiceTypeLoadBalancer, map[string]string{}
	theirs := live(func(s *corev1.Service) {
		s.Spec.Type, s.Annotations = corev1.ServiceTypeLoadBalancer, nil
		s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
	})
	if _, changed, _ := Service(theirs, lb); changed {
		t.Error("a person's were changed")
	}
	ours := theirs.DeepCopy()
	ours.Annotations = map[string]string{AnnotationSourceRanges: "default"}
	if got, _, _ := Service(ours, lb); got.Spec.LoadBalancerSourceRanges != nil || got.Annotations[AnnotationSourceRanges] != "" {
		t.Errorf("those of an IngressController that has none any more: %+v", got)
	}
}
