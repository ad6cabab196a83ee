package ingress

import (
	"crypto/x509"
	"reflect"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
)

// TestHowLongClientsHaveToLearnTheNextAuthority: a fifth of the present one's life, or,
// where it was announced late, half of what was left of it.
func TestHowLongClientsHaveToLearnTheNextAuthority(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	present := &x509.Certificate{NotBefore: from, NotAfter: from.Add(100 * day)}
	for _, q := range []struct{ announced, want time.Duration }{
		{0, 20 * day},
		{30 * day, 50 * day},
		{60 * day, 80 * day},
		{61 * day, 61*day + 39*day/2},
		{70 * day, 85 * day},
		{90 * day, 95 * day},
		{98 * day, 99 * day},
		{100 * day, 100 * day},
	} {
		announced, want := q.announced, q.want
		got := mayPromote(present, &x509.Certificate{NotBefore: from.Add(announced)}).Sub(from)
		if (got - want).Abs() > time.Second {
			t.Errorf("announced after %s: it may sign after %s, want %s", announced, got, want)
		}
		if got < announced || got > 100*day {
			t.Errorf("announced after %s: it may sign after %s, which is not within the life of the present one", announced, got)
		}
	}
}

// TestAnAuthorityOfClientsCountsWhereAPolicyAsksForIt: a name alone asks nobody for a
// certificate, and its ConfigMap may be missing.
func TestAnAuthorityOfClientsCountsWhereAPolicyAsksForIt(t *testing.T) {
	for _, policy := range []operatorv1.ClientCertificatePolicy{"", operatorv1.ClientCertificatePolicyOptional, operatorv1.ClientCertificatePolicyRequired} {
		for _, name := range []string{"", "people"} {
			for _, authority := range []string{"", "PEM"} {
				ic := controller("default")
				ic.Spec.ClientTLS = operatorv1.ClientTLS{ClientCertificatePolicy: policy, ClientCA: configv1.ConfigMapNameReference{Name: name}}
				s := Snapshot{Controller: ic, ClientCA: authority}
				if got, want := len(missing(s)) > 0, policy != "" && name != "" && authority == ""; got != want {
					t.Errorf("policy %q, ConfigMap %q, authority %q: missing is %t", policy, name, authority, got)
				}
				r := RouterOf(s, Admission{Domain: "apps.example", Strategy: EffectiveStrategy(nil)})
				if got, want := r.ClientCA != "", policy != "" && authority != ""; got != want {
					t.Errorf("policy %q, authority %q: the router has it: %t", policy, authority, got)
				}
			}
		}
	}
}

// TestAStrategyWithItsDefaultsStaysAsItIs: what the operator wrote into a status and
// reads again is no change. What a person left out is said there.
func TestAStrategyWithItsDefaultsStaysAsItIs(t *testing.T) {
	const tcp = operatorv1.TCPProtocol
	for _, kind := range strategyTypes() {
		bare := EffectiveStrategy(&operatorv1.EndpointPublishingStrategy{Type: kind})
		if again := EffectiveStrategy(bare); !reflect.DeepEqual(again, bare) {
			t.Errorf("%s: %+v, and then %+v", kind, bare, again)
		}
		said := bare.HostNetwork != nil && bare.HostNetwork.Protocol == tcp && bare.HostNetwork.StatsPort == StatsPort ||
			bare.NodePort != nil && bare.NodePort.Protocol == tcp || bare.Private != nil && bare.Private.Protocol == tcp ||
			bare.LoadBalancer != nil && bare.LoadBalancer.Scope == operatorv1.ExternalLoadBalancer && bare.LoadBalancer.DNSManagementPolicy == operatorv1.ManagedLoadBalancerDNS
		if !said {
			t.Errorf("%s: %+v leaves a default unsaid", kind, bare)
		}
	}
}
