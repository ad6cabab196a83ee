package ingress

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// opensslName makes the name that profiles use from the registry's.
func opensslName(registry string) string {
	name := strings.NewReplacer("TLS_", "", "RSA_WITH_3DES_EDE_CBC_SHA", "DES-CBC3-SHA", "_CBC", "", "AES_128", "AES128", "AES_256", "AES256", "_POLY1305_SHA256", "_POLY1305").Replace(registry)
	name = strings.Replace(name, "_WITH_", "_", 1)
	return strings.ReplaceAll(strings.TrimPrefix(name, "RSA_"), "_", "-")
}

func TestEachCipherThatGoHasIsKnownByItsTwoNames(t *testing.T) {
	got := map[string]bool{}
	for _, c := range cipherNames {
		got[c] = true
	}
	for _, c := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if slices.Contains(c.SupportedVersions, tls.VersionTLS13) {
			if !slices.Contains(alwaysThere, c.Name) {
				t.Errorf("%s is always there, and a profile must not name it", c.Name)
			}
			continue
		}
		name := c.Name
		if strings.Contains(name, "RC4") || strings.Contains(name, "ECDHE_RSA_WITH_3DES") {
			continue // no profile has it
		}
		if !got[name] || cipherNames[opensslName(name)] != name {
			t.Errorf("%s should be known as %s, which is %q", name, opensslName(name), cipherNames[opensslName(name)])
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("Go has none of %v", got)
	}
}

func TestNoPublishedProfileHasAMistake(t *testing.T) {
	for kind, p := range configv1.TLSProfiles {
		custom := &configv1.TLSSecurityProfile{Type: configv1.TLSProfileCustomType, Custom: &configv1.CustomTLSProfile{TLSProfileSpec: *p}}
		if wrong := tlsProblems(custom); len(wrong) > 0 {
			t.Errorf("%s: %q", kind, wrong)
		}
		if got := TLSProfile(&configv1.TLSSecurityProfile{Type: kind}); got == p || !slices.Equal(got.Ciphers, p.Ciphers) {
			t.Errorf("%s: %v", kind, got)
		}
	}
	for _, none := range []*configv1.TLSSecurityProfile{nil, {}, {Type: "Newer"}} {
		if got := TLSProfile(none); !slices.Equal(got.Ciphers, configv1.TLSProfiles[configv1.TLSProfileIntermediateType].Ciphers) || len(tlsProblems(none)) > 0 {
			t.Errorf("%v: %v", none, got)
		}
	}
	if got := Ciphers(&configv1.TLSProfileSpec{Ciphers: []string{"TLS_AES_128_GCM_SHA256", "AES128-SHA", "AES128-SHA", "AES256-SHA256"}}); !slices.Equal(got, []string{"TLS_RSA_WITH_AES_128_CBC_SHA"}) {
		t.Errorf("%v", got)
	}
}

func TestMistakesOfAProfile(t *testing.T) {
	for _, c := range []struct {
		version configv1.TLSProtocolVersion
		ciphers []string
		want    string
	}{
		{configv1.VersionTLS12, []string{"AES128-SHA"}, ""},
		{configv1.VersionTLS13, []string{"TLS_CHACHA20_POLY1305_SHA256"}, ""},
		{configv1.VersionTLS13, nil, ""},
		{configv1.VersionTLS12, []string{"AES128-SHA", "nonsense"}, `ciphers[1]: "nonsense" is unknown`},
		{configv1.VersionTLS12, []string{"ECDHE-ECDSA-AES256-SHA384"}, "none of them can be used below TLS 1.3"},
		{"SSL3", []string{"AES128-SHA"}, `minTLSVersion: "SSL3" is not one of`},
	} {
		wrong := tlsProblems(&configv1.TLSSecurityProfile{Type: configv1.TLSProfileCustomType, Custom: &configv1.CustomTLSProfile{TLSProfileSpec: configv1.TLSProfileSpec{MinTLSVersion: c.version, Ciphers: c.ciphers}}})
		if (len(wrong) > 0) != (c.want != "") || !strings.Contains(strings.Join(wrong, "; "), c.want) {
			t.Errorf("%s %v: %q", c.version, c.ciphers, wrong)
		}
	}
	if wrong := tlsProblems(&configv1.TLSSecurityProfile{Type: configv1.TLSProfileCustomType}); len(wrong) != 2 {
		t.Errorf("a profile of one's own that says nothing: %q", wrong)
	}
}

