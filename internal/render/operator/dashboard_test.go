package operator

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestTheDashboardMayOnlyReadAndNoSecrets(t *testing.T) {
	rules := 0
	for _, o := range dashboard() {
		var list []rbacv1.PolicyRule
		switch v := o.Value.(type) {
		case *rbacv1.ClusterRole:
			list = v.Rules
		case *rbacv1.Role:
			list = v.Rules
		}
		for _, r := range list {
			rules++
			for _, verb := range r.Verbs {
				if verb != "get" && verb != "list" {
					t.Errorf("it may %s %v", verb, r.Resources)
				}
			}
			for _, what := range []string{"secrets", "*"} {
				if slices.Contains(r.Resources, what) || slices.Contains(r.APIGroups, "*") {
					t.Errorf("it may read %v of %v", r.Resources, r.APIGroups)
				}
			}
		}
	}
	if rules == 0 {
		t.Error("it may read nothing")
	}
}

func TestTheDashboardHasNothingOfItsHost(t *testing.T) {
	for _, o := range dashboard() {
		d, ok := o.Value.(*appsv1.Deployment)
		if !ok {
			continue
		}
		p := d.Spec.Template.Spec
		s := p.Containers[0].SecurityContext
		if p.HostNetwork || p.HostPID || len(p.Volumes) > 0 || p.ServiceAccountName == Name || !*s.RunAsNonRoot || !*s.ReadOnlyRootFilesystem {
			t.Errorf("%+v", p)
		}
		return
	}
	t.Error("it does not run")
}
