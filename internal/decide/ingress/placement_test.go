package ingress

import (
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	single   = configv1.SingleReplicaTopologyMode
	dual     = configv1.DualReplicaTopologyMode
	ha       = configv1.HighlyAvailableTopologyMode
	arbiter  = configv1.HighlyAvailableArbiterMode
	external = configv1.ExternalTopologyMode

	workers      = configv1.DefaultPlacementWorkers
	controlPlane = configv1.DefaultPlacementControlPlane
)

// TestHardCase01_EveryRowOfTheTableOfDefaults checks the table of defaults with
// every control plane topology, including unknown ones.
func TestHardCase01_EveryRowOfTheTableOfDefaults(t *testing.T) {
	tests := []struct {
		sentence       string
		controlPlane   []configv1.TopologyMode
		infrastructure []configv1.TopologyMode
		placement      []configv1.DefaultPlacement
		replicas       int32
		role           string
		warnings       int
		oneHost        bool
	}{
		{
			"with Workers or nothing, SingleReplica infrastructure is one router on workers",
			[]configv1.TopologyMode{single, dual, ha, arbiter, external, ""},
			[]configv1.TopologyMode{single},
			[]configv1.DefaultPlacement{workers, ""},
			1, state.LabelWorker, 0, true,
		},
		{
			"with Workers or nothing, any other infrastructure is two routers on workers",
			[]configv1.TopologyMode{single, dual, ha, arbiter, external, ""},
			[]configv1.TopologyMode{ha, ""},
			[]configv1.DefaultPlacement{workers, ""},
			2, state.LabelWorker, 0, false,
		},
		{
			"with ControlPlane, a SingleReplica control plane is one router on it, whatever workers there are",
			[]configv1.TopologyMode{single},
			[]configv1.TopologyMode{single, ha, ""},
			[]configv1.DefaultPlacement{controlPlane},
			1, state.LabelMaster, 0, true,
		},
		{
			"with ControlPlane, any other control plane is two routers on it",
			[]configv1.TopologyMode{dual, ha, arbiter, ""},
			[]configv1.TopologyMode{single, ha, ""},
			[]configv1.DefaultPlacement{controlPlane},
			2, state.LabelMaster, 0, false,
		},
		{
			"External with ControlPlane acts as Workers, with a warning: one where the infrastructure is one",
			[]configv1.TopologyMode{external},
			[]configv1.TopologyMode{single},
			[]configv1.DefaultPlacement{controlPlane},
			1, state.LabelWorker, 1, true,
		},
		{
			"External with ControlPlane acts as Workers, with a warning: two elsewhere",
			[]configv1.TopologyMode{external},
			[]configv1.TopologyMode{ha, ""},
			[]configv1.DefaultPlacement{controlPlane},
			2, state.LabelWorker, 1, false,
		},
		{
			"an unknown topology has the defaults of high availability, and a word about it",
			[]configv1.TopologyMode{"Tripled"},
			[]configv1.TopologyMode{ha},
			[]configv1.DefaultPlacement{controlPlane},
			2, state.LabelMaster, 1, false,
		},
		{
			"an unknown infrastructure too",
			[]configv1.TopologyMode{ha},
			[]configv1.TopologyMode{dual},
			[]configv1.DefaultPlacement{workers},
			2, state.LabelWorker, 1, false,
		},
		{
			"an unknown placement is Workers",
			[]configv1.TopologyMode{ha},
			[]configv1.TopologyMode{ha},
			[]configv1.DefaultPlacement{"Everywhere"},
			2, state.LabelWorker, 1, false,
		},
	}
	for _, tt := range tests {
		for _, cp := range tt.controlPlane {
			for _, infra := range tt.infrastructure {
				for _, placement := range tt.placement {
					got := DefaultPlacement(Cluster{ControlPlane: cp, Infrastructure: infra, Placement: placement})
					_, role := got.NodeSelector[tt.role]
					if got.Replicas != tt.replicas || !role || len(got.NodeSelector) != 2 || got.NodeSelector[corev1.LabelOSStable] != "linux" ||
						len(got.Warnings) != tt.warnings || got.Single != tt.oneHost {
						t.Errorf("%s: %q %q %q: got %+v", tt.sentence, cp, infra, placement, got)
					}
				}
			}
		}
	}
}

func TestHardCase03_AnAbsentPlacementIsSettledOnceAndNeverChanges(t *testing.T) {
	for present, want := range map[configv1.DefaultPlacement]configv1.DefaultPlacement{
		"": workers, workers: workers, controlPlane: controlPlane, "Everywhere": "Everywhere",
	} {
		if got := SettledPlacement(present); got != want {
			t.Errorf("%q became %q", present, got)
		}
	}
}