func TestAStrategyHasEveryDefaultAndNothingOfAnotherType(t *testing.T) {
	const tcp, proxy = operatorv1.TCPProtocol, operatorv1.ProxyProtocol
	all := func(kind operatorv1.EndpointPublishingStrategyType, p operatorv1.IngressControllerProtocol) *operatorv1.EndpointPublishingStrategy {
		return &operatorv1.EndpointPublishingStrategy{
			Type: kind, HostNetwork: &operatorv1.HostNetworkStrategy{Protocol: p, HTTPPort: 8080}, NodePort: &operatorv1.NodePortStrategy{Protocol: p},
			Private: &operatorv1.PrivateStrategy{Protocol: p}, LoadBalancer: &operatorv1.LoadBalancerStrategy{Scope: operatorv1.InternalLoadBalancer},
		}
	}
	if got := EffectiveStrategy(nil); got.Type != operatorv1.HostNetworkStrategyType || *got.HostNetwork != (operatorv1.HostNetworkStrategy{Protocol: tcp, HTTPPort: 80, HTTPSPort: 443, StatsPort: 1936}) {
		t.Errorf("%+v", got)
	}
	for _, kind := range strategyTypes() {
		for given, want := range map[operatorv1.IngressControllerProtocol]operatorv1.IngressControllerProtocol{operatorv1.DefaultProtocol: tcp, tcp: tcp, proxy: proxy} {
			got := EffectiveStrategy(all(kind, given))
			if members(got) != 1 || EffectiveStrategy(&operatorv1.EndpointPublishingStrategy{Type: kind}).Type != kind {
				t.Errorf("%s: %+v", kind, got)
			}
			if balancer := kind == operatorv1.LoadBalancerServiceStrategyType; proxyProtocol(got) != (want == proxy && !balancer) {
				t.Errorf("%s with %q: %+v", kind, given, got)
			}
			if got.HostNetwork != nil && *got.HostNetwork != (operatorv1.HostNetworkStrategy{Protocol: want, HTTPPort: 8080, HTTPSPort: 443, StatsPort: 1936}) {
				t.Errorf("%+v", got.HostNetwork)
			}
			if got.LoadBalancer != nil && (got.LoadBalancer.Scope != operatorv1.InternalLoadBalancer || got.LoadBalancer.DNSManagementPolicy != operatorv1.ManagedLoadBalancerDNS) {
				t.Errorf("%+v", got.LoadBalancer)
			}
			if got.NodePort != nil && got.NodePort.Protocol != want || got.Private != nil && got.Private.Protocol != want {
				t.Errorf("%s: %+v", kind, got)
			}
		}
		service := kind == operatorv1.NodePortServiceStrategyType || kind == operatorv1.LoadBalancerServiceStrategyType
		if s := EffectiveStrategy(all(kind, tcp)); NeedsService(s) != service || len(strategyProblems(s)) > 0 || !sameType(s, all(kind, proxy)) || sameType(s, nil) || sameType(nil, s) || sameType(s, all("x", tcp)) {
			t.Errorf("%s: %q", kind, strategyProblems(s))
		}
	}
	empty := EffectiveStrategy(&operatorv1.EndpointPublishingStrategy{Type: operatorv1.LoadBalancerServiceStrategyType})
	if empty.LoadBalancer.Scope != operatorv1.ExternalLoadBalancer {
		t.Errorf("%+v", empty.LoadBalancer)
	}
}

func TestMistakesOfAStrategy(t *testing.T) {
	ports := func(a, b, c int32) *operatorv1.EndpointPublishingStrategy {
		return &operatorv1.EndpointPublishingStrategy{Type: operatorv1.HostNetworkStrategyType, HostNetwork: &operatorv1.HostNetworkStrategy{HTTPPort: a, HTTPSPort: b, StatsPort: c}}
	}
	ranges := func(list ...operatorv1.CIDR) *operatorv1.EndpointPublishingStrategy {
		return &operatorv1.EndpointPublishingStrategy{Type: operatorv1.LoadBalancerServiceStrategyType, LoadBalancer: &operatorv1.LoadBalancerStrategy{AllowedSourceRanges: list}}
	}
	for _, c := range []struct {
		strategy *operatorv1.EndpointPublishingStrategy
		want     []string
	}{
		{ports(80, 443, 1936), nil},
		{ports(80, 80, 1936), []string{"hostNetwork.httpsPort: port 80 is already the httpPort"}},
		{ports(6443, 443, 443), []string{"hostNetwork.httpPort: port 6443 is used by the API server", "hostNetwork.statsPort: port 443 is already the httpsPort"}},
		{ports(80, 9443, 22624), []string{"httpsPort: port 9443 is used by the API server", "statsPort: port 22624 is used by the configuration server"}},
		{ranges("192.0.2.0/24", " fd98::/64 "), nil},
		{ranges("192.0.2.0/24", "192.0.2.1", "x"), []string{`allowedSourceRanges[1]: "192.0.2.1" is not a network`, `allowedSourceRanges[2]: "x" is not a network`}},
		{&operatorv1.EndpointPublishingStrategy{Type: "Cloud"}, []string{`type: "Cloud" is not one of HostNetwork`}},
	} {
		got := strategyProblems(c.strategy)
		if len(got) != len(c.want) {
			t.Errorf("%v, want %q", got, c.want)
			continue
		}
		for i, w := range c.want {
			if !strings.Contains(got[i], w) {
				t.Errorf("%q, want %q", got[i], w)
			}
		}
	}
}

