package ingress

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAConditionOfOursGoesOnceItSaysNothingAnyMore: one of another writer stays in its
// place.
func TestAConditionOfOursGoesOnceItSaysNothingAnyMore(t *testing.T) {
	for _, kind := range []string{
		"Admitted", "Available", "Progressing", "Degraded", "Upgradeable", "DeploymentAvailable", "DeploymentReplicasMinAvailable",
		"DeploymentReplicasAllAvailable", "DeploymentRollingOut", "LoadBalancerManaged", "LoadBalancerReady", "DNSManaged", "DNSReady",
		"ObjectsOwned", "DefaultCertificateValid", "HostsOwned", "UnsupportedFields",
	} {
		before := []operatorv1.OperatorCondition{yes("Theirs", "", ""), yes(kind, "", ""), yes("Evaluated", "", "")}
		var kinds []string
		for _, c := range merged(before, []operatorv1.OperatorCondition{yes("New", "", ""), yes("Evaluated", "now", "")}) {
			kinds = append(kinds, c.Type+c.Reason)
		}
		if got := strings.Join(kinds, " "); got != "Theirs Evaluatednow New" {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

// TestWhatIsSaidOfTheLoadBalancerAndOfNames: nothing here makes an address or a zone.
func TestWhatIsSaidOfTheLoadBalancerAndOfNames(t *testing.T) {
	service := func(addresses int) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "router-x"}}
		s.Status.LoadBalancer.Ingress = make([]corev1.LoadBalancerIngress, addresses)
		return s
	}
	strategy := func(kind operatorv1.EndpointPublishingStrategyType, policy operatorv1.LoadBalancerDNSManagementPolicy) *Router {
		return &Router{Domain: "apps.example", Strategy: &operatorv1.EndpointPublishingStrategy{Type: kind, LoadBalancer: &operatorv1.LoadBalancerStrategy{DNSManagementPolicy: policy}}}
	}
	said := func(list []operatorv1.OperatorCondition) string {
		var out []string
		for _, c := range list {
			out = append(out, fmt.Sprintf("%s=%s/%s: %s", c.Type, c.Status, c.Reason, c.Message))
		}
		return strings.Join(out, "\n")
	}
	const wanted = "LoadBalancerManaged=True/WantedByEndpointPublishingStrategy: \n"
	for rule, c := range map[string]struct {
		r               *Router
		service         *corev1.Service
		balancer, names string
	}{
		"host ports": {
			strategy(hostNet, ""), nil,
			"LoadBalancerManaged=False/EndpointPublishingStrategyExcludesManagedLoadBalancer: the endpoint publishing strategy HostNetwork has no managed load balancer",
			"DNSManaged=False/UnsupportedEndpointPublishingStrategy: ",
		},
		"no Service": {
			strategy(balance, operatorv1.ManagedLoadBalancerDNS), nil, wanted + "LoadBalancerReady=False/ServiceNotFound: the Service does not exist",
			"DNSManaged=False/NoDNSZones: Holdfast manages no DNS zone: point *.apps.example at the load balancer",
		},
		"no address": {
			strategy(balance, operatorv1.UnmanagedLoadBalancerDNS), service(0),
			wanted + "LoadBalancerReady=False/LoadBalancerPending: the Service router-x has no address yet: without a cloud, the cluster needs a load balancer controller",
			"DNSManaged=False/UnmanagedLoadBalancerDNS: ",
		},
		"an address": {strategy(balance, operatorv1.UnmanagedLoadBalancerDNS), service(1), wanted + "LoadBalancerReady=True/LoadBalancerProvisioned: ", "DNSManaged=False/UnmanagedLoadBalancerDNS: "},
	} {
		if got := said(loadBalancerConditions(c.r, Observed{Service: c.service})); got != c.balancer {
			t.Errorf("%s: %s", rule, got)
		}
		if got := said(dns(c.r)); got != c.names {
			t.Errorf("%s: %s", rule, got)
		}
	}
}