// controller makes an IngressController.
func controller(name string, change ...func(*operatorv1.IngressController)) *operatorv1.IngressController {
	ic := &operatorv1.IngressController{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, UID: types.UID("uid-" + name), Generation: 1}}
	for _, c := range change {
		c(ic)
	}
	return ic
}

func host(name string, ready bool, roles ...string) Host {
	h := Host{Name: name, Ready: ready, Labels: map[string]string{corev1.LabelOSStable: "linux"}}
	for _, r := range roles {
		h.Labels[r] = ""
	}
	return h
}

func kubeadmTaint(h Host) Host {
	h.Taints = append(h.Taints, corev1.Taint{Key: state.LabelControlPlane, Effect: corev1.TaintEffectNoSchedule})
	return h
}

// TestHardCase02_RoutersRunOnKubeadmsControlPlanes checks that kubeadm's taint
// is tolerated if the selector asks for control planes, and nowhere else.
func TestHardCase02_RoutersRunOnKubeadmsControlPlanes(t *testing.T) {
	cp := kubeadmTaint(host("cp", true, state.LabelMaster, state.LabelControlPlane))
	worker := host("w", true, state.LabelWorker)
	master := map[string]string{state.LabelMaster: ""}
	tests := []struct {
		name    string
		cluster Cluster
		place   *operatorv1.NodePlacement
		want    string
	}{
		{"by default placement", Cluster{ControlPlane: single, Infrastructure: ha, Placement: controlPlane}, nil, "cp"},
		{"never on the control plane of Workers", Cluster{ControlPlane: single, Infrastructure: ha}, nil, "w"},
		{
			"by a selector of a person's",
			Cluster{ControlPlane: ha, Infrastructure: ha},
			&operatorv1.NodePlacement{NodeSelector: &metav1.LabelSelector{MatchLabels: master}}, "cp",
		},
		{
			"tolerations of a person's leave the built-in ones",
			Cluster{ControlPlane: ha, Infrastructure: ha},
			&operatorv1.NodePlacement{
				NodeSelector: &metav1.LabelSelector{MatchLabels: master}, Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
			}, "cp",
		},
		{
			"and lead no router to hosts that nobody selects",
			Cluster{ControlPlane: ha, Infrastructure: ha},
			&operatorv1.NodePlacement{Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}}, "w",
		},
		{
			"an empty selector is every host that takes it",
			Cluster{ControlPlane: ha, Infrastructure: ha},
			&operatorv1.NodePlacement{NodeSelector: &metav1.LabelSelector{}}, "w",
		},
	}
	for _, tt := range tests {
		ic := controller("x", func(ic *operatorv1.IngressController) { ic.Spec.NodePlacement = tt.place })
		r := newRouter(ic, "apps.example", EffectiveStrategy(nil), tt.cluster)
		var got []string
		for _, h := range []Host{cp, worker} {
			if fits(h, r) {
				got = append(got, h.Name)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: on %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestARouterOfALoneHostWaitsForItAndOthersMoveOn(t *testing.T) {
	for placement, want := range map[configv1.DefaultPlacement]string{controlPlane: "forever forever", workers: "30 30"} {
		r := newRouter(controller("x"), "d", EffectiveStrategy(nil), Cluster{ControlPlane: single, Infrastructure: ha, Placement: placement})
		var got []string
		for _, tol := range r.Tolerations {
			switch {
			case tol.Effect != corev1.TaintEffectNoExecute:
			case tol.TolerationSeconds == nil:
				got = append(got, "forever")
			default:
				got = append(got, fmt.Sprint(*tol.TolerationSeconds))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q", placement, got)
		}
	}
}

func TestRemoteWorkersHaveNoRouters(t *testing.T) {
	remote := host("r", true, state.LabelWorker, LabelRemoteWorker)
	c := Cluster{ControlPlane: ha, Infrastructure: ha}
	own := func(ic *operatorv1.IngressController) {
		ic.Spec.NodePlacement = &operatorv1.NodePlacement{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{state.LabelWorker: ""}}}
	}
	for name, ic := range map[string]*operatorv1.IngressController{"by default": controller("a"), "with a selector of a person's": controller("a", own)} {
		if fits(remote, newRouter(ic, "d", EffectiveStrategy(nil), c)) {
			t.Errorf("%s: a router could run there", name)
		}
	}
}