func TestALocalRouterIsPreferredUnlessAnOverrideSaysOtherwise(t *testing.T) {
	for text, c := range map[string]struct {
		on  bool
		err string
	}{
		"":                                {true, ""},
		`{}`:                              {true, ""},
		`{"other":1}`:                     {true, ""},
		`{"localWithFallback":true}`:      {true, ""},
		`{"localWithFallback":false}`:     {false, ""},
		`{"localWithFallback":"false"}`:   {false, ""},
		`{"localWithFallback":"true"}`:    {true, ""},
		`{"localWithFallback":"perhaps"}`: {true, "localWithFallback: \"perhaps\" is neither true nor false"},
		`[1]`:                             {true, "spec.unsupportedConfigOverrides: "},
	} {
		ic := controller("x", func(ic *operatorv1.IngressController) {
			ic.Spec.UnsupportedConfigOverrides = runtime.RawExtension{Raw: []byte(text)}
		})
		on, err := overriddenFallback(ic)
		if on != c.on || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %t, %v", text, on, err)
		}
		if localFallback(ic) != (c.on && c.err == "") {
			t.Errorf("%s is followed as %t", text, localFallback(ic))
		}
	}
}

func TestWhatAnObjectBecomes(t *testing.T) {
	type nested struct {
		A, B *string `json:",omitempty"`
	}
	type object struct {
		Labels map[string]string `json:"labels,omitempty"`
		Nested *nested           `json:"nested,omitempty"`
		Null   *nested           `json:"null"`
		List   []corev1.EnvVar   `json:"list,omitempty"`
		Plain  []string          `json:"plain,omitempty"`
	}
	text := func(o *object) string {
		out := fmt.Sprintf("%v %v %v", o.Labels, o.List, o.Plain)
		if o.Nested != nil {
			for _, p := range []*string{o.Nested.A, o.Nested.B} {
				if p != nil {
					out += " " + *p
				}
			}
		}
		return out
	}
	a, b := "a", "b"
	for _, c := range []struct {
		name         string
		live, wanted object
		gone         []string
		want         string
		changed      bool
	}{
		{"nothing is asked for", object{Labels: map[string]string{"x": "1"}, Nested: &nested{A: &a}}, object{}, nil, "map[x:1] [] [] a", false},
		{"what is there is not written again", object{Labels: map[string]string{"x": "1"}}, object{Labels: map[string]string{"x": "1"}}, nil, "map[x:1] [] []", false},
		{"somebody's label stays beside ours", object{Labels: map[string]string{"x": "1"}}, object{Labels: map[string]string{"y": "2"}}, nil, "map[x:1 y:2] [] []", true},
		{"a list of labels becomes ours alone", object{Labels: map[string]string{"x": "1"}}, object{Labels: map[string]string{"y": "2"}}, []string{"labels"}, "map[y:2] [] []", true},
		{"a field that nobody asks for is removed", object{Nested: &nested{A: &a, B: &b}}, object{}, []string{"nested.B"}, "map[] [] [] a", true},
		{"somebody's part of a structure stays", object{Nested: &nested{A: &a}}, object{Nested: &nested{B: &b}}, nil, "map[] [] [] a b", true},
		{"an entry keeps what we do not ask for, by its name", object{List: []corev1.EnvVar{{Name: "p", Value: "1"}, {Name: "q", Value: "2"}}}, object{List: []corev1.EnvVar{{Name: "q"}}}, nil, "map[] [{q 2 nil}] []", true},
		{"a plain list is ours", object{Plain: []string{"x", "y"}}, object{Plain: []string{"y"}}, nil, "map[] [] [y]", true},
	} {
		got, changed, err := Overlay(&c.live, &c.wanted, c.gone...)
		if err != nil || changed != c.changed || text(got) != c.want {
			t.Errorf("%s: %t %s, %v", c.name, changed, text(got), err)
		}
		again, changed, err := Overlay(got, &c.wanted, c.gone...)
		if err != nil || changed || text(again) != text(got) {
			t.Errorf("%s: the second time %t %s, %v", c.name, changed, text(again), err)
		}
	}
	bad := make(chan int)
	if _, _, err := Overlay(&bad, &bad); err == nil {
		t.Error("what is no JSON is no object")
	}
}