// TestWhoseAbsenceEndsTheService: routers that are not available, and a load balancer that
// is not ready.
func TestWhoseAbsenceEndsTheService(t *testing.T) {
	unknown := operatorv1.OperatorCondition{Type: DeploymentAvailable, Status: operatorv1.ConditionUnknown, Reason: "U", Message: "m"}
	for rule, c := range map[string]struct {
		list     []operatorv1.OperatorCondition
		rendered bool
		want     string
	}{
		"it was never admitted":      {nil, false, "False the IngressController was never admitted"},
		"nothing speaks against":     {nil, true, "True "},
		"all is well":                {[]operatorv1.OperatorCondition{yes(DeploymentAvailable, "", ""), yes(LoadBalancerReady, "", "")}, true, "True "},
		"another one is False":       {[]operatorv1.OperatorCondition{no(AllAvailable, "R", "m")}, true, "True "},
		"no router":                  {[]operatorv1.OperatorCondition{no(DeploymentAvailable, "R", "m")}, true, "False DeploymentAvailable=False (R: m)"},
		"nobody knows":               {[]operatorv1.OperatorCondition{unknown}, true, "False DeploymentAvailable=Unknown (U: m)"},
		"neither router nor address": {[]operatorv1.OperatorCondition{no(LoadBalancerReady, "L", "n"), no(DeploymentAvailable, "R", "m")}, true, "False DeploymentAvailable=False (R: m), LoadBalancerReady=False (L: n)"},
	} {
		if got := available(c.list, c.rendered); string(got.Status)+" "+got.Message != c.want || got.Type != Available {
			t.Errorf("%s: %s %s", rule, got.Status, got.Message)
		}
	}
}

// TestOnlyARollOutOfANewVersionIsProgress.
func TestOnlyARollOutOfANewVersionIsProgress(t *testing.T) {
	for rule, c := range map[string]struct {
		list []operatorv1.OperatorCondition
		want operatorv1.ConditionStatus
	}{
		"a roll-out":           {[]operatorv1.OperatorCondition{yes(RollingOut, "DeploymentRollingOut", "1 of 2")}, operatorv1.ConditionTrue},
		"a router that starts": {[]operatorv1.OperatorCondition{yes(RollingOut, "PodsStarting", "1 of 2")}, operatorv1.ConditionFalse},
		"one that is over":     {[]operatorv1.OperatorCondition{no(RollingOut, "DeploymentRollingOut", "")}, operatorv1.ConditionFalse},
		"none":                 {nil, operatorv1.ConditionFalse},
	} {
		got := progressing(c.list)
		if got.Status != c.want || (got.Message == "1 of 2") != (c.want == operatorv1.ConditionTrue) {
			t.Errorf("%s: %+v", rule, got)
		}
	}
}

// TestWhenTheConditionsAreLookedAtAgain: at the next end of a grace, and each minute while
// something is wrong.
func TestWhenTheConditionsAreLookedAtAgain(t *testing.T) {
	since := func(kind string, ago time.Duration) operatorv1.OperatorCondition {
		c := no(kind, "R", "m")
		c.LastTransitionTime = metav1.NewTime(day.Add(-ago))
		return c
	}
	for rule, c := range map[string]struct {
		list  []operatorv1.OperatorCondition
		bad   bool
		after time.Duration
	}{
		"nothing is wrong":                        {nil, false, 0},
		"what never counts":                       {[]operatorv1.OperatorCondition{since(HostsOwned, time.Hour)}, false, 0},
		"a grace has begun":                       {[]operatorv1.OperatorCondition{since(AllAvailable, 0)}, false, time.Hour},
		"the first of two ends":                   {[]operatorv1.OperatorCondition{since(AllAvailable, 0), since(DNSReady, 10*time.Second)}, false, 20 * time.Second},
		"whatever their order":                    {[]operatorv1.OperatorCondition{since(DNSReady, 10*time.Second), since(AllAvailable, 0)}, false, 20 * time.Second},
		"a grace has ended":                       {[]operatorv1.OperatorCondition{since(DNSReady, 30*time.Second)}, true, lookWhileDegraded},
		"one has ended and another one ends soon": {[]operatorv1.OperatorCondition{since(DNSReady, time.Minute), since(LoadBalancerReady, 80*time.Second)}, true, 10 * time.Second},
		"one has ended and another one ends late": {[]operatorv1.OperatorCondition{since(DNSReady, time.Minute), since(AllAvailable, 0)}, true, lookWhileDegraded},
		"what has no grace":                       {[]operatorv1.OperatorCondition{since(Admitted, 0)}, true, lookWhileDegraded},
	} {
		got, after := degraded(c.list, day)
		if (got.Status == operatorv1.ConditionTrue) != c.bad || after != c.after || strings.Contains(got.Message, "(R: m)") != c.bad {
			t.Errorf("%s: %+v, again in %s", rule, got, after)
		}
	}
}

