package operator

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/topology"
	"github.com/holdfast/holdfast/internal/operator/twonode"
	"github.com/holdfast/holdfast/internal/render/manifests"
	render "github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// patience bounds each wait, on a machine with other work.
const patience = time.Minute

// cluster is a cluster of two control planes without hosts: the test is their
// kubelets.
type cluster struct {
	t     *testing.T
	api   *apitest.API
	admin client.Client

	mu sync.Mutex
	// outcome returns how a step ends: its words, whether it fails, and whether
	// it is over. The last is false while the step still runs.
	outcome func(step, node string, attempt int) (words string, fails, over bool)
	// ran are the steps that ended, as "STEP NODE", in their order.
	ran  []string
	etcd map[string]handover.Member
	// inputs are what the steps last got, by node.
	inputs map[string]string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	api := apitest.Need(t, server)
	c := &cluster{t: t, api: api, etcd: map[string]handover.Member{}, inputs: map[string]string{}}
	c.outcome = func(string, string, int) (string, bool, bool) { return "", false, true }
	parsed, err := config.Parse([]byte(sitetest.TwoDual))
	if err != nil {
		t.Fatal(err)
	}
	files, err := manifests.Render(parsed, topology.Of(parsed))
	if err != nil {
		t.Fatal(err)
	}
	api.Install(t, files)
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	if c.admin, err = client.New(api.Config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	must(t, c.admin.DeleteAllOf(t.Context(), &corev1.Node{})) // those of another test
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// join adds a control plane.
func (c *cluster) join(name, address string) {
	c.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{state.LabelControlPlane: ""},
		Annotations: map[string]string{state.AnnotationMachine: state.Machine{UUID: "uuid-" + name, Serial: "S" + name}.String()},
	}}
	must(c.t, c.admin.Create(c.t.Context(), n))
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	must(c.t, c.admin.Status().Update(c.t.Context(), n))
	c.setReady(name, corev1.ConditionTrue)
	c.setEtcd(name, handover.MemberHealthy)
}

func (c *cluster) setReady(name string, status corev1.ConditionStatus) {
	c.t.Helper()
	n := &corev1.Node{}
	must(c.t, c.admin.Get(c.t.Context(), client.ObjectKey{Name: name}, n))
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	must(c.t, c.admin.Status().Update(c.t.Context(), n))
}

func (c *cluster) setEtcd(node string, m handover.Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.etcd[node] = m
}

func (c *cluster) ask(context.Context, []twonode.Host) map[string]handover.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.etcd)
}

// steps sets how steps end from now on.
func (c *cluster) steps(outcome func(step, node string, attempt int) (string, bool, bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcome = outcome
}

// past returns what has ended so far and forgets it.
func (c *cluster) past() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := strings.Join(c.ran, ", ")
	c.ran = nil
	return out
}

// kubelets ends the pods of Jobs by the outcome, until the context ends.
func (c *cluster) kubelets(ctx context.Context) {
	for ctx.Err() == nil {
		var pods corev1.PodList
		if err := c.admin.List(ctx, &pods, client.InNamespace(render.Namespace), client.HasLabels{render.LabelStep}); err == nil {
			for i := range pods.Items {
				c.end(ctx, &pods.Items[i])
			}
		}
		select {
		case <-ctx.Done():
		case <-time.NewTimer(20 * time.Millisecond).C:
		}
	}
}

func (c *cluster) end(ctx context.Context, p *corev1.Pod) {
	if p.DeletionTimestamp != nil {
		_ = c.admin.Delete(ctx, p, client.GracePeriodSeconds(0)) // as kubelet does when its containers are gone
		return
	}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return
	}
	step := p.Labels[render.LabelStep]
	var input corev1.Secret
	if c.admin.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: render.InputSecret(p.Spec.NodeName)}, &input) != nil {
		return // its volume cannot be mounted
	}
	attempt := 1
	var job batchv1.Job
	if c.admin.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: p.Labels[batchv1.JobNameLabel]}, &job) == nil {
		_, _ = fmt.Sscan(job.Annotations[render.AnnotationAttempt], &attempt)
	}
	c.mu.Lock()
	words, fails, over := c.outcome(step, p.Spec.NodeName, attempt)
	c.mu.Unlock()
	if !over {
		return
	}
	ended := &corev1.ContainerStateTerminated{Message: words}
	p.Status.Phase = corev1.PodSucceeded
	if fails {
		p.Status.Phase, ended.ExitCode = corev1.PodFailed, 1
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "step", State: corev1.ContainerState{Terminated: ended}}}
	if c.admin.Status().Update(ctx, p) == nil {
		c.mu.Lock()
		c.ran = append(c.ran, step+" "+p.Spec.NodeName)
		c.inputs[p.Spec.NodeName] = string(input.Data[render.InputKey])
		c.mu.Unlock()
	}
}

// operator runs the operator with its own account until stop is called.
func (c *cluster) operator() (stop func()) {
	c.t.Helper()
	manager, err := newManager(c.asOperator(), managing{health: "127.0.0.1:0", metrics: "0", twoNode: true}, logOf(c.t))
	must(c.t, err)
	authorities := filepath.Join(c.t.TempDir(), "ca.crt")
	must(c.t, os.WriteFile(authorities, []byte("authorities"), 0o600))
	must(c.t, addTwoNode(manager, c.ask, authorities))
	return c.run(manager)
}

// asOperator returns access by the operator's account.
func (c *cluster) asOperator() *rest.Config {
	return c.api.AsServiceAccount(render.Namespace, render.Name)
}

// run runs a manager until stop is called.
func (c *cluster) run(manager ctrl.Manager) (stop func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Errorf("the operator ended: %v", err)
		}
	}
}

func (c *cluster) etcdObject() *operatorv1.Etcd {
	c.t.Helper()
	out := &operatorv1.Etcd{}
	must(c.t, c.admin.Get(c.t.Context(), client.ObjectKey{Name: "cluster"}, out))
	return out
}

// condition returns a condition as "STATUS REASON MESSAGE".
func (c *cluster) condition(kind string) string {
	c.t.Helper()
	for _, cond := range c.etcdObject().Status.Conditions {
		if cond.Type == kind {
			return fmt.Sprintf("%s %s %s", cond.Status, cond.Reason, cond.Message)
		}
	}
	return ""
}

// eventually waits until a condition begins with some words.
func (c *cluster) eventually(kind, want string) {
	c.t.Helper()
	got := ""
	c.until(func() bool { got = c.condition(kind); return strings.HasPrefix(got, want) }, func() string {
		return fmt.Sprintf("%s is %q, want %q; ran %v", kind, got, want, c.ran)
	})
}

func (c *cluster) until(is func() bool, otherwise func() string) {
	c.t.Helper()
	for end := time.Now().Add(patience); !is(); {
		if time.Now().After(end) {
			c.t.Fatal(otherwise())
		}
		<-time.NewTimer(50 * time.Millisecond).C
	}
}