func TestADrainIsAsLongAsItsPortsAllow(t *testing.T) {
	for _, c := range []struct {
		host, single bool
		want         Drain
		grace        time.Duration
	}{
		{false, false, Drain{Accept: 20 * time.Second, Finish: time.Hour - 30*time.Second}, time.Hour},
		{false, true, Drain{Accept: 20 * time.Second, Finish: time.Hour - 30*time.Second}, time.Hour},
		{true, false, Drain{Accept: 10 * time.Second, Finish: 10 * time.Second}, 30 * time.Second},
		{true, true, Drain{Finish: time.Second}, 11 * time.Second},
	} {
		if got := drain(c.host, c.single); got != c.want || got.Grace() != c.grace {
			t.Errorf("%+v: %+v, %s", c, got, got.Grace())
		}
	}
}

func TestWhatARouterIsMadeFrom(t *testing.T) {
	made := func(name string, s *operatorv1.EndpointPublishingStrategy) *Router {
		return newRouter(controller(name), "apps.example", EffectiveStrategy(s), Cluster{ControlPlane: ha, Infrastructure: ha, Address: "apps.10.98.0.6"})
	}
	r := made(DefaultName, nil)
	if r.Name != DefaultName || r.Domain != "apps.example" || r.HTTP != 80 || r.HTTPS != 443 || r.Stats != 1936 || r.Address != "apps.10.98.0.6" || r.ProxyProtocol || r.Certificate != CertificateName(DefaultName) {
		t.Errorf("%+v", r)
	}
	other := &operatorv1.EndpointPublishingStrategy{Type: operatorv1.HostNetworkStrategyType, HostNetwork: &operatorv1.HostNetworkStrategy{HTTPPort: 8080, HTTPSPort: 8443, StatsPort: 1937, Protocol: operatorv1.ProxyProtocol}}
	if r := made(DefaultName, other); r.HTTP != 8080 || r.HTTPS != 8443 || r.Stats != 1937 || r.Address != "" || !r.ProxyProtocol {
		t.Errorf("the address leads to the usual ports alone: %+v", r)
	}
	if r := made("x", nil); r.Address != "" {
		t.Errorf("the address leads to the default routers: %+v", r)
	}
	if r := made(DefaultName, &operatorv1.EndpointPublishingStrategy{Type: operatorv1.PrivateStrategyType}); r.Address != "" || r.HTTP != 80 || r.HTTPS != 443 || r.Stats != 1936 {
		t.Errorf("%+v", r)
	}
}

func TestAControllerIsDegradedOnceAConditionHasFailedForItsGrace(t *testing.T) {
	fails := func(kind string, ago time.Duration) operatorv1.OperatorCondition {
		return operatorv1.OperatorCondition{Type: kind, Status: operatorv1.ConditionFalse, Reason: "R", Message: "m", LastTransitionTime: metav1.NewTime(day.Add(-ago))}
	}
	for kind, grace := range graces {
		if grace == 0 {
			continue
		}
		c, after := degraded([]operatorv1.OperatorCondition{fails(kind, grace-time.Second)}, day)
		if c.Status != operatorv1.ConditionFalse || after != time.Second {
			t.Errorf("%s, a second before its grace ends: %s, looked at again in %s", kind, c.Status, after)
		}
		c, after = degraded([]operatorv1.OperatorCondition{fails(kind, grace)}, day)
		if c.Status != operatorv1.ConditionTrue || after != lookWhileDegraded || !strings.Contains(c.Message, kind+"=False (R: m)") {
			t.Errorf("%s, when it ends: %s %q, looked at again in %s", kind, c.Status, c.Message, after)
		}
	}
	both := []operatorv1.OperatorCondition{fails(DeploymentAvailable, time.Hour), fails(MinAvailable, graces[MinAvailable]-time.Second)}
	if c, after := degraded(both, day); c.Status != operatorv1.ConditionTrue || after != min(time.Second, lookWhileDegraded) {
		t.Errorf("%s, looked at again in %s", c.Status, after)
	}
	if c, after := degraded([]operatorv1.OperatorCondition{fails("Somebody's", time.Hour)}, day); c.Status != operatorv1.ConditionFalse || after != 0 {
		t.Errorf("%s, looked at again in %s", c.Status, after)
	}
}
