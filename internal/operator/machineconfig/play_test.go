package machineconfig

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	decide "github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/state"
)

// patience bounds each wait, on a machine with other work.
const patience = time.Minute

// until waits for something that the API server does by itself.
func (s *site) until(is func() bool, otherwise string) {
	s.t.Helper()
	for end := time.Now().Add(patience); !is(); <-time.NewTimer(50 * time.Millisecond).C {
		if time.Now().After(end) {
			s.t.Fatal(otherwise)
		}
	}
}

func servesOf(serves map[string]state.Fact[bool]) func(context.Context, map[string]string) map[string]state.Fact[bool] {
	return func(_ context.Context, asked map[string]string) map[string]state.Fact[bool] {
		out := map[string]state.Fact[bool]{}
		for name, fact := range serves {
			if _, ok := asked[name]; ok {
				out[name] = fact
			}
		}
		return out
	}
}

// threeControlPlanes makes the site's configuration one of three, until the test
// ends.
func (s *site) threeControlPlanes() {
	s.t.Helper()
	cm := &corev1.ConfigMap{}
	must(s.t, s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: decide.InstallNamespace, Name: decide.InstallName}, cm))
	before := maps.Clone(cm.Data)
	cm.Data[decide.InstallKey] = "controlPlane: {replicas: 3}\n"
	must(s.t, s.admin.Update(s.t.Context(), cm))
	s.t.Cleanup(func() {
		next := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: decide.InstallNamespace, Name: decide.InstallName}}
		ctx := context.WithoutCancel(s.t.Context())
		must(s.t, s.admin.Get(ctx, client.ObjectKeyFromObject(next), next))
		next.Data = before
		must(s.t, s.admin.Update(ctx, next))
	})
}

// changeAsOperator changes a rendered object, which nobody else may.
func (s *site) changeAsOperator(name string) {
	s.t.Helper()
	mc := &mcfgv1.MachineConfig{}
	must(s.t, s.own.Get(s.t.Context(), client.ObjectKey{Name: name}, mc))
	mc.Spec.KernelArguments = []string{"quiet"}
	must(s.t, s.own.Update(s.t.Context(), mc))
}

// shown returns what metrics say of one pool.
func shown(t *testing.T, pool string) string {
	t.Helper()
	families, err := metrics.Registry.Gather()
	must(t, err)
	var out []string
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "holdfast_machine_config_pool_") {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["pool"] == pool {
				out = append(out, fmt.Sprintf("%s%s=%g", labels["condition"], labels["are"], m.GetGauge().GetValue()))
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
