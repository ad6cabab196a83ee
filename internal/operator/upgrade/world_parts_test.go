package upgrade

import (
	"slices"

	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/render/clusterdns"
	"github.com/holdfast/holdfast/internal/render/flannel"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// daemonSet is one that a part brings.
type daemonSet struct{ part, namespace, name, image string }

var daemonSets = []daemonSet{
	{parts.Objects, flannel.Namespace, flannel.DaemonSet, payload.ImageFlannel},
	{parts.Objects, clusterdns.Namespace, clusterdns.Name, payload.ImageCoreDNS},
	{parts.KubeProxy, metav1.NamespaceSystem, parts.KubeProxy, payload.ImageKubeProxy},
}

func (s daemonSet) of(digest string) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
	labels := map[string]string{"app": s.name}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: s.name, Image: release(digest).Images[s.image]}}
	return d
}

// bringsDaemonSets is what the installation does.
func (w *world) bringsDaemonSets() {
	w.t.Helper()
	for _, s := range daemonSets {
		must(w.t, client.IgnoreAlreadyExists(w.admin.Create(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})))
		must(w.t, client.IgnoreNotFound(w.admin.Delete(w.t.Context(), s.of(oldImage))))
		must(w.t, w.admin.Create(w.t.Context(), s.of(oldImage)))
	}
}

// router is the Deployment of the one router that the operator keeps.
func (w *world) router() (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ingress.OperandNamespace, Name: ingress.RouterName("default")}}
	return d, client.IgnoreNotFound(w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(d), d))
}

// bringsRouter makes it, with its IngressController.
func (w *world) bringsRouter() {
	w.t.Helper()
	for _, name := range []string{ingress.OperandNamespace, ingress.Namespace} {
		must(w.t, client.IgnoreAlreadyExists(w.admin.Create(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})))
	}
	ic := &operatorv1.IngressController{ObjectMeta: metav1.ObjectMeta{Namespace: ingress.Namespace, Name: "default"}}
	must(w.t, client.IgnoreAlreadyExists(w.admin.Create(w.t.Context(), ic)))
	d, err := w.router()
	must(w.t, err)
	must(w.t, client.IgnoreNotFound(w.admin.Delete(w.t.Context(), d)))
	s := daemonSet{"", d.Namespace, d.Name, payload.ImageRouter}.of(oldImage)
	d = &appsv1.Deployment{ObjectMeta: s.ObjectMeta, Spec: appsv1.DeploymentSpec{Selector: s.Spec.Selector, Template: s.Spec.Template}}
	must(w.t, w.admin.Create(w.t.Context(), d))
}

// keepsRouter is what the operator of a release does in another controller, once it runs.
func (w *world) keepsRouter(operator *appsv1.Deployment) {
	w.t.Helper()
	d, err := w.router()
	must(w.t, err)
	if d.ResourceVersion == "" {
		return
	}
	for _, digest := range []string{oldImage, newImage} {
		if operatorImage(operator) == image(release(digest)) {
			d.Spec.Template.Spec.Containers[0].Image = release(digest).Images[payload.ImageRouter]
		}
	}
	must(w.t, w.admin.Update(w.t.Context(), d))
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
	if w.crash == parts.Operator && imageOf(&d.Spec.Template) == release(newImage).Images[payload.ImageRouter] {
		d.Status.Replicas, d.Status.UnavailableReplicas = 2, 1 // that of before serves
	}
	must(w.t, w.admin.Status().Update(w.t.Context(), d))
}

func imageOf(t *corev1.PodTemplateSpec) string {
	if len(t.Spec.Containers) == 0 {
		return ""
	}
	return t.Spec.Containers[0].Image
}

// replaces has a part of a release replace the templates of its pods.
func (w *world) replaces(part, digest string) {
	w.t.Helper()
	for _, s := range daemonSets {
		if s.part != part {
			continue
		}
		d := &appsv1.DaemonSet{}
		must(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: s.name}, d))
		d.Spec.Template = s.of(digest).Spec.Template
		must(w.t, w.admin.Update(w.t.Context(), d))
	}
}

// roll plays the controller of DaemonSets: in each round one more pod is replaced.
func (w *world) roll() {
	w.t.Helper()
	for _, s := range daemonSets {
		d := &appsv1.DaemonSet{}
		err := w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: s.name}, d)
		if must(w.t, client.IgnoreNotFound(err)); err != nil {
			continue
		}
		now, all := imageOf(&d.Spec.Template), int32(len(w.hosts))
		updated := min(all, d.Status.UpdatedNumberScheduled+1)
		if was := d.Annotations["rolled"]; was != now {
			if updated = 0; was == "" {
				updated = all
			}
			d.Annotations = map[string]string{"rolled": now}
			must(w.t, w.admin.Update(w.t.Context(), d))
		}
		d.Status = appsv1.DaemonSetStatus{ObservedGeneration: d.Generation, DesiredNumberScheduled: all, CurrentNumberScheduled: all, NumberReady: all, UpdatedNumberScheduled: updated, NumberAvailable: all}
		if w.crash == s.part && now == release(newImage).Images[s.image] {
			d.Status.NumberAvailable = all - min(1, updated)
		}
		must(w.t, w.admin.Status().Update(w.t.Context(), d))
	}
}

// brings plays the unit of a host that is told to bring a part.
func (w *world) brings(h *hostPlay, p annotation.Part) {
	w.t.Helper()
	h.partFailed, h.partUndone = "", false
	switch {
	case p.Part == "":
		return
	case !slices.Contains(h.whole, p.Release):
		w.t.Fatalf("%s is to bring %s of %s, and has %v", h.name, p.Part, p.Release, h.whole)
	case w.badPart == p.Part && p.Release == newImage:
		h.partFailed = p.Part + ": the API refuses it"
		return
	case w.dead && p.Part == parts.Operator && p.Release == newImage:
		w.tried++
		h.partFailed, h.partUndone = "the operator did not start; the former one is back", true
		return
	}
	w.brought = append(w.brought, p.Part+" "+image(release(p.Release)))
	w.replaces(p.Part, p.Release)
	if p.Part == parts.Operator {
		d := &appsv1.Deployment{}
		must(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Namespace: render.Namespace, Name: render.Name}, d))
		d.Spec.Template.Spec.Containers[0].Image = image(release(p.Release))
		must(w.t, w.admin.Update(w.t.Context(), d))
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: parts.MarkNamespace, Name: parts.MarkName}}
	must(w.t, client.IgnoreNotFound(w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(cm), cm)))
	mark, err := parts.ReadMark(cm.Data)
	must(w.t, err)
	cm.Data, err = mark.Done(p.Part, p.Release, nil).Data()
	must(w.t, err)
	if cm.ResourceVersion == "" {
		must(w.t, w.admin.Create(w.t.Context(), cm))
		return
	}
	must(w.t, w.admin.Update(w.t.Context(), cm))
}
