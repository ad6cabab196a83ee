package ingress

import (
	"fmt"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// strategyTypes returns every type of publishing strategy.
func strategyTypes() []operatorv1.EndpointPublishingStrategyType {
	return []operatorv1.EndpointPublishingStrategyType{
		operatorv1.HostNetworkStrategyType, operatorv1.LoadBalancerServiceStrategyType,
		operatorv1.NodePortServiceStrategyType, operatorv1.PrivateStrategyType,
	}
}

var day = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func withDomain(domain string) func(*operatorv1.IngressController) {
	return func(ic *operatorv1.IngressController) { ic.Spec.Domain = domain }
}

func madeAt(minute int) func(*operatorv1.IngressController) {
	return func(ic *operatorv1.IngressController) {
		ic.CreationTimestamp = metav1.NewTime(day.Add(time.Duration(minute) * time.Minute))
	}
}

// wasAdmitted makes an IngressController one that already serves a domain.
func wasAdmitted(domain string) func(*operatorv1.IngressController) {
	return func(ic *operatorv1.IngressController) {
		ic.Status.Domain = domain
		ic.Status.Conditions = []operatorv1.OperatorCondition{yes(Admitted, "Valid", "")}
	}
}

func list(all ...*operatorv1.IngressController) []operatorv1.IngressController {
	var out []operatorv1.IngressController
	for _, ic := range all {
		out = append(out, *ic)
	}
	return out
}

func leaving(ic *operatorv1.IngressController) { ic.DeletionTimestamp = new(metav1.NewTime(day)) }

func TestHardCase15_OneDomainHasOneIngressController(t *testing.T) {
	a, b := controller("a", withDomain("x.example"), madeAt(1)), controller("b", withDomain("x.example"), madeAt(2))
	tests := []struct {
		sentence string
		all      []operatorv1.IngressController
		want     string // names of the admitted ones
	}{
		{"of two made one after the other, the first", list(a, b), "a"},
		{"in any order", list(b, a), "a"},
		{"of two made at once, the first by name", list(controller("b", withDomain("x.example"), madeAt(1)), a), "a"},
		{"one that serves it stays, however young", list(a, controller("b", wasAdmitted("x.example"), madeAt(5))), "b"},
		{"upper case is the same domain", list(a, controller("b", withDomain("X.Example"), madeAt(2))), "a"},
		{"and so is a dot at the end", list(a, controller("b", withDomain("x.example."), madeAt(2))), "a"},
		{"the cluster's own domain counts too", list(controller("default", madeAt(1)), controller("b", madeAt(2))), "default"},
		{"another domain is no conflict", list(a, controller("b", withDomain("y.example"), madeAt(2))), "a b"},
		{"a part of a domain is another one", list(a, controller("b", withDomain("sub.x.example"), madeAt(2))), "a b"},
		{"one that leaves still serves", list(controller("a", wasAdmitted("x.example"), leaving), b), "a"},
		{"one that leaves and never served does not count", list(controller("a", withDomain("x.example"), leaving), b), "a b"},
		{"two that serve it by mistake: the older one stays", list(
			controller("a", wasAdmitted("x.example"), madeAt(9)), controller("b", wasAdmitted("x.example"), madeAt(1))), "b"},
		{"once the first is gone, the one that waited", list(b), "b"},
	}
	for _, tt := range tests {
		var got []string
		for i := range tt.all {
			if Admit(&tt.all[i], tt.all, Cluster{Domain: "apps.example"}, nil).Valid() {
				got = append(got, tt.all[i].Name)
			}
		}
		if strings.Join(sorted(got), " ") != tt.want {
			t.Errorf("%s: admitted %q, want %q", tt.sentence, got, tt.want)
		}
	}
}

func TestHardCase15_TheMessageNamesTheOther(t *testing.T) {
	a, b := controller("a", wasAdmitted("x.example")), controller("b", withDomain("x.example"))
	got := Admit(b, list(a, b), Cluster{}, nil)
	if message(got.Problems) != "conflicts with: a" {
		t.Errorf("%q", got.Problems)
	}
}

func TestHardCase15_ADomainIsSettledOnce(t *testing.T) {
	ic := controller("a", wasAdmitted("old.example"), withDomain("new.example"))
	if got := Admit(ic, list(ic), Cluster{Domain: "apps.example"}, nil); got.Domain != "old.example" {
		t.Errorf("after a change of spec.domain: %s", got.Domain)
	}
	ic = controller("default", wasAdmitted("apps.old"))
	if got := Admit(ic, list(ic), Cluster{Domain: "apps.new"}, nil); got.Domain != "apps.old" {
		t.Errorf("after a change of the cluster's domain: %s", got.Domain)
	}
}

func TestEveryMistakeOfASpecIsNamedAtOnce(t *testing.T) {
	ic := controller("x", func(ic *operatorv1.IngressController) {
		ic.Spec = operatorv1.IngressControllerSpec{
			Replicas: new(int32(-1)),
			EndpointPublishingStrategy: &operatorv1.EndpointPublishingStrategy{
				Type: hostNet, HostNetwork: &operatorv1.HostNetworkStrategy{HTTPPort: 8080, HTTPSPort: 8080, StatsPort: 6443},
			},
			NodePlacement: &operatorv1.NodePlacement{NodeSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Exists"}}}},
			RouteSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}},
			TLSSecurityProfile: &configv1.TLSSecurityProfile{Type: configv1.TLSProfileCustomType, Custom: &configv1.CustomTLSProfile{
				TLSProfileSpec: configv1.TLSProfileSpec{Ciphers: []string{"ROT13"}, MinTLSVersion: "TLS9"},
			}},
			ClientTLS:                  operatorv1.ClientTLS{ClientCertificatePolicy: "Required", AllowedSubjectPatterns: []string{"("}},
			TuningOptions:              operatorv1.IngressControllerTuningOptions{HeaderBufferBytes: 1024, HeaderBufferMaxRewriteBytes: 1024},
			UnsupportedConfigOverrides: runtime.RawExtension{Raw: []byte(`{"localWithFallback": "perhaps"}`)},
		}
	})
	got := Admit(ic, list(ic), Cluster{}, nil).Problems
	want := []string{
		"domain is required",
		"hostNetwork.httpsPort: port 8080 is already the httpPort",
		"hostNetwork.statsPort: port 6443 is used by the API server on hosts of the cluster",
		"spec.nodePlacement.nodeSelector.matchExpressions",
		"spec.routeSelector:",
		`minTLSVersion: "TLS9"`,
		`ciphers[0]: "ROT13" is unknown`,
		"spec.clientTLS.clientCA.name: required",
		"spec.clientTLS.allowedSubjectPatterns[0]",
		"spec.replicas: -1",
		"headerBufferBytes: 1024 is not more than headerBufferMaxRewriteBytes 1024",
		`localWithFallback: "perhaps" is neither true nor false`,
	}
	for _, w := range want {
		if !strings.Contains(message(got), w) {
			t.Errorf("%q is not in\n%s", w, strings.Join(got, "\n"))
		}
	}
}

