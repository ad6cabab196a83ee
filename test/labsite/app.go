package labsite

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/ingress"
)

// App is an application that clients reach through routers. Its image is that
// of the cluster's name server, which reports its health by HTTP, because a
// release has no other web server.
type App struct {
	Name string
	// Host is its host name in requests.
	Host string
	// Controller is the IngressController whose routers serve it.
	Controller string
	// Where holds the labels of the hosts that it runs on.
	Where    map[string]string
	Replicas int32
	// Graceful makes it one that a drain does not interrupt: its replicas are on
	// several hosts, a budget keeps one of them, and each goes on to answer for a
	// while after it was told to end.
	Graceful bool

	image string
}

const (
	appNamespace = "default"
	appPort      = 8080
	appWithin    = 3 * time.Minute
	// knowsKinds is the time after which an API server that has just started refuses no Ingress for
	// want of the kind of the lists of hosts any more (docs/adr/0034).
	knowsKinds = 40 * time.Second
)

func (a App) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: appNamespace, Name: a.Name, Labels: a.labels()}
}

func (a App) labels() map[string]string { return map[string]string{"app": a.Name} }

func (a App) objects() []client.Object {
	class := ingress.ClassName(a.Controller)
	prefix := networkingv1.PathTypePrefix
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: a.Name, Port: networkingv1.ServiceBackendPort{Number: appPort},
	}}
	list := []client.Object{
		&corev1.ConfigMap{ObjectMeta: a.meta(), Data: map[string]string{
			"Corefile": fmt.Sprintf(".:5300 {\n  errors\n  health :%d%s\n}\n", appPort, a.lameduck()),
		}},
		&appsv1.Deployment{ObjectMeta: a.meta(), Spec: appsv1.DeploymentSpec{
			Replicas: &a.Replicas, Selector: &metav1.LabelSelector{MatchLabels: a.labels()},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: a.labels()}, Spec: a.pod()},
		}},
		&corev1.Service{ObjectMeta: a.meta(), Spec: corev1.ServiceSpec{
			Selector: a.labels(), IPFamilyPolicy: new(corev1.IPFamilyPolicyPreferDualStack),
			Ports: []corev1.ServicePort{{Name: "http", Port: appPort}},
		}},
		&networkingv1.Ingress{ObjectMeta: a.meta(), Spec: networkingv1.IngressSpec{
			IngressClassName: &class,
			Rules: []networkingv1.IngressRule{{Host: a.Host, IngressRuleValue: networkingv1.IngressRuleValue{
				HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
					Path: "/", PathType: &prefix, Backend: backend,
				}}},
			}}},
		}},
	}
	if a.Graceful {
		list = append(list, &policyv1.PodDisruptionBudget{ObjectMeta: a.meta(), Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: a.labels()},
		}})
	}
	return list
}

// lameduck is the time for which a replica answers after it was told to end: as
// long as routers may take to hear of it.
func (a App) lameduck() string {
	if !a.Graceful {
		return ""
	}
	return " {\n    lameduck 5s\n  }"
}

func (a App) pod() corev1.PodSpec {
	spec := corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1)), NodeSelector: a.Where,
		// A host that is cut must take down nothing but itself: the application
		// is not under test.
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{
			Name: "server", Image: a.image, ImagePullPolicy: corev1.PullNever,
			Args: []string{"-conf", "/etc/coredns/Corefile"},
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 5, FailureThreshold: 10, ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromInt32(appPort)},
			}},
			VolumeMounts: []corev1.VolumeMount{{Name: "conf", MountPath: "/etc/coredns"}},
		}},
		Volumes: []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: a.Name}},
		}}},
	}
	if a.Graceful {
		// With every toleration a new pod would come back to the host that is drained.
		spec.TerminationGracePeriodSeconds, spec.Tolerations = new(int64(15)), nil
		// Without a request it would come after everything else on a host that another
		// one's pods make busy, as kubelet's class BestEffort says.
		want := make(corev1.ResourceList, 1)
		want[corev1.ResourceCPU] = resource.MustParse("50m")
		spec.Containers[0].Resources.Requests = want
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: a.labels()},
		}}
	}
	return spec
}

// Deploy makes the application, and removes it at the end of the test.
func (s *Site) Deploy(t *testing.T, a App) App {
	t.Helper()
	t.Cleanup(func() { s.Remove(t, a.objects()...) })
	return s.Leave(t, a)
}

// Leave makes the application, and leaves it to the site.
func (s *Site) Leave(t *testing.T, a App) App {
	t.Helper()
	// A site that is upgraded has that of another release than this program.
	var servers appsv1.DaemonSet
	if err := s.API.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "coredns"}, &servers); err != nil {
		t.Fatalf("application %s: the image of the cluster's name server: %v", a.Name, err)
	}
	a.image = servers.Spec.Template.Spec.Containers[0].Image
	for _, o := range a.objects() {
		create := func() error {
			if err := s.API.Create(t.Context(), o); !apierrors.IsAlreadyExists(err) {
				return err
			}
			return nil
		}
		if err := Until(t.Context(), knowsKinds, time.Second, create); err != nil {
			t.Fatalf("application %s: %v", a.Name, err)
		}
	}
	err := Until(t.Context(), appWithin, time.Second, func() error {
		return s.RolledOut(t.Context(), client.ObjectKey{Namespace: appNamespace, Name: a.Name})
	})
	if err != nil {
		t.Fatalf("application %s: not ready within %s: %v", a.Name, appWithin, err)
	}
	return a
}

// Remove deletes objects at the end of a test.
func (s *Site) Remove(t *testing.T, objects ...client.Object) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	var errs []error
	for _, o := range objects {
		errs = append(errs, client.IgnoreNotFound(s.API.Delete(ctx, o)))
	}
	if err := errors.Join(errs...); err != nil {
		t.Errorf("clean up: %v", err)
	}
}

// RolledOut returns what a Deployment still lacks of its newest version.
func (s *Site) RolledOut(ctx context.Context, key client.ObjectKey) error {
	var d appsv1.Deployment
	if err := s.API.Get(ctx, key, &d); err != nil {
		return err
	}
	want, st := *d.Spec.Replicas, d.Status
	if st.ObservedGeneration < d.Generation || st.UpdatedReplicas != want || st.Replicas != want || st.AvailableReplicas != want {
		return fmt.Errorf("%s: %d of %d replicas are of the newest version, %d in all, %d available (version %d of %d was seen)",
			key, st.UpdatedReplicas, want, st.Replicas, st.AvailableReplicas, st.ObservedGeneration, d.Generation)
	}
	return nil
}
