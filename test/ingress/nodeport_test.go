package ingress_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/labsite"
)

// shop is an extra IngressController, behind node ports that an administrator
// fixed.
const shop = "shop"

// fixed holds these ports, by name.
var fixed = map[string]int32{"http": 30180, "https": 30143, ingress.MetricsPort: 30936}

// TestNodePortsBehindALoadBalancer tests routers behind node ports, with a load
// balancer of the site in front.
func TestNodePortsBehindALoadBalancer(t *testing.T) {
	k := one()
	s := open(t, k)
	shops := routersOnNodePorts(t, s)
	hello := s.Deploy(t, labsite.App{Name: "shop", Host: "hello." + shops.Spec.Domain, Controller: shop, Where: workers(), Replicas: 2})
	f := startFront(t, s, workerNames(t, s), fixed["http"], fixed[ingress.MetricsPort])
	asked := func(name string, times int, play func(*trial)) {
		t.Helper()
		scenario(t, s, k, name, times, func(tr *trial) {
			tr.asks("front", f.at, hello)
			tr.Steady("before")
			since := tr.Now()
			play(tr)
			tr.Steady("at the end")
			tr.NothingFailed(name, since, tr.Clients()...)
			tr.portsAreKept()
		})
	}
	asked("roll-out behind node ports", 3, func(tr *trial) {
		since := time.Now()
		before, err := tr.routers(shop)
		if err != nil {
			tr.Fatal(err)
		}
		tr.rollRouters(shop)
		tr.Eventually(rolloutWithin, "all routers are new ones", func() error { return tr.replaced(before) })
		tr.Trial.Took("rolled out", time.Since(since))
	})
	asked("operator restarted, node ports", 3, func(tr *trial) {
		before, err := tr.leader()
		if err != nil {
			tr.Fatal(err)
		}
		tr.killOperator()
		tr.Eventually(rolloutWithin, "another operator leads", func() error {
			now, err := tr.leader()
			if err == nil && now == before {
				err = fmt.Errorf("%s still does", now)
			}
			return err
		})
	})
	asked("operator upgraded, node ports", 2, func(tr *trial) { tr.upgradeOperator() })
}

// replaced returns an error if a router has not been replaced.
func (tr *trial) replaced(before []corev1.Pod) error {
	key := client.ObjectKey{Namespace: ingress.OperandNamespace, Name: ingress.RouterName(shop)}
	if err := tr.RolledOut(tr.Context(), key); err != nil {
		return err
	}
	now, err := tr.routers(shop)
	if err != nil {
		return err
	}
	old := uids(before)
	for _, p := range now {
		if slices.Contains(old, p.UID) {
			return fmt.Errorf("router %s is from before", p.Name)
		}
	}
	return nil
}

// routersOnNodePorts makes the IngressController, waits for its routers and
// fixes the node ports, in another order than the operator's.
func routersOnNodePorts(t *testing.T, s *labsite.Site) *operatorv1.IngressController {
	t.Helper()
	ic := &operatorv1.IngressController{ObjectMeta: metav1.ObjectMeta{Namespace: ingress.Namespace, Name: shop}}
	ic.Spec = operatorv1.IngressControllerSpec{
		Domain: "shop." + s.Lab.Layout.ClusterDomain(), Replicas: new(int32(2)),
		EndpointPublishingStrategy: &operatorv1.EndpointPublishingStrategy{Type: operatorv1.NodePortServiceStrategyType},
		NodePlacement: &operatorv1.NodePlacement{NodeSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{state.LabelWorker: ""},
		}},
	}
	if err := s.API.Create(t.Context(), ic); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Remove(t, ic)
		routersAreGone(t, s)
	})
	err := labsite.Until(t.Context(), rolloutWithin, time.Second, func() error {
		if err := fixPorts(t, s); err != nil {
			return err
		}
		return s.RolledOut(t.Context(), client.ObjectKey{Namespace: ingress.OperandNamespace, Name: ingress.RouterName(shop)})
	})
	if err != nil {
		t.Fatalf("routers on node ports: %v", err)
	}
	return ic
}

// routersAreGone waits for the end of a deletion: routers drain first.
func routersAreGone(t *testing.T, s *labsite.Site) {
	ctx := context.WithoutCancel(t.Context())
	err := labsite.Until(ctx, rolloutWithin, time.Second, func() error {
		var ic operatorv1.IngressController
		err := s.API.Get(ctx, client.ObjectKey{Namespace: ingress.Namespace, Name: shop}, &ic)
		if err == nil {
			return fmt.Errorf("it is still there, deleted at %s", ic.DeletionTimestamp)
		}
		return client.IgnoreNotFound(err)
	})
	if err != nil {
		t.Errorf("the deletion of IngressController %s does not end: %v", shop, err)
	}
}

func shopService(t *testing.T, s *labsite.Site) (*corev1.Service, error) {
	var service corev1.Service
	key := client.ObjectKey{Namespace: ingress.OperandNamespace, Name: ingress.RouterName(shop)}
	return &service, s.API.Get(t.Context(), key, &service)
}

// fixPorts fixes the ports as an administrator would with 'kubectl patch',
// unless they are fixed.
func fixPorts(t *testing.T, s *labsite.Site) error {
	service, err := shopService(t, s)
	if err != nil {
		return err
	}
	if maps.Equal(portsOf(service), fixed) {
		return nil
	}
	before := client.MergeFrom(service.DeepCopy())
	slices.Reverse(service.Spec.Ports)
	for i, p := range service.Spec.Ports {
		service.Spec.Ports[i].NodePort = fixed[p.Name]
	}
	return s.API.Patch(t.Context(), service, before)
}

func portsOf(service *corev1.Service) map[string]int32 {
	out := map[string]int32{}
	for _, p := range service.Spec.Ports {
		out[p.Name] = p.NodePort
	}
	return out
}

// portsAreKept checks that the node ports are still the administrator's, by the
// names of the ports.
func (tr *trial) portsAreKept() {
	tr.Helper()
	service, err := shopService(tr.T, tr.Site)
	if err != nil {
		tr.Fatal(err)
	}
	if got := portsOf(service); !maps.Equal(got, fixed) {
		tr.Errorf("the node ports are %v, a person made them %v", got, fixed)
	}
}

// workerNames returns the workers that have joined.
func workerNames(t *testing.T, s *labsite.Site) []string {
	t.Helper()
	hosts, err := s.Hosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(hosts, func(h string) bool { return slices.Contains(s.ControlPlanes(), h) })
}
