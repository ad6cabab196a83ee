package ingress_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/test/labsite"
)

const (
	// drainWithin bounds the drain of a host's routers: one leaves in at most
	// 30 s, and the budget must let it go at once.
	drainWithin = 2 * time.Minute
	// unavailableMost is the longest time for which a cluster may report that
	// there is no ingress while its only living host is drained: the time
	// without a router, and the length of the grace before the report.
	unavailableMost = 30 * time.Second
)

// TestADrainEndsWhileOneOfTwoHostsIsFenced cuts a host, keeps it off, and then
// replaces and drains the routers of the only living one. Neither step may wait
// for the other host, and clients must get answers again after both.
func TestADrainEndsWhileOneOfTwoHostsIsFenced(t *testing.T) {
	oneOfTwo(t, "drain, one of two hosts fenced", 2, func(tr *trial, lost, survivor string) {
		since := time.Now()
		tr.Inject(lab.Fault{Kind: lab.FaultPowerCut, Host: lost})
		tr.ingressIsOn(survivor)
		tr.holdOff(lost, survivor)
		p := tr.follow()
		tr.rollOutAlone(survivor)
		tr.drainAlone(survivor)
		p.briefly(tr)
		tr.Switch(lost, lab.ActionOn)
		tr.BootedAgain(lost, since)
		tr.Eventually(labsite.WholeWithin, "the site is whole again", func() error { return tr.Whole(tr.Context()) })
	})
}

// drainAlone drains the routers of the only living host. Like 'kubectl drain'
// it closes the host and requests evictions, which the budget must grant. There
// is no router then until the host is opened again.
func (tr *trial) drainAlone(host string) {
	tr.Helper()
	tr.Cleanup(func() {
		if err := tr.schedulable(context.WithoutCancel(tr.Context()), host, true); err != nil {
			tr.Errorf("clean up: %v", err)
		}
	})
	since := time.Now()
	if err := tr.schedulable(tr.Context(), host, false); err != nil {
		tr.Fatal(err)
	}
	tr.Eventually(drainWithin, "the drain of "+host+" ends while its peer is off", func() error { return tr.evictRouters(host) })
	tr.Trial.Took("drain while alone", time.Since(since))
	if err := tr.schedulable(tr.Context(), host, true); err != nil {
		tr.Fatal(err)
	}
	tr.Eventually(rolloutWithin, "a router on "+host+" after the drain", func() error {
		_, err := tr.readyRouter(ingress.DefaultName, host)
		return err
	})
	tr.Steady("after the drain")
	tr.Noticed("drain while alone", since)
}

// schedulable opens a host to new pods, or closes it.
func (tr *trial) schedulable(ctx context.Context, host string, open bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var n corev1.Node
	if err := tr.API.Get(ctx, client.ObjectKey{Name: host}, &n); err != nil {
		return err
	}
	before := client.MergeFrom(n.DeepCopy())
	n.Spec.Unschedulable = !open
	return tr.API.Patch(ctx, &n, before)
}

// evictRouters requests the eviction of all routers on a host. It returns nil
// once none is left there.
func (tr *trial) evictRouters(host string) error {
	pods, err := tr.RouterPods(tr.Context(), ingress.PodLabels(ingress.DefaultName), ingress.OperandNamespace)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range pods {
		switch {
		case p.Spec.NodeName != host:
		case p.DeletionTimestamp != nil:
			errs = append(errs, fmt.Errorf("%s is leaving", p.Name))
		default:
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
			err := tr.API.SubResource("eviction").Create(tr.Context(), &p, eviction)
			if apierrors.IsTooManyRequests(err) {
				err = fmt.Errorf("the budget does not let %s go: %w", p.Name, err)
			}
			errs = append(errs, err, fmt.Errorf("%s was there", p.Name))
		}
	}
	return errors.Join(errs...)
}

// briefly checks that the cluster reported a missing ingress only for a short
// time.
func (p *places) briefly(tr *trial) {
	tr.Helper()
	p.stop()
	tr.Trial.Took("said not to be available", p.longest)
	if p.longest > unavailableMost {
		tr.Errorf("the default IngressController said for %s that it is not available, want %s at most: %s",
			p.longest.Round(100*time.Millisecond), unavailableMost, p.unavailable)
	}
}
