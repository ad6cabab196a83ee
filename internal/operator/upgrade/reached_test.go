package upgrade

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/render/clusterdns"
	"github.com/holdfast/holdfast/internal/render/flannel"
)

// podsOf begins the addresses of the name servers of a world.
const podsOf = "10.128.7."

// askNetwork is what kubelets and the name servers of a world answer.
func (w *world) askNetwork(server string) (status int, is bool) {
	switch {
	case strings.HasSuffix(server, ":10250"):
		return http.StatusBadRequest, true // a kubelet is asked without TLS
	case !strings.HasPrefix(server, podsOf) || !strings.HasSuffix(server, ":8181"):
		return 0, false
	}
	d := &appsv1.DaemonSet{}
	must(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: flannel.Namespace, Name: flannel.DaemonSet}, d))
	if far := server != podsOf+"1:8181"; far && w.dark && imageOf(&d.Spec.Template) == release(newImage).Images[payload.ImageFlannel] {
		return 0, true
	}
	return http.StatusOK, true
}

// nameServers gives each host a ready pod of the cluster's name server.
func (w *world) nameServers() {
	w.t.Helper()
	var nodes corev1.NodeList
	must(w.t, w.admin.List(w.t.Context(), &nodes))
	slices.SortFunc(nodes.Items, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	for i, n := range nodes.Items {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: clusterdns.Namespace, Name: "coredns-" + n.Name, Labels: map[string]string{clusterdns.Label: clusterdns.ServiceName}}}
		p.Spec.NodeName, p.Spec.Containers = n.Name, []corev1.Container{{Name: "coredns", Image: "coredns"}}
		must(w.t, w.admin.Create(w.t.Context(), p))
		p.Status = corev1.PodStatus{PodIP: fmt.Sprintf("%s%d", podsOf, i+1), Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		must(w.t, w.admin.Status().Update(w.t.Context(), p))
	}
}

// TestAPodNetworkThatLeadsNowhereTakesThePartsBack: its pods run, by all that Kubernetes says.
func TestAPodNetworkThatLeadsNowhereTakesThePartsBack(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.nameServers()
	w.dark = true
	w.begins()
	w.writes = writesKilled(w)
	want := "True Paused the parts went back: the pods of objects did not all run within 6m00s: the pod network: no ready pod of "
	w.until("it is told", func() bool { return strings.HasPrefix(w.condition("Failing"), want) })
	for range 30 {
		if err := w.round(); err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
	}
	if said := w.condition("Failing"); strings.Contains(said, ". Now: ") || !strings.Contains(said, "although the host itself does. All hosts run the new release.") {
		t.Errorf("%s", said)
	}
	if r := w.record(); r.NoWayBack || !w.everywhere(newImage) {
		t.Errorf("%+v", r)
	}
	w.wish(oldImage)
	w.until("it is back", func() bool { return !w.record().Started && w.everywhere(oldImage) })
}

// TestAPodNetworkThatLeadsIsLeftAlone with the same site.
func TestAPodNetworkThatLeadsIsLeftAlone(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.nameServers()
	w.begins()
	w.until("it soaks", func() bool { return w.record().Healthy > 0 })
}

// TestABusyServerIsAskedTwice, and one that is away not for ever.
func TestABusyServerIsAskedTwice(t *testing.T) {
	asked := 0
	answer := func(at int) bool {
		asked = 0
		r := &Reconciler{Ask: func(_ context.Context, server, _, _ string) int {
			if asked++; asked == at && server == "[fd98::7]:8181" {
				return http.StatusOK
			}
			return 0
		}}
		return r.answers(t.Context(), "fd98::7", readyPort, "coredns", readyPath)
	}
	for at, want := range map[int]bool{1: true, 2: true, 3: false} {
		if got := answer(at); got != want || asked > 2 {
			t.Errorf("a server that answers at the question %d: %v after %d", at, got, asked)
		}
	}
}