// TestHardCase11_EachOfTheTwelveChangesOfStrategyIsDoneOrRefused checks each
// change. If it is done, the status has the new strategy and nothing of the old
// one. If it is refused, the status says why and everything stays.
func TestHardCase11_EachOfTheTwelveChangesOfStrategyIsDoneOrRefused(t *testing.T) {
	changes := 0
	foreign := []string{ObjectName("Service", OperandNamespace, "router-x")}
	for _, from := range strategyTypes() {
		for _, to := range strategyTypes() {
			if from == to {
				continue
			}
			changes++
			ic := controller("x", wasAdmitted("x.example"), func(ic *operatorv1.IngressController) {
				ic.Status.EndpointPublishingStrategy = EffectiveStrategy(&operatorv1.EndpointPublishingStrategy{Type: from})
				// Leftovers of the old strategy have no effect.
				ic.Spec.EndpointPublishingStrategy = EffectiveStrategy(&operatorv1.EndpointPublishingStrategy{Type: from})
				ic.Spec.EndpointPublishingStrategy.Type = to
			})
			name := fmt.Sprintf("%s to %s", from, to)
			d := Decide(Snapshot{Controller: ic, All: list(ic), Now: day})
			if s := d.Status.EndpointPublishingStrategy; d.Router == nil || s.Type != to || members(s) != 1 || d.Router.Strategy.Type != to {
				t.Errorf("%s: %+v", name, s)
			}
			d = Decide(Snapshot{Controller: ic, All: list(ic), Now: day, Observed: Observed{Foreign: foreign}})
			switch needs := NeedsService(EffectiveStrategy(ic.Spec.EndpointPublishingStrategy)) && !NeedsService(ic.Status.EndpointPublishingStrategy); {
			case needs && (d.Router != nil || d.Status.EndpointPublishingStrategy.Type != from ||
				!strings.Contains(message(d.Admission.Problems), "has another owner")):
				t.Errorf("%s beside somebody else's Service: %+v", name, d)
			case !NeedsService(d.Status.EndpointPublishingStrategy) && !needs && d.Router == nil:
				t.Errorf("%s was refused though it needs no Service: %q", name, d.Admission.Problems)
			}
		}
	}
	if changes != 12 {
		t.Errorf("%d changes", changes)
	}
}

