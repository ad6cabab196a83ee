package drain

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	decide "github.com/holdfast/holdfast/internal/decide/drain"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// manage runs the controller as the operator does, woken by events, with the operator's rights.
func (s *site) manage() (stop func()) {
	s.t.Helper()
	manager, err := ctrl.NewManager(server.AsServiceAccount(render.Namespace, render.Name), ctrl.Options{
		Scheme: s.own.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	must(s.t, err)
	s.r.Events, s.r.Now = &events.FakeRecorder{}, time.Now
	must(s.t, s.r.SetUp(manager))
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("the manager ended: %v", err)
		}
	}
}

// TestAHostWhoseEvictionsHangHoldsNoOtherHostUp: a webhook that does not answer judges a pod of
// w-1, and w-2 is cordoned meanwhile.
func TestAHostWhoseEvictionsHangHoldsNoOtherHostUp(t *testing.T) {
	s := newSite(t)
	s.runs("web", "ReplicaSet")
	hangs, goesOn := make(chan struct{}), make(chan struct{})
	begins := sync.OnceFunc(func() { close(hangs) })
	s.r.Client = interceptor.NewClient(s.own, interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, of client.Object, opts ...client.SubResourceCreateOption) error {
			if _, evicts := of.(*policyv1.Eviction); evicts {
				begins()
				<-goesOn
			}
			return c.SubResource(sub).Create(ctx, o, of, opts...)
		},
	})
	stop := s.manage()
	defer stop()
	defer close(goesOn)
	s.wish(drains)
	limit := time.After(time.Minute)
	select {
	case <-hangs:
	case <-limit:
		t.Fatal("nothing is evicted")
	}
	other := &corev1.Node{}
	other.Name = "w-2"
	must(t, s.admin.Patch(t.Context(), other, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+decide.Desired+`":"`+drains+`"}}}`))))
	for !other.Spec.Unschedulable {
		select {
		case <-limit:
			t.Fatal("w-2 waits until the evictions of w-1 have ended")
		case <-time.NewTimer(10 * time.Millisecond).C:
		}
		must(t, s.admin.Get(t.Context(), client.ObjectKey{Name: "w-2"}, other))
	}
}