// TestHowLongARouterThatIsDeletedMayServe: for its grace and half a minute, and on a lost
// host for half a minute.
func TestHowLongARouterThatIsDeletedMayServe(t *testing.T) {
	hosts := map[string]bool{"up": true, "down": false}
	ended := func(phase corev1.PodPhase) corev1.Pod { return corev1.Pod{Status: corev1.PodStatus{Phase: phase}} }
	without := draining("down", overdue-1, 0)
	without.DeletionGracePeriodSeconds = nil
	for rule, c := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"it is not deleted":                     {corev1.Pod{Spec: corev1.PodSpec{NodeName: "down"}}, true},
		"it ended":                              {ended(corev1.PodSucceeded), false},
		"it failed":                             {ended(corev1.PodFailed), false},
		"its time and more are nearly over":     {draining("up", time.Minute+overdue-1, time.Minute), true},
		"they are over":                         {draining("up", time.Minute+overdue, time.Minute), false},
		"its host was lost a moment ago":        {draining("down", overdue-1, time.Minute), true},
		"its host was lost":                     {draining("down", overdue, time.Minute), false},
		"a host that nobody knows":              {draining("other", overdue, time.Minute), false},
		"it found no host":                      {draining("", overdue, time.Minute), true},
		"it has no grace, and its host is lost": {without, true},
	} {
		if got := alive(&c.pod, hosts, day); got != c.want {
			t.Errorf("%s: %t", rule, got)
		}
	}
}

// TestWhenTheNextAuthorityMaySign: a fifth of the present one's life after it was
// announced, or half of what that one had left.
func TestWhenTheNextAuthorityMaySign(t *testing.T) {
	present := &x509.Certificate{NotBefore: day, NotAfter: day.Add(100 * time.Hour)}
	for announced, want := range map[time.Duration]time.Duration{60 * time.Hour: 80 * time.Hour, 80 * time.Hour: 90 * time.Hour, 90 * time.Hour: 95 * time.Hour} {
		got := mayPromote(present, &x509.Certificate{NotBefore: day.Add(announced)}).Sub(day)
		if diff := got - want; diff.Abs() > time.Second {
			t.Errorf("announced after %s: after %s", announced, got)
		}
	}
}

// TestHowLongACertificateOfOursIsServed: from its beginning to four fifths of its life, or five
// minutes before its end, or two thirds of a life of minutes; for the domain, and no longer than
// the site's certificates live.
func TestHowLongACertificateOfOursIsServed(t *testing.T) {
	const long, short = 100 * time.Hour, 10 * time.Minute
	for rule, c := range map[string]struct {
		domain string
		life   time.Duration
		period time.Duration
		at     time.Duration
		want   bool
	}{
		"from its first moment":          {"apps.example", long, 0, -Backdate, true},
		"not before it":                  {"apps.example", long, 0, -Backdate - 1, false},
		"to four fifths":                 {"apps.example", long, 0, 80 * time.Hour, true},
		"not longer":                     {"apps.example", long, 0, 80*time.Hour + 1, false},
		"not for another domain":         {"other.example", long, 0, time.Hour, false},
		"of a year, in its turn":         {"apps.example", LeafLifetime, LeafLifetime, part(LeafLifetime, 80), true},
		"not one of more than a year":    {"apps.example", LeafLifetime + time.Second, 0, 0, false},
		"a short one, at once":           {"apps.example", short, short, 0, true},
		"a short one, to two thirds":     {"apps.example", short, short, short * 2 / 3, true},
		"a short one, not longer":        {"apps.example", short, short, short*2/3 + 1, false},
		"of half an hour, four fifths":   {"apps.example", 3 * short, 3 * short, 24 * time.Minute, true},
		"of half an hour, not longer":    {"apps.example", 3 * short, 3 * short, 24*time.Minute + 1, false},
		"five minutes before its end":    {"apps.example", 2 * short, 2 * short, 15 * time.Minute, true},
		"not later, of 20 minutes":       {"apps.example", 2 * short, 2 * short, 15*time.Minute + 1, false},
		"not a long one in a short site": {"apps.example", long, short, 0, false},
		"not one that ended at birth":    {"apps.example", -time.Minute, 0, 0, false},
	} {
		cert := &x509.Certificate{NotBefore: day.Add(-Backdate), NotAfter: day.Add(c.life), DNSNames: []string{"*.apps.example"}}
		if got := (Certificates{Domain: c.domain, Period: c.period}).good(cert, day.Add(c.at)); got != c.want {
			t.Errorf("%s: %t", rule, got)
		}
	}
	for period, want := range map[time.Duration]time.Duration{0: time.Hour, short: short / 60, LeafLifetime: time.Hour} {
		if got := CertificatesOf(Certificates{Period: period}, day).Again; got != want {
			t.Errorf("of a site with %s it looks again after %s, want %s", period, got, want)
		}
	}
}

