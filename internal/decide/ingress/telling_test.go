package ingress

import (
	"fmt"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEachFieldThatRoutersDoNotFollowIsSaidByItsName sets one field at a time.
func TestEachFieldThatRoutersDoNotFollowIsSaidByItsName(t *testing.T) {
	type spec = operatorv1.IngressControllerSpec
	headers := func(h operatorv1.IngressControllerHTTPHeaders) func(*spec) {
		return func(s *spec) { s.HTTPHeaders = &h }
	}
	logging := func(kind operatorv1.LoggingDestinationType) func(*spec) {
		return func(s *spec) {
			s.Logging = &operatorv1.IngressControllerLogging{Access: &operatorv1.AccessLogging{Destination: operatorv1.LoggingDestination{Type: kind}}}
		}
	}
	minute := &metav1.Duration{Duration: time.Minute}
	for _, c := range []struct {
		set  func(*spec)
		want string
	}{
		{func(*spec) {}, ""},
		{func(s *spec) { s.HttpErrorCodePages = configv1.ConfigMapNameReference{Name: "pages"} }, "spec.httpErrorCodePages"},
		{func(s *spec) { s.HAProxyVersion = "3.0" }, "spec.haproxyVersion"},
		{func(s *spec) { s.TuningOptions.ThreadCount = 4 }, "spec.tuningOptions"},
		{func(s *spec) { s.TuningOptions.ClientTimeout = minute }, "spec.tuningOptions"},
		{func(s *spec) { s.TuningOptions.ServerTimeout = minute }, "spec.tuningOptions"},
		{func(s *spec) { s.TuningOptions.TunnelTimeout = minute }, "spec.tuningOptions"},
		{func(s *spec) { s.TuningOptions.MaxConnections = 5000 }, "spec.tuningOptions"},
		{func(s *spec) { s.TuningOptions.HTTPKeepAliveTimeout, s.TuningOptions.HeaderBufferBytes = minute, 65536 }, ""},
		{headers(operatorv1.IngressControllerHTTPHeaders{}), ""},
		{headers(operatorv1.IngressControllerHTTPHeaders{Actions: operatorv1.IngressControllerHTTPHeaderActions{Request: make([]operatorv1.IngressControllerHTTPHeader, 1)}}), "spec.httpHeaders.actions"},
		{headers(operatorv1.IngressControllerHTTPHeaders{Actions: operatorv1.IngressControllerHTTPHeaderActions{Response: make([]operatorv1.IngressControllerHTTPHeader, 1)}}), "spec.httpHeaders.actions"},
		{headers(operatorv1.IngressControllerHTTPHeaders{UniqueId: operatorv1.IngressControllerHTTPUniqueIdHeaderPolicy{Name: "x"}}), "spec.httpHeaders.uniqueId"},
		{headers(operatorv1.IngressControllerHTTPHeaders{HeaderNameCaseAdjustments: []operatorv1.IngressControllerHTTPHeaderNameCaseAdjustment{"X"}}), "spec.httpHeaders.headerNameCaseAdjustments"},
		{func(s *spec) { s.Logging = &operatorv1.IngressControllerLogging{} }, ""},
		{logging(operatorv1.ContainerLoggingDestinationType), ""},
		{logging(operatorv1.SyslogLoggingDestinationType), "spec.logging.access (syslog)"},
		{func(s *spec) { s.HTTPEmptyRequestsPolicy = operatorv1.HTTPEmptyRequestsPolicyRespond }, ""},
		{func(s *spec) { s.HTTPEmptyRequestsPolicy = operatorv1.HTTPEmptyRequestsPolicyIgnore }, "spec.httpEmptyRequestsPolicy"},
		{func(s *spec) {
			s.IdleConnectionTerminationPolicy = operatorv1.IngressControllerConnectionTerminationPolicyDeferred
		}, "spec.idleConnectionTerminationPolicy"},
		{func(s *spec) {
			s.ClosedClientConnectionPolicy = operatorv1.IngressControllerClosedClientConnectionPolicyAbort
		}, "spec.closedClientConnectionPolicy"},
	} {
		var s spec
		c.set(&s)
		if got := strings.Join(notFollowed(&s), " "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestWhatOfASpecRoutersFollow: these fields become a part of a router.
func TestWhatOfASpecRoutersFollow(t *testing.T) {
	var r Router
	tune(&r, &operatorv1.IngressControllerSpec{})
	if r.AccessLog || r.IdleTimeout != 0 || r.HeaderBytes != 0 || r.ForwardedHeaders != "" {
		t.Errorf("an empty one: %+v", r)
	}
	tune(&r, &operatorv1.IngressControllerSpec{Logging: &operatorv1.IngressControllerLogging{}})
	if r.AccessLog {
		t.Error("logging without access asks for no access log")
	}
	tune(&r, &operatorv1.IngressControllerSpec{
		Logging:       &operatorv1.IngressControllerLogging{Access: &operatorv1.AccessLogging{}},
		HTTPHeaders:   &operatorv1.IngressControllerHTTPHeaders{ForwardedHeaderPolicy: operatorv1.ReplaceHTTPHeaderPolicy},
		TuningOptions: operatorv1.IngressControllerTuningOptions{HTTPKeepAliveTimeout: &metav1.Duration{Duration: time.Minute}, HeaderBufferBytes: 65536},
	})
	if !r.AccessLog || r.IdleTimeout != time.Minute || r.HeaderBytes != 65536 || r.ForwardedHeaders != operatorv1.ReplaceHTTPHeaderPolicy {
		t.Errorf("all of it: %+v", r)
	}
}

// TestWhoGoesBeforeAtADomain: who serves it, then who asked for it first; nobody goes
// before itself.
func TestWhoGoesBeforeAtADomain(t *testing.T) {
	const d = "x.example"
	ic := func(name string, change ...func(*operatorv1.IngressController)) *operatorv1.IngressController {
		return controller(name, append([]func(*operatorv1.IngressController){withDomain(d), madeAt(5)}, change...)...)
	}
	sameUID := func(o *operatorv1.IngressController) { o.UID = "uid-b" }
	for rule, c := range map[string]struct {
		other, ic *operatorv1.IngressController
		want      bool
	}{
		"the older one":                                 {ic("a", madeAt(1)), ic("b"), true},
		"not the younger one":                           {ic("a", madeAt(9)), ic("b"), false},
		"of one moment, the first by name":              {ic("a"), ic("b"), true},
		"and not the second":                            {ic("c"), ic("b"), false},
		"nobody before itself":                          {ic("b"), ic("b"), false},
		"one of its name that was made anew is another": {ic("b", madeAt(1), func(o *operatorv1.IngressController) { o.UID = "uid-older" }), ic("b"), true},
		"a copy with its UID and another name is too":   {ic("a", sameUID), ic("b"), true},
		"who serves it, however young":                  {ic("a", madeAt(9), wasAdmitted(d)), ic("b"), true},
		"who serves another one does not":               {ic("a", madeAt(1), wasAdmitted("y.example")), ic("b"), false},
		"nobody who asks before who serves":             {ic("a", madeAt(1)), ic("b", wasAdmitted(d)), false},
		"of two that serve it, the older":               {ic("a", madeAt(1), wasAdmitted(d)), ic("b", wasAdmitted(d)), true},
		"and not the younger":                           {ic("a", madeAt(9), wasAdmitted(d)), ic("b", wasAdmitted(d)), false},
		"nobody who leaves and never served":            {ic("a", madeAt(1), leaving), ic("b"), false},
		"who leaves and still serves":                   {ic("a", wasAdmitted(d), leaving), ic("b"), true},
		"nobody who asks for another one":               {ic("a", madeAt(1), withDomain("y.example")), ic("b"), false},
	} {
		if got := goesBefore(c.other, c.ic, d, Cluster{Domain: "apps.example"}); got != c.want {
			t.Errorf("%s: %t", rule, got)
		}
	}
}

func TestWhatTheListOfOwnersSays(t *testing.T) {
	conflict := func(n int) []HostConflict {
		out := make([]HostConflict, n)
		for i := range out {
			out[i] = HostConflict{Host: fmt.Sprintf("h%d.example", i), Owner: "a"}
		}
		return out
	}
	for _, c := range []struct {
		l      HostList
		status operatorv1.ConditionStatus
		reason string
		words  []string
	}{
		{HostList{}, operatorv1.ConditionTrue, "AsExpected", nil},
		{HostList{Unlisted: 3}, operatorv1.ConditionFalse, "ListFull", []string{"the list of owners is full: 3 hosts have no recorded owner"}},
		{HostList{Unlisted: 3, Conflicts: conflict(1)}, operatorv1.ConditionFalse, "HostTaken", []string{"h0.example", "delete one of them"}},
		{HostList{Conflicts: conflict(maxConflicts)}, operatorv1.ConditionFalse, "HostTaken", []string{"h4.example"}},
		{HostList{Conflicts: conflict(maxConflicts + 2)}, operatorv1.ConditionFalse, "HostTaken", []string{"h4.example", "and 2 more"}},
	} {
		got := hostsOwned(c.l)
		if got.Type != HostsOwned || got.Status != c.status || got.Reason != c.reason || strings.Contains(got.Message, "more") != (len(c.l.Conflicts) > maxConflicts) || strings.Contains(got.Message, "h5.example") {
			t.Errorf("%d conflicts: %+v", len(c.l.Conflicts), got)
		}
		for _, w := range c.words {
			if !strings.Contains(got.Message, w) {
				t.Errorf("%q is not in %q", w, got.Message)
			}
		}
	}
}

func TestACertificateThatEndsBlocksAnUpgradeAndOneThatIsBadIsSaid(t *testing.T) {
	for _, c := range []struct {
		o                    Observed
		upgradeable, usable  operatorv1.ConditionStatus
		upgrade, certificate string
	}{
		{Observed{}, operatorv1.ConditionTrue, operatorv1.ConditionTrue, "", ""},
		{Observed{CertificateWarning: "it ends"}, operatorv1.ConditionFalse, operatorv1.ConditionTrue, "it ends", "it ends"},
		{Observed{CertificateProblem: "no key"}, operatorv1.ConditionTrue, operatorv1.ConditionFalse, "", "no key; the routers keep serving the last valid certificate"},
	} {
		if got := upgradeable(c.o); got.Type != Upgradeable || got.Status != c.upgradeable || got.Message != c.upgrade {
			t.Errorf("%+v", got)
		}
		if got := certificate(c.o); got.Type != DefaultCertificate || got.Status != c.usable || got.Message != c.certificate {
			t.Errorf("%+v", got)
		}
	}
}

// TestHowLongALoneRouterMayBeAway: half a minute since the last one was ready, and no
// time where none was ready yet.
func TestHowLongALoneRouterMayBeAway(t *testing.T) {
	was := func(available operatorv1.ConditionStatus, ago time.Duration) []operatorv1.OperatorCondition {
		return []operatorv1.OperatorCondition{
			{Type: DeploymentAvailable, Status: available},
			{Type: MinAvailable, Status: operatorv1.ConditionFalse, LastTransitionTime: metav1.NewTime(day.Add(-ago))},
		}
	}
	gone := Observed{Deployment: deployed(counts{want: 1, updated: 1, all: 1}, true)}
	there := Observed{Deployment: deployed(counts{1, 1, 1, 1, 1}, true)}
	refused := Observed{Deployment: deployed(counts{want: 1, updated: 1, all: 1}, false)}
	unknown := Observed{Deployment: &appsv1.Deployment{Status: appsv1.DeploymentStatus{ReadyReplicas: 1, Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue}}}}}
	one := &Router{Replicas: 1}
	for what, c := range map[string]struct {
		before []operatorv1.OperatorCondition
		r      *Router
		o      Observed
		status operatorv1.ConditionStatus
		again  time.Duration // with the condition Available of before
	}{
		"it is ready":                          {was(operatorv1.ConditionTrue, time.Hour), one, there, operatorv1.ConditionTrue, 0},
		"it was ready a moment ago":            {was(operatorv1.ConditionTrue, 0), one, gone, operatorv1.ConditionTrue, restartGrace},
		"it was ready a while ago":             {was(operatorv1.ConditionTrue, restartGrace-time.Minute/6), one, gone, operatorv1.ConditionTrue, time.Minute / 6},
		"its time is up":                       {was(operatorv1.ConditionTrue, restartGrace), one, gone, operatorv1.ConditionFalse, time.Second},
		"it was not available before":          {was(operatorv1.ConditionFalse, 0), one, gone, operatorv1.ConditionFalse, 0},
		"none was ready yet":                   {nil, one, gone, operatorv1.ConditionFalse, 0},
		"none is wanted":                       {nil, &Router{}, gone, operatorv1.ConditionTrue, 0},
		"the Deployment itself says so":        {was(operatorv1.ConditionTrue, 0), one, refused, operatorv1.ConditionFalse, restartGrace},
		"the Deployment has no such condition": {nil, one, unknown, operatorv1.ConditionUnknown, 0},
	} {
		if got := deploymentAvailable(c.before, c.r, c.o, day); got.Status != c.status {
			t.Errorf("%s: %+v", what, got)
		}
		if got := untilUnavailable(c.before, c.r, c.o, day); got != c.again {
			t.Errorf("%s: again in %s, want %s", what, got, c.again)
		}
	}
	if untilUnavailable(was(operatorv1.ConditionTrue, 0), nil, gone, day) != 0 || untilUnavailable(was(operatorv1.ConditionTrue, 0), one, Observed{}, day) != 0 {
		t.Error("without a router or a Deployment nobody waits")
	}
}