func members(s *operatorv1.EndpointPublishingStrategy) int {
	n := 0
	for _, there := range []bool{s.HostNetwork != nil, s.LoadBalancer != nil, s.NodePort != nil, s.Private != nil} {
		if there {
			n++
		}
	}
	return n
}

func TestHardCase11_AChangeToWhatIsInvalidLeavesEverythingAsItIs(t *testing.T) {
	ic := controller("x", wasAdmitted("x.example"), func(ic *operatorv1.IngressController) {
		ic.Status.EndpointPublishingStrategy = EffectiveStrategy(&operatorv1.EndpointPublishingStrategy{Type: nodePrt})
		ic.Spec.EndpointPublishingStrategy = &operatorv1.EndpointPublishingStrategy{
			Type: hostNet, HostNetwork: &operatorv1.HostNetworkStrategy{HTTPPort: 443},
		}
	})
	d := Decide(Snapshot{Controller: ic, All: list(ic), Now: day})
	if d.Router != nil || d.Status.EndpointPublishingStrategy.Type != nodePrt {
		t.Errorf("%+v", d)
	}
	if c, _ := find(d.Status.Conditions, Admitted); c.Status != operatorv1.ConditionFalse || c.Reason != "Invalid" {
		t.Errorf("%+v", c)
	}
}

// TestHardCase10_HostPortsOfOneIngressController checks that equal ports are
// refused, other ports are taken as given, and 0 becomes the standard port.
func TestHardCase10_HostPortsOfOneIngressController(t *testing.T) {
	for want, ports := range map[string]operatorv1.HostNetworkStrategy{
		"80 443 1936 ":   {},
		"9080 443 1936 ": {HTTPPort: 9080},
		"9080 9443 9936 spec.endpointPublishingStrategy.hostNetwork.httpsPort: port 9443 is used by the API server on hosts of the cluster": {HTTPPort: 9080, HTTPSPort: 9443, StatsPort: 9936},
		"443 443 1936 spec.endpointPublishingStrategy.hostNetwork.httpsPort: port 443 is already the httpPort":                              {HTTPPort: 443},
	} {
		s := EffectiveStrategy(&operatorv1.EndpointPublishingStrategy{Type: hostNet, HostNetwork: &ports})
		h := s.HostNetwork
		if got := fmt.Sprintf("%d %d %d %s", h.HTTPPort, h.HTTPSPort, h.StatsPort, message(strategyProblems(s))); got != want {
			t.Errorf("%+v: %s, want %s", ports, got, want)
		}
	}
}