// TestAShortCertificateIsLookedAtInTime, also while nobody knows that the site's are short.
func TestAShortCertificateIsLookedAtInTime(t *testing.T) {
	ca := issue(t, day.Add(-Backdate), AuthorityLifetime, nil)
	for life, want := range map[time.Duration]time.Duration{
		LeafLifetime: time.Hour, 30 * time.Hour: 30 * time.Minute, time.Hour: time.Minute, 10 * time.Minute: 10 * time.Second, time.Minute: 10 * time.Second, -time.Minute: 10 * time.Second,
	} {
		leaf := issue(t, day.Add(-Backdate), Backdate+life, ca, "*.apps.example")
		if got := CertificatesOf(Certificates{Domain: "apps.example", Authority: ca.data, Served: leaf.data}, day).Again; got != want {
			t.Errorf("of one that lives for %s it looks again after %s, want %s", life, got, want)
		}
	}
}

// TestWhenAnAuthorityIsReplaced has the steps of its life, to the moment.
func TestWhenAnAuthorityIsReplaced(t *testing.T) {
	const life = 100 * time.Hour
	present := issue(t, day, life, nil)
	leaf := issue(t, day, life, present, "x")
	next := issue(t, day.Add(part(life, 60)), life, nil)
	never := &issued{data: map[string][]byte{}}
	for rule, c := range map[string]struct {
		ca   *issued
		next *issued
		at   time.Duration
		want string
	}{
		"none":                                  {never, never, 0, "new"},
		"a certificate that may not sign":       {leaf, never, time.Hour, "new"},
		"it is young":                           {present, never, part(life, 60), "keep"},
		"the next is announced":                 {present, never, part(life, 60) + 1, "announce"},
		"the next was announced":                {present, next, part(life, 60) + 1, "keep"},
		"at four fifths it still signs":         {present, next, part(life, 80), "keep"},
		"and then the next one does":            {present, next, part(life, 80) + time.Second, "promote"},
		"it has ended, and the next one signs":  {present, next, life + 1, "promote"},
		"there is none, and the next one signs": {never, next, part(life, 61), "promote"},
		"a next one that may not sign":          {present, leaf, part(life, 90), "announce"},
		"a next one that ended":                 {present, issue(t, day, time.Hour, nil), part(life, 70), "announce"},
		"it ends at its last moment":            {present, never, life, "announce"},
	} {
		var w CertificateWork
		cert := w.authority(joined(c.ca.data, c.next.data), day.Add(c.at))
		got := map[CertificateWork]string{{}: "keep", {NewAuthority: true}: "new", {NewNext: true}: "announce", {Promote: true}: "promote"}[w]
		if got != c.want || (cert != nil) != (got == "keep" || got == "announce") {
			t.Errorf("%s: %q, it signs %t", rule, got, cert != nil)
		}
	}
}

