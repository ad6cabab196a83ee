package status

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	etcdv1 "github.com/openshift/api/etcd/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/decide/standing"
)

// saidAPI is the name of the API as the source of a fact.
const saidAPI = "the API"

// API is the API of a cluster at one address.
type API struct {
	// Name is the name of the API for people.
	Name string
	// Reader reads without a cache, because an answer is also a sign of life.
	Reader client.Reader
	Now    func() time.Time

	clock *clock // nil if answers have no date
}

// OpenAccess returns the API of an access.
func OpenAccess(access kube.Access) (*API, error) {
	cfg, err := access.Config()
	if err != nil {
		return nil, err
	}
	return OpenAPI(cfg)
}

// OpenAPI returns the API for an existing configuration. It contacts nothing
// yet, and never asks which kinds exist: that would take as long as the rest.
func OpenAPI(access *rest.Config) (*API, error) { return openAPI(access, Patience) }

// openAPI has the client itself end a request that is older than limit.
func openAPI(access *rest.Config, limit time.Duration) (*API, error) {
	cfg := rest.CopyConfig(access)
	cfg.Timeout = limit
	cfg.QPS = -1 // a look asks some twenty questions at once, and has little time for all
	clock := &clock{now: time.Now}
	cfg.Wrap(clock.through)
	scheme, err := kube.NewScheme(mcfgv1.Install, coordinationv1.AddToScheme)
	if err != nil {
		return nil, err
	}
	reader, err := client.New(cfg, client.Options{Scheme: scheme, Mapper: kinds()})
	if err != nil {
		return nil, err
	}
	return &API{Name: "API at " + cfg.Host, Reader: reader, Now: time.Now, clock: clock}, nil
}

// kinds returns the kinds that are read.
func kinds() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{})
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	m.AddSpecific(configv1.GroupVersion.WithKind("Infrastructure"), configv1.GroupVersion.WithResource("infrastructures"), configv1.GroupVersion.WithResource("infrastructure"), meta.RESTScopeRoot)
	m.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	m.Add(configv1.GroupVersion.WithKind("ClusterOperator"), meta.RESTScopeRoot)
	m.Add(configv1.GroupVersion.WithKind("ClusterVersion"), meta.RESTScopeRoot)
	m.Add(etcdv1.GroupVersion.WithKind("PacemakerCluster"), meta.RESTScopeRoot)
	m.Add(operatorv1.GroupVersion.WithKind("Etcd"), meta.RESTScopeRoot)
	m.Add(mcfgv1.GroupVersion.WithKind("MachineConfigPool"), meta.RESTScopeRoot)
	addInstalled(m)
	return m
}

// TimedOut implements Source.
func (a *API) TimedOut(limit time.Duration) standing.Source {
	return standing.Source{Kind: standing.FromAPI, Name: a.Name, Failed: fmt.Sprintf("no answer within %s", limit)}
}

// Gather implements Source.
func (a *API) Gather(ctx context.Context) standing.Facts {
	began := a.Now()
	t := answers{facts: standing.Facts{}, now: began}
	var group sync.WaitGroup
	for _, look := range []func(context.Context, *answers) error{
		a.nodes, a.infrastructure, a.pacemaker, a.setUp, a.operators, a.ownOperator, a.members, a.incidents, a.site, a.pools, a.upgrade, a.backupProof, a.retired, a.lock, a.encryption, a.heartbeat,
	} {
		group.Go(func() {
			if err := look(ctx, &t); err != nil {
				t.fail(err)
			}
		})
	}
	group.Wait()
	f := t.facts
	ended := a.Now()
	f.Now = a.clock.of(ended)
	source := standing.Source{Kind: standing.FromAPI, Name: a.Name, Took: ended.Sub(began), Limits: t.limits}
	if differ := a.clock.words(); differ != "" {
		source.Limits = append(source.Limits, differ)
	}
	if t.dead != nil {
		return standing.Facts{Now: f.Now, Sources: []standing.Source{{Kind: standing.FromAPI, Name: a.Name, Failed: brief(t.dead, source.Took)}}}
	}
	f.Sources = []standing.Source{source}
	return f
}

// answers collects the answers to questions that run in parallel.
type answers struct {
	mu     sync.Mutex
	now    time.Time
	facts  standing.Facts
	limits []string
	dead   error
}

// with changes the facts under the lock.
func (t *answers) with(change func(f *standing.Facts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.facts)
}

// fail records a refusal, which is an answer, as a limit, and other errors as
// an API that does not answer. The callers handle missing objects and kinds
// themselves.
func (t *answers) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) && !apierrors.IsInternalError(err) && !apierrors.IsServiceUnavailable(err) {
		t.limits = append(t.limits, firstLine(err.Error()))
		return
	}
	t.dead = err
}

// limit records something that could not be read.
func (t *answers) limit(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limits = append(t.limits, text)
}

// absent reports whether the object, or even its kind, does not exist.
func absent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// brief returns why an API does not answer, without the URLs with which the
// client begins.
func brief(err error, took time.Duration) string {
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Sprintf("no answer within %s", took.Round(100*time.Millisecond))
	}
	text := firstLine(err.Error())
	if i := strings.LastIndex(text, `": `); i >= 0 {
		text = text[i+3:]
	}
	return text
}

