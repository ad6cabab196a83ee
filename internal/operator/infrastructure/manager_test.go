package infrastructure

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	eventsv1 "k8s.io/api/events/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/holdfast/holdfast/internal/adapter/kube/vipobject"
	"github.com/holdfast/holdfast/internal/decide/vips"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// manage runs the controller as the operator does, woken by events only, with
// the operator's rights.
func (s *site) manage() (stop func()) {
	s.t.Helper()
	cfg := server.AsServiceAccount(render.Namespace, render.Name)
	manager, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: s.own.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	must(s.t, err)
	r := &Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: manager.GetEventRecorder(render.Name), Now: time.Now,
		Answers: func(_ context.Context, api, ingress []netip.Addr) map[netip.Addr]string {
			out := map[netip.Addr]string{}
			for _, a := range append(api, ingress...) {
				out[a] = ""
			}
			return out
		},
	}
	must(s.t, r.SetUp(manager))
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

// until lets the hosts play until the change to some VIPs is complete, and
// returns how long that took.
func (s *site) until(want ...string) time.Duration {
	s.t.Helper()
	began := time.Now()
	for {
		s.playHosts()
		report, err := vipobject.ReadReport(s.t.Context(), s.admin)
		must(s.t, err)
		if vips.SameSet(report.Extension.Applied, parse(want...)) && report.Extension.Everywhere {
			return time.Since(began)
		}
		if time.Since(began) > time.Minute {
			s.t.Fatalf("not complete: %+v", report)
		}
		<-time.NewTimer(10 * time.Millisecond).C
	}
}

func TestTheControllerIsWokenByTheObjectAndByTheHosts(t *testing.T) {
	s := newSite(t)
	must(t, eventsv1.AddToScheme(s.own.Scheme()))
	must(t, eventsv1.AddToScheme(s.admin.Scheme()))
	stop := s.manage()
	defer stop()
	s.until("10.98.0.5", "10.98.0.6")
	var times []string
	for range 3 {
		s.wish("10.98.0.5 fd98::5", "10.98.0.6 fd98::6")
		took := s.until("10.98.0.5", "fd98::5", "10.98.0.6", "fd98::6")
		times = append(times, "added after "+took.Round(time.Millisecond).String())
		s.wish("10.98.0.5", "10.98.0.6")
		took = s.until("10.98.0.5", "10.98.0.6")
		times = append(times, "removed after "+took.Round(time.Millisecond).String())
	}
	t.Log(strings.Join(times, ", "))
	s.leavesNoQuestionsSoon()

	var list eventsv1.EventList
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-time.NewTimer(100 * time.Millisecond).C {
		must(t, s.admin.List(t.Context(), &list, client.InNamespace("default")))
		if slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == "VirtualIPsApplied" && e.Regarding.Kind == "Infrastructure"
		}) {
			return
		}
	}
	t.Errorf("there is no event in the API, only %d others", len(list.Items))
}

// leavesNoQuestionsSoon waits for the last question to be taken back.
func (s *site) leavesNoQuestionsSoon() {
	s.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); <-time.NewTimer(50 * time.Millisecond).C {
		s.playHosts()
		if !slices.ContainsFunc(s.hosts, func(h *agent) bool {
			for name := range s.node(h.name).Annotations {
				if strings.Contains(name, "vip-probe") || strings.Contains(name, "vip-answer") {
					return true
				}
			}
			return false
		}) {
			return
		}
	}
	s.leavesNoQuestions()
}

func TestThePlatformsOfOthersAreReportedByTheManagerToo(t *testing.T) {
	s := newSite(t)
	stop := s.manage()
	defer stop()
	s.create(`{"platformSpec":{"type":"VSphere","vsphere":{}}}`, `{"platformStatus":{"type":"VSphere","vsphere":{}}}`)
	var op configv1.ClusterOperator
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.NewTimer(50 * time.Millisecond).C {
		if s.admin.Get(t.Context(), client.ObjectKey{Name: vipobject.OperatorName}, &op) == nil && slices.ContainsFunc(op.Status.Conditions,
			func(c configv1.ClusterOperatorStatusCondition) bool { return c.Reason == vips.ReasonNotManagedHere }) {
			return
		}
	}
	t.Errorf("it reports %+v", op.Status.Conditions)
}
