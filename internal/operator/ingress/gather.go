package ingress

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/decide/vips"
	"github.com/holdfast/holdfast/internal/model/config"
	render "github.com/holdfast/holdfast/internal/render/router"
)

// clusterName is the name of the objects that there is one of.
const clusterName = "cluster"

// errNotYet is the answer of a cluster that does not yet say what it is.
var errNotYet = errors.New("the cluster's object Infrastructure does not report its topology yet")

// gathered holds the findings of one look at the cluster, for one
// IngressController.
type gathered struct {
	name string
	// controller is nil if there is none of that name.
	controller *operatorv1.IngressController
	all        []operatorv1.IngressController
	config     *configv1.Ingress
	cluster    decide.Cluster
	hosts      []decide.Host
	namespaces []string
	clientCA   string
	routed     []decide.Routed
	gateways   bool
	monitors   bool
	observed   decide.Observed

	// The existing objects, nil where there is none; others may own them.
	deployment          *appsv1.Deployment
	internal, published *corev1.Service
	budget              *policyv1.PodDisruptionBudget
	policy              *networkingv1.NetworkPolicy
	configMap           *corev1.ConfigMap
	class               *networkingv1.IngressClass
	classes             []networkingv1.IngressClass
	gatewayClass        *unstructured.Unstructured
	monitor             *unstructured.Unstructured
	marker              *networkingv1.Ingress
	hostList            *render.RouteHosts
	formerHosts         *corev1.ConfigMap
	authority, served   *corev1.Secret
	given, certs        *corev1.Secret
	trust               *corev1.ConfigMap

	// period is the site's certificateValidityPeriod; zero if nobody knows it.
	period time.Duration
}

func (g *gathered) snapshot(now time.Time) decide.Snapshot {
	out := decide.Snapshot{
		Controller: g.controller, All: g.all, Cluster: g.cluster, Hosts: g.hosts, Namespaces: g.namespaces,
		ClientCA: g.clientCA, Routed: g.routed, Gateways: g.gateways, Observed: g.observed, Now: now,
	}
	switch {
	case g.hostList != nil:
		out.HostsBefore = g.hostList.Data
	case g.formerHosts != nil:
		out.HostsBefore = g.formerHosts.Data
	}
	return out
}

// certificates returns the present state of certificates.
func (g *gathered) certificates() decide.Certificates {
	out := decide.Certificates{Name: decide.CertificateName(g.name), Domain: g.domain(), Period: g.period}
	if g.authority != nil {
		out.Authority = g.authority.Data
	}
	if g.served != nil {
		out.Served = g.served.Data
	}
	if ref := g.controller.Spec.DefaultCertificate; ref != nil {
		out.Wanted = ref.Name
	}
	if g.given != nil {
		out.Given = g.given.Data
	}
	return out
}

// domain returns the domain by which the decision admits the controller.
func (g *gathered) domain() string {
	return decide.Admit(g.controller, nil, g.cluster, nil).Domain
}

func (r *Reconciler) gather(ctx context.Context, name string) (*gathered, error) {
	g := &gathered{name: name, gateways: r.gateways}
	if err := r.gatherCluster(ctx, g); err != nil {
		return nil, err
	}
	var list operatorv1.IngressControllerList
	if err := r.Client.List(ctx, &list, client.InNamespace(decide.Namespace)); err != nil {
		return nil, fmt.Errorf("list IngressControllers: %w", err)
	}
	g.all = list.Items
	for i := range g.all {
		if g.all[i].Name == name {
			g.controller = &g.all[i]
		}
	}
	if g.controller == nil {
		return g, nil
	}
	return g, errors.Join(r.gatherObjects(ctx, g), r.gatherPods(ctx, g), r.gatherInputs(ctx, g), r.gatherRouted(ctx, g))
}

// gatherCluster reads the cluster's own configuration objects.
func (r *Reconciler) gatherCluster(ctx context.Context, g *gathered) error {
	var infra configv1.Infrastructure
	g.config = &configv1.Ingress{}
	err := errors.Join(
		r.Client.Get(ctx, client.ObjectKey{Name: clusterName}, &infra),
		r.Client.Get(ctx, client.ObjectKey{Name: clusterName}, g.config),
	)
	if apierrors.IsNotFound(err) || err == nil && infra.Status.PlatformStatus == nil {
		return errNotYet // its status is written after the object
	}
	if err != nil {
		return fmt.Errorf("read what the cluster is: %w", err)
	}
	g.cluster = decide.Cluster{
		ControlPlane: infra.Status.ControlPlaneTopology, Infrastructure: infra.Status.InfrastructureTopology,
		Placement: g.config.Status.DefaultPlacement, Domain: g.config.Spec.Domain,
	}
	// The status, not the spec: hosts hold these.
	if held := vips.SnapshotOf(&infra, nil, nil).Status.Ingress; len(held) > 0 {
		g.cluster.Address = held[0]
	}
	var nodes corev1.NodeList
	if err := r.Client.List(ctx, &nodes); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	g.observed.Hosts = map[string]bool{}
	for i := range nodes.Items {
		h := hostOf(&nodes.Items[i])
		g.hosts, g.observed.Hosts[h.Name] = append(g.hosts, h), h.Ready
	}
	return nil
}

func hostOf(n *corev1.Node) decide.Host {
	return decide.Host{Name: n.Name, Labels: n.Labels, Taints: n.Spec.Taints, Ready: slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})}
}