func (a *API) nodes(ctx context.Context, t *answers) error {
	var list corev1.NodeList
	if err := a.Reader.List(ctx, &list); err != nil {
		return fmt.Errorf("read the nodes: %w", err)
	}
	t.with(func(f *standing.Facts) {
		names := []string{}
		for i := range list.Items {
			f.Hosts = append(f.Hosts, hostOf(&list.Items[i], t.now))
			names = append(names, list.Items[i].Name)
		}
		f.Nodes = standing.Know(names, saidAPI, t.now)
		f.Hosts = merged(f.Hosts)
	})
	return nil
}

// merged combines hosts with the same name: nodes and members may come in any
// order.
func merged(hosts []standing.Host) []standing.Host {
	return standing.Merge(standing.Facts{Hosts: hosts}).Hosts
}

func (a *API) infrastructure(ctx context.Context, t *answers) error {
	infra := &configv1.Infrastructure{}
	err := a.Reader.Get(ctx, client.ObjectKey{Name: clusterName}, infra)
	if absent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the Infrastructure object: %w", err)
	}
	t.with(func(f *standing.Facts) { describeSite(f, infra, t.now) })
	return nil
}

// heartbeat reads when a kubelet last renewed the Lease of its node.
func (a *API) heartbeat(ctx context.Context, t *answers) error {
	var list coordinationv1.LeaseList
	err := a.Reader.List(ctx, &list, client.InNamespace(corev1.NamespaceNodeLease))
	switch {
	case apierrors.IsForbidden(err): // the account of the dashboard, for one: what the others tell has to do
		return nil
	case err != nil:
		return fmt.Errorf("read the Leases of the nodes: %w", err)
	}
	var last time.Time
	for i := range list.Items {
		if at := list.Items[i].Spec.RenewTime; at != nil && at.After(last) {
			last = at.Time
		}
	}
	if !last.IsZero() {
		t.with(func(f *standing.Facts) { f.Heartbeat = standing.Know(last, saidAPI, t.now) })
	}
	return nil
}

func (a *API) pacemaker(ctx context.Context, t *answers) error {
	o := &etcdv1.PacemakerCluster{}
	err := a.Reader.Get(ctx, client.ObjectKey{Name: clusterName}, o)
	switch {
	case absent(err):
		t.with(func(f *standing.Facts) { f.Pacemaker.Why = "there is no PacemakerCluster" })
		return nil
	case err != nil:
		return fmt.Errorf("read the PacemakerCluster: %w", err)
	}
	t.with(func(f *standing.Facts) {
		if o.Status.LastUpdated.IsZero() {
			f.Pacemaker.Why = "no host has reported on Pacemaker yet"
			return
		}
		f.Pacemaker = standing.Know(o.Status, saidAPI, o.Status.LastUpdated.Time)
		for _, n := range pacemakerstatus.NodeNames(o.Status) { // their Node objects may be gone
			f.Hosts = append(f.Hosts, standing.Host{Name: n, ControlPlane: true})
		}
		f.Hosts = merged(f.Hosts)
	})
	return nil
}

func (a *API) setUp(ctx context.Context, t *answers) error {
	o := &operatorv1.Etcd{}
	err := a.Reader.Get(ctx, client.ObjectKey{Name: clusterName}, o)
	if absent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the Etcd object: %w", err)
	}
	t.with(func(f *standing.Facts) { f.SetUp = setUpOf(o, t.now) })
	return nil
}

func (a *API) operators(ctx context.Context, t *answers) error {
	var list configv1.ClusterOperatorList
	err := a.Reader.List(ctx, &list)
	if absent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the ClusterOperators: %w", err)
	}
	t.with(func(f *standing.Facts) { f.Operators = standing.Know(unwell(list.Items), saidAPI, t.now) })
	return nil
}

// pools reads what the operator says of the pools of machine configurations.
func (a *API) pools(ctx context.Context, t *answers) error {
	var list mcfgv1.MachineConfigPoolList
	err := a.Reader.List(ctx, &list)
	if absent(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the MachineConfigPools: %w", err)
	}
	pools := []rollout.PoolState{}
	for i := range list.Items {
		pools = append(pools, rollout.PoolStateOf(&list.Items[i]))
	}
	t.with(func(f *standing.Facts) { f.Pools = standing.Know(pools, saidAPI, t.now) })
	return nil
}

// members reads etcd's static pods, if kubelet runs etcd.
func (a *API) members(ctx context.Context, t *answers) error {
	var list corev1.PodList
	err := a.Reader.List(ctx, &list, client.InNamespace("kube-system"), client.MatchingLabels{"component": "etcd"})
	if err != nil {
		return fmt.Errorf("read etcd's pods: %w", err)
	}
	t.with(func(f *standing.Facts) {
		for i := range list.Items {
			f.Hosts = append(f.Hosts, standing.Host{Name: list.Items[i].Spec.NodeName, Member: memberOf(&list.Items[i], t.now)})
		}
		f.Hosts = merged(f.Hosts)
	})
	return nil
}