// Each host asks its router at port 1936 whether it serves. With another one the virtual IP would
// leave every host, and no condition of the IngressController would say so.
func TestTheRoutersThatHoldTheVirtualIPAnswerWhereHostsAsk(t *testing.T) {
	for _, c := range []struct {
		name, address string
		strategy      operatorv1.EndpointPublishingStrategyType
		port          int32
		refused       bool
	}{
		{"default", "10.98.0.6", hostNet, 1937, true},
		{"default", "10.98.0.6", hostNet, 0, false},
		{"default", "", hostNet, 1937, false},
		{"other", "10.98.0.6", hostNet, 1937, false},
		{"default", "10.98.0.6", operatorv1.PrivateStrategyType, 1937, false},
	} {
		ic := controller(c.name, func(ic *operatorv1.IngressController) {
			ic.Spec.EndpointPublishingStrategy = &operatorv1.EndpointPublishingStrategy{Type: c.strategy, HostNetwork: &operatorv1.HostNetworkStrategy{StatsPort: c.port}}
		})
		got := message(Admit(ic, list(ic), Cluster{Domain: "apps.x", Address: c.address}, nil).Problems)
		if strings.Contains(got, "hostNetwork.statsPort: must be 1936") != c.refused {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestTheProtocolIsFollowedInEveryStrategyThatHasOne(t *testing.T) {
	const p = operatorv1.ProxyProtocol
	for _, s := range []operatorv1.EndpointPublishingStrategy{
		{Type: hostNet, HostNetwork: &operatorv1.HostNetworkStrategy{Protocol: p}},
		{Type: nodePrt, NodePort: &operatorv1.NodePortStrategy{Protocol: p}},
		{Type: private, Private: &operatorv1.PrivateStrategy{Protocol: p}},
	} {
		if !proxyProtocol(EffectiveStrategy(&s)) || proxyProtocol(EffectiveStrategy(&operatorv1.EndpointPublishingStrategy{Type: s.Type})) {
			t.Errorf("%s", s.Type)
		}
	}
}

func TestWhatRoutersDoNotFollowIsSaid(t *testing.T) {
	ic := controller("x", func(ic *operatorv1.IngressController) {
		ic.Spec.HTTPCompression.MimeTypes = []operatorv1.CompressionMIMEType{"text/html"}
		ic.Spec.TuningOptions.ThreadCount = 4
	})
	d := Decide(Snapshot{Controller: ic, All: list(ic), Cluster: Cluster{Domain: "d"}, Now: day})
	if c, ok := find(d.Status.Conditions, UnsupportedFieldsName); !ok || c.Message != "these routers do not follow spec.httpCompression, spec.tuningOptions" {
		t.Errorf("%+v", c)
	}
	for policy, said := range map[operatorv1.IngressControllerHTTPHeaderPolicy]bool{
		operatorv1.AppendHTTPHeaderPolicy: false, operatorv1.ReplaceHTTPHeaderPolicy: false,
		operatorv1.IfNoneHTTPHeaderPolicy: true, operatorv1.NeverHTTPHeaderPolicy: true,
	} {
		ic := controller("x", func(ic *operatorv1.IngressController) {
			ic.Spec.HTTPHeaders = &operatorv1.IngressControllerHTTPHeaders{ForwardedHeaderPolicy: policy}
		})
		if got := strings.Join(notFollowed(&ic.Spec), " "); (got == "spec.httpHeaders ("+string(policy)+")") != said || !said && got != "" {
			t.Errorf("%s: %q", policy, got)
		}
	}
	ic = controller("x")
	d = Decide(Snapshot{Controller: ic, All: list(ic), Cluster: Cluster{Domain: "d"}, Now: day})
	if c, ok := find(d.Status.Conditions, UnsupportedFieldsName); ok {
		t.Errorf("without a reason: %+v", c)
	}
}

// TestRoutersThatWouldLetEverybodyInAreNotMade covers two cases: the
// authorities that check clients' certificates are missing, and patterns are
// set that routers do not check.
func TestRoutersThatWouldLetEverybodyInAreNotMade(t *testing.T) {
	for want, spec := range map[string]operatorv1.ClientTLS{
		"spec.clientTLS.clientCA: ConfigMap openshift-config/people does not exist, or its key ca-bundle.pem is missing or empty": {
			ClientCertificatePolicy: "Required", ClientCA: configv1.ConfigMapNameReference{Name: "people"},
		},
		"spec.clientTLS.allowedSubjectPatterns: these routers check only the issuer of a client certificate, not its subject": {AllowedSubjectPatterns: []string{"CN=me"}},
	} {
		ic := controller("x", func(ic *operatorv1.IngressController) { ic.Spec.ClientTLS = spec })
		d := Decide(Snapshot{Controller: ic, All: list(ic), Cluster: Cluster{Domain: "d"}, Now: day})
		if d.Router != nil || message(d.Admission.Problems) != want {
			t.Errorf("%q, want %q", d.Admission.Problems, want)
		}
	}
}
