package ingress

import (
	"fmt"
	"slices"
	"strings"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The types of an IngressController's conditions; the names are the API's.
const (
	Admitted              = "Admitted"
	Available             = "Available"
	Progressing           = "Progressing"
	Degraded              = "Degraded"
	Upgradeable           = "Upgradeable"
	DeploymentAvailable   = "DeploymentAvailable"
	MinAvailable          = "DeploymentReplicasMinAvailable"
	AllAvailable          = "DeploymentReplicasAllAvailable"
	RollingOut            = "DeploymentRollingOut"
	LoadBalancerManaged   = "LoadBalancerManaged"
	LoadBalancerReady     = "LoadBalancerReady"
	DNSManaged            = "DNSManaged"
	DNSReady              = "DNSReady"
	OwnObjects            = "ObjectsOwned"
	DefaultCertificate    = "DefaultCertificateValid"
	HostsOwned            = "HostsOwned"
	UnsupportedFieldsName = "UnsupportedFields"
)

// graces holds how long a condition may be False before the IngressController
// is degraded.
var graces = map[string]time.Duration{
	Admitted: 0, DeploymentAvailable: 30 * time.Second, MinAvailable: time.Minute, AllAvailable: time.Hour,
	LoadBalancerReady: 90 * time.Second, DNSReady: 30 * time.Second, OwnObjects: 0, DefaultCertificate: 0,
}

// lookWhileDegraded is the interval of checks while an IngressController is
// degraded.
const lookWhileDegraded = time.Minute

// restartGrace is how long the IngressController stays available although no
// router is ready. The one router of a lone host is replaced in less time.
const restartGrace = 30 * time.Second

// Observed is the state that was found in the cluster.
type Observed struct {
	// Deployment is nil while there is none.
	Deployment *appsv1.Deployment
	// Service is the Service that publishes the routers, nil if none is wanted
	// or it does not exist.
	Service *corev1.Service
	Pods    []corev1.Pod
	// Hosts maps the name of each node to whether it is ready.
	Hosts map[string]bool
	// Foreign lists objects of somebody else that are in the way, by kind,
	// namespace and name.
	Foreign []string
	// CertificateProblem says why the wanted default certificate is not served.
	// CertificateWarning says what browsers will refuse about the certificate
	// that is served.
	CertificateProblem, CertificateWarning string
}

func yes(kind, reason, message string) operatorv1.OperatorCondition {
	return operatorv1.OperatorCondition{Type: kind, Status: operatorv1.ConditionTrue, Reason: reason, Message: message}
}

func no(kind, reason, message string) operatorv1.OperatorCondition {
	return operatorv1.OperatorCondition{Type: kind, Status: operatorv1.ConditionFalse, Reason: reason, Message: message}
}

func find(list []operatorv1.OperatorCondition, kind string) (operatorv1.OperatorCondition, bool) {
	i := slices.IndexFunc(list, func(c operatorv1.OperatorCondition) bool { return c.Type == kind })
	if i < 0 {
		return operatorv1.OperatorCondition{}, false
	}
	return list[i], true
}

// Conditions returns the conditions for the status, given those it had before.
// It also returns the time until the next check is due although nothing has
// changed, 0 for never. Conditions of other writers stay.
func Conditions(before []operatorv1.OperatorCondition, a Admission, r *Router, o Observed, now time.Time) ([]operatorv1.OperatorCondition, time.Duration) {
	out := []operatorv1.OperatorCondition{admission(a)}
	if len(a.NotFollowed) > 0 {
		out = append(out, yes(UnsupportedFieldsName, "NotFollowed", "these routers do not follow "+strings.Join(a.NotFollowed, ", ")))
	}
	if r != nil {
		out = append(out, deploymentConditions(before, r, o, now)...)
		out = append(out, loadBalancerConditions(r, o)...)
		out = append(out, dns(r)...)
		out = append(out, ownObjects(o), certificate(o), hostsOwned(r.Hosts), upgradeable(o))
	}
	settle(before, out, now)
	out = append(out, available(out, r != nil), progressing(out))
	worst, after := degraded(out, now)
	out = append(out, worst)
	settle(before, out, now)
	if soon := untilUnavailable(out, r, o, now); soon > 0 && (after == 0 || soon < after) {
		after = soon
	}
	return merged(before, out), after
}

func admission(a Admission) operatorv1.OperatorCondition {
	if a.Valid() {
		return yes(Admitted, "Valid", "")
	}
	return no(Admitted, "Invalid", message(a.Problems))
}

// settle keeps the old transition time of each condition whose status has not
// changed.
func settle(before, list []operatorv1.OperatorCondition, now time.Time) {
	for i := range list {
		list[i].LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		if old, ok := find(before, list[i].Type); ok && old.Status == list[i].Status {
			list[i].LastTransitionTime = old.LastTransitionTime
		}
	}
}

// merged keeps the order from before, so that a mere reordering causes no
// write.
func merged(before, now []operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	var out []operatorv1.OperatorCondition
	for _, old := range before {
		if c, ok := find(now, old.Type); ok {
			out = append(out, c)
		} else if !ours(old.Type) {
			out = append(out, old)
		}
	}
	for _, c := range now {
		if _, ok := find(before, c.Type); !ok {
			out = append(out, c)
		}
	}
	return out
}

// ours reports whether only this package writes conditions of a type.
func ours(kind string) bool {
	return slices.Contains([]string{
		Admitted, Available, Progressing, Degraded, Upgradeable, DeploymentAvailable, MinAvailable, AllAvailable, RollingOut,
		LoadBalancerManaged, LoadBalancerReady, DNSManaged, DNSReady, OwnObjects, DefaultCertificate, HostsOwned, UnsupportedFieldsName,
	}, kind)
}

func ownObjects(o Observed) operatorv1.OperatorCondition {
	if len(o.Foreign) == 0 {
		return yes(OwnObjects, "AsExpected", "")
	}
	return no(OwnObjects, "ForeignObjects", fmt.Sprintf("these objects have another owner and were not changed: %s; delete or rename them, or set the label %s",
		strings.Join(sorted(slices.Clone(o.Foreign)), ", "), LabelOwner))
}

// maxConflicts is the number of conflicts that a condition names.
const maxConflicts = 5

// hostsOwned names the objects that ask for another namespace's host and were
// created before a policy could refuse them. It never degrades the
// IngressController, because otherwise anyone who may create an Ingress could
// degrade it.
func hostsOwned(l HostList) operatorv1.OperatorCondition {
	var said []string
	for _, c := range l.Conflicts[:min(len(l.Conflicts), maxConflicts)] {
		said = append(said, c.String())
	}
	if more := len(l.Conflicts) - len(said); more > 0 {
		said = append(said, fmt.Sprintf("and %d more", more))
	}
	switch {
	case len(said) > 0:
		return no(HostsOwned, "HostTaken", strings.Join(said, "; ")+": routers serve both objects; delete one of them")
	case l.Unlisted > 0:
		return no(HostsOwned, "ListFull", fmt.Sprintf("the list of owners is full: %d hosts have no recorded owner, so any namespace may claim them", l.Unlisted))
	}
	return yes(HostsOwned, "AsExpected", "")
}

func certificate(o Observed) operatorv1.OperatorCondition {
	if o.CertificateProblem != "" {
		return no(DefaultCertificate, "NotUsable", o.CertificateProblem+"; the routers keep serving the last valid certificate")
	}
	return yes(DefaultCertificate, "AsExpected", o.CertificateWarning)
}

func upgradeable(o Observed) operatorv1.OperatorCondition {
	if o.CertificateWarning != "" {
		return no(Upgradeable, "DefaultCertificate", o.CertificateWarning)
	}
	return yes(Upgradeable, "Upgradeable", "")
}

func loadBalancerConditions(r *Router, o Observed) []operatorv1.OperatorCondition {
	if !managedLoadBalancer(r.Strategy) {
		return []operatorv1.OperatorCondition{no(LoadBalancerManaged, "EndpointPublishingStrategyExcludesManagedLoadBalancer",
			"the endpoint publishing strategy "+string(r.Strategy.Type)+" has no managed load balancer")}
	}
	out := []operatorv1.OperatorCondition{yes(LoadBalancerManaged, "WantedByEndpointPublishingStrategy", "")}
	switch {
	case o.Service == nil:
		return append(out, no(LoadBalancerReady, "ServiceNotFound", "the Service does not exist"))
	case len(o.Service.Status.LoadBalancer.Ingress) == 0:
		return append(out, no(LoadBalancerReady, "LoadBalancerPending", "the Service "+o.Service.Name+
			" has no address yet: without a cloud, the cluster needs a load balancer controller"))
	}
	return append(out, yes(LoadBalancerReady, "LoadBalancerProvisioned", ""))
}

// dns reports that DNS is never managed: there is no zone of a cloud. In
// clusters with VIPs, the hosts themselves answer for the names.
func dns(r *Router) []operatorv1.OperatorCondition {
	switch {
	case !managedLoadBalancer(r.Strategy):
		return []operatorv1.OperatorCondition{no(DNSManaged, "UnsupportedEndpointPublishingStrategy", "")}
	case r.Strategy.LoadBalancer.DNSManagementPolicy == operatorv1.UnmanagedLoadBalancerDNS:
		return []operatorv1.OperatorCondition{no(DNSManaged, "UnmanagedLoadBalancerDNS", "")}
	}
	return []operatorv1.OperatorCondition{no(DNSManaged, "NoDNSZones", "Holdfast manages no DNS zone: point *."+r.Domain+" at the load balancer")}
}

// available describes what users of the routers notice.
func available(list []operatorv1.OperatorCondition, rendered bool) operatorv1.OperatorCondition {
	if !rendered {
		return no(Available, "IngressControllerUnavailable", "the IngressController was never admitted")
	}
	var missing []string
	for _, kind := range []string{DeploymentAvailable, LoadBalancerReady} {
		if c, ok := find(list, kind); ok && c.Status != operatorv1.ConditionTrue {
			missing = append(missing, kind+"="+string(c.Status)+" ("+c.Reason+": "+c.Message+")")
		}
	}
	if len(missing) > 0 {
		return no(Available, "IngressControllerUnavailable", strings.Join(missing, ", "))
	}
	return yes(Available, "AsExpected", "")
}

func progressing(list []operatorv1.OperatorCondition) operatorv1.OperatorCondition {
	c, ok := find(list, RollingOut)
	if ok && c.Status == operatorv1.ConditionTrue && c.Reason == "DeploymentRollingOut" {
		return yes(Progressing, "IngressControllerProgressing", c.Message)
	}
	return no(Progressing, "AsExpected", "")
}

// degraded returns the Degraded condition, which is true once a condition has
// been False for longer than its grace. It also returns the time until the next
// check: when the next grace ends, or lookWhileDegraded.
func degraded(list []operatorv1.OperatorCondition, now time.Time) (operatorv1.OperatorCondition, time.Duration) {
	var bad []string
	var after time.Duration
	for _, c := range list {
		grace, counts := graces[c.Type]
		if !counts || c.Status != operatorv1.ConditionFalse {
			continue
		}
		if left := grace - now.Sub(c.LastTransitionTime.Time); left > 0 {
			if after == 0 || left < after {
				after = left
			}
			continue
		}
		bad = append(bad, c.Type+"=False ("+c.Reason+": "+c.Message+")")
	}
	if len(bad) == 0 {
		return no(Degraded, "AsExpected", ""), after
	}
	if after == 0 || after > lookWhileDegraded {
		after = lookWhileDegraded
	}
	return yes(Degraded, "DegradedConditions", "one or more other conditions are not as expected: "+strings.Join(bad, ", ")), after
}