// TestWhenACertificateOfOursReplacesThatOfAnAdministrator: where the served one is of no
// use to anybody.
func TestWhenACertificateOfOursReplacesThatOfAnAdministrator(t *testing.T) {
	const life = 100 * time.Hour
	before, other := issue(t, day, life, nil), issue(t, day, life, nil)
	ours := issue(t, day, life, before, "*.apps.example")
	theirs := issue(t, day, life, other, "*.apps.example")
	previous := map[string][]byte{PreviousCert: before.data[corev1.TLSCertKey]}
	torn := map[string][]byte{PreviousCert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})}
	for rule, c := range map[string]struct {
		served    *x509.Certificate
		own       bool
		authority map[string][]byte
		at        time.Duration
		want      bool
	}{
		"there is none":                         {nil, false, previous, time.Hour, true},
		"ours, and good":                        {ours.cert, true, previous, time.Hour, false},
		"ours, and old":                         {ours.cert, true, previous, part(life, 81), true},
		"ours, of the previous authority":       {ours.cert, false, previous, time.Hour, true},
		"another's":                             {theirs.cert, false, previous, time.Hour, false},
		"another's, at its last moment":         {theirs.cert, false, nil, life, false},
		"another's, which has ended":            {theirs.cert, false, nil, life + 1, true},
		"another's, beside a torn previous one": {theirs.cert, false, torn, time.Hour, false},
	} {
		got := Certificates{Domain: "apps.example", Authority: c.authority}.useless(c.served, c.own, day.Add(c.at))
		if got != c.want {
			t.Errorf("%s: %t", rule, got)
		}
	}
}

