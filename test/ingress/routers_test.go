package ingress_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/payload"
	operator "github.com/holdfast/holdfast/internal/render/operator"
)

// rolloutWithin bounds a roll-out: routers drain, and each new one must be
// ready for half a minute before the next is replaced.
const rolloutWithin = 10 * time.Minute

// routers returns the routers of an IngressController that are not being
// deleted.
func (tr *trial) routers(controller string) ([]corev1.Pod, error) {
	list, err := tr.RouterPods(tr.Context(), ingress.PodLabels(controller), ingress.OperandNamespace)
	return slices.DeleteFunc(list, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), err
}

// readyRouter returns the only router of an IngressController on a host if it
// is ready.
func (tr *trial) readyRouter(controller, host string) (corev1.Pod, error) {
	list, err := tr.routers(controller)
	if err != nil {
		return corev1.Pod{}, err
	}
	var found []corev1.Pod
	for _, p := range list {
		if p.Spec.NodeName == host && ready(p) {
			found = append(found, p)
		}
	}
	if len(found) != 1 {
		return corev1.Pod{}, fmt.Errorf("%d routers of %s are ready on %s, want one (there are %d)", len(found), controller, host, len(list))
	}
	return found[0], nil
}

func ready(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// uids returns the UIDs of routers, which distinguish them from their
// replacements.
func uids(pods []corev1.Pod) []types.UID {
	var out []types.UID
	for _, p := range pods {
		out = append(out, p.UID)
	}
	slices.Sort(out)
	return out
}

// places records all hosts that routers of the default IngressController ran
// on, and whether it was ever reported as unavailable.
type places struct {
	end context.CancelFunc
	all sync.WaitGroup

	mu          sync.Mutex
	hosts       []string
	unavailable string
	// wrong is the start of the current report, longest the duration of the
	// longest one.
	wrong   time.Time
	longest time.Duration
}

// follow starts recording.
func (tr *trial) follow() *places {
	ctx, end := context.WithCancel(tr.Context())
	p := &places{end: end}
	p.all.Go(func() {
		for ctx.Err() == nil {
			p.look(ctx, tr)
			_ = host.Sleep(ctx, 250*time.Millisecond)
		}
	})
	return p
}

// look reads the API. If the API does not answer, no new decision is recorded.
func (p *places) look(ctx context.Context, tr *trial) {
	pods, err := tr.RouterPods(ctx, ingress.PodLabels(ingress.DefaultName), ingress.OperandNamespace)
	if err != nil {
		return
	}
	var ic operatorv1.IngressController
	key := client.ObjectKey{Namespace: ingress.Namespace, Name: ingress.DefaultName}
	known := tr.API.Get(ctx, key, &ic) == nil
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pod := range pods {
		if h := pod.Spec.NodeName; h != "" && !slices.Contains(p.hosts, h) {
			p.hosts = append(p.hosts, h)
		}
	}
	for _, c := range ic.Status.Conditions {
		if known && c.Type == ingress.Available {
			p.note(c, time.Now())
		}
	}
}

// note stores the first report, and the longest duration.
func (p *places) note(c operatorv1.OperatorCondition, now time.Time) {
	if c.Status == operatorv1.ConditionTrue {
		p.wrong = time.Time{}
		return
	}
	if p.wrong.IsZero() {
		p.wrong = now
	}
	p.longest = max(p.longest, now.Sub(p.wrong))
	if p.unavailable == "" {
		p.unavailable = fmt.Sprintf("%s at %s: %s: %s", c.Status, now.UTC().Format(time.TimeOnly), c.Reason, c.Message)
	}
}

// only checks that routers never ran on another host.
func (p *places) only(tr *trial, host string) {
	tr.Helper()
	p.stop()
	if len(p.hosts) != 1 || p.hosts[0] != host {
		tr.Errorf("routers were on %v, want them on %s alone", p.hosts, host)
	}
}

func (p *places) stop() {
	p.end()
	p.all.Wait()
}

// condition returns an error with the actual condition of an IngressController
// if it is not as wanted.
func (tr *trial) condition(controller, kind string, want operatorv1.ConditionStatus) error {
	var ic operatorv1.IngressController
	if err := tr.API.Get(tr.Context(), client.ObjectKey{Namespace: ingress.Namespace, Name: controller}, &ic); err != nil {
		return err
	}
	for _, c := range ic.Status.Conditions {
		if c.Type == kind && c.Status == want {
			return nil
		}
		if c.Type == kind {
			return fmt.Errorf("%s of %s is %s: %s: %s", kind, controller, c.Status, c.Reason, c.Message)
		}
	}
	return fmt.Errorf("%s says nothing about %s", controller, kind)
}

// rollRouters replaces all routers of an IngressController, as 'kubectl rollout
// restart' does.
func (tr *trial) rollRouters(controller string) {
	tr.Helper()
	tr.change(client.ObjectKey{Namespace: ingress.OperandNamespace, Name: ingress.RouterName(controller)}, func(d *appsv1.Deployment) {
		if d.Spec.Template.Annotations == nil {
			d.Spec.Template.Annotations = map[string]string{}
		}
		d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = time.Now().UTC().Format(time.RFC3339Nano)
	})
}

// change edits a Deployment.
func (tr *trial) change(key client.ObjectKey, edit func(*appsv1.Deployment)) {
	tr.Helper()
	var d appsv1.Deployment
	if err := tr.API.Get(tr.Context(), key, &d); err != nil {
		tr.Fatal(err)
	}
	before := client.MergeFrom(d.DeepCopy())
	edit(&d)
	if err := tr.API.Patch(tr.Context(), &d, before); err != nil {
		tr.Fatal(err)
	}
}

var operatorKey = client.ObjectKey{Namespace: operator.Namespace, Name: operator.Name}

// leader returns the name of the operator that leads.
func (tr *trial) leader() (string, error) {
	var lease coordinationv1.Lease
	if err := tr.API.Get(tr.Context(), operatorKey, &lease); err != nil {
		return "", err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return "", errors.New("no operator leads")
	}
	return *lease.Spec.HolderIdentity, nil
}

// upgradeOperator rolls the operator's Deployment to its image under another
// tag, and back the next time. There is only one release to test; to the
// cluster the tag is another version, which starts with an empty memory.
func (tr *trial) upgradeOperator() {
	tr.Helper()
	image := payload.Image(operator.Image)
	next := image + "-next"
	for _, h := range tr.ControlPlanes() {
		tr.On(h, fmt.Sprintf("ctr --namespace k8s.io images tag --force %s %s >/dev/null", image, next))
	}
	before, err := tr.leader()
	if err != nil {
		tr.Fatal(err)
	}
	tr.change(operatorKey, func(d *appsv1.Deployment) {
		c := &d.Spec.Template.Spec.Containers[0]
		if c.Image == next {
			next = image
		}
		c.Image = next
	})
	tr.Eventually(rolloutWithin, "the operator of the image "+next+" works", func() error {
		now, err := tr.leader()
		if err == nil && now == before {
			err = fmt.Errorf("%s still leads", now)
		}
		return errors.Join(tr.RolledOut(tr.Context(), operatorKey), err)
	})
}

// killOperator kills the operator on the host where it runs.
func (tr *trial) killOperator() {
	tr.Helper()
	killed := 0
	for _, h := range tr.ControlPlanes() {
		// It runs on one of the hosts.
		if tr.Power.Inject(tr.Context(), lab.Fault{Kind: lab.FaultProcessKill, Host: h, Process: operator.Name}) == nil {
			killed++
		}
	}
	if killed == 0 {
		tr.Fatal("no operator runs")
	}
}
