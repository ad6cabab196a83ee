package ingress

import (
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
)

// Snapshot is the input of the decision about one IngressController, gathered
// at once.
type Snapshot struct {
	Controller *operatorv1.IngressController
	// All lists all IngressControllers, including this one.
	All     []operatorv1.IngressController
	Cluster Cluster
	Hosts   []Host
	// Namespaces lists the namespaces that spec.namespaceSelector selects.
	Namespaces []string
	// ClientCA holds the authorities that spec.clientTLS names.
	ClientCA string
	// Gateways reports whether the cluster has the kinds of the Gateway API.
	Gateways bool
	// Routed lists all objects that ask for hosts. HostsBefore is the present
	// list of hosts and their owners.
	Routed      []Routed
	HostsBefore map[string]string
	Observed    Observed
	Now         time.Time
}

// Decision is the result for one IngressController.
type Decision struct {
	Admission Admission
	// Router is what to render, nil if nothing may change.
	Router *Router
	Status operatorv1.IngressControllerStatus
	// Again is the time until the next decision although nothing has changed, 0
	// for never.
	Again time.Duration
}

// Decide decides about an IngressController that is not being deleted.
func Decide(s Snapshot) Decision {
	ic := s.Controller
	a := Admit(ic, s.All, s.Cluster, s.Observed.Foreign, missing(s)...)
	r := RouterOf(s, a)
	d := Decision{Admission: a}
	if a.Valid() {
		d.Router = r
	}
	shown := r
	if !a.Valid() && ic.Status.EndpointPublishingStrategy == nil {
		shown = nil // it never had routers
	}
	s.Observed.Foreign = inTheWay(r, s.Observed.Foreign)
	conditions, again := Conditions(ic.Status.Conditions, a, shown, s.Observed, s.Now)
	d.Again = again
	d.Status = status(ic, a, r, s.Observed, conditions)
	return d
}

// missing names what a spec refers to and does not exist. Without the
// authorities of clients, routers would let everybody in.
func missing(s Snapshot) []string {
	c := s.Controller.Spec.ClientTLS
	if c.ClientCertificatePolicy == "" || c.ClientCA.Name == "" || s.ClientCA != "" {
		return nil
	}
	return []string{"spec.clientTLS.clientCA: ConfigMap openshift-config/" + c.ClientCA.Name + " does not exist, or its key ca-bundle.pem is missing or empty"}
}

// ObjectName returns the name of an object for lists of foreign objects and
// messages.
func ObjectName(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}

// inTheWay drops foreign objects whose name we do not need: an administrator
// may publish private routers with a Service of that name.
func inTheWay(r *Router, foreign []string) []string {
	var out []string
	for _, name := range foreign {
		switch name {
		case ObjectName("Service", OperandNamespace, RouterName(r.Name)):
			if !NeedsService(r.Strategy) {
				continue
			}
		case ObjectName("PodDisruptionBudget", OperandNamespace, RouterName(r.Name)):
			if r.Rollout.Budget == nil {
				continue
			}
		}
		out = append(out, name)
	}
	return out
}

// RouterOf settles everything about the routers of an IngressController.
func RouterOf(s Snapshot, a Admission) *Router {
	ic := s.Controller
	r := newRouter(ic, a.Domain, a.Strategy, s.Cluster)
	if ic.Spec.NamespaceSelector != nil {
		r.Namespaces = append([]string{}, s.Namespaces...)
	}
	r.RouteSelector = ic.Spec.RouteSelector.DeepCopy()
	if ic.Spec.ClientTLS.ClientCertificatePolicy != "" {
		r.ClientCA = s.ClientCA
	}
	r.Gateways = s.Gateways
	r.LocalFallback = localFallback(ic)
	r.Hosts = Hosts(ic.Name, ic.Spec.RouteAdmission, s.Routed, s.HostsBefore)
	rm := room(s.Hosts, r)
	if ic.Spec.Replicas == nil {
		r.Replicas = placeable(r.Replicas, rm)
	}
	r.Rollout = rollout(r, DefaultPlacement(s.Cluster).Single, ic.Spec.Replicas, rm)
	return r
}

// status returns the new status. If the IngressController is not admitted,
// nothing is settled, and the fields that were settled before stay.
func status(ic *operatorv1.IngressController, a Admission, r *Router, o Observed, conditions []operatorv1.OperatorCondition) operatorv1.IngressControllerStatus {
	out := *ic.Status.DeepCopy()
	out.Conditions = conditions
	out.ObservedGeneration = ic.Generation
	out.AvailableReplicas = 0
	if o.Deployment != nil {
		out.AvailableReplicas = o.Deployment.Status.AvailableReplicas
	}
	if !a.Valid() {
		return out
	}
	out.Domain, out.EndpointPublishingStrategy, out.Selector = a.Domain, a.Strategy, Selector(ic.Name)
	out.TLSProfile = r.TLS
	out.NamespaceSelector, out.RouteSelector = ic.Spec.NamespaceSelector.DeepCopy(), ic.Spec.RouteSelector.DeepCopy()
	return out
}

// Deletion lists the steps for an IngressController that is being deleted.
type Deletion struct {
	// Deployment says to delete the Deployment. Rest says to delete the other
	// objects, once no router is left. Done says that nothing is left.
	Deployment, Rest, Done bool
	// Waiting names the routers that still exist.
	Waiting []string
	Again   time.Duration
}

// lookWhileDraining is the interval of checks while routers drain.
const lookWhileDraining = 15 * time.Second

// overdue is how long a router may take beyond its grace period. A lost host
// never confirms that its pods are gone, and a deletion does not wait for it.
const overdue = 30 * time.Second

// Delete decides from the objects that still exist, so that it can continue
// after an interruption at any point. Routers go first, so that the objects
// that lead to them stay until they have drained; then everything else goes.
func Delete(o Observed, rest int, now time.Time) Deletion {
	var d Deletion
	if o.Deployment != nil {
		d.Deployment = o.Deployment.DeletionTimestamp == nil
		d.Again = lookWhileDraining
		if d.Deployment {
			return d
		}
	}
	for i := range o.Pods {
		if alive(&o.Pods[i], o.Hosts, now) {
			d.Waiting = append(d.Waiting, o.Pods[i].Name)
		}
	}
	switch {
	case len(d.Waiting) > 0:
		d.Waiting, d.Again = sorted(d.Waiting), lookWhileDraining
	case rest > 0:
		d.Rest, d.Again = true, lookWhileDraining
	case o.Deployment == nil:
		d.Done, d.Again = true, 0
	}
	return d
}

// alive reports whether a router may still serve.
func alive(p *corev1.Pod, hosts map[string]bool, now time.Time) bool {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	if p.DeletionTimestamp == nil {
		return true
	}
	if !hosts[p.Spec.NodeName] && p.Spec.NodeName != "" {
		return now.Before(p.DeletionTimestamp.Add(-grace(p) + overdue)) // its host was lost
	}
	return now.Before(p.DeletionTimestamp.Add(overdue))
}

// grace returns the time from a pod's deletion to its DeletionTimestamp.
func grace(p *corev1.Pod) time.Duration {
	if p.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
}