// TestWhyAGivenCertificateIsNotServed, and until when it is.
func TestWhyAGivenCertificateIsNotServed(t *testing.T) {
	const life = 48 * time.Hour
	cert := issue(t, day, life, nil)
	for rule, c := range map[string]struct {
		data map[string][]byte
		at   time.Duration
		want string
	}{
		"it is good to its last moment": {cert.data, life, ""},
		"it has ended":                  {cert.data, life + 1, "its certificate expired on " + day.Add(life).UTC().Format(time.DateOnly)},
		"there is none":                 {nil, 0, "it does not exist yet"},
		"it is empty":                   {map[string][]byte{}, 0, "tls.crt holds no certificate in PEM"},
	} {
		if got := given(c.data, day.Add(c.at)); got != c.want {
			t.Errorf("%s: %q", rule, got)
		}
	}
	other := issue(t, day, life, nil)
	crossed := map[string][]byte{corev1.TLSCertKey: cert.data[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: other.data[corev1.TLSPrivateKeyKey]}
	for rule, c := range map[string]struct {
		b    map[string][]byte
		want bool
	}{"the same": {cert.data, true}, "another": {other.data, false}, "another key": {crossed, false}} {
		if got := samePair(cert.data, c.b); got != c.want {
			t.Errorf("%s: %t", rule, got)
		}
	}
}

// TestTheKeyAndTheDomainsOfAHost as policies read them.
func TestTheKeyAndTheDomainsOfAHost(t *testing.T) {
	for host, c := range map[string]struct{ key, below string }{
		"": {HostsEvery, ""}, "a": {"a", ""}, "a.b": {"a.b", "b"}, "*.a.b": {"_.a.b", "a.b b"}, "x.a.b": {"x.a.b", "a.b b"},
	} {
		if got := HostKey(host); got != c.key {
			t.Errorf("%q: %s", host, got)
		}
		if got := strings.Join(slices.Collect(domains(host)), " "); got != c.below {
			t.Errorf("%q is below %q", host, got)
		}
	}
	for range domains("a.b.c") {
		break // who asks for one gets one
	}
}

// TestWhoseHostAClaimFindsTaken: of two paths where namespaces share hosts, and of any
// host below or above where they do not.
func TestWhoseHostAClaimFindsTaken(t *testing.T) {
	grant := func(strict bool, host, path string) *owners {
		o := &owners{strict: strict, has: map[string]map[string]string{}, below: map[string]map[string]bool{}}
		o.grant(claim{object: Routed{Namespace: "a"}, host: host, path: path})
		return o
	}
	for rule, c := range map[string]struct {
		o          *owners
		host, path string
		taken      bool
	}{
		"another host":                    {grant(true, "x.d", AnyPath), "y.d", AnyPath, false},
		"the same":                        {grant(true, "x.d", AnyPath), "x.d", AnyPath, true},
		"a host below a wildcard":         {grant(true, "*.d", AnyPath), "x.d", AnyPath, true},
		"a host far below it":             {grant(true, "*.d", AnyPath), "x.y.d", AnyPath, true},
		"the domain of a wildcard":        {grant(true, "*.d", AnyPath), "d", AnyPath, false},
		"a wildcard above a host":         {grant(true, "x.d", AnyPath), "*.d", AnyPath, true},
		"a wildcard of another domain":    {grant(true, "x.d", AnyPath), "*.e", AnyPath, false},
		"every host":                      {grant(true, "x.d", AnyPath), "", AnyPath, true},
		"shared: the same path":           {grant(false, "x.d", "/a"), "x.d", "/a", true},
		"shared: another path":            {grant(false, "x.d", "/a"), "x.d", "/b", false},
		"shared: all paths":               {grant(false, "x.d", "/a"), "x.d", AnyPath, true},
		"shared: one path of all":         {grant(false, "x.d", AnyPath), "x.d", "/b", true},
		"shared: a host below a wildcard": {grant(false, "*.d", "/a"), "x.d", "/a", false},
		"shared: every host":              {grant(false, "x.d", "/a"), "", "/a", false},
	} {
		for _, namespace := range []string{"b", "a"} {
			owner, taken := c.o.taken(claim{object: Routed{Namespace: namespace}, host: c.host, path: c.path})
			want := c.taken && (namespace == "b" || c.host == "")
			if taken != want || taken && c.host != "" && owner != "a" {
				t.Errorf("%s, by %s: %t, of %q", rule, namespace, taken, owner)
			}
		}
	}
}

// TestWhoHeldAPathBefore: a list of before may be of either policy.
func TestWhoHeldAPathBefore(t *testing.T) {
	before := map[string]string{"x.d": "a *\nb /b"}
	for rule, c := range map[string]struct {
		strict          bool
		path, namespace string
		want            bool
	}{
		"all of it":                       {false, "/x", "a", true},
		"its own path":                    {false, "/b", "b", true},
		"not another one's":               {false, "/x", "b", false},
		"a part of a host is one of all":  {true, AnyPath, "b", true},
		"who held nothing":                {true, AnyPath, "c", false},
		"a name that begins like another": {true, AnyPath, "", false},
	} {
		o := &owners{strict: c.strict}
		if got := o.held(before, "x.d", c.path, c.namespace); got != c.want {
			t.Errorf("%s: %t", rule, got)
		}
	}
}

// TestAStatusOfOneThatIsNotAdmittedKeepsWhatWasSettled.
func TestAStatusOfOneThatIsNotAdmittedKeepsWhatWasSettled(t *testing.T) {
	ic := controller("x", func(ic *operatorv1.IngressController) {
		ic.Generation = 7
		ic.Status.Domain, ic.Status.Selector, ic.Status.AvailableReplicas = "old", "old", 9
		ic.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		ic.Spec.RouteSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"c": "d"}}
	})
	r := &Router{TLS: &configv1.TLSProfileSpec{}}
	strategy := &operatorv1.EndpointPublishingStrategy{Type: nodePrt}
	conditions := []operatorv1.OperatorCondition{yes("X", "", "")}
	bad := status(ic, Admission{Domain: "new", Strategy: strategy, Problems: []string{"x"}}, r, Observed{}, conditions)
	if bad.Domain != "old" || bad.Selector != "old" || bad.AvailableReplicas != 0 || bad.ObservedGeneration != 7 || len(bad.Conditions) != 1 || bad.TLSProfile != nil || bad.EndpointPublishingStrategy != nil || bad.RouteSelector != nil {
		t.Errorf("%+v", bad)
	}
	good := status(ic, Admission{Domain: "new", Strategy: strategy}, r, Observed{Deployment: deployed(counts{available: 3}, true)}, conditions)
	if good.Domain != "new" || good.Selector == "old" || good.AvailableReplicas != 3 || good.TLSProfile != r.TLS || good.EndpointPublishingStrategy != strategy ||
		good.NamespaceSelector.MatchLabels["a"] != "b" || good.RouteSelector.MatchLabels["c"] != "d" {
		t.Errorf("%+v", good)
	}
	if ic.Status.Domain != "old" {
		t.Error("what was given is changed")
	}
}
