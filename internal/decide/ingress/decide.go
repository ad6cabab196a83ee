package ingress

import (
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
)

// Snapshot is everything that the decision about one IngressController looks
// at, gathered at once.
type Snapshot struct {
	Controller *operatorv1.IngressController
	// All are all IngressControllers, this one too.
	All     []operatorv1.IngressController
	Cluster Cluster
	Hosts   []Host
	// Namespaces are the names of those that spec.namespaceSelector selects.
	Namespaces []string
	// ClientCA are the authorities that spec.clientTLS names.
	ClientCA string
	// Gateways is true where the cluster knows the kinds of the Gateway API.
	Gateways bool
	// Routed are all objects that ask for hosts, HostsBefore is the list of whose
	// they were.
	Routed      []Routed
	HostsBefore map[string]string
	Observed    Observed
	Now         time.Time
}

// Decision is what becomes of one IngressController.
type Decision struct {
	Admission Admission
	// Router is what is to be rendered, nil if nothing is to be changed.
	Router *Router
	Status operatorv1.IngressControllerStatus
	// Again is when to look anew although nothing has changed, 0 for never.
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

// missing is what a spec refers to and is not there. Without the authorities of
// clients routers would let everybody in.
func missing(s Snapshot) []string {
	c := s.Controller.Spec.ClientTLS
	if c.ClientCertificatePolicy == "" || c.ClientCA.Name == "" || s.ClientCA != "" {
		return nil
	}
	return []string{"spec.clientTLS.clientCA: ConfigMap openshift-config/" + c.ClientCA.Name + " is not there, or has nothing under ca-bundle.pem"}
}

// ObjectName is how a foreign object is called.
func ObjectName(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}

// inTheWay leaves out what is somebody else's where nothing of ours is wanted:
// a person may publish private routers by a Service of that name.
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

// RouterOf settles what the routers of an IngressController are.
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

// status keeps what was settled once. Without admission nothing is settled,
// and what was stays.
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

// Deletion is what there is to do for an IngressController that goes.
type Deletion struct {
	// Deployment has to be deleted, Rest too once no router is left, Done says
	// that nothing is there any more.
	Deployment, Rest, Done bool
	// Waiting names the routers that are still there.
	Waiting []string
	Again   time.Duration
}

// lookWhileDraining is how often routers that leave are looked at.
const lookWhileDraining = 15 * time.Second

// overdue is how long a router may take beyond its grace. A host that was lost
// never says that its pods are gone; a deletion does not wait for it.
const overdue = 30 * time.Second

// Delete decides from what is there, so that it goes on wherever an operator
// was cut off: routers first, so that what leads to them stays until they have
// drained; then everything else.
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

// grace is by how much a pod's deletion time lies after its deletion.
func grace(p *corev1.Pod) time.Duration {
	if p.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
}