// gatherObjects reads the objects under the names of this IngressController.
func (r *Reconciler) gatherObjects(ctx context.Context, g *gathered) error {
	router := decide.RouterName(g.name)
	err := errors.Join(
		get(ctx, r.Client, router, &g.deployment), get(ctx, r.Client, router, &g.published), get(ctx, r.Client, router, &g.budget),
		get(ctx, r.Client, router, &g.policy), get(ctx, r.Client, router, &g.marker),
		get(ctx, r.Client, decide.InternalName(g.name), &g.internal), get(ctx, r.Client, decide.ConfigName(g.name), &g.configMap),
		get(ctx, r.Client, decide.CertificateName(g.name), &g.served),
		r.gatherHosts(ctx, g), r.gatherClasses(ctx, g), r.gatherMonitor(ctx, g),
	)
	for _, o := range g.objects() {
		if !decide.Owned(g.name, o.GetLabels()) && !g.kept(o) {
			g.observed.Foreign = append(g.observed.Foreign, decide.ObjectName(kindOf(o), o.GetNamespace(), o.GetName()))
		}
	}
	if g.deployment != nil && decide.Owned(g.name, g.deployment.Labels) {
		g.observed.Deployment = g.deployment
	}
	if g.published != nil && decide.Owned(g.name, g.published.Labels) {
		g.observed.Service = g.published
	}
	return err
}

// kept reports whether an administrator keeps the routers' Secret and says so.
func (g *gathered) kept(o client.Object) bool {
	ref := g.controller.Spec.DefaultCertificate
	_, secret := o.(*corev1.Secret)
	return secret && ref != nil && ref.Name == o.GetName()
}

func (r *Reconciler) gatherClasses(ctx context.Context, g *gathered) error {
	var list networkingv1.IngressClassList
	if err := r.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("list IngressClasses: %w", err)
	}
	g.classes = list.Items
	for i := range g.classes {
		if g.classes[i].Name == decide.ClassName(g.name) {
			g.class = &g.classes[i]
		}
	}
	if !r.gateways {
		return nil
	}
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(render.GatewayClassKind)
	err := r.Client.Get(ctx, client.ObjectKey{Name: decide.ClassName(g.name)}, class)
	if err == nil {
		g.gatewayClass = class
	}
	return client.IgnoreNotFound(err)
}

func (r *Reconciler) gatherPods(ctx context.Context, g *gathered) error {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(decide.OperandNamespace), client.MatchingLabels(decide.PodLabels(g.name))); err != nil {
		return fmt.Errorf("list routers: %w", err)
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	g.observed.Pods = pods.Items
	return nil
}

// gatherInputs reads the objects that the IngressController refers to.
func (r *Reconciler) gatherInputs(ctx context.Context, g *gathered) error {
	spec := &g.controller.Spec
	err := errors.Join(
		getFrom(ctx, r.Client, decide.Namespace, decide.AuthoritySecret, &g.authority),
		getFrom(ctx, r.Client, NamespaceManaged, trustName, &g.trust),
		getFrom(ctx, r.Client, NamespaceManaged, PublishedCertificates, &g.certs),
	)
	g.period = r.knownPeriod(ctx)
	if ref := spec.DefaultCertificate; ref != nil {
		err = errors.Join(err, get(ctx, r.Client, ref.Name, &g.given))
	}
	if name := spec.ClientTLS.ClientCA.Name; name != "" {
		var cm *corev1.ConfigMap
		err = errors.Join(err, getFrom(ctx, r.Client, namespaceConfig, name, &cm))
		if cm != nil {
			g.clientCA = cm.Data["ca-bundle.pem"]
		}
	}
	if s := spec.NamespaceSelector; s != nil {
		err = errors.Join(err, r.gatherNamespaces(ctx, g, s))
	}
	return err
}

// knownPeriod returns the life that the site chose for its certificates; zero if nobody knows it. It
// never changes, so it is read until it is known. Only that life hangs on it: an operator that cannot
// read it does all the rest.
func (r *Reconciler) knownPeriod(ctx context.Context) time.Duration {
	if r.period > 0 {
		return r.period
	}
	var install *corev1.ConfigMap
	err := getFrom(ctx, r.Live, machineconfig.InstallNamespace, machineconfig.InstallName, &install)
	if err != nil && !r.periodUnread {
		log.FromContext(ctx).Error(err, "until certificateValidityPeriod can be read, a new default certificate lives for a year")
	}
	r.periodUnread = err != nil
	if install != nil {
		r.period = config.PeriodOf(install.Data[machineconfig.InstallKey])
	}
	return r.period
}

func (r *Reconciler) gatherNamespaces(ctx context.Context, g *gathered, wanted *metav1.LabelSelector) error {
	selector, err := metav1.LabelSelectorAsSelector(wanted)
	if err != nil {
		return nil //nolint:nilerr // the admission says so
	}
	var list corev1.NamespaceList
	if err := r.Client.List(ctx, &list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	for i := range list.Items {
		g.namespaces = append(g.namespaces, list.Items[i].Name)
	}
	slices.Sort(g.namespaces)
	return nil
}

// get reads an object of the routers' namespace; into stays nil if there is none.
func get[T any, P interface {
	*T
	client.Object
}](ctx context.Context, c client.Reader, name string, into *P) error {
	return getFrom(ctx, c, decide.OperandNamespace, name, into)
}

func getFrom[T any, P interface {
	*T
	client.Object
}](ctx context.Context, c client.Reader, namespace, name string, into *P) error {
	found := P(new(T))
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s %s/%s: %w", kindOf(found), namespace, name, err)
	}
	*into = found
	return nil
}
