package upgrade

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// surroundings plays the controller of Deployments, and Pacemaker's sign of life.
func (w *world) surroundings() {
	w.t.Helper()
	d := &appsv1.Deployment{}
	must(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: render.Namespace, Name: render.Name}, d))
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
	if w.starts {
		d.Status.ReadyReplicas, d.Status.AvailableReplicas, d.Status.UnavailableReplicas = 0, 0, 1
	}
	must(w.t, w.admin.Status().Update(w.t.Context(), d))
	w.roll()
	w.keepsRouter(d)
	if !w.twoNode {
		return
	}
	c := &etcdv1.PacemakerCluster{}
	must(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Name: clusterName}, c))
	c.Status.LastUpdated = metav1.NewTime(w.now)
	must(w.t, w.admin.Update(w.t.Context(), c))
}

// atWork returns the hosts that are on their way.
func (w *world) atWork() []string {
	var out []string
	for name, h := range w.hosts {
		if !h.journal.Step.AtRest() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// round lets the operator look, and then every host act once. It fails the test if two
// control planes are at work, or bring parts.
func (w *world) round() error {
	w.t.Helper()
	err := w.look()
	if bring := slices.DeleteFunc(w.names(), func(name string) bool { return w.node(name).Annotations[annotation.PartOf] == "" }); len(bring) > 1 {
		w.t.Fatalf("%v are to bring parts at the same time", bring)
	}
	for _, name := range w.names() {
		w.act(w.hosts[name])
	}
	w.surroundings()
	control := slices.DeleteFunc(w.atWork(), func(name string) bool { return w.hosts[name].worker })
	if len(control) > 1 {
		w.t.Fatalf("%v are at work at the same time", control)
	}
	w.now = w.now.Add(20 * time.Second)
	return err
}

func (w *world) names() []string {
	var out []string
	for name := range w.hosts {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// until plays rounds until something is so.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	for range 150 {
		if is() {
			return
		}
		if err := w.round(); err != nil && !errors.Is(err, errKilled) {
			w.t.Fatal(err)
		}
	}
	w.t.Fatalf("never: %s\nthe record is %+v\nit says %s\n%s", what, w.record(), w.condition("Progressing"), strings.Join(w.events[max(0, len(w.events)-8):], "\n"))
}

// condition returns a condition of the ClusterVersion as "STATUS REASON MESSAGE".
func (w *world) condition(kind string) string {
	w.t.Helper()
	for _, c := range w.version().Status.Conditions {
		if string(c.Type) == kind {
			return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

// everywhere reports whether all hosts run a release, at rest.
func (w *world) everywhere(digest string) bool {
	for _, h := range w.hosts {
		if h.running != digest || !h.journal.Step.AtRest() {
			return false
		}
	}
	return true
}
